package decode

import (
	"fmt"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/protocol/carried"
)

// A limited reader refuses, or skips, frames whose payload is over a limit.
type limited struct {
	capture.Reader
	limit  int
	resync bool
	seq    int64          // of the frame at hand
	gap    capture.Record // the rest of one that is skipped
	err    error
}

// gapSize is how many bytes a gap has at most.
const gapSize = 64 << 10

// Next reads the next record; see [capture.Reader].
func (l *limited) Next(rec *capture.Record) error {
	if len(l.gap.Raw) > 0 {
		l.piece(rec)
		return nil
	}
	if l.err == nil {
		l.err = l.Reader.Next(rec)
	}
	if l.err == nil && rec.Kind == capture.Frame {
		l.err = l.judge(rec)
	}
	if l.err != nil {
		*rec = capture.Record{}
	}
	return l.err
}

// judge makes a frame over the limit an error or, to resync, the first of some gaps.
func (l *limited) judge(rec *capture.Record) error {
	f := &rec.Frame
	l.seq++
	if f.Gap || f.Size() <= l.limit || carried.Of(f) != nil {
		return nil
	}
	err := &frame.Error{
		Err: frame.ErrTooLarge, Frame: l.seq, Offset: f.Offset,
		Detail: fmt.Sprintf("length %d is over the limit of %d", f.Size(), l.limit),
	}
	if !l.resync {
		return err
	}
	l.gap = *rec
	l.gap.Frame = frame.Frame{Raw: f.Raw, Conn: f.Conn, Stream: f.Stream, Dir: f.Dir, Offset: f.Offset, Gap: true, Flaw: err}
	l.piece(rec)
	return nil
}

// piece makes rec the next piece of a gap.
func (l *limited) piece(rec *capture.Record) {
	*rec = l.gap
	rec.Raw = rec.Raw[:min(len(rec.Raw), gapSize)]
	l.gap.Raw = l.gap.Raw[len(rec.Raw):]
	l.gap.Offset += int64(len(rec.Raw))
}
