package capture

import "github.com/wirectl/wirectl/frame"

// A Run is a batch of frames of one direction that were read together. They are passed on at
// once and, if their memory is held, without a copy.
type Run struct {
	// Shared is the common part of the records: everything except the frame. Its Seq is that
	// of the first record; the others count up from it.
	Shared Record
	// Frames are valid until WriteRun returns.
	Frames []frame.Frame
	// Memory holds the bytes of the frames. If it is nil, they are valid until WriteRun
	// returns.
	Memory Memory
}

// A Memory is reused once nobody holds it.
type Memory interface {
	// Hold keeps the memory unchanged until Release has been called as often as Hold.
	Hold()
	Release()
}

// A RunWriter is a Writer that accepts runs. It does little more than keep them.
type RunWriter interface {
	Writer
	// WriteRun is Write for all records of a run. To keep their bytes, an implementation
	// holds the run's memory, or copies them if Memory is nil.
	WriteRun(r *Run) error
}

// Record returns the record of the frame with index i.
func (r *Run) Record(i int) Record {
	rec := r.Shared
	rec.Seq += int64(i)
	rec.Frame = r.Frames[i]
	return rec
}

// Bytes returns the total size of all frames in bytes.
func (r *Run) Bytes() (n int64) {
	for i := range r.Frames {
		n += int64(len(r.Frames[i].Raw))
	}
	return n
}
