// Package capture is the model of a recorded session, and what can be done to it on the
// way to a file. The sub-packages are its formats: pcapng (files and live taps),
// recording (a file for each direction, with a timing file) and ndjson.
//
// A capture stores bytes and times. What they mean is derived on reading, so
// that better parsers improve old captures; only a [Redaction] looks into them
// before. Who records, and where to, is the business of others.
package capture

import (
	"fmt"
	"io"
	"time"

	"github.com/wirectl/wirectl/frame"
)

// A Session is what a capture says about itself, ahead of its records.
type Session struct {
	// Created is when the capture was begun.
	Created time.Time
	// Protocol and Framing name those of all records that name none.
	Protocol, Framing string
	// Controller and Unit name the two ends: an address, a command line.
	Controller, Unit string
	// Redacted says that secrets were taken out, so that the bytes are no
	// longer those of the wire.
	Redacted bool
	// Altered says that faults or edits were asked for while it was recorded.
	Altered bool
	// Comment is a sentence for people.
	Comment string
}

// Kind is what a record tells of. The numbers are part of the pcapng format.
type Kind uint8

const (
	// Frame is a frame that passed.
	Frame Kind = iota
	// Stderr is text that the unit's process wrote to its standard error.
	Stderr
	// Opened is the beginning of a connection; Text is its name.
	Opened
	// HalfClosed is the end of what travels in the direction Dir.
	HalfClosed
	// Exited is the end of the unit's process with the exit status Status. Its Dir is
	// frame.C2U if the process was told to end or its controller had left, and that of
	// Signalled too.
	Exited
	// Signalled is the end of the unit's process by signal number Status,
	// whose name is Text.
	Signalled
	// Note is a remark of the recorder's, such as how many frames it dropped.
	Note
)

var kindNames = [...]string{
	Frame: "frame", Stderr: "stderr", Opened: "opened", HalfClosed: "half-closed",
	Exited: "exited", Signalled: "signalled", Note: "note",
}

// String returns the kind's name in lower case.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

// A Record is one thing that happened in a session.
type Record struct {
	Kind Kind
	// Seq is the number of a frame in its session, from 1; 0 if it has none.
	Seq int64
	// Time is when it happened; for a frame, when its last byte had been read.
	// The zero time is unknown.
	Time time.Time
	// Written is when a frame had been written to the other side, if known.
	Written time.Time
	// Protocol and Framing name those of the connection or stream.
	Protocol, Framing string
	// Frame is the frame. Its Conn and Dir say where it happened for records
	// of the other kinds, too.
	frame.Frame
	// Status and Text are as Kind says.
	Status int
	Text   []byte
}

// Clone returns the record with bytes of its own.
func (r Record) Clone() Record {
	r.Frame = r.Frame.Clone()
	r.Text = append([]byte(nil), r.Text...)
	return r
}

// A Reader reads a capture from its beginning to its end; it never goes back,
// so that files, pipes and taps are read alike.
type Reader interface {
	// Session is what the capture says about itself.
	Session() *Session
	// Next reads the next record into r, overwriting all of it. The record's
	// bytes are valid until the next call; [Record.Clone] keeps them. At the
	// end the error is io.EOF; of a capture that breaks off it is [ErrCut],
	// after its last whole record. Every error is final.
	Next(r *Record) error
}

// A Live is a Reader that can tell whether Next would wait for its input. Any
// other Reader reads what is there already.
type Live interface {
	Reader
	// Buffered reports whether Next is sure to return without reading more of
	// the input.
	Buffered() bool
}

// A Placed is a Reader that can tell where in its input records lie, so that
// they can be read from there again.
type Placed interface {
	Reader
	// Place is where the record begins that Next has returned last; -1 where
	// its input cannot be returned to.
	Place() int64
}

// A Writer takes the records of a session, in order. It keeps none of their
// bytes after Write has returned.
type Writer interface {
	Write(r *Record) error
}

// Copy writes all records of r to w. It returns nil at the end of r, and the
// error of r if r is cut, with everything before the cut written.
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
