package input

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"
)

// Skipped counts the files of a folder that are not in the context.
type Skipped struct {
	Hidden     int // files and folders whose names begin with a dot
	Binary     int // files with a NUL in them
	NotUTF8    int
	NotRegular int // links, sockets, …
	Unreadable int
}

// String lists what was skipped; it is "" if nothing was.
func (s Skipped) String() string {
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
