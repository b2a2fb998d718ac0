package wrap

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/wirectl/wirectl/capture/output"
)

// backupExtension is appended to the name of a backup. Further backups are numbered from 2.
const backupExtension = ".before-wirectl"

// maxConfig is the size of the largest configuration, in bytes.
const maxConfig = 64 << 20

// readFile reads a configuration or a backup. To open a pipe could wait without end.
func readFile(name string) ([]byte, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	for _, kind := range []struct {
		is   bool
		name string
	}{
		{info.IsDir(), "a folder"},
		{info.Mode()&fs.ModeNamedPipe != 0, "a named pipe"},
		{info.Mode()&fs.ModeSocket != 0, "a socket"},
		{info.Mode()&fs.ModeDevice != 0, "a device"},
		{!info.Mode().IsRegular(), "not a regular file"},
		{info.Size() > maxConfig, "too large"},
	} {
		if kind.is {
			return nil, fmt.Errorf("%s is %s: want a file of at most %d MiB", name, kind.name, maxConfig>>20)
		}
	}
	return os.ReadFile(name)
}

// replace replaces the configuration in a file, keeping its mode, and returns the name of
// the backup beside it. A backup never overwrites a file.
func replace(name string, before, after []byte) (backup string, err error) {
	info, err := os.Stat(name)
	if err != nil {
		return "", err
	}
	backup, created, err := keep(name+backupExtension, before, info.Mode().Perm())
	if err != nil {
		return "", err
	}
	if err = output.WriteFile(name, after, info.Mode().Perm()); err != nil && created {
		_ = os.Remove(backup)
	}
	return backup, err
}

// keep writes data to a file of that name, or with the first free number, unless one of
// them has the same data.
func keep(first string, data []byte, mode os.FileMode) (name string, created bool, err error) {
	name = first
	for n := 2; ; n++ {
		err := create(name, data, mode)
		if !errors.Is(err, os.ErrExist) {
			return name, err == nil, err
		}
		if old, err := readFile(name); err == nil && bytes.Equal(old, data) {
			return name, false, nil
		}
		name = fmt.Sprintf("%s-%d", first, n)
	}
}

// backups returns the backups of a file that can be read, with their contents.
func backups(name string) map[string][]byte {
	entries, _ := os.ReadDir(filepath.Dir(name))
	found := map[string][]byte{}
	for _, entry := range entries {
		number, ok := strings.CutPrefix(entry.Name(), filepath.Base(name)+backupExtension)
		if n, err := strconv.Atoi(strings.TrimPrefix(number, "-")); !ok || number != "" && (err != nil || number != fmt.Sprintf("-%d", n)) || !entry.Type().IsRegular() {
			continue
		}
		backup := filepath.Join(filepath.Dir(name), entry.Name())
		if text, err := readFile(backup); err == nil {
			found[backup] = text
		}
	}
	return found
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
