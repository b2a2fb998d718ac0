package session

import "github.com/wirectl/wirectl/protocol"

// maxSteps bounds how many steps are remembered. Once it is reached, steps are no longer
// judged, because an unknown step may have been forgotten.
const maxSteps = 1 << 14

// step follows the steps of operations. It reports messages about a step that has not begun or
// has already ended. It only judges operations that began here, in sessions seen from their
// start.
func (t *Tracker) step(ev *event) {
	s := ev.m.Step
	if s.ID.IsZero() || len(t.steps) >= maxSteps {
		return
	}
	if t.steps == nil {
		t.steps = make(map[key]bool)
	}
	at := t.keyOf(ev.scope, ev.from, s.ID)
	ended, begun := t.steps[at]
	if s.Does != protocol.Part {
		t.steps[at] = s.Does == protocol.Close
		return
	}
	op := t.findOperation(ev.scope, ev.m.Ref)
	if begun && !ended || !ev.scope.whole || !t.judges() || op == nil || op.Conn != ev.f.Conn || op.Stream != ev.f.Stream {
		return
	}
	why := "has not begun"
	if begun {
		why = "has ended"
	}
	t.report(unknownStep, ev.f, []int64{op.First}, "%s goes on with %s, which %s", ev.kind.Name, quote(s.ID), why)
}
