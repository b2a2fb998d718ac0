// Package recording reads and writes a session as a folder of plain files. One file per
// direction has the bytes as they were on the wire; another one has the times of the reads.
//
//	c2s.bin       bytes sent by the controller
//	s2c.bin       bytes sent by the unit
//	stderr.bin    standard error of the unit's process
//	timing.jsonl  one line for each read, and for each event
//	conn-2/       the same of the second connection, and so on
//
// The folder does not say how frames are delimited: the reader must know.
package recording

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/frame/carrier"
)

// Names of the files in a folder.
const (
	timingFile = "timing.jsonl"
	stderrFile = "stderr.bin"
	connPrefix = "conn-"
)

// streams lists the streams of a connection, with their names as files and in timing.jsonl.
var streams = [...]struct{ file, name string }{
	frame.DirUnknown: {stderrFile, "err"},
	frame.C2U:        {"c2s.bin", "c2s"},
	frame.U2C:        {"s2c.bin", "s2c"},
}

// line is one line of timing.jsonl. It is a read if Event is empty.
type line struct {
	Event string `json:"event"` // start, eof, exit or note
	Dir   string `json:"dir"`   // of a read or an eof; of an exit, c2s if it was requested
	Off   int64  `json:"off"`   // position of the read in its stream
	Len   int64  `json:"len"`
	Nanos int64  `json:"t_ns"` // since the recording began

	Unix int64    `json:"unix_ns"` // of a start: the time of day
	Argv []string `json:"argv"`    // of a start: the process
	Dial string   `json:"dial"`    // of a start: the address

	Redacted bool `json:"redacted"` // of a start: secrets were removed
	Altered  bool `json:"altered"`  // of a start: faults or edits were enabled

	Code   int    `json:"code"`   // of an exit
	State  string `json:"state"`  // of an exit, in words
	Signal int    `json:"signal"` // of an exit by a signal

	Text string `json:"text"` // of a note; of an exit, why the unit did not start
}

// Events of timing.jsonl.
const (
	eventStart = "start"
	eventEOF   = "eof"
	eventExit  = "exit"
	eventNote  = "note"
)

// killed begins the state of a process that a signal ended.
const killed = "signal: "

func parseLine(text []byte) (line, error) {
	var l line
	if err := json.Unmarshal(text, &l); err != nil {
		return l, err
	}
	if l.Off < 0 || l.Len < 0 || l.Off+l.Len < 0 {
		return l, fmt.Errorf("a read of %d bytes at byte %d", l.Len, l.Off)
	}
	return l, nil
}

// dir returns the direction of a read or an eof; false if it is missing or not valid. For
// standard error it is frame.DirUnknown.
func (l *line) dir() (frame.Dir, bool) {
	for d, s := range streams {
		if s.name == l.Dir {
			return frame.Dir(d), true
		}
	}
	return frame.DirUnknown, false
}

// unit returns the command or address of the unit.
func (l *line) unit() string {
	if l.Dial != "" {
		return l.Dial
	}
	return strings.Join(l.Argv, " ")
}

// signal returns the name of the signal that ended the process.
func (l *line) signal() (string, bool) { return strings.CutPrefix(l.State, killed) }

// conn reads one connection, driven by its timing file. Each read in the timing file makes
// that many bytes of a stream known, and so the frames that end there.
type conn struct {
	number  int
	framing string
	files   []fs.File

	timing *frame.Scanner // by lines
	base   time.Time      // time at t_ns 0, if known
	unit   string
	now    time.Time

	redacted, altered bool
	lines             int64 // lines of the timing file that were read

	streams [3]stream // by direction
	current frame.Dir // the stream of the latest read
	drain   bool      // the timing file has ended, but the streams may not have

	carrier *carrier.Carrier // nil in a plain recording
	frames  []frame.Frame    // frames from the carrier that have not been returned

	rec  capture.Record
	done bool
}

