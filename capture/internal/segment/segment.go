// Package segment keeps records in memory in runs whose memory is used again:
// what a tap and a recorder hold between those who write records and those who
// read them.
package segment

import (
	"unsafe"

	"github.com/wirectl/wirectl/capture"
)

const (
	// Size is how many bytes of its records a segment holds, unless its only
	// record is longer.
	Size = 128 << 10
	// Records is how many records a segment holds.
	Records = 512
	// Held is about how many bytes a segment holds that it has not copied.
	Held = 256 << 10

	firstSize = 8 << 10 // of the memory for bytes, which grows as they come

	recordSize = int64(unsafe.Sizeof(capture.Record{}))
)

// A Segment is records with bytes of their own, or in memory that it holds. Records
// that are in it do not change while others are appended, so that they may be read
// meanwhile.
type Segment struct {
	// Session is what holds for the records.
	Session *capture.Session
	// Records are the run, oldest first.
	Records []capture.Record

	bytes  []byte
	copied int64 // bytes of all records that were copied
	held   int64 // bytes in memory that is held
	holds  []capture.Memory
}

// Append appends a copy of r. It returns false if there is no room; an empty
// segment has room for any record.
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
		s.bytes = make([]byte, 0, max(n, min(2*cap(s.bytes), Size), firstSize))
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

// AppendRun appends as many records of a run as there is room for, from the one
// with that index on, and returns how many. An empty segment has room for one.
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

// Cost is about how much memory the records take.
func (s *Segment) Cost() int64 {
	return s.copied + s.held + int64(len(s.Records))*recordSize
}

// Reset empties the segment, whose records nobody may hold any more. It keeps
// no more memory than that of an ordinary one.
func (s *Segment) Reset() {
	clear(s.Records) // it keeps no flaw and no name alive
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
