package env

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/wirectl/wirectl/internal/fd"
)

const (
	folderPrefix = "wirectl-rlm-"
	lockName     = "lock"
)

// A Folder is a temporary folder. It has a lock file, which is locked until the folder is
// removed or this process has ended.
type Folder struct {
	Path string
	lock *os.File
}

// NewFolder creates a folder in the system's temporary folder.
func NewFolder() (*Folder, error) {
	for range 10 {
		path, err := os.MkdirTemp("", folderPrefix)
		if err != nil {
			return nil, err
		}
		f := &Folder{Path: path}
		if f.lock, err = os.OpenFile(filepath.Join(path, lockName), os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600); err != nil {
			return nil, errors.Join(err, os.RemoveAll(path))
		}
		locked, err := fd.TryLock(f.lock)
		_, gone := os.Lstat(f.lock.Name())
		if gone == nil && (locked || err != nil) { // without locks, nobody removes strays
			return f, nil //nolint:nilerr // see above
		}
		// RemoveStrays of another process was faster.
		if err := f.Remove(); err != nil {
			return nil, err
		}
	}
	return nil, errors.New("the temporary folder loses its files: set TMPDIR to another one")
}

// Remove removes the folder with its files. It may be called more than once.
func (f *Folder) Remove() error {
	err := removeAll(f.Path)
	_ = f.lock.Close()
	if err != nil { // systems such as Windows keep files that are open
		err = removeAll(f.Path)
	}
	return err
}

// RemoveStrays removes the folders whose owners were killed: those with a lock file that nobody
// has locked. It ignores errors, such as those of other users' folders.
func RemoveStrays() {
	folders, _ := filepath.Glob(filepath.Join(os.TempDir(), folderPrefix+"*"))
	for _, path := range folders {
		name := filepath.Join(path, lockName)
		info, err := os.Lstat(path)
		if err != nil || !info.IsDir() {
			continue
		}
		if info, err = os.Lstat(name); err != nil || !info.Mode().IsRegular() {
			continue
		}
		file, err := os.OpenFile(name, os.O_RDWR, 0)
		if err != nil {
			continue
		}
		f := Folder{path, file}
		if free, _ := fd.TryLock(file); free {
			_ = f.Remove()
		} else {
			_ = file.Close()
		}
	}
}

// removeAll removes a folder, even if code has made folders in it read-only.
func removeAll(folder string) error {
	err := os.RemoveAll(folder)
	if err == nil {
		return nil
	}
	_ = filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			return os.Chmod(path, 0o700) //nolint:gosec // a folder that is about to be removed
		}
		return nil
	})
	return os.RemoveAll(folder)
}
