package recorder

import (
	"unsafe"

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

const (
	// Size is the maximum number of copied bytes in a segment, unless its only record is
	// longer.
	Size = 128 << 10
	// Records is the maximum number of records in a segment.
	Records = 512
	// Held is the approximate maximum number of bytes that a segment holds without copying.
	Held = 256 << 10

	firstSize = 8 << 10 // of the first byte buffer, which is enough for a quiet session

	recordSize = int64(unsafe.Sizeof(capture.Record{}))
)

// A Segment is a list of records. Their bytes are copies, or lie in memory that it holds.
// Existing records do not change when others are appended, so they may be read at the same
// time.
type Segment struct {
	// Session is the session of the records.
	Session *capture.Session
	// Records are the records, oldest first.
	Records []capture.Record

	bytes  []byte
	copied int64 // bytes that were copied
	held   int64 // bytes in memory that is held
	holds  []capture.Memory
}

// Append appends a copy of r. It returns false if there is no room. An empty segment has room
// for any record.
func (s *Segment) Append(r *capture.Record) bool {
	n := len(r.Raw) + len(r.Text)
	if r.Meta != nil {
		n += len(r.Meta.Data)
	}
	if len(s.Records) > 0 && (len(s.Records) >= Records || s.copied+int64(n) > Size) {
		return false
	}
	s.copied += int64(n)
	if n > cap(s.bytes)-len(s.bytes) {
		size := Size
		if s.bytes == nil {
			size = firstSize
		}
		s.bytes = make([]byte, 0, max(n, size))
	}
	s.Records = append(s.Records, *r)
	kept := &s.Records[len(s.Records)-1]
	kept.Raw, kept.Text = s.keepBytes(r.Raw), s.keepBytes(r.Text)
	if r.Meta != nil {
		meta := *r.Meta
		meta.Data = s.keepBytes(meta.Data)
		kept.Meta = &meta
	}
	return true
}

// AppendRun appends records of a run, from index from on, while there is room. It returns how
// many it appended. An empty segment has room for at least one.
func (s *Segment) AppendRun(r *capture.Run, from int) int {
	n := 0
	if r.Memory == nil {
		for ; from+n < len(r.Frames); n++ {
			if rec := r.Record(from + n); !s.Append(&rec) {
				break
			}
		}
		return n
	}
	for ; from+n < len(r.Frames) && len(s.Records) < Records && s.held < Held; n++ {
		s.Records = append(s.Records, r.Shared)
		kept := &s.Records[len(s.Records)-1]
		kept.Seq += int64(from + n)
		kept.Frame = r.Frames[from+n]
		s.held += int64(len(r.Frames[from+n].Raw))
	}
	if n > 0 {
		r.Memory.Hold()
		s.holds = append(s.holds, r.Memory)
	}
	return n
}

func (s *Segment) keepBytes(b []byte) []byte {
	if len(b) == 0 {
		return nil
	}
	from := len(s.bytes)
	s.bytes = append(s.bytes, b...)
	return s.bytes[from:len(s.bytes):len(s.bytes)]
}

// Cost returns approximately how much memory the records use.
func (s *Segment) Cost() int64 {
	return s.copied + s.held + int64(len(s.Records))*recordSize
}

// Reset empties the segment for reuse. Nobody may hold its records any more. It frees buffers
// that are larger than usual.
func (s *Segment) Reset() {
	clear(s.Records) // release flaws and names for garbage collection
	s.Records, s.Session = s.Records[:0], nil
	for _, m := range s.holds {
		m.Release()
	}
	clear(s.holds)
	s.holds, s.held, s.copied = s.holds[:0], 0, 0
	if s.bytes = s.bytes[:0]; cap(s.bytes) > Size {
		s.bytes = nil
	}
}
