package capture

import (
	"cmp"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/all"
	"github.com/wirectl/wirectl/protocol/opaque"
)

// A reading determines the protocol of each frame of a session.
type reading struct {
	session *Session
	given   protocol.Protocol
	calls   all.OpenCalls
	name    string            // the latest name that was looked up
	last    protocol.Protocol // its protocol
	// wires learn the protocols of connections that nothing names; nil if each payload stands
	// for itself.
	wires map[int]*all.Refiner
}

// maxWires bounds the connections whose protocols are learned.
const maxWires = 1 << 10

// protocol returns the protocol of a frame: the given one, that of its call, the named one,
// or else the one recognized from the payload. Call it for every frame, because some frames
// determine the protocol of others.
func (d *reading) protocol(r *Record) protocol.Protocol {
	if d.given == nil {
		if p := d.calls.Protocol(&r.Frame); p != nil {
			return p
		}
	}
	switch {
	case r.Gap, r.Meta != nil && r.Meta.Signal != frame.NoSignal:
		return opaque.Bytes
	case d.given != nil:
		return d.given
	}
	p := d.named(cmp.Or(r.Protocol, d.session.Protocol))
	if d.wires != nil && all.Depth(p) < all.RPC && !r.Compressed {
		return d.learned(r)
	}
	if p == opaque.Bytes && !r.Compressed && jsonscan.WellFormed(r.Payload()) != nil {
		p, _ = all.Recognize(r.Payload())
	}
	return p
}

// learned returns the protocol that the frames of a connection so far tell.
func (d *reading) learned(r *Record) protocol.Protocol {
	w := d.wires[r.Conn]
	if w == nil {
		w = all.NewRefiner(r.Meta != nil && r.Meta.Framing == frame.HTTP)
		if len(d.wires) < maxWires {
			d.wires[r.Conn] = w
		}
	}
	p, _, _ := w.Refine(r.Payload())
	return p
}

// named returns the protocol with that name; bytes if it is unknown.
func (d *reading) named(name string) protocol.Protocol {
	if d.last == nil || name != d.name {
		p, err := all.Named(name)
		if err != nil {
			p = opaque.Bytes
		}
		d.name, d.last = name, p
	}
	return d.last
}
