package decode

import (
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/all"
)

// A wire is what one protocol is spoken on.
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
	faults   map[frame.Dir]string // that the gaps at hand are of
}

// holdsFor reports whether a frame whose record says n is read in this way. A
// gap has no protocol.
func (r *reading) holdsFor(n names, gap bool) bool {
	return r.names.framing == n.framing && (gap || r.names.protocol == n.protocol)
}

// begins reports whether a frame begins a run of gaps with the same fault.
func (r *reading) begins(f *frame.Frame) bool {
	if !f.Gap || f.Flaw == nil {
		delete(r.faults, f.Dir)
		return false
	}
	fault := f.Flaw.Error()
	if last, ok := r.faults[f.Dir]; ok && last == fault {
		return false
	}
	if r.faults == nil {
		r.faults = make(map[frame.Dir]string)
	}
	r.faults[f.Dir] = fault
	return true
}

// wires remember how the wires of a capture are read. A capture can name any
// number of them: beyond maxWires, those that came first are learned anew.
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

// remember puts a wire in the place of the oldest, if there is no other.
func (w *wires) remember(at wire) {
	if len(w.order) < maxWires {
		w.order = append(w.order, at)
		return
	}
	delete(w.readings, w.order[w.oldest])
	w.order[w.oldest] = at
	w.oldest = (w.oldest + 1) % maxWires
}

// unframed is the framing of frames that nothing names one for: all of their
// bytes are payload.
type unframed struct{ frame.Framing }

func (unframed) Name() string  { return "" }
func (unframed) About() string { return "bytes of which no framing is known" }

// framingOf returns the framing of that name, which may be "".
func framingOf(name string) (frame.Framing, error) {
	if name == "" {
		return unframed{frame.Line}, nil // whose trailer the frames lack, so that none is exact
	}
	return frame.Named(name)
}
