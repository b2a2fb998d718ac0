// Package capture is the model of a recorded session, with its redaction. The sub-packages
// implement its formats: pcapng (files and live taps), recording (a file for each direction,
// with a timing file) and ndjson.
//
// A capture stores bytes and times. They are parsed on reading, so better parsers also
// improve old captures. Only a [Redaction] parses them before they are stored.
package capture

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/all"
	"github.com/wirectl/wirectl/protocol/opaque"
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

// ofMCP is the comment of a session of wirectl mcp, which tells of other sessions.
const ofMCP = "wirectl mcp"

// IsOwn reports whether the session is one of wirectl mcp.
func (s *Session) IsOwn() bool { return s.Comment == ofMCP }

// CommentOn returns the comment of a session with a command, which may be one word for a shell.
func CommentOn(command []string) string {
	before := ""
	for word := range strings.FieldsSeq(strings.Join(command, " ")) {
		program := before[strings.LastIndexAny(before, `/\`)+1:]
		if "wirectl "+word == ofMCP && strings.HasPrefix(strings.Trim(program, `'"`), "wirectl") {
			return ofMCP
		}
		before = word
	}
	return ""
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

// Errors in the content of a capture.
var (
	ErrCut       = errors.New("the capture is cut") // inside a record
	ErrMalformed = errors.New("the capture is damaged")
	ErrTooLarge  = errors.New("a record is over the limit")
	ErrForeign   = errors.New("not a capture of wirectl")
	// ErrPackets is an ErrForeign for pcapng.
	ErrPackets = fmt.Errorf("%w: this pcapng was written by another program", ErrForeign)
)

// IsFault reports whether an error is in the content of a capture, rather than a failure to
// read it.
func IsFault(err error) bool {
	return errors.Is(err, ErrCut) || errors.Is(err, ErrMalformed) || errors.Is(err, ErrTooLarge) || errors.Is(err, ErrForeign)
}

// An Error is an error at a position in a capture.
type Error struct {
	// Err is one of the errors of this package, or an error of the underlying reader.
	Err error
	// Offset is the beginning of the record that could not be read. For a compressed
	// capture it counts decompressed bytes.
	Offset int64
	// Detail may be empty.
	Detail string
}

func (e *Error) Error() string {
	if e.Detail == "" {
		return fmt.Sprintf("byte %d: %v", e.Offset, e.Err)
	}
	return fmt.Sprintf("byte %d: %v: %s", e.Offset, e.Err, e.Detail)
}

func (e *Error) Unwrap() error { return e.Err }

// A reading determines the protocol of each frame of a session.
type reading struct {
	session *Session
	given   protocol.Protocol
	calls   all.OpenCalls
	name    string            // the latest name that was looked up
	last    protocol.Protocol // its protocol
	// wires learn the protocols of connections that nothing names; nil if each payload stands
	// for itself.
	wires map[int]*all.Refiner
}

// maxWires bounds the connections whose protocols are learned.
const maxWires = 1 << 10

// protocol returns the protocol of a frame: the given one, that of its call, the named one,
// or else the one recognized from the payload. Call it for every frame, because some frames
// determine the protocol of others.
func (d *reading) protocol(r *Record) protocol.Protocol {
	if d.given == nil {
		if p := d.calls.Protocol(&r.Frame); p != nil {
			return p
		}
	}
	switch {
	case r.Gap, r.Meta != nil && r.Meta.Signal != frame.NoSignal:
		return opaque.Bytes
	case d.given != nil:
		return d.given
	}
	p := d.named(cmp.Or(r.Protocol, d.session.Protocol))
	if d.wires != nil && all.Depth(p) < all.RPC && !r.Compressed {
		return d.learned(r)
	}
	if p == opaque.Bytes && !r.Compressed && jsonscan.WellFormed(r.Payload()) != nil {
		p, _ = all.Recognize(r.Payload())
	}
	return p
}

// learned returns the protocol that the frames of a connection so far tell.
func (d *reading) learned(r *Record) protocol.Protocol {
	w := d.wires[r.Conn]
	if w == nil {
		w = all.NewRefiner(r.Meta != nil && r.Meta.Framing == frame.HTTP)
		if len(d.wires) < maxWires {
			d.wires[r.Conn] = w
		}
	}
	p, _, _ := w.Refine(r.Payload())
	return p
}

// named returns the protocol with that name; bytes if it is unknown.
func (d *reading) named(name string) protocol.Protocol {
	if d.last == nil || name != d.name {
		p, err := all.Named(name)
		if err != nil {
			p = opaque.Bytes
		}
		d.name, d.last = name, p
	}
	return d.last
}

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

// A Place is a note that says where in a run of wirectl rlm a connection or exchange belongs.
// It is JSON in the text of a record of the kind [Note].
type Place struct {
	// Run is the path: RUN, RUN/t3, RUN/t3/c1 or RUN/t3/c1/q7. In child runs it is longer.
	Run string `json:"run"`
	// ID is the id of the exchange, as written on the wire. Next denotes the next exchange
	// that opens. Without either, the place applies to the whole connection.
	ID   json.RawMessage `json:"id,omitempty"`
	Next bool            `json:"next,omitempty"`
}

// Text returns the note.
func (p Place) Text() ([]byte, error) { return jsonscan.Marshal(p) }

// ParsePlace returns the place in a record, if it has one.
func ParsePlace(r *Record) (p Place, ok bool) {
	if r.Kind != Note || !bytes.HasPrefix(r.Text, []byte(`{"run":`)) {
		return Place{}, false
	}
	return p, json.Unmarshal(r.Text, &p) == nil && p.Run != ""
}

// A Between is a note that says what happened to the frame before it between the two ends of a merged
// session; see wirectl merge. It is JSON in the text of a record of the kind [Note].
type Between struct {
	// Between is the name of a finding: lost-between, changed-between or delayed-between.
	Between string `json:"between"`
	Text    string `json:"text"`
}

// Note returns the text of the note.
func (b Between) Note() []byte { return jsonscan.MustMarshal(b) }

// ParseBetween returns what a record says about a frame of a merged session, if it does.
func ParseBetween(r *Record) (b Between, ok bool) {
	if r.Kind != Note || !bytes.HasPrefix(r.Text, []byte(`{"between":`)) {
		return Between{}, false
	}
	return b, json.Unmarshal(r.Text, &b) == nil && b.Text != ""
}
