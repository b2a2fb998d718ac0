package segment

import (
	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/capture/pcapng"
)

// An Encoder gathers records as whole blocks of pcapng.
type Encoder struct {
	// Label labels frames for Wireshark; it may be nil.
	Label func(*capture.Record, *pcapng.Label)
	// Buf is what was gathered.
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

// Write adds a record of the session s, with the header of a section ahead of
// it if that is not the session at hand.
func (e *Encoder) Write(s *capture.Session, r *capture.Record) (err error) {
	if e.session != s {
		if err := e.Begin(s); err != nil {
			return err
		}
	}
	e.Buf, err = e.w.Append(e.Buf, r)
	return err
}

// maxBuffer is how much of a buffer is kept to be used again, in bytes.
const maxBuffer = 1 << 20

// Reset empties the buffer.
func (e *Encoder) Reset() {
	if e.Buf = e.Buf[:0]; cap(e.Buf) > maxBuffer {
		e.Buf = nil
	}
}

// EndSession makes the next record begin a section.
func (e *Encoder) EndSession() { e.session = nil }

type appender []byte

func (a *appender) Write(b []byte) (int, error) {
	*a = append(*a, b...)
	return len(b), nil
}
