package mask

import "slices"

// A Stream masks secrets in the events of one answer. If the text of an event ends with the possible
// beginning of a secret, that end is held back until the next event.
type Stream struct {
	secrets *Secrets
	walk    walk
	held    []*event
}

// Stream returns a Stream.
func (s *Secrets) Stream() *Stream { return &Stream{secrets: s} }

// telling is the length from which the beginning of a secret is held for more than one event: a
// shorter one is probably something else.
const telling = 4

// maxLanes bounds the open texts that an event does not continue: a backend could begin a new one
// with each event.
const maxLanes = 100

// Add adds the data of an event, and calls f with the events that can be passed on, which are valid
// until f returns. It returns as soon as f is done or fails.
func (s *Stream) Add(data []byte, f func(data []byte) (done bool, err error)) (done bool, err error) {
	w := &s.walk
	if w.set = s.secrets.set(); w.set == nil {
		return f(data)
	}
	e := &event{data: data}
	w.event(e)
	s.held = append(s.held, e)
	s.split(e)
	for name, l := range w.lanes {
		switch {
		case !l.touched && len(w.lanes) > maxLanes:
			delete(w.lanes, name)
		case l.touched:
			l.holding = true
		case w.texts == 0 || len(l.open) < telling: // an event without text may be the last
			l.holding = false
		}
	}
	return s.release(slices.IndexFunc(s.held, s.isOpen), f)
}

// End calls f with the events that are held. There are no more events.
func (s *Stream) End(f func(data []byte) (done bool, err error)) (done bool, err error) {
	return s.release(-1, f)
}

// release passes on the first n events, or all if n is -1.
func (s *Stream) release(n int, f func([]byte) (bool, error)) (done bool, err error) {
	if n < 0 {
		n = len(s.held)
	}
	for _, e := range s.held[:n] {
		if !done && err == nil {
			done, err = f(e.data)
		}
		e.gone = true
	}
	s.held = slices.Delete(s.held, 0, n)
	for _, e := range s.held {
		e.own()
	}
	return done, err
}

// isOpen reports whether an event has a part of a possible secret.
func (s *Stream) isOpen(e *event) bool {
	for _, l := range s.walk.lanes {
		if l.holding && slices.ContainsFunc(l.parts, func(p part) bool { return p.of == e }) {
			return true
		}
	}
	return false
}

// split splits the latest event if only the end of its only text is open, so that the rest need not
// wait.
func (s *Stream) split(e *event) {
	var at *part
	for _, l := range s.walk.lanes {
		if !l.touched {
			continue
		}
		p := &l.parts[0]
		if p.of != e || at != nil && *at != *p {
			return
		}
		at = p
	}
	if at == nil || s.walk.texts != 1 || !s.walk.delta || s.walk.last {
		return
	}
	start, end := at.start, at.end
	begin := opening(e.data, start)
	if begin == start {
		return
	}
	rest := &event{data: slices.Concat(e.data[:begin], e.data[start:]), owned: true}
	e.data, e.owned = slices.Concat(e.data[:start], e.data[end:]), true
	s.held = append(s.held, rest)
	for _, l := range s.walk.lanes {
		if l.touched {
			l.parts[0] = part{rest, begin, begin + end - start}
		}
	}
}

// opening returns the start of the string that contains data[i].
func opening(data []byte, i int) int {
	for at := 0; ; at++ {
		if data[at] != '"' {
			continue
		}
		end := closing(data, at+1)
		if i <= end {
			return at + 1
		}
		at = end
	}
}
