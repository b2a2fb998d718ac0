// Package input makes one context of the user's files: a file that an environment reads. A
// single file is used in place; several are combined into another file, piece by piece, so
// that only a part is in memory.
package input

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/wirectl/wirectl/rlm"
	"github.com/wirectl/wirectl/rlm/prompt"
)

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
	rlm.Context
	Shape   Shape
	Size    int64 // of the file, in bytes
	Skipped Skipped
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
