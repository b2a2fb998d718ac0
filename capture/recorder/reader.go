package recorder

import (
	"io"
	"sync"

	"github.com/wirectl/wirectl/capture"
)

// A Reader reads the records of its own recorder: from memory, without encoding them, and
// from the temporary file. It is a [capture.Live].
type Reader struct {
	session capture.Session
	given   chan source   // from the recorder, which waits until it was read
	read    chan struct{} // the source was read
	at      source        // nil if nothing is available

	closing sync.Once
	closed  chan struct{}
}

// NewReader begins to record for a reader. It ignores Label, SplitSize and Keep. If the
// reader is slow, records wait, as they do for a slow file.
func NewReader(cfg Config) (*Recorder, *Reader) {
	r := &Reader{session: cfg.Session, given: make(chan source), read: make(chan struct{}), closed: make(chan struct{})}
	return start(r, cfg), r
}

// Session describes the session as it was when recording began.
func (r *Reader) Session() *capture.Session { return &r.session }

// Buffered reports whether Next is sure not to block.
func (r *Reader) Buffered() bool { return r.at != nil && r.at.Buffered() }

// Next waits for the next record and reads it; see [capture.Reader].
func (r *Reader) Next(rec *capture.Record) error {
	for {
		if r.at != nil && !r.isClosed() {
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

// more waits for the next source. It returns false at the end.
func (r *Reader) more() bool {
	if r.isClosed() {
		return false
	}
	select {
	case at, ok := <-r.given:
		r.at = at
		return ok
	case <-r.closed:
		return false
	}
}

func (r *Reader) isClosed() bool {
	select {
	case <-r.closed:
		return true
	default:
		return false
	}
}

// Close ends reading and then the recording, without waiting. Any goroutine may call it.
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
