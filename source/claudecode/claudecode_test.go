package claudecode_test

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"
	"testing"
	"testing/fstest"
	"testing/iotest"
	"time"

	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/agentlog"
	"github.com/wirectl/wirectl/source"
	"github.com/wirectl/wirectl/source/claudecode"
)

const folder = "../../test/testdata/files/claude-code/projects/-home-user-project"

// read reads a session to its end, and checks each record.
func read(t *testing.T, f *source.File) (kinds []string) {
	t.Helper()
	f.Seen, f.Notice = new(source.Seen), func(string) {}
	r, err := claudecode.Form.Open(f)
	if err != nil {
		return nil
	}
	defer r.(io.Closer).Close()
	var now time.Time
	for {
		var rec source.Record
		if err := r.Next(&rec); err != nil {
			if rec.Data != nil {
				t.Error("an error has a record")
			}
			if cut := (*source.CutError)(nil); err != io.EOF && !errors.As(err, &cut) {
				t.Errorf("%v", err)
			}
			return kinds
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
		now = rec.Time
		kinds = append(kinds, string(m.Kind))
	}
}

// Nothing that a file holds, and no cut, makes reading panic, hang or go back in time.
func Fuzz(f *testing.F) {
	names, err := fs.Glob(os.DirFS(folder), "*.jsonl")
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range names {
		text, err := os.ReadFile(folder + "/" + name)
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
		whole := read(t, &source.File{Reader: bytes.NewReader(text)})
		pieces := read(t, &source.File{Reader: iotest.HalfReader(bytes.NewReader(text))})
		if strings.Join(whole, " ") != strings.Join(pieces, " ") {
			t.Error("what is read depends on the sizes of reads")
		}
	})
}

// A sub-agent that a sub-agent has begun, records whose parents form a circle, and one whose file is not
// there do no harm. Only files of the session are opened.
func TestSubagents(t *testing.T) {
	line := func(kind, uuid, parent, agent, at, content string) string {
		return `{"type":"` + kind + `","uuid":"` + uuid + `","parentUuid":"` + parent + `","agentId":"` + agent + `","sessionId":"s","version":"2",` +
			`"timestamp":"2026-01-01T00:00:` + at + `Z","message":{"id":"` + uuid + `","role":"` + kind + `","model":"m","stop_reason":"tool_use","content":` + content + `}}` + "\n"
	}
	call := func(id string) string { return `[{"type":"tool_use","id":"` + id + `","name":"Agent","input":{}}]` }
	main := line("user", "1", "2", "", "01", `"go"`) + line("assistant", "2", "1", "", "02", call("t1")) +
		line("user", "3", "3", "", "09", `[{"type":"tool_result","tool_use_id":"t1","content":"ok"}]`)
	fsys := fstest.MapFS{
		"s/subagents/agent-a.jsonl":     {Data: []byte(line("user", "4", "", "a", "03", `"one"`) + line("assistant", "5", "", "a", "04", call("t2")))},
		"s/subagents/agent-a.meta.json": {Data: []byte(`{"toolUseId":"t1","agentType":"x"}`)},
		"s/subagents/agent-b.jsonl":     {Data: []byte(line("user", "6", "", "b", "05", `"two"`))},
		"s/subagents/agent-b.meta.json": {Data: []byte(`{"toolUseId":"t2"}`)},
		"s/subagents/agent-c.jsonl":     {Data: nil},
		"s/subagents/agent-d.jsonl":     {Mode: fs.ModeSymlink, Data: []byte("../../other")},
	}
	got := strings.Join(read(t, &source.File{Reader: strings.NewReader(main), Folder: fsys, Base: "s.jsonl"}), " ")
	if want := "session prompt answer call prompt answer call prompt result"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// A session that goes on tells the end of a turn as soon as nothing more is there.
func TestLive(t *testing.T) {
	text, err := os.ReadFile(folder + "/b1cae340-9a70-4116-bd8d-0be86a4badf6.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.SplitAfter(text, []byte("\n"))
	first, rest := bytes.Join(lines[:7], nil), bytes.Join(lines[7:], nil)
	in := &pausing{pieces: [][]byte{first, nil, rest[:100], nil, rest[100:]}}
	r, err := claudecode.Form.Open(&source.File{Reader: in, Live: true, Seen: new(source.Seen)})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for {
		var rec source.Record
		if err := r.Next(&rec); err != nil {
			break
		}
		switch rec.Kind {
		case source.Idle:
			got = append(got, "idle")
		case source.Message:
			var m protocol.Message
			_ = agentlog.Spec.Parse(rec.Data, &m)
			got = append(got, string(m.Kind))
		}
	}
	if got := strings.Join(got[:8], " "); got != "session prompt answer end idle idle prompt answer" {
		t.Error(got)
	}
}

// A pausing reader returns nothing between its pieces.
type pausing struct{ pieces [][]byte }

func (p *pausing) Read(b []byte) (int, error) {
	if len(p.pieces) == 0 {
		return 0, io.EOF
	}
	n := copy(b, p.pieces[0])
	if p.pieces[0] = p.pieces[0][n:]; len(p.pieces[0]) == 0 {
		p.pieces = p.pieces[1:]
	}
	return n, nil
}

// A line without end takes no more memory than the limit of lines.
func TestLongLine(t *testing.T) {
	if testing.Short() {
		t.Skip("it reads 100 MB")
	}
	long := io.MultiReader(strings.NewReader(`{"type":"user","uuid":"u","x":"`), io.LimitReader(endless{}, 100<<20), strings.NewReader("\"}\n"+
		`{"type":"user","uuid":"v","sessionId":"s","message":{"role":"user","content":"hi"},"timestamp":"2026-01-01T00:00:01Z"}`))
	if got := strings.Join(read(t, &source.File{Reader: long}), " "); got != "session prompt" {
		t.Error(got)
	}
}

type endless struct{}

func (endless) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = 'a'
	}
	return len(b), nil
}
