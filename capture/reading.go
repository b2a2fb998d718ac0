package capture

import (
	"cmp"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/all"
	"github.com/wirectl/wirectl/protocol/jsonscan"
	"github.com/wirectl/wirectl/protocol/opaque"
)

// A reading knows in which protocol the frames of a session are.
type reading struct {
	session *Session
	given   protocol.Protocol
	calls   all.OpenCalls
	name    string            // the last that was named
	last    protocol.Protocol // and its protocol
}

// protocol returns the protocol of a frame: the one that is given, that of its
// call, the one that is named, or else the one that the payload tells. It is to
// be called for every frame, because some tell what others are.
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
	if p == opaque.Bytes && !r.Compressed && jsonscan.Valid(r.Payload()) != nil {
		p, _ = all.Recognize(r.Payload())
	}
	return p
}

// named returns the protocol of that name; bytes if there is none.
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
