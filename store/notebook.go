package store

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"reflect"

	"github.com/wirectl/wirectl/decode/convert"
)

// A Notebook is a file of notes on a session.
type Notebook struct {
	Kept Notes // as they were read
	file string
}

// OpenNotes reads the file of that name, if it exists. A notebook without a name keeps nothing.
func OpenNotes(file string) (*Notebook, error) {
	b := &Notebook{file: file}
	if file == "" {
		return b, nil
	}
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return b, nil
	}
	if err == nil {
		b.Kept, err = ParseNotes(text)
	}
	return b, err
}

// Keep writes the notes if they have changed.
func (b *Notebook) Keep(n Notes) error {
	if b.file == "" || reflect.DeepEqual(n, b.Kept) || n.Empty() && b.Kept.Empty() {
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