// stream is a file of a connection.
type stream struct {
	scanner *frame.Scanner // nil for standard error
	ahead   bool           // the scanner's frame has not been returned
	file    io.Reader
	text    []byte
	pos     int64 // bytes that have been returned
	known   int64 // bytes read so far, according to the timing file
	ended   bool  // the carrier was told about the end
}

func openConn(fsys fs.FS, number int, setup func(*conn)) (*conn, error) {
	c := &conn{number: number}
	for d := range c.streams {
		f, err := c.openFile(fsys, streams[d].file)
		if err != nil {
			return nil, errors.Join(err, c.closeFiles())
		}
		c.streams[d].file = f
	}
	setup(c)
	f, err := c.openFile(fsys, timingFile)
	if err != nil {
		return nil, errors.Join(err, c.closeFiles())
	}
	c.timing = frame.NewScanner(f, frame.Line)
	c.timing.SetAccept(func([]byte, bool) bool { return true })
	return c, nil
}

// openFile opens a file of the connection. A missing file reads as empty.
func (c *conn) openFile(fsys fs.FS, name string) (io.Reader, error) {
	f, err := fsys.Open(c.name(name))
	if errors.Is(err, fs.ErrNotExist) {
		return strings.NewReader(""), nil
	}
	if err != nil {
		return nil, err
	}
	c.files = append(c.files, f)
	return f, nil
}

func (c *conn) closeFiles() error {
	var errs []error
	for _, f := range c.files {
		errs = append(errs, f.Close())
	}
	c.files = nil
	return errors.Join(errs...)
}

// advance moves to the connection's next record, or to its end.
func (c *conn) advance() error {
	for !c.done {
		if found, err := c.pending(); found || err != nil {
			return err
		}
		if c.drain {
			c.done = c.current == frame.U2C
			c.current++
			continue
		}
		if found, err := c.line(); found || err != nil {
			return err
		}
	}
	return nil
}

// pending makes a record from the bytes of the current stream that have not been returned. It
// reports whether there were any.
func (c *conn) pending() (bool, error) {
	s := &c.streams[c.current]
	switch {
	case c.current == frame.DirUnknown:
		return c.stderr(s)
	case c.carrier != nil:
		return c.carried(s)
	}
	if !s.ahead && (s.pos < s.known || c.drain) {
		s.ahead = s.scanner.Scan()
		if err := s.scanner.Err(); err != nil {
			return false, fmt.Errorf("%s: %w", c.name(streams[c.current].file), err)
		}
	}
	if !s.ahead {
		s.pos = s.known
		return false, nil
	}
	f := s.scanner.Frame()
	if f.Offset+int64(len(f.Raw)) > s.known && !c.drain {
		return false, nil
	}
	s.ahead = false
	s.pos = f.Offset + int64(len(f.Raw))
	c.frame(f)
	return true, nil
}

// maxText is the maximum size, in bytes, of one read and of one record of standard error.
const maxText = 64 << 10

// stderr makes a record from standard error.
func (c *conn) stderr(s *stream) (bool, error) {
	text, err := c.more(s)
	if err == io.EOF {
		err = nil
	}
	if len(text) == 0 || err != nil {
		return false, err
	}
	c.record(capture.Stderr)
	c.rec.Text = text
	return true, nil
}

// more reads bytes of the current stream that have not been returned. It may return no bytes.
// At the end of the file the error is io.EOF.
func (c *conn) more(s *stream) ([]byte, error) {
	n := min(s.known-s.pos, maxText)
	if c.drain {
		n = maxText
	}
	if n <= 0 {
		return nil, nil
	}
	if s.text == nil {
		s.text = make([]byte, maxText)
	}
	got, err := io.ReadFull(s.file, s.text[:n])
	s.pos += int64(got)
	switch {
	case err != nil && err != io.EOF && err != io.ErrUnexpectedEOF:
		return nil, fmt.Errorf("%s: %w", c.name(streams[c.current].file), err)
	case got == 0:
		return nil, io.EOF
	}
	return s.text[:got], nil
}

