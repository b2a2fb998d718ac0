// Package source reads files that other programs write as sessions: transcripts of agents,
// exports of browsers, packet captures, logs. A sub-package reads one form; source/all lists the
// forms and detects which one a file has.
//
// A reader yields the bytes of connections, whole messages of a known protocol, or what a program
// tells about itself, as messages of the protocol that protocol/agentlog defines.
package source

import (
	"bytes"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/protocol"
)

// A Form is a form of files.
type Form struct {
	Name  string // a word, such as "har"
	About string // with an article: "an HTTP archive"
	// Lines and Document are lists of members that belong together and that no other form has; see
	// [Object.Has]. A file has this form if one of its first lines has all members of one of Lines,
	// or if it is one JSON text with all those of one of Document.
	Lines, Document []string
	// Is reports the same of files that are not objects; it may be nil.
	Is func(h *Head) bool
	// Piped means that programs also write it into pipes: there, a read that may wait counts as the end
	// of a file that grows, so that what has come is shown at once.
	Piped bool
	// Open returns a reader; nil if the form is only recognized.
	Open func(f *File) (Reader, error)
	// Instead says what to do with a file that cannot be read.
	Instead string
	// Beside, if not nil, reports whether a file of a folder belongs to the session in another file
	// of it, with which it is read.
	Beside func(folder fs.FS, name string) bool
	// Place is where the program keeps such files; nil if it is unknown.
	Place *Place
}

// A File is a file that a [Form] opens.
type File struct {
	// Reader has the content from its beginning. In a Live file, a read returns no bytes and no
	// error when it has reached the end, and the next one waits for more. AtHand means that no read
	// before that waits.
	io.Reader
	Live, AtHand bool
	// Path is the name of the file; "" if it has none, such as a pipe. Folder is the folder that
	// contains it, and Base its name there. Readers open nothing else.
	Path, Base string
	Folder     fs.FS
	// Seen is shared by the files that are read together; never nil.
	Seen *Seen
	// Keylog is the file with the keys of TLS connections; "" for none.
	Keylog string
	// Field is the member of log lines that holds a message; "" to find it.
	Field string
	// Notice tells people something about the file; never nil.
	Notice func(text string)
	// Tally, if not nil, counts the events of a session, so that the reader need not make records of
	// them.
	Tally *Tally
}

// SoFar returns the content for a reader that does not follow a file.
func (f *File) SoFar() io.Reader {
	if !f.Live {
		return f.Reader
	}
	f.Notice("what is written from now on is not read")
	return &soFar{r: f.Reader}
}

type soFar struct {
	r    io.Reader
	over bool
}

func (s *soFar) Read(p []byte) (n int, err error) {
	if !s.over && len(p) > 0 {
		n, err = s.r.Read(p)
		s.over = n == 0 && err == nil
	}
	if s.over {
		err = io.EOF
	}
	return n, err
}

// About describes the session in a file.
type About struct {
	Created          time.Time
	Controller, Unit string // the names of both ends
	// Teller is the program, with its version, that tells the session about itself; "" if the file
	// has bytes or messages of a connection.
	Teller  string
	Comment string
	// Folder is the one in which an agent worked; "" if unknown.
	Folder string
	// Redacted means that the writer has removed secrets.
	Redacted bool
}

// A Reader reads the session in a file.
type Reader interface {
	// About describes the session, as far as it is known before the first record.
	About() About
	// Next reads the next record into r, overwriting all of it. Its bytes are valid until the next
	// call. At the end the error is io.EOF. If the file is cut, it is [ErrCut], after all that
	// could be read. Every error is final.
	Next(r *Record) error
}

// A Queue holds the records that a reader has made and not yet given, and the error that follows them.
type Queue struct {
	Records []Record
	Err     error
}

// Next gives the next record, as [Reader.Next] does. While there is none, it has advance make some, or
// set Err.
func (q *Queue) Next(rec *Record, advance func()) error {
	for len(q.Records) == 0 && q.Err == nil {
		advance()
	}
	if len(q.Records) == 0 {
		*rec = Record{}
		return q.Err
	}
	*rec = q.Records[0]
	if q.Records = q.Records[1:]; len(q.Records) == 0 {
		q.Records = nil
	}
	return nil
}

