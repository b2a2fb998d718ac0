package rlm

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/bits"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/rlm/prompt"
)

// skipped counts the files of a folder that are not in the context.
type skipped struct {
	Hidden     int // files and folders whose names begin with a dot
	Binary     int // files with a NUL in them
	NotUTF8    int
	NotRegular int // links, sockets, …
	Unreadable int
}

// String lists what was skipped; it is "" if nothing was.
func (s skipped) String() string {
	var list []string
	for _, n := range []struct {
		count int
		what  string
	}{{s.Hidden, "hidden"}, {s.Binary, "binary"}, {s.NotUTF8, "not UTF-8"}, {s.NotRegular, "not regular files"}, {s.Unreadable, "unreadable"}} {
		if n.count > 0 {
			list = append(list, fmt.Sprintf("%d %s", n.count, n.what))
		}
	}
	return strings.Join(list, ", ")
}

// folder writes the texts of a folder by their paths, in order, and calls add with their
// lengths.
func (l *loader) folder(w *bufio.Writer, dir string, add func(chars int64)) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	paths, err := l.list(root)
	if err != nil {
		return err
	}
	first := true
	for _, path := range paths {
		if !l.isText(root, path) {
			continue
		}
		f, err := root.Open(filepath.FromSlash(path))
		if err != nil {
			return err
		}
		beginMember(w, first, path)
		first = false
		n, err := writeText(w, stoppable{f, l.ctx})
		if err = errors.Join(named(filepath.Join(dir, path), err), f.Close()); err != nil {
			return err
		}
		add(n)
	}
	if first {
		_ = w.WriteByte('{')
	}
	return w.WriteByte('}')
}

// list returns the paths of the regular files, sorted.
func (l *loader) list(root *os.Root) (paths []string, err error) {
	err = fs.WalkDir(root.FS(), ".", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case l.ctx.Err() != nil:
			return context.Cause(l.ctx)
		case err != nil && path == ".":
			return err
		case err != nil:
			l.Skipped.Unreadable++
			return nil //nolint:nilerr // it is counted
		case path != "." && strings.HasPrefix(entry.Name(), "."):
			l.Skipped.Hidden++
			if entry.IsDir() {
				return fs.SkipDir
			}
		case entry.IsDir():
		case !entry.Type().IsRegular():
			l.Skipped.NotRegular++
		case !utf8.ValidString(path):
			l.Skipped.NotUTF8++
		default:
			paths = append(paths, path)
		}
		return nil
	})
	slices.Sort(paths)
	return paths, err
}

var errBinary = errors.New("the file is binary")

// isText reports whether a file can be part of the context; if not, it is counted.
func (l *loader) isText(root *os.Root, path string) bool {
	f, err := root.Open(filepath.FromSlash(path))
	if err == nil {
		err = checkText(stoppable{f, l.ctx})
		_ = f.Close() // it was only read
	}
	switch {
	case errors.Is(err, errBinary):
		l.Skipped.Binary++
	case errors.Is(err, errNotUTF8):
		l.Skipped.NotUTF8++
	case err != nil:
		l.Skipped.Unreadable++
	}
	return err == nil
}

func checkText(r io.Reader) error {
	return eachPiece(r, func(piece []byte) error {
		if bytes.IndexByte(piece, 0) >= 0 {
			return errBinary
		}
		return nil
	})
}

// A Shape describes a context by numbers, for the root model.
type Shape prompt.Shape

func (s *Shape) add(chars int64) {
	s.Chars += chars
	if s.Chunks++; len(s.Lengths) < prompt.Shown {
		s.Lengths = append(s.Lengths, chars)
	}
}

// A Loaded is a context that can be read.
type Loaded struct {
	Context
	Shape   Shape
	Size    int64 // of the file, in bytes
	Skipped skipped
}

// A NameError says that the names of a context cannot be used together.
type NameError struct{ msg string }

func (e *NameError) Error() string { return e.msg }

