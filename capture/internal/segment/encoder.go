package segment

import (
	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/capture/pcapng"
)

// An Encoder collects records as whole blocks of pcapng.
type Encoder struct {
	// Label labels frames for Wireshark; it may be nil.
	Label func(*capture.Record, *pcapng.Label)
	// Buf has the blocks collected so far.
	Buf []byte

	w       *pcapng.Writer
	session *capture.Session
}

// Begin begins a section, with the header of s.
func (e *Encoder) Begin(s *capture.Session) (err error) {
	e.w, err = pcapng.NewWriter((*appender)(&e.Buf), *s, e.Label)
	e.session = s
	return err
}

// Write adds a record of the session s. If s is not the current session, it begins a section
// first.
func (e *Encoder) Write(s *capture.Session, r *capture.Record) (err error) {
	if e.session != s {
		if err := e.Begin(s); err != nil {
			return err
		}
	}
	e.Buf, err = e.w.Append(e.Buf, r)
	return err
}

// maxBuffer is the capacity, in bytes, up to which a buffer is reused.
const maxBuffer = 1 << 20

// Reset empties the buffer.
func (e *Encoder) Reset() {
	if e.Buf = e.Buf[:0]; cap(e.Buf) > maxBuffer {
		e.Buf = nil
	}
}

// EndSession ends the section: the next record begins a new one.
func (e *Encoder) EndSession() { e.session = nil }

type appender []byte

func (a *appender) Write(b []byte) (int, error) {
	*a = append(*a, b...)
	return len(b), nil
}
