package convert

import (
	"io"
	"iter"

	"github.com/wirectl/wirectl/capture"
)

// Pulled reads the records that a function hands out; see [capture.Reader].
type Pulled struct {
	session capture.Session
	next    func() (*capture.Record, error, bool)
	stop    func()
	first   *capture.Record // not yet given out
	err     error
}

// Pull returns the reader of the records that push hands to yield, one at a time, until
// yield returns false or there are no more. A record need be valid only during the call.
// The first record describes the session; an error before it is returned at once.
func Pull(push func(yield func(*capture.Record) bool) error) (*Pulled, error) {
	p := &Pulled{}
	p.next, p.stop = iter.Pull2(func(yield func(*capture.Record, error) bool) {
		stopped := false
		err := push(func(r *capture.Record) bool {
			stopped = !yield(r, nil)
			return !stopped
		})
		if err != nil && !stopped {
			yield(nil, err)
		}
	})
	if p.first, p.err = p.pull(); p.err != nil && p.err != io.EOF {
		p.stop()
		return nil, p.err
	}
	if p.first != nil {
		p.session = capture.Session{Created: p.first.Time, Protocol: p.first.Protocol, Framing: p.first.Framing}
	}
	return p, nil
}

func (p *Pulled) pull() (*capture.Record, error) {
	r, err, ok := p.next()
	if !ok {
		return nil, io.EOF
	}
	return r, err
}

// Session is what the first record says about the session.
func (p *Pulled) Session() *capture.Session { return &p.session }

// Next reads the next record; see [capture.Reader].
func (p *Pulled) Next(rec *capture.Record) error {
	r := p.first
	if p.first = nil; r == nil && p.err == nil {
		r, p.err = p.pull()
	}
	if r == nil {
		*rec = capture.Record{}
		return p.err
	}
	*rec = *r
	return nil
}

// Close ends the function, if it has not ended.
func (p *Pulled) Close() { p.stop() }