// Load makes a context of files, folders, and - for stdin. It writes into the folder dir,
// which the caller has to remove. When ctx ends, it stops after the current read of a file. Of
// standard input, pipes and devices, whose reads may never end, it stops at once.
func Load(ctx context.Context, dir string, names []string, stdin io.Reader) (*Loaded, error) {
	seen := map[string]bool{}
	for _, name := range names {
		if seen[name] {
			return nil, &NameError{fmt.Sprintf("the context %q is named twice", name)}
		}
		seen[name] = true
	}
	l := &loader{ctx: ctx, dir: dir, stdin: stdin}
	var err error
	if len(names) == 1 {
		err = l.one(names[0])
	} else {
		err = l.write(func(w *bufio.Writer) error { return l.several(w, names) })
	}
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(l.Path)
	if err != nil {
		return nil, err
	}
	l.Size = info.Size()
	return &l.Loaded, nil
}

type loader struct {
	Loaded
	ctx   context.Context
	dir   string
	stdin io.Reader
}

// A stoppable reader fails once ctx has ended.
type stoppable struct {
	io.ReadCloser
	ctx context.Context
}

func (s stoppable) Read(b []byte) (int, error) {
	if s.ctx.Err() != nil {
		return 0, context.Cause(s.ctx)
	}
	return s.ReadCloser.Read(b)
}

// one loads the only name.
func (l *loader) one(name string) error {
	info, err := l.stat(name)
	if err != nil {
		return err
	}
	l.Type = typeOf(name)
	switch {
	case info != nil && info.IsDir():
		l.Type, l.Shape.Type = "json", "dict"
		return l.write(func(w *bufio.Writer) error { return l.folder(w, name, l.Shape.add) })
	case info != nil && info.Mode().IsRegular():
		// A worker does not see files such as /dev/stdin, a link into /proc, under their names.
		path, err := filepath.EvalSymlinks(name)
		if err == nil && !strings.HasPrefix(path, "/proc/") {
			return l.inPlace(name, path)
		}
	}
	// Input that workers cannot read is copied while it is measured.
	return l.write(func(w *bufio.Writer) error {
		r, err := l.open(name)
		if err != nil {
			return err
		}
		defer r.Close()
		return l.measure(name, io.TeeReader(r, w))
	})
}

// stat is os.Stat; nil for standard input.
func (l *loader) stat(name string) (os.FileInfo, error) {
	if name == "-" {
		return nil, nil
	}
	return os.Stat(name)
}

func (l *loader) open(name string) (io.ReadCloser, error) {
	info, err := l.stat(name)
	switch {
	case err != nil:
		return nil, err
	case info == nil:
		return endable(l.ctx, func() (io.ReadCloser, error) { return io.NopCloser(l.stdin), nil }), nil
	case !info.Mode().IsRegular():
		return endable(l.ctx, func() (io.ReadCloser, error) { return os.Open(name) }), nil
	}
	f, err := os.Open(name)
	return stoppable{f, l.ctx}, err
}

// endable returns what a source contains. Its reads end with ctx. The source is read by a
// goroutine, because nothing can end a read of it; the goroutine ends with that read, and at
// the latest with the process.
func endable(ctx context.Context, source func() (io.ReadCloser, error)) io.ReadCloser {
	r, w := io.Pipe()
	stop := context.AfterFunc(ctx, func() { w.CloseWithError(context.Cause(ctx)) })
	go func() {
		defer stop()
		f, err := source()
		if err == nil {
			_, err = io.CopyBuffer(w, struct{ io.Reader }{f}, make([]byte, pieceSize))
			f.Close()
		}
		w.CloseWithError(err)
	}()
	return r
}

func typeOf(name string) string {
	switch strings.ToLower(filepath.Ext(name)) {
	case ".json":
		return "json"
	case ".jsonl":
		return "jsonl"
	}
	return "text"
}

// inPlace uses a file in place, whose path has no links.
func (l *loader) inPlace(name, path string) (err error) {
	if l.Path, err = filepath.Abs(path); err != nil {
		return err
	}
	f, err := l.open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	return l.measure(name, f)
}

