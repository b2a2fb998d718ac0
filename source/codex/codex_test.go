package codex_test

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"testing"
	"testing/iotest"
	"time"

	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/agentlog"
	"github.com/wirectl/wirectl/source"
	"github.com/wirectl/wirectl/source/codex"
)

// Nothing that a file holds, and no cut, makes reading panic, hang or go back in time.
func Fuzz(f *testing.F) {
	files := os.DirFS("../../test/testdata/files/codex/sessions/2026/11/28")
	names, err := fs.Glob(files, "*.jsonl")
	if err != nil || len(names) == 0 {
		f.Fatal(err)
	}
	for _, name := range names {
		text, err := fs.ReadFile(files, name)
		if err != nil {
			f.Fatal(err)
		}
		const few = 6 // lines, so that fuzzing is quick
		lines := bytes.SplitAfter(text, []byte("\n"))
		for at := 0; at < len(lines); at += few {
			f.Add(bytes.Join(lines[at:min(at+few, len(lines))], nil))
		}
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if whole, pieces := read(t, bytes.NewReader(text)), read(t, iotest.HalfReader(bytes.NewReader(text))); !bytes.Equal(whole, pieces) {
			t.Error("what is read depends on the sizes of reads")
		}
	})
}

// read reads a rollout to its end, checks each record, and returns the events.
func read(t *testing.T, in io.Reader) (all []byte) {
	t.Helper()
	r, err := codex.Form.Open(&source.File{Reader: in, Seen: new(source.Seen)})
	if err != nil {
		return nil
	}
	var now time.Time
	for {
		var rec source.Record
		if err := r.Next(&rec); err != nil {
			if cut := (*source.CutError)(nil); err != io.EOF && !errors.As(err, &cut) {
				t.Errorf("%v", err)
			}
			return all
		}
		if rec.Kind != source.Message {
			continue
		}
		var m protocol.Message
		if err := agentlog.Spec.Parse(rec.Data, &m); err != nil || m.Faults&protocol.UnknownKind != 0 {
			t.Fatalf("%s: %v", rec.Data, err)
		}
		if rec.Time.Before(now) {
			t.Fatalf("%s: the time goes back", rec.Data)
		}
		now, all = rec.Time, append(all, rec.Data...)
	}
}
