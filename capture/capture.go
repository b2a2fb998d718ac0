// Package capture is the model of a recorded session, with its redaction. The sub-packages
// implement its formats: pcapng (files and live taps), recording (a file for each direction,
// with a timing file) and ndjson.
//
// A capture stores bytes and times. They are parsed on reading, so better parsers also
// improve old captures. Only a [Redaction] parses them before they are stored.
package capture

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/wirectl/wirectl/frame"
)

// A Session is the description at the beginning of a capture.
type Session struct {
	Created time.Time
	// Protocol and Framing are the defaults of the records.
	Protocol, Framing string
	// Controller and Unit name the two ends: an address, a command line.
	Controller, Unit string
	// Redacted means that secrets were removed, so that the bytes differ from the
	// wire.
	Redacted bool
	// Outlined means that texts were masked, too; see [Redaction]. Earlier captures do not say so.
	Outlined bool
	// Altered means that faults or edits were enabled during the recording.
	Altered bool
	// Comment is a human-readable remark.
	Comment string
}

// Kind is the kind of a record. The numbers are part of the pcapng format.
type Kind uint8

const (
	Frame Kind = iota
	// Stderr is standard error of the unit's process.
	Stderr
	// Opened is the beginning of a connection; Text is its name.
	Opened
	// HalfClosed is the end of the direction Dir.
	HalfClosed
	// Exited is the end of the unit's process with the exit status Status. Its Dir is
	// frame.C2U if the process was told to stop or its controller had left. The same holds
	// for Signalled. A Text says why the unit did not start, or could not be reached.
	Exited
	// Signalled is the end of the unit's process by signal number Status,
	// whose name is Text.
	Signalled
	// Note is a remark of the recorder, such as how many frames it dropped.
	Note
	// Lingering means that the unit's process keeps running, although its standard input has
	// ended and it has written nothing for a while. Text says so.
	Lingering
)

var kindNames = [...]string{
	Frame: "frame", Stderr: "stderr", Opened: "opened", HalfClosed: "half-closed",
	Exited: "exited", Signalled: "signalled", Note: "note", Lingering: "lingering",
}

// String returns the kind's name in lower case.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

// A Record is an event of a session.
type Record struct {
	Kind Kind
	// Seq is the number of a frame in its session, from 1; 0 if it has no number.
	Seq int64
	// Time is the time of the event. For a frame, it is when its last byte had been read. The
	// zero time means unknown.
	Time time.Time
	// Written is when a frame had been written to the other side, if known.
	Written time.Time
	// Protocol and Framing are the protocol and framing of the connection or stream.
	Protocol, Framing string
	// Frame is the frame. Its Conn and Dir are also set for other kinds of records.
	frame.Frame
	// Status and Text depend on Kind.
	Status int
	Text   []byte
}

// IsRemark reports whether the record has a text for people.
func (r *Record) IsRemark() bool {
	return r.Kind == Note || r.Kind == Lingering || r.Kind == Exited && len(r.Text) > 0
}

// Clone returns a deep copy of the record's bytes.
func (r Record) Clone() Record {
	r.Frame = r.Frame.Clone()
	r.Text = append([]byte(nil), r.Text...)
	return r
}

// A Reader reads a capture from beginning to end. It never seeks, so it works for
// files, pipes and taps.
type Reader interface {
	// Session is the description of the capture.
	Session() *Session
	// Next reads the next record into r, overwriting all of it. The record's bytes are valid
	// until the next call; [Record.Clone] keeps them. At the end the error is io.EOF. If the
	// capture is cut, the error is [ErrCut], after the last complete record. Every error is
	// final.
	Next(r *Record) error
}

// A Live is a Reader that knows whether Next would wait for its input. Any other
// Reader has its input available.
type Live interface {
	Reader
	// Buffered reports whether Next returns without reading more of the input.
	Buffered() bool
}

// A Placed is a Reader that knows the positions of records in its input, so that they
// can be read again.
type Placed interface {
	Reader
	// Place is the position of the latest record; -1 if the input cannot be
	// re-read.
	Place() int64
}

// A Writer accepts the records of a session, in order. It does not keep their bytes after
// Write has returned.
type Writer interface {
	Write(r *Record) error
}

// ErrEnough is the error of a Writer that needs no more records.
var ErrEnough = errors.New("no more records are needed")

// Copy writes all records of r to w. It returns nil at the end of r. If r is cut, it writes
// everything before the cut and returns the error of r.
func Copy(w Writer, r Reader) error {
	var rec Record
	for {
		switch err := r.Next(&rec); {
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
		if err := w.Write(&rec); err != nil {
			return err
		}
	}
}