// measure finds the shape of a context.
func (l *loader) measure(name string, r io.Reader) error {
	var err error
	switch l.Type {
	case "text":
		l.Shape.Type = "str"
		var n int64
		if n, err = copyText(io.Discard, r); err == nil {
			l.Shape.add(n)
		}
	case "json":
		err = newScanner(r).document(&l.Shape)
	case "jsonl":
		l.Shape.Type = "list"
		err = newScanner(r).lines(func(v value) { l.Shape.add(v.asItem()) })
	}
	return named(name, err)
}

// named adds the file to an error that does not name it.
func named(name string, err error) error {
	if pe := (*os.PathError)(nil); err == nil || errors.As(err, &pe) {
		return err
	}
	if name == "-" {
		name = "standard input"
	}
	return fmt.Errorf("%s: %w", name, err)
}

// write creates the file of the context with the text that f writes.
func (l *loader) write(f func(*bufio.Writer) error) error {
	l.Path = filepath.Join(l.dir, "context")
	file, err := os.OpenFile(l.Path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(file, pieceSize)
	return cmp.Or(f(w), w.Flush(), file.Close())
}

// several writes a dict with the value of each name.
func (l *loader) several(w *bufio.Writer, names []string) error {
	l.Type, l.Shape.Type = "json", "dict"
	for i, name := range names {
		beginMember(w, i == 0, filepath.ToSlash(name))
		n, err := l.member(w, name)
		if err != nil {
			return err
		}
		l.Shape.add(n)
	}
	_, err := w.WriteString("}")
	return err
}

// member writes the value of a name as JSON, and returns its length in characters.
func (l *loader) member(w *bufio.Writer, name string) (int64, error) {
	info, err := l.stat(name)
	if err != nil {
		return 0, err
	}
	if info != nil && info.IsDir() {
		var all int64
		return all, l.folder(w, name, func(n int64) { all += n })
	}
	r, err := l.open(name)
	if err != nil {
		return 0, err
	}
	defer r.Close()
	var n int64
	switch typeOf(name) {
	case "json":
		var s Shape
		err = newScanner(io.TeeReader(r, w)).document(&s)
		n = s.Chars
	case "jsonl":
		n, err = writeList(w, r)
	default:
		n, err = writeText(w, r)
	}
	return n, named(name, err)
}

const (
	// maxDepth is how deep lists and objects may be nested: the stack of Python's reader has
	// a limit.
	maxDepth = 900
	// maxScalar is the length of the longest number, in bytes.
	maxScalar = 4096
)

// A value is a JSON value that was read. Lengths are in characters.
type value struct {
	kind    jsonscan.Kind
	raw     int64 // as it is written, without the space between tokens
	text    int64 // of a string without quotes and escapes
	content int64 // of the member content of an object, if that is a string; or -1
}

// length returns the length of a string, or of the JSON of another value.
func (v value) length() int64 {
	if v.kind == jsonscan.String {
		return v.text
	}
	return v.raw
}

// asItem returns the length of an item of a list; for a message, that of its content.
func (v value) asItem() int64 {
	if v.kind == jsonscan.Object && v.content >= 0 {
		return v.content
	}
	return v.length()
}

// A scanner checks and measures JSON while it reads it.
type scanner struct {
	r    *bufio.Reader
	at   int64
	line int64     // counts from 1, of values in lines; else 0
	from int64     // the line on which the current value begins
	copy io.Writer // gets everything that is read; may be nil
	err  error
}

func newScanner(r io.Reader) *scanner { return &scanner{r: bufio.NewReaderSize(r, pieceSize)} }

// document reads the only value, and its shape.
func (s *scanner) document(shape *Shape) error {
	v := s.scanValue(0, shape)
	if c := s.peek(); s.err == nil && c != 0 {
		s.fault("expected the end, found %q", c)
	}
	switch v.kind {
	case jsonscan.Object:
		shape.Type = "dict"
	case jsonscan.Array:
		shape.Type = "list"
	case jsonscan.String:
		shape.Type = "str"
	default:
		shape.Type = "scalar"
	}
	if v.kind != jsonscan.Object && v.kind != jsonscan.Array {
		shape.add(v.length())
	}
	return s.ended()
}

// lines reads values, one on each line as interpreters read them, and calls each for each.
func (s *scanner) lines(each func(value)) error {
	s.line, s.from = 1, 1
	last := int64(0)
	for s.peek() != 0 {
		if last == s.line {
			s.fault("a second value on the line")
			break
		}
		s.from, last = s.line, s.line
		v := s.scanValue(0, nil)
		if s.line != s.from {
			s.fault("the value goes on after the end of the line")
		}
		if s.ended() != nil {
			break
		}
		each(v)
	}
	return s.ended()
}

// ended returns the error that was found, if any.
func (s *scanner) ended() error {
	if errors.Is(s.err, io.EOF) {
		return nil
	}
	return s.err
}

func (s *scanner) fault(format string, args ...any) {
	if s.err == nil || errors.Is(s.err, io.EOF) {
		place := fmt.Sprintf("byte %d", s.at)
		if s.line > 0 { // a value that is not complete is found out on a later line
			place = fmt.Sprintf("line %d: %s", s.from, place)
		}
		s.err = fmt.Errorf("%s: invalid JSON: %s", place, fmt.Sprintf(format, args...))
	}
}

// take skips n buffered bytes.
func (s *scanner) take(n int) {
	b, _ := s.r.Peek(n)
	if s.line > 0 {
		s.line += int64(bytes.Count(b, []byte("\n")))
	}
	if s.copy != nil && s.err == nil {
		if _, err := s.copy.Write(b); err != nil {
			s.err = err
		}
	}
	_, _ = s.r.Discard(n) // they are buffered
	s.at += int64(n)
}

// buffered returns the next bytes, at least one unless there is an error.
func (s *scanner) buffered() []byte {
	if s.err != nil {
		return nil
	}
	if _, err := s.r.Peek(1); err != nil {
		s.err = err
		return nil
	}
	b, _ := s.r.Peek(s.r.Buffered())
	return b
}

// peek skips white space, and returns the next byte; 0 at the end.
func (s *scanner) peek() byte {
	for {
		b := s.buffered()
		rest := bytes.TrimLeft(b, " \t\r\n")
		s.take(len(b) - len(rest))
		switch {
		case len(rest) > 0 && rest[0] == 0:
			s.fault("found a NUL")
			return 0
		case len(rest) > 0:
			return rest[0]
		case s.err != nil:
			return 0
		}
	}
}

// scanValue reads a value, and adds its members or items to shape unless that is nil.
func (s *scanner) scanValue(depth int, shape *Shape) value {
	switch c := s.peek(); {
	case depth > maxDepth:
		s.fault("lists and objects are nested more than %d deep", maxDepth)
	case c == '{':
		return s.object(depth, shape)
	case c == '[':
		return s.array(depth, shape)
	case c == '"':
		raw, text, _ := s.str(nil)
		return value{kind: jsonscan.String, raw: raw, text: text}
	case c == 0:
		s.fault("it ends too early")
	default:
		return s.scalar()
	}
	return value{}
}

func (s *scanner) object(depth int, shape *Shape) value {
	v := value{kind: jsonscan.Object, raw: 2, content: -1}
	s.take(1)
	for n := 0; s.next(n, '}'); n++ {
		if s.peek() != '"' {
			s.fault("expected a key")
			break
		}
		var key [16]byte
		raw, _, name := s.str(key[:0])
		if s.peek() != ':' {
			s.fault("expected a colon after the key")
			break
		}
		s.take(1)
		member := s.scanValue(depth+1, nil)
		if string(name) == "content" && member.kind == jsonscan.String {
			v.content = member.text
		}
		v.raw += raw + 1 + member.raw + int64(min(n, 1))
		if shape != nil {
			shape.add(member.length())
		}
	}
	return v
}

func (s *scanner) array(depth int, shape *Shape) value {
	v := value{kind: jsonscan.Array, raw: 2}
	s.take(1)
	for n := 0; s.next(n, ']'); n++ {
		item := s.scanValue(depth+1, nil)
		v.raw += item.raw + int64(min(n, 1))
		if shape != nil {
			shape.add(item.asItem())
		}
	}
	return v
}

// next skips the text before item n, and reports whether there is one.
func (s *scanner) next(n int, end byte) bool {
	c := s.peek()
	switch {
	case s.err != nil || c == 0:
		s.fault("it ends too early")
		return false
	case c == end:
		s.take(1)
		return false
	case n == 0:
		return true
	case c != ',':
		s.fault("expected a comma or %q, found %q", end, c)
		return false
	}
	s.take(1)
	return true
}

// scalar reads a number, true, false or null.
func (s *scanner) scalar() value {
	var token []byte
	for s.err == nil {
		b := s.buffered()
		n := bytes.IndexAny(b, " \t\r\n,]}:\"[{")
		if n < 0 {
			n = len(b)
		}
		if len(token)+n > maxScalar {
			s.fault("a number is longer than %d digits", maxScalar)
			return value{}
		}
		token = append(token, b[:n]...)
		s.take(n)
		if n < len(b) || n == 0 {
			break
		}
	}
	if jsonscan.Valid(token) != nil {
		s.fault("found %.20q", token)
	}
	return value{kind: jsonscan.KindOf(token), raw: int64(len(token))}
}

// str reads a string. It appends its text to keep, as far as there is room.
func (s *scanner) str(keep []byte) (raw, text int64, kept []byte) {
	s.take(1)
	raw = 2
	for s.err == nil {
		b := s.buffered()
		n := bytes.IndexAny(b, "\"\\")
		run := b
		if n >= 0 {
			run = b[:n]
		} else if cut := render.CutRune(b); cut < len(b) {
			run = b[:len(b)-cut]
		} else if b, _ = s.r.Peek(utf8.UTFMax); len(b) > 0 { // a character in two pieces
			_, size := utf8.DecodeRune(b)
			run = b[:size]
		}
		if !jsonscan.ValidUTF8(run) || hasControl(run) {
			s.fault("a string is not UTF-8, or has control characters")
			return raw, text, keep
		}
		keep = append(keep, run[:min(len(run), cap(keep)-len(keep))]...)
		chars := countChars(run)
		raw, text = raw+chars, text+chars
		s.take(len(run))
		switch {
		case n < 0:
		case b[n] == '"':
			s.take(1)
			return raw, text, keep
		default:
			size, chars := s.escape()
			raw, text = raw+size, text+chars
		}
	}
	s.fault("it ends inside a string")
	return raw, text, keep
}

func hasControl(b []byte) bool {
	for _, c := range b {
		if c < ' ' {
			return true
		}
	}
	return false
}

// escape reads an escape, or two that are one character.
func (s *scanner) escape() (raw, text int64) {
	b, _ := s.r.Peek(12)
	for n := 2; n <= len(b); n++ {
		if token := quoted(b[:n]); jsonscan.Valid(token) == nil {
			if n == 6 && len(b) == 12 && isHigh(b) && isLow(b[6:]) {
				n = 12
			}
			s.take(n)
			return int64(n), 1
		}
	}
	s.fault("found the escape %.6q", b)
	return 0, 0
}

// isHigh reports whether an escape is the first half of a character, and isLow whether six
// bytes are an escape that is the second.
func isHigh(b []byte) bool { return isHalf(b, "89abAB") }
func isLow(b []byte) bool  { return isHalf(b, "cdefCDEF") && jsonscan.Valid(quoted(b)) == nil }

func isHalf(b []byte, third string) bool {
	return b[0] == '\\' && b[1] == 'u' && b[2]|0x20 == 'd' && strings.IndexByte(third, b[3]) >= 0
}

func quoted(inner []byte) []byte { return append(append([]byte{'"'}, inner...), '"') }

// pieceSize is how much of a context is in memory at a time.
const pieceSize = 256 << 10

// errNotUTF8 is the error for a text that is not UTF-8.
var errNotUTF8 = errors.New("the text is not UTF-8")

// A notUTF8Error says where a text is not UTF-8.
type notUTF8Error struct{ at int64 }

func (e *notUTF8Error) Error() string {
	return fmt.Sprintf("byte %d: %v: convert it, for example with iconv", e.at, errNotUTF8)
}
func (e *notUTF8Error) Unwrap() error { return errNotUTF8 }

// eachPiece calls f with the pieces of a text in UTF-8. No piece ends inside a character.
func eachPiece(r io.Reader, f func(piece []byte) error) error {
	buf := make([]byte, pieceSize)
	var at int64
	rest := 0 // bytes of an incomplete character
	for {
		n, err := io.ReadFull(r, buf[rest:])
		end := err == io.EOF || err == io.ErrUnexpectedEOF
		if err != nil && !end {
			return err
		}
		piece := buf[:rest+n]
		if !end {
			piece = piece[:len(piece)-render.CutRune(piece)]
		}
		if !jsonscan.ValidUTF8(piece) {
			return &notUTF8Error{at + int64(invalidAt(piece))}
		}
		if err := f(piece); err != nil || end {
			return err
		}
		at += int64(len(piece))
		rest = copy(buf, buf[len(piece):rest+n])
	}
}

func invalidAt(b []byte) int {
	for i := 0; i < len(b); {
		r, n := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError && n <= 1 {
			return i
		}
		i += n
	}
	return len(b)
}

// countChars returns how many characters are in UTF-8 text: all bytes except continuation
// bytes, 10xxxxxx.
func countChars(b []byte) int64 {
	n := len(b)
	for ; len(b) >= 8; b = b[8:] {
		w := binary.LittleEndian.Uint64(b)
		n -= bits.OnesCount64(w >> 7 &^ (w >> 6) & 0x0101010101010101)
	}
	for _, c := range b {
		if !utf8.RuneStart(c) {
			n--
		}
	}
	return int64(n)
}

// copyText copies a text and returns its length in characters.
func copyText(w io.Writer, r io.Reader) (chars int64, err error) {
	err = eachPiece(r, func(piece []byte) error {
		chars += countChars(piece)
		_, err := w.Write(piece)
		return err
	})
	return chars, err
}

// writeText writes a text as a JSON string.
func writeText(w *bufio.Writer, r io.Reader) (chars int64, err error) {
	_ = w.WriteByte('"') // an error comes back with the next write
	var quoted []byte
	err = eachPiece(r, func(piece []byte) error {
		chars += countChars(piece)
		quoted = jsonscan.AppendQuote(quoted[:0], piece)
		_, err := w.Write(quoted[1 : len(quoted)-1])
		return err
	})
	_ = w.WriteByte('"')
	return chars, err
}

// writeList writes lines of JSON as a list.
func writeList(w *bufio.Writer, r io.Reader) (chars int64, err error) {
	_ = w.WriteByte('[')
	lines := &separator{w: w}
	s := newScanner(r)
	s.copy = lines
	err = s.lines(func(v value) {
		chars += v.asItem()
		lines.next = true
	})
	_ = w.WriteByte(']')
	return chars, err
}

// A separator writes a comma between values.
type separator struct {
	w    *bufio.Writer
	next bool // a value has ended
}

func (s *separator) Write(b []byte) (int, error) {
	if s.next && len(bytes.TrimLeft(b, " \t\r\n")) > 0 {
		s.next = false
		_ = s.w.WriteByte(',')
	}
	return s.w.Write(b)
}

// beginMember writes the key of a member of an object.
func beginMember(w *bufio.Writer, first bool, key string) {
	before := byte(',')
	if first {
		before = '{'
	}
	_ = w.WriteByte(before)
	_, _ = w.Write(append(jsonscan.AppendQuote(nil, []byte(key)), ':'))
}
