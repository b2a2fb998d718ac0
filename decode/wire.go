package decode

import (
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/all"
	"github.com/wirectl/wirectl/protocol/opaque"
)

// A wire carries frames of one protocol.
type wire struct {
	conn   int
	stream int64
}

// names are the framing and the protocol that a record names; either may be "".
type names struct{ framing, protocol string }

// reading is how the frames of a wire are read.
type reading struct {
	names    names
	framing  frame.Framing
	protocol protocol.Protocol
	refiner  *all.Refiner
	guessed  bool                // nothing names the protocol
	fresh    bool                // as guessed, and no payload has been seen
	beside   *reading            // for other JSON on the wire of HTTP
	faults   map[frame.Dir]fault // of the current gaps
}

// json returns how to read other JSON on the wire.
func (r *reading) json() *reading {
	if r.beside == nil {
		r.beside = &reading{names: r.names, framing: r.framing, protocol: opaque.JSON}
	}
	return r.beside
}

// holdsFor reports whether this is the way to read a frame whose record says n. A gap has
// no protocol.
func (r *reading) holdsFor(n names, gap bool) bool {
	return r.names.framing == n.framing && (gap || r.names.protocol == n.protocol)
}

// numberFault puts a number into the fault of a frame. It reports whether the frame begins
// a run of gaps with the same fault.
func (r *reading) numberFault(f *frame.Frame, seq int64) (begins bool) {
	switch last := r.faults[f.Dir]; {
	case f.Gap && f.Flaw != nil && last.is(f.Flaw):
		f.Flaw = last.shown
		return false
	case !f.Gap || f.Flaw == nil:
		delete(r.faults, f.Dir)
	}
	if f.Flaw == nil {
		return false
	}
	told := f.Flaw
	f.Flaw = numbered(told, seq)
	if f.Gap {
		if r.faults == nil {
			r.faults = make(map[frame.Dir]fault)
		}
		r.faults[f.Dir] = fault{told, f.Flaw}
	}
	return f.Gap
}

// wires remembers how to read the wires of a capture. A capture can name any number of
// them: beyond maxWires, the oldest are forgotten and detected again.
type wires struct {
	readings map[wire]*reading
	order    []wire // a ring, once it is full
	oldest   int
}

const maxWires = 1 << 16

func (w *wires) set(at wire, r *reading) {
	if w.readings == nil {
		w.readings = make(map[wire]*reading)
	}
	if w.readings[at] == nil {
		w.remember(at)
	}
	w.readings[at] = r
}

// remember stores a wire, replacing the oldest one if all places are taken.
func (w *wires) remember(at wire) {
	if len(w.order) < maxWires {
		w.order = append(w.order, at)
		return
	}
	delete(w.readings, w.order[w.oldest])
	w.order[w.oldest] = at
	w.oldest = (w.oldest + 1) % maxWires
}

// unframed is the framing of frames whose framing is not named: all of their bytes are
// payload.
type unframed struct{ frame.Framing }

func (unframed) Name() string  { return "" }
func (unframed) About() string { return "bytes of an unknown framing" }

// onlyCarried is a framing that only carriers have.
type onlyCarried struct {
	unframed
	name string
}

func (c onlyCarried) Name() string { return c.name }

// framingOf returns the framing of that name, which may be "".
func framingOf(name string) (frame.Framing, error) {
	none := unframed{frame.Line} // frames without its trailer, so that none is exact
	switch {
	case name == "":
		return none, nil
	case frame.IsCarried(name):
		return onlyCarried{none, name}, nil
	}
	return frame.Named(name)
}

// The wires of frames that came in a carrier. All HTTP of a session is one wire, because a
// client may use many connections to one server. All streams of an HTTP/2 connection are
// one wire too.
const (
	httpWire   = -2
	signalWire = -3
)

// wireOf returns the wire that a frame travelled on.
func wireOf(f *frame.Frame) wire {
	switch m := f.Meta; {
	case m == nil:
		return wire{f.Conn, f.Stream}
	case m.Signal != frame.NoSignal:
		return wire{f.Conn, signalWire}
	case m.Framing == frame.HTTP:
		return wire{httpWire, 0}
	}
	return wire{f.Conn, 0}
}
