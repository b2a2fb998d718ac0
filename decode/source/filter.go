package source

import (
	"errors"

	"github.com/wirectl/wirectl/capture"
)

// A Filter is what a reader may see of sessions: nothing of known secrets, and nothing of wirectl mcp itself.
type Filter struct {
	// Outline leaves only the outline of messages; see [capture.Redaction].
	Outline bool
}

var (
	errOwn      = errors.New("it is a session of wirectl mcp itself")
	errNoRecord = errors.New("it is no record of a session")
)

// apply filters a session.
func (f *Filter) apply(s *Session) error {
	if r, ok := s.Capture.(*Run); ok {
		r.hideOwn()
	}
	switch {
	case s.Capture == nil:
		return errNoRecord
	case s.Capture.Session().IsOwn():
		return errOwn
	}
	x := capture.Secrets()
	x.Outline = f.Outline
	to := &filtered{Reader: s.Capture, session: x.Session(*s.Capture.Session())}
	to.redacted = capture.Redact(to, &to.session, x)
	s.Capture = to
	return nil
}

// filtered are the records of a session after a redaction.
type filtered struct {
	capture.Reader
	session  capture.Session
	redacted capture.Writer // writes to filtered
	before   capture.Record
	ready    []capture.Record
}

// Write takes a redacted record, whose bytes last until the next one is redacted.
func (f *filtered) Write(r *capture.Record) error {
	f.ready = append(f.ready, *r)
	return nil
}

// Session describes the session.
func (f *filtered) Session() *capture.Session {
	f.session.Altered = f.Reader.Session().Altered
	return &f.session
}

// Next reads the next record; see [capture.Reader].
func (f *filtered) Next(r *capture.Record) error {
	for len(f.ready) == 0 {
		f.ready = f.ready[:0]
		if err := f.Reader.Next(&f.before); err != nil {
			return err
		}
		if err := f.redacted.Write(&f.before); err != nil {
			return err
		}
	}
	*r = f.ready[0]
	f.ready = f.ready[1:]
	return nil
}

// hideOwn leaves out the wires of wirectl mcp.
func (r *Run) hideOwn() {
	kept := r.parts[:0]
	for _, p := range r.parts {
		if p.session != nil && p.session().IsOwn() {
			p.close()
		} else {
			kept = append(kept, p)
		}
	}
	r.parts = kept
}