// record begins a record at the current time.
func (c *conn) record(kind capture.Kind) {
	c.rec = capture.Record{Kind: kind, Time: c.now, Framing: c.framing}
	c.rec.Conn, c.rec.Dir = c.number, c.current
}

// frame makes a record from a frame. It overrides the frame's connection and direction.
func (c *conn) frame(f *frame.Frame) {
	c.record(capture.Frame)
	c.rec.Frame = *f
	c.rec.Conn, c.rec.Dir = c.number, c.current
}

// line consumes the next line of the timing file, and reports whether it made a record. At
// the end of the file it starts draining the streams.
func (c *conn) line() (bool, error) {
	if !c.timing.Scan() {
		c.drain, c.current = true, frame.DirUnknown
		return false, c.timing.Err()
	}
	c.lines++
	text := c.timing.Frame().Payload()
	if len(text) == 0 {
		return false, nil
	}
	l, err := parseLine(text)
	if err != nil {
		return false, fmt.Errorf("%s: line %d: %w", c.name(timingFile), c.lines, err)
	}
	c.clock(&l)
	if l.Event != "" {
		return c.event(&l, text), nil
	}
	d, ok := l.dir()
	if !ok {
		return false, fmt.Errorf("%s: line %d: invalid direction %q", c.name(timingFile), c.lines, l.Dir)
	}
	c.current = d
	c.streams[d].known = max(c.streams[d].known, l.Off+l.Len)
	return false, nil
}

// clock sets the current time. If the time of day is unknown, time counts from 1970.
func (c *conn) clock(l *line) {
	c.redacted, c.altered = c.redacted || l.Redacted, c.altered || l.Altered
	if l.Event == eventStart && l.Unix != 0 {
		c.base, c.unit = time.Unix(0, l.Unix-l.Nanos).UTC(), l.unit()
	}
	base := c.base
	if base.IsZero() {
		base = time.Unix(0, 0).UTC()
	}
	c.now = base.Add(time.Duration(l.Nanos))
}

// event makes a record from an event, and reports whether it did. Unknown events are kept as
// notes with their original text.
func (c *conn) event(l *line, text []byte) bool {
	dir, _ := l.dir()
	c.record(capture.Note)
	c.rec.Dir = dir
	switch l.Event {
	case eventStart:
		c.rec.Kind, c.rec.Text = capture.Opened, []byte(l.unit())
	case eventEOF:
		c.rec.Kind = capture.HalfClosed
		return dir != frame.DirUnknown
	case eventExit:
		c.rec.Kind, c.rec.Status, c.rec.Text = capture.Exited, l.Code, []byte(l.Text)
		if name, ok := l.signal(); ok {
			c.rec.Kind, c.rec.Status, c.rec.Text = capture.Signalled, l.Signal, []byte(name)
		}
	case eventNote:
		c.rec.Text = []byte(l.Text)
	default:
		c.rec.Text = text
	}
	return true
}

// name returns the path of a file of the connection.
func (c *conn) name(file string) string {
	if c.number > 1 {
		return connPrefix + strconv.Itoa(c.number) + "/" + file
	}
	return file
}

// carried makes a record from the next frame of the carrier. It feeds the carrier the known
// bytes of the current stream and, after the last byte, its end.
func (c *conn) carried(s *stream) (bool, error) {
	if len(c.frames) == 0 {
		c.frames = c.carrier.More()
	}
	for len(c.frames) == 0 && !s.ended {
		text, err := c.more(s)
		switch {
		case err == io.EOF:
			s.ended = true
			c.frames = c.carrier.End(c.current)
		case len(text) == 0 || err != nil:
			return false, err
		default:
			c.frames = c.carrier.Feed(c.current, text)
		}
	}
	if len(c.frames) == 0 {
		return false, nil
	}
	c.frame(&c.frames[0])
	if m := c.rec.Meta; m != nil {
		c.rec.Framing = m.Framing
	}
	c.frames = c.frames[1:]
	return true, nil
}
