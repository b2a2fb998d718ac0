package ndjson

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/jsonscan"
)

// Reframe appends to dst the frame of a record that has a payload but no raw bytes. It may
// set the record's Framing and Protocol if they are missing.
type Reframe func(dst []byte, r *Record) ([]byte, error)

// A Reader reads a session from NDJSON; see [capture.Reader]. A line that is JSON but not a
// record is treated as a payload. NDJSON has only frames, gaps and notes, and lacks the times
// when frames were written. Every error except io.EOF is a [*capture.Error]; for an invalid
// line, its Detail has the line number.
type Reader struct {
	lines   *frame.Scanner
	number  int64
	reframe Reframe

	session capture.Session
	ahead   bool // record was read but not yet returned
	record  capture.Record
	raw     []byte
	err     error
}

// NewReader returns a Reader of r, and reads its first line. The limit is the maximum length
// of a line in bytes.
func NewReader(r io.Reader, limit int, reframe Reframe) *Reader {
	n := &Reader{lines: frame.NewScanner(r, frame.Line), reframe: reframe}
	n.lines.SetLimit(limit)
	n.lines.SetAccept(func(line []byte, _ bool) bool { return jsonscan.WellFormed(line) == nil })
	if n.ahead = n.nextRecord(); n.ahead {
		n.session.Created = n.record.Time
		if n.record.Meta == nil { // in a carrier, each frame has its own
			n.session.Protocol, n.session.Framing = n.record.Protocol, n.record.Framing
		}
	}
	return n
}

// LineLimit returns the maximum length of a line for a payload of up to limit bytes. In JSON,
// one byte can become six bytes, and the line can contain the raw bytes, too.
func LineLimit(limit int) int {
	if limit > math.MaxInt/8 {
		return math.MaxInt
	}
	return 8 * limit
}

// BlankLines returns the number of newlines in a gap, or before the payload of a line.
func BlankLines(f *frame.Frame) int {
	blank := f.Raw[:f.Start]
	if f.Gap {
		blank = f.Raw
	}
	return bytes.Count(blank, []byte("\n"))
}

// Session describes the session according to the first line. It is marked as redacted or
// altered if any line so far is.
func (n *Reader) Session() *capture.Session { return &n.session }

// Next reads the next record; see [capture.Reader].
func (n *Reader) Next(rec *capture.Record) error {
	if !n.ahead && !n.nextRecord() {
		*rec = capture.Record{}
		return n.err
	}
	n.ahead = false
	*rec = n.record
	return nil
}

// Buffered reports whether Next is sure not to block; see [capture.Live].
func (n *Reader) Buffered() bool {
	if n.ahead || n.err != nil {
		return true
	}
	rest, atEOF := n.lines.Peek(0)
	return atEOF || bytes.IndexByte(bytes.TrimLeft(rest, " \t\r\n"), '\n') >= 0
}

// nextRecord reads the next record. On failure it sets err and returns false.
func (n *Reader) nextRecord() bool {
	for n.err == nil {
		if !n.lines.Scan() {
			n.err = n.ended()
			break
		}
		f := n.lines.Frame()
		n.number += int64(BlankLines(f))
		if f.Gap {
			continue
		}
		n.number++
		if err := n.line(f.Payload()); err != nil {
			n.err = &capture.Error{
				Err: capture.ErrMalformed, Offset: f.Offset + int64(f.Start),
				Detail: fmt.Sprintf("line %d: %v", n.number, err),
			}
			break
		}
		return true
	}
	return false
}

// ended returns the error for the end of the lines.
func (n *Reader) ended() error {
	var e *frame.Error
	if !errors.As(n.lines.Err(), &e) {
		return io.EOF
	}
	switch {
	case errors.Is(e, frame.ErrTruncated):
		return &capture.Error{Err: capture.ErrCut, Offset: e.Offset, Detail: "the last line is not a whole record"}
	case errors.Is(e, frame.ErrTooLarge):
		return &capture.Error{Err: capture.ErrTooLarge, Offset: e.Offset, Detail: e.Detail}
	}
	return &capture.Error{Err: e.Err, Offset: e.Offset, Detail: e.Detail}
}

// line parses a line into record.
func (n *Reader) line(line []byte) error {
	var r Record
	isRecord, err := r.Parse(line)
	if err != nil {
		return err
	}
	if !isRecord {
		r = Record{Payload: line}
	}
	if r.isNote() && r.Dir != frame.DirUnknown && bytes.Equal(r.Summary, Ended) {
		n.record = capture.Record{Kind: capture.HalfClosed, Time: r.Time, Frame: frame.Frame{Conn: r.Conn, Dir: r.Dir}}
		return nil
	}
	if r.isNote() {
		n.record = capture.Record{Kind: capture.Note, Time: r.Time, Text: bytes.Clone(r.Summary), Frame: frame.Frame{Conn: r.Conn}}
		return nil
	}
	raw := r.Raw
	if raw == nil {
		if raw, err = n.reframe(n.raw[:0], &r); err != nil {
			return err
		}
		n.raw = raw
	}
	n.session.Redacted, n.session.Altered = n.session.Redacted || r.Redacted, n.session.Altered || r.Altered
	n.record = capture.Record{Seq: r.Seq, Time: r.Time, Written: r.Written, Protocol: r.Protocol, Framing: r.Framing}
	n.record.Frame = extent(raw, cmp.Or(r.Framing, n.session.Framing))
	flawed := n.record.Flaw != nil
	if string(r.Kind) == Skipped {
		n.record.Frame = frame.Frame{Raw: raw, Gap: true}
	}
	if r.Meta != nil {
		if err := place(&n.record.Frame, &r); err != nil {
			return err
		}
	}
	n.record.Conn, n.record.Dir, n.record.Offset, n.record.Stream = r.Conn, r.Dir, r.Offset, r.Stream
	if r.Error != "" && (n.record.Gap || flawed) {
		n.record.Flaw = frame.Recall(r.Error)
	}
	return nil
}

// extent returns the frame in raw. If the framing does not determine the payload, all of raw
// is payload.
func extent(raw []byte, framing string) frame.Frame {
	f := frame.Frame{Raw: raw, End: len(raw)}
	known, err := frame.Named(framing)
	if err != nil || len(raw) == 0 {
		return f
	}
	var e frame.Extent
	if known.Next(raw, len(raw), true, &e) == nil && e.Raw == len(raw) && !e.Gap {
		f.Start, f.End, f.Compressed, f.Flaw = e.Start, e.End, e.Compressed, e.Flaw
	}
	return f
}
