package recorder

import (
	"io"
	"sync"

	"github.com/wirectl/wirectl/capture"
)

// A Reader reads the records of its own recorder: from memory, without encoding them,
// and from the temporary file. It is a [capture.Live].
type Reader struct {
	session capture.Session
	given   chan source   // by the recorder, which waits until it was read
	read    chan struct{} // it was
	at      source        // nil if nothing is available

	closing sync.Once
	closed  chan struct{}
}

// NewReader begins to record for a reader. Labels and parts mean nothing to it. As
// a file that is written to slowly does, a reader that is slow makes records wait.
func NewReader(cfg Config) (*Recorder, *Reader) {
	r := &Reader{session: cfg.Session, given: make(chan source), read: make(chan struct{}), closed: make(chan struct{})}
	return start(r, cfg), r
}

// Session is what the session was when recording began.
func (r *Reader) Session() *capture.Session { return &r.session }

// Buffered reports whether Next is sure not to wait.
func (r *Reader) Buffered() bool { return r.at != nil && r.at.Buffered() }

// Next reads the next record, and waits for it; see [capture.Reader].
func (r *Reader) Next(rec *capture.Record) error {
	for {
		if r.at != nil {
			err := r.at.Next(rec)
			if err != io.EOF {
				return err
			}
			r.at = nil
			select {
			case r.read <- struct{}{}:
			case <-r.closed:
			}
		}
		if !r.more() {
			*rec = capture.Record{}
			return io.EOF
		}
	}
}

// more waits for more. It returns false if there is none.
func (r *Reader) more() bool {
	select {
	case <-r.closed:
		return false
	default:
	}
	select {
	case at, ok := <-r.given:
		r.at = at
		return ok
	case <-r.closed:
		return false
	}
}

// Close ends reading, soon, and the recording. Any goroutine may call it.
func (r *Reader) Close() error {
	r.closing.Do(func() { close(r.closed) })
	return nil
}

// takeRecords is called by the recorder. It offers records for reading and waits until
// they were read.
func (r *Reader) takeRecords(_ *capture.Session, from source, _ bool) error {
	select {
	case r.given <- from:
	case <-r.closed:
		return io.ErrClosedPipe
	}
	select {
	case <-r.read:
		return nil
	case <-r.closed:
		return io.ErrClosedPipe
	}
}

func (r *Reader) flush() error { return nil }

func (r *Reader) close() error {
	close(r.given)
	return nil
}
