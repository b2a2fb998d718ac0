// Package output opens files that only their owner may read. It never writes into an
// existing regular file: a new one of mode 0600 takes its name, so that nobody who has
// the old one open can read on. Links are followed if they belong to the user or root;
// pipes, devices and descriptors are written in place.
package output

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/wirectl/wirectl/internal/fd"
)

// Create opens a file that grows. It has its name, and is empty, before the first
// byte is written. It is an error if another process has it open from Create.
func Create(name string) (*os.File, error) {
	path, inPlace, err := resolve(name)
	switch {
	case err != nil:
		return nil, err
	case inPlace:
		return openInPlace(path)
	}
	file, err := CreateNew(path)
	if !errors.Is(err, fs.ErrExist) {
		return file, err
	}
	if file, err = replace(path); err != nil {
		return nil, err
	}
	return locked(file)
}

// CreateNew is like Create, but fails with [fs.ErrExist] if there is a file of that name.
func CreateNew(name string) (*os.File, error) {
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	return locked(file)
}

// replace replaces a file by an empty one. Whoever replaces a file holds its lock, so that
// of two at the same time only one does.
func replace(name string) (*os.File, error) {
	held, err := Hold(name)
	if err != nil {
		return nil, err
	}
	defer held.Close()
	f, err := Begin(name)
	switch {
	case err != nil:
		return nil, err
	case f.name == "":
		return f.File, nil
	}
	// It is opened again because errors contain the name, and because Windows cannot
	// rename an open file, or replace one: there the writer keeps others out by that.
	if runtime.GOOS == "windows" {
		held.Close()
	}
	made, err := f.Stat()
	if err = errors.Join(err, f.Close(err == nil)); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(f.name, os.O_WRONLY|noFollow, 0)
	if err != nil {
		return nil, err
	}
	if info, err := file.Stat(); err != nil || !os.SameFile(made, info) {
		return nil, errors.Join(err, file.Close(), fmt.Errorf("%s was replaced while it was opened", f.name))
	}
	return file, nil
}

// Hold keeps other processes from replacing a file by [Create] until the result, which may
// be nil, is closed. It is an error if another process has it open from Create.
func Hold(name string) (*os.File, error) {
	path, inPlace, err := resolve(name)
	if err != nil || inPlace {
		return nil, err
	}
	file, err := os.OpenFile(path, os.O_WRONLY|noFollow, 0)
	if err != nil {
		return nil, nil //nolint:nilerr,nilnil // replacing it may still be allowed
	}
	return locked(file)
}

// locked locks a file that still has its name, or else closes it. The lock ends with the
// process.
func locked(file *os.File) (*os.File, error) {
	free, err := fd.TryLock(file)
	if err != nil {
		return file, nil //nolint:nilerr // a file system without locks: nobody is kept out
	}
	named, err := os.Lstat(file.Name())
	own, ownErr := file.Stat()
	if !free || err != nil || ownErr != nil || !os.SameFile(named, own) {
		return nil, errors.Join(Busy(file.Name()), file.Close())
	}
	return file, nil
}

// Busy returns the error for a file that another recording writes.
func Busy(name string) error {
	return fmt.Errorf("%s: another recording writes it: name another file, or end that recording first", name)
}

// Append opens a file for appending. Only the user may read a new one.
func Append(name string) (*os.File, error) {
	name, _, err := resolve(name)
	if err != nil {
		return nil, err
	}
	flags := os.O_WRONLY | os.O_CREATE | os.O_APPEND
	if !isDescriptor(name) {
		flags |= noFollow
	}
	return os.OpenFile(name, flags, 0o600)
}

// A File gets its name when it is closed.
type File struct {
	*os.File
	name string // "" if it is written in place
}

// Begin starts writing a file, which does not exist before it is closed.
func Begin(name string) (*File, error) {
	name, inPlace, err := resolve(name)
	if err != nil {
		return nil, err
	}
	if inPlace {
		f, err := openInPlace(name)
		return &File{File: f}, err
	}
	f, err := os.CreateTemp(filepath.Dir(name), ".wirectl-*")
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		pe.Path = name // the one that the user knows
	}
	return &File{f, name}, err
}

// Close closes the file. It gets its name if keep is set, and is removed otherwise.
func (f *File) Close(keep bool) error {
	err := f.File.Close()
	if f.name == "" {
		return err
	}
	if keep && err == nil {
		if err = os.Rename(f.Name(), f.name); err == nil {
			return nil
		}
	}
	return errors.Join(err, os.Remove(f.Name()))
}

// WriteFile replaces a file, whole or not at all.
func WriteFile(name string, data []byte, mode os.FileMode) error {
	f, err := Begin(name)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Chmod(mode))
	return errors.Join(err, f.Close(err == nil))
}

// openInPlace opens a descriptor of this process, or a file that is not regular.
func openInPlace(name string) (*os.File, error) {
	if isDescriptor(name) {
		return os.OpenFile(name, os.O_WRONLY|os.O_TRUNC, 0)
	}
	f, err := os.OpenFile(name, os.O_WRONLY|noFollow, 0)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err != nil || info.Mode().IsRegular() {
		return nil, errors.Join(err, f.Close(), fmt.Errorf("%s was replaced while it was opened", name))
	}
	return f, nil
}

// maxLinks bounds the links that are followed.
const maxLinks = 40

// resolve follows links, and reports whether their target is written in place.
func resolve(name string) (file string, inPlace bool, err error) {
	for at, n := name, 0; n <= maxLinks; n++ {
		info, err := os.Lstat(at)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return at, false, nil
		case err != nil:
			return "", false, err
		case isDescriptor(at):
			return at, true, nil
		case info.Mode()&fs.ModeSymlink == 0:
			return at, !info.Mode().IsRegular(), nil
		case !trusted(info):
			return "", false, fmt.Errorf("%s is a link of another user: name the file that it leads to, or remove it", at)
		}
		to, err := os.Readlink(at)
		if err != nil {
			return "", false, err
		}
		if dir, _ := filepath.Split(at); !filepath.IsAbs(to) {
			to = dir + to // not cleaned: the folder may be a link, too
		}
		at = to
	}
	return "", false, fmt.Errorf("%s leads through too many links", name)
}

// isDescriptor reports whether a name is that of a descriptor of a process. Its file may
// have no name, or be shared with other writers.
func isDescriptor(name string) bool {
	return strings.HasPrefix(name, "/dev/fd/") || strings.HasPrefix(name, "/proc/")
}
