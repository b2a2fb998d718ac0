package capture

import "github.com/wirectl/wirectl/frame"

// A Run is frames of one direction that were read together, so that they are
// handed on at once and, if their bytes are held, without a copy.
type Run struct {
	// Shared is what all of them have: all of a record but its frame. Its Seq is
	// that of the first; the others are numbered on.
	Shared Record
	// Frames are valid as long as WriteRun takes.
	Frames []frame.Frame
	// Memory holds the bytes of the frames. If it is nil they are valid as long as
	// WriteRun takes.
	Memory Memory
}

// A Memory is used again when nobody holds it any more.
type Memory interface {
	// Hold keeps the memory as it is until as many calls of Release.
	Hold()
	Release()
}

// A RunWriter is a Writer that takes runs. It does little but to keep them.
type RunWriter interface {
	Writer
	// WriteRun is Write for all records of a run. Whoever wants to keep their bytes
	// holds the run's memory, or copies them if it has none.
	WriteRun(r *Run) error
}

// Record returns the record of a frame by its index.
func (r *Run) Record(i int) Record {
	rec := r.Shared
	rec.Seq += int64(i)
	rec.Frame = r.Frames[i]
	return rec
}

// Bytes is how many bytes all of the frames have.
func (r *Run) Bytes() (n int64) {
	for i := range r.Frames {
		n += int64(len(r.Frames[i].Raw))
	}
	return n
}
