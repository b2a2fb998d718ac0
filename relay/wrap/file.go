package wrap

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/wirectl/wirectl/capture/output"
)

// backupExtension is appended to the name of a backup. Further backups are numbered from 2.
const backupExtension = ".before-wirectl"

// Replace replaces the configuration in a file, keeping its mode, and returns the name of
// the backup beside it. A backup never overwrites a file.
func Replace(name string, before, after []byte) (backup string, err error) {
	if name, err = filepath.EvalSymlinks(name); err != nil {
		return "", err
	}
	info, err := os.Stat(name)
	if err != nil {
		return "", err
	}
	if backup, err = keep(name+backupExtension, before, info.Mode().Perm()); err != nil {
		return "", err
	}
	return backup, output.WriteFile(name, after, info.Mode().Perm())
}

// keep writes data to a file of that name, or with the first free number, unless one of
// them has the same data.
func keep(first string, data []byte, mode os.FileMode) (name string, err error) {
	name = first
	for n := 2; ; n++ {
		err := create(name, data, mode)
		if !errors.Is(err, os.ErrExist) {
			return name, err
		}
		if old, err := os.ReadFile(name); err == nil && bytes.Equal(old, data) {
			return name, nil
		}
		name = fmt.Sprintf("%s-%d", first, n)
	}
}

// create writes a new file.
func create(name string, data []byte, mode os.FileMode) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Close()); err != nil {
		_ = os.Remove(name)
	}
	return err
}

// WriteDiff writes the changed lines of a file.
func WriteDiff(w io.Writer, name string, before, after []byte) error {
	old, changed := bytes.SplitAfter(before, []byte("\n")), bytes.SplitAfter(after, []byte("\n"))
	first := 0
	for first < min(len(old), len(changed)) && bytes.Equal(old[first], changed[first]) {
		first++
	}
	last := 0
	for last < min(len(old), len(changed))-first && bytes.Equal(old[len(old)-1-last], changed[len(changed)-1-last]) {
		last++
	}
	if _, err := fmt.Fprintf(w, "--- %s\n+++ %s\n@@ line %d @@\n", name, name, first+1); err != nil {
		return err
	}
	for _, part := range []struct {
		sign  string
		lines [][]byte
	}{{"-", old[first : len(old)-last]}, {"+", changed[first : len(changed)-last]}} {
		for _, line := range part.lines {
			if _, err := fmt.Fprintf(w, "%s%s\n", part.sign, bytes.TrimRight(line, "\r\n")); err != nil {
				return err
			}
		}
	}
	return nil
}
