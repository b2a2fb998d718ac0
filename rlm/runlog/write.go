package runlog

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/wirectl/wirectl/internal/jsonscan"
)

// Options are settings of a [Writer]. The zero value has none.
type Options struct {
	// Hide returns a text without its secrets. It is called with every string of a record,
	// except the names of the schema.
	Hide func(string) string
	// NewPrompts leaves out the messages of a prompt that were in the prompt before.
	// Otherwise, a log grows with the square of the number of turns.
	NewPrompts bool
	Now        func() time.Time // nil: time.Now
}

// A file is what a Writer needs of an [os.File].
type file interface {
	WriteAt(b []byte, at int64) (int, error)
	Truncate(size int64) error
	Close() error
}

// A Writer writes the log of one run. One goroutine may use it at a time.
//
// After an error, later records may succeed: the part of a record that was written is
// removed, so the log stays readable.
type Writer struct {
	o    Options
	path string
	file file
	size int64
	last Messages
}

// Create creates a log in a folder, which it creates if it does not exist. Only the owner may
// read the log. Its name consists of the time and a random number.
func Create(dir string, o Options) (*Writer, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	var id [4]byte
	_, _ = rand.Read(id[:]) // it never fails
	path := filepath.Join(dir, "rlm_"+o.Now().UTC().Format("2006-01-02_15-04-05")+"_"+hex.EncodeToString(id[:])+".jsonl")
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	return &Writer{o: o, path: path, file: f}, nil
}

// Path returns the path of the log.
func (w *Writer) Path() string { return w.path }

// Close closes the log.
func (w *Writer) Close() error { return w.file.Close() }

// Metadata writes the first line.
func (w *Writer) Metadata(m Metadata) error {
	m.SchemaVersion, m.Type, m.Timestamp = Version, "metadata", w.timestamp(m.Timestamp)
	return w.write(m)
}

// Iteration writes the line of a turn. It keeps the messages of the prompt, so they must not
// be changed.
func (w *Writer) Iteration(it Iteration) error {
	it.SchemaVersion, it.Type, it.Timestamp = Version, "iteration", w.timestamp(it.Timestamp)
	prompt := it.Prompt
	if w.o.NewPrompts {
		it.Prompt = prompt.After(w.last)
	}
	if err := w.write(it); err != nil {
		return err
	}
	w.last = prompt
	return nil
}

func (w *Writer) timestamp(given string) string {
	if given != "" {
		return given
	}
	return Timestamp(w.o.Now())
}

// Timestamp returns a time for a log.
func Timestamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000000+00:00") }

func (w *Writer) write(record any) error {
	line, err := encode(record, w.o.Hide)
	if err == nil {
		_, err = w.file.WriteAt(line, w.size)
	}
	if err != nil {
		// Without the truncation, the next line would begin inside this one.
		_ = w.file.Truncate(w.size)
		return fmt.Errorf("log of the run: %w", err)
	}
	w.size += int64(len(line))
	return nil
}

// encode returns the line of a record: sorted keys at every depth, and no escapes that JSON
// does not need.
func encode(record any, hide func(string) string) ([]byte, error) {
	b, err := json.Marshal(record)
	if err != nil {
		return nil, err
	}
	var tree any
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	if err := d.Decode(&tree); err != nil {
		return nil, err
	}
	if hide == nil {
		hide = func(s string) string { return s }
	}
	return append(appendJSON(nil, tree, hide, false), '\n'), nil
}

// empty holds what is written for a null where readers expect a list or an object.
var empty = map[string]any{
	"backend_kwargs": map[string]any{}, "environment_kwargs": map[string]any{}, "locals": map[string]any{},
	"model_usage_summaries": map[string]any{}, "code_blocks": []any{}, "rlm_calls": []any{}, "iterations": []any{},
	"prompt": []any{},
}

// foreign are the keys below which names are not those of the schema.
var foreign = []string{"backend_kwargs", "environment_kwargs", "locals", "prompt", "tool_calls"}

// appendJSON appends a part of a record without its secrets. In data, names are hidden too,
// and null stays null.
func appendJSON(line []byte, tree any, hide func(string) string, data bool) []byte {
	switch v := tree.(type) {
	case string:
		return jsonscan.AppendQuote(line, []byte(hide(v)))
	case json.Number:
		return append(line, v...)
	case bool:
		return strconv.AppendBool(line, v)
	case []any:
		line = append(line, '[')
		for i := range v {
			if i > 0 {
				line = append(line, ',')
			}
			line = appendJSON(line, v[i], hide, data)
		}
		return append(line, ']')
	case map[string]any:
		if data {
			hidden := make(map[string]any, len(v))
			for name, value := range v {
				hidden[hide(name)] = value
			}
			v = hidden
		}
		line = append(line, '{')
		for i, name := range slices.Sorted(maps.Keys(v)) {
			if i > 0 {
				line = append(line, ',')
			}
			line = append(jsonscan.AppendQuote(line, []byte(name)), ':')
			value := v[name]
			if value == nil && !data {
				value = empty[name]
			}
			line = appendJSON(line, value, hide, data || slices.Contains(foreign, name))
		}
		return append(line, '}')
	}
	return append(line, "null"...)
}