// Push queues a record.
func (q *Queue) Push(r Record) { q.Records = append(q.Records, r) }

// ErrCut is the error for a file that ends inside a record.
var ErrCut = errors.New("the file is cut")

// A CutError is an ErrCut in the record that begins at Offset.
type CutError struct{ Offset int64 }

func (e *CutError) Error() string { return fmt.Sprintf("byte %d: %v", e.Offset, ErrCut) }
func (e *CutError) Unwrap() error { return ErrCut }

// Kind is the kind of a record.
type Kind uint8

const (
	// Message is a message of Protocol.
	Message Kind = iota
	// Bytes are bytes of one direction of a connection, in their order.
	Bytes
	// Opened begins a connection; Data is its name: "client → server".
	Opened
	// Ended is the end of the direction Dir.
	Ended
	// Lost means that bytes of the connection are missing here, so that the rest of it is not read;
	// Data may say why. Without a connection, it means that messages may be missing anywhere from here on.
	Lost
	// Note is a remark; Data is its text.
	Note
	// Idle means that there is no more for now; only in a file that grows.
	Idle
)

// A Record is a part of a session.
type Record struct {
	Kind Kind
	Conn int // from 1
	Dir  frame.Dir
	// Time is when it happened, as the file says; zero if unknown.
	Time time.Time
	// Protocol is that of a Message; "" to detect it.
	Protocol string
	Data     []byte
}

// Matches reports whether a file that begins so has the form.
func (f *Form) Matches(h *Head) bool {
	if f.Is != nil && f.Is(h) {
		return true
	}
	for _, members := range f.Lines {
		for _, o := range h.Objects() {
			if o.Has(members) {
				return true
			}
		}
	}
	for _, members := range f.Document {
		if h.Document().Has(members) {
			return true
		}
	}
	return false
}

// Likeness returns the largest share of the members of a list that an object of the file has.
func (f *Form) Likeness(h *Head) (share float64) {
	for _, members := range f.Lines {
		for _, o := range h.Objects() {
			share = max(share, o.share(members))
		}
	}
	for _, members := range f.Document {
		share = max(share, h.Document().share(members))
	}
	return share
}

// An Error says why a file cannot be read, and what to do.
type Error struct {
	Form *Form
	Why  string // "" if its form is only recognized
}

func (e *Error) Error() string {
	text := "this is " + e.Form.About + ", which this version does not read"
	if e.Why != "" {
		text = "this is " + e.Form.About + ": " + e.Why
	}
	if e.Form.Instead != "" {
		text += ": " + e.Form.Instead
	}
	return text
}

// A Head is the beginning of a file.
type Head struct {
	Bytes []byte // at most [HeadSize]
	Whole bool   // there is no more

	objects  []Object
	document Object
}

// HeadSize is how much of a file is examined, in bytes, and maxLines how many of its lines.
const (
	HeadSize = 256 << 10
	maxLines = 50
)

// Text returns the beginning without a byte order mark and white space.
func (h *Head) Text() []byte {
	return bytes.TrimLeft(bytes.TrimPrefix(h.Bytes, []byte("\xef\xbb\xbf")), " \t\r\n")
}

// Lines returns the first lines that are complete, without blank ones.
func (h *Head) Lines() (lines [][]byte) {
	for line := range bytes.Lines(h.Text()) {
		if !h.Whole && line[len(line)-1] != '\n' || len(lines) == maxLines {
			break
		}
		if line = bytes.TrimSpace(line); len(line) > 0 {
			lines = append(lines, line)
		}
	}
	return lines
}

// Objects returns the first lines that are objects of JSON.
func (h *Head) Objects() []Object {
	if h.objects == nil {
		h.objects = []Object{}
		for _, line := range h.Lines() {
			if line[0] == '{' && jsonscan.WellFormed(line) == nil {
				h.objects = append(h.objects, Members(line))
			}
		}
		if text := h.Text(); len(h.objects) == 0 && len(h.Bytes) >= HeadSize && text[0] == '{' { // a very long line
			h.objects = append(h.objects, Members(text))
		}
	}
	return h.objects
}

