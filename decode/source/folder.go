package source

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/source"
	forms "github.com/wirectl/wirectl/source/all"
)

// Seen is what inputs have told that are read together.
type Seen = source.Seen

const (
	maxFiles   = 100_000
	folderHead = 64 << 10 // bytes of a file that are examined
)

// Sessions returns the files of other programs in a folder and those below, in the order of their
// first times, without those that belong to the session of another; also those that may not be opened, so
// that they are not passed over in silence. It returns nil for anything else than a folder, and for a
// recording or a run.
func Sessions(folder string) (names []string) {
	info, err := os.Stat(folder)
	if err != nil || !info.IsDir() || recordingFolder(folder) != nil || isRunFolder(folder) {
		return nil
	}
	type session struct{ name, begins string }
	var found []session
	fsys := os.DirFS(folder)
	_ = fs.WalkDir(fsys, ".", func(name string, entry fs.DirEntry, err error) error { // what cannot be read is left out
		if err != nil || !entry.Type().IsRegular() {
			return nil //nolint:nilerr // see above
		}
		h, err := headOf(fsys, name)
		if errors.Is(err, fs.ErrPermission) {
			found = append(found, session{name: filepath.Join(folder, filepath.FromSlash(name))})
		}
		if form := forms.Detect(h); form != nil && form.Open != nil && (form.Beside == nil || !form.Beside(fsys, name)) {
			found = append(found, session{filepath.Join(folder, filepath.FromSlash(name)), firstTime(h)})
		}
		if len(found) == maxFiles {
			return fs.SkipAll
		}
		return nil
	})
	slices.SortStableFunc(found, func(a, b session) int { return cmp.Compare(a.begins, b.begins) })
	for _, s := range found {
		names = append(names, s.name)
	}
	return names
}

// headOf reads the beginning of a file.
func headOf(fsys fs.FS, name string) (*source.Head, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return &source.Head{}, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, folderHead))
	return &source.Head{Bytes: text, Whole: err == nil && len(text) < folderHead}, err
}

// firstTime returns the first time that a file of lines tells, which sorts as text; "" if it is unknown.
func firstTime(h *source.Head) string {
	for _, o := range forms.Unpacked(h).Objects() {
		for _, key := range []string{"timestamp", "startTime", "startedDateTime"} {
			if text, ok := jsonscan.Unquote(o[key]); ok {
				return string(bytes.TrimSuffix(text, []byte("Z")))
			}
		}
	}
	return ""
}
