package commands

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"

	"github.com/wirectl/wirectl/decode/convert"
	"github.com/wirectl/wirectl/store"
)

// A notebook is the file beside a session that has what the user made of it.
type notebook struct {
	file string // "" keeps nothing
	kept store.Notes
}

// openNotes reads the notes of a session that is a file or a folder. Any other
// is gone when it has ended, and has none.
func openNotes(name string) (*notebook, error) {
	if isTap(name) || name == "-" || strings.HasPrefix(name, "fixture:") {
		return &notebook{}, nil
	}
	b := &notebook{file: filepath.Clean(name) + ".notes.json"}
	text, err := os.ReadFile(b.file)
	if errors.Is(err, fs.ErrNotExist) {
		return b, nil
	}
	if err == nil {
		b.kept, err = store.ParseNotes(text)
	}
	return b, located(b.file, nil, err)
}

// keep writes the notes, if they are others than before.
func (b *notebook) keep(n store.Notes) error {
	if b.file == "" || reflect.DeepEqual(n, b.kept) || n.Empty() && b.kept.Empty() {
		return nil
	}
	if n.Empty() {
		return os.Remove(b.file)
	}
	text, err := json.MarshalIndent(n, "", "  ")
	if err != nil {
		return err
	}
	return convert.WriteFile(b.file, func(w io.Writer) error {
		_, err := w.Write(append(text, '\n'))
		return err
	})
}