// Document returns the members of a file that is one JSON text over any number of lines, as far as
// they are known.
func (h *Head) Document() Object {
	if h.document == nil {
		h.document = Object{}
		if text := h.Text(); len(text) > 0 && (text[0] == '{' || text[0] == '[') {
			h.document = Members(text)
		}
	}
	return h.document
}

// An Object has the members of an object, or of the first element of an array, by their paths:
// "message.role". Those of the first element of an inner array have 0 as a key: "messages.0.role". It
// reaches four levels deep. The values are as written.
type Object map[string][]byte

const (
	maxLevels  = 4
	maxMembers = 1 << 10
)

// Members returns the members of JSON text, which may be cut.
func Members(text []byte) Object {
	o := Object{}
	var s jsonscan.Scanner
	s.Init(text)
	o.walk(&s, "", 0)
	return o
}

func (o Object) walk(s *jsonscan.Scanner, prefix string, level int) {
	add := func(key string) {
		if len(o) >= maxMembers {
			s.Skip()
			return
		}
		start := s.Offset()
		o[prefix+key] = nil // it is there, even if it is cut
		if k := s.Peek(); level+1 < maxLevels && (k == jsonscan.Object || k == jsonscan.Array) {
			o.walk(s, prefix+key+".", level+1)
		} else {
			s.Skip()
		}
		o[prefix+key] = s.Since(start)
	}
	switch s.Peek() {
	case jsonscan.Object:
		for ok := s.Object(); ok && s.Next(); {
			add(string(s.Key()))
		}
	case jsonscan.Array:
		for ok, first := s.Array(), true; ok && s.Elem(); first = false {
			if first {
				add("0")
			} else {
				s.Skip()
			}
		}
	}
}

// Has reports whether there are all of these members, separated by spaces. `a=x|y` wants one of some
// strings.
func (o Object) Has(members string) bool { return o.share(members) == 1 }

// share returns the share of the members of a list that there are.
func (o Object) share(members string) float64 {
	wanted, found := 0, 0
	for m := range strings.FieldsSeq(members) {
		wanted++
		path, values, oneOf := strings.Cut(m, "=")
		raw, ok := o[path]
		for v := range strings.SplitSeq(values, "|") {
			if ok && (!oneOf || string(raw) == strconv.Quote(v)) {
				found++
				break
			}
		}
	}
	return float64(found) / float64(max(wanted, 1))
}

// Seen remembers what several files may repeat: records, and what calls of models have used. The zero
// Seen has seen nothing.
type Seen struct {
	seed  maphash.Seed
	used  map[uint64]protocol.Usage
	names map[uint64]bool
}

// maxSeen bounds what is remembered.
const maxSeen = 1 << 19

func (s *Seen) hash(id []byte) uint64 {
	if s.names == nil {
		s.seed, s.used, s.names = maphash.MakeSeed(), map[uint64]protocol.Usage{}, map[uint64]bool{}
	}
	return maphash.Bytes(s.seed, id)
}

// Once reports whether a record of that id comes for the first time.
func (s *Seen) Once(id []byte) bool {
	at := s.hash(id)
	if s.names[at] {
		return false
	}
	if len(s.names) < maxSeen {
		s.names[at] = true
	}
	return true
}

// Has reports whether a record of that id came.
func (s *Seen) Has(id []byte) bool { return s.names[s.hash(id)] }

// Growth returns how much more a call of a model has used than was known. Records about one call
// may repeat its usage, so the most of each number counts.
func (s *Seen) Growth(call []byte, u protocol.Usage) (growth protocol.Usage, first bool) {
	at := s.hash(call)
	before, known := s.used[at]
	growth = u.Minus(before)
	if known || len(s.used) < maxSeen {
		s.used[at] = before.Plus(growth)
	}
	return growth, !known
}
