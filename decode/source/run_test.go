package source

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/capture/history"
	"github.com/wirectl/wirectl/capture/pcapng"
	"github.com/wirectl/wirectl/capture/tap"
	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/frame"
)

func check(t testing.TB, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// runFolder makes the folder of a run that has ended.
func runFolder(t testing.TB) string {
	folder := t.TempDir()
	text, err := json.Marshal(history.Run{Version: 1, ID: "3f9a1c", Agent: "claude", Started: second(0), Ended: second(100)})
	check(t, err, os.WriteFile(filepath.Join(folder, history.RunFile), text, 0o600))
	return folder
}

var base = time.Now().Add(-time.Hour).Truncate(time.Second).UTC()

func second(n int) time.Time { return base.Add(time.Duration(n) * time.Second) }

// captured returns a capture with a frame at each of these seconds, over connections that take turns.
func captured(t testing.TB, conns int, seconds ...int) []byte {
	var b bytes.Buffer
	w, err := pcapng.NewWriter(&b, capture.Session{Created: second(0), Protocol: "mcp", Framing: "line", Controller: "claude"}, nil)
	check(t, err)
	for i, n := range seconds {
		raw := fmt.Appendf(nil, `{"jsonrpc":"2.0","method":"m%d"}`+"\n", n)
		rec := capture.Record{Seq: int64(i + 1), Time: second(n), Protocol: "mcp", Framing: "line", Frame: frame.Frame{Raw: raw, End: len(raw) - 1, Conn: 1 + i%conns, Dir: frame.C2U}}
		check(t, w.Write(&rec))
	}
	return b.Bytes()
}

// told writes what a run reads as a line for each record.
func told(rec *capture.Record) string {
	text := string(rec.Text)
	if n, ok := tap.ParseNote(rec); ok {
		text = n.Tap
	}
	if rec.Kind == capture.Frame {
		text = rec.Protocol + " " + string(rec.Payload())
	}
	return strings.TrimSpace(fmt.Sprintf("%d %d %s %s", rec.Seq, rec.Conn, rec.Kind, text))
}

func readRun(t testing.TB, folder string) (lines []string, err error) {
	t.Helper()
	r, err := OpenRun(t.Context(), folder, decode.Config{}, false)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	for {
		var rec capture.Record
		if err := r.Next(&rec); err != nil {
			if err == io.EOF {
				err = nil
			}
			return lines, err
		}
		lines = append(lines, told(&rec))
	}
}

func wants(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// Captures and events are merged by time, and each connection of a file is one of the run. Lines that are
// no events are counted.
func TestRunIsMerged(t *testing.T) {
	folder := runFolder(t)
	write := func(name string, data []byte) {
		check(t, os.WriteFile(filepath.Join(folder, name), data, 0o600))
	}
	write("mcp-lab-12.pcapng", captured(t, 1, 2, 5))
	write("model.pcapng", captured(t, 2, 1, 3, 4))
	write("README", []byte("hello"))
	check(t, os.Mkdir(filepath.Join(folder, "empty"), 0o700))
	start := fmt.Sprintf(`{"event":"start","time":%q,"pid":7}`, second(2).Add(time.Millisecond).Format(time.RFC3339Nano))
	exit := fmt.Sprintf(`{"event":"exit","time":%q,"pid":7,"status":0}`, second(6).Format(time.RFC3339Nano))
	write("events.ndjson", []byte(exit+"\nnothing\n{}\n"+strings.Repeat("x", 3*history.MaxEvent)+"\n"+start+"\n")) // told late
	lines, err := readRun(t, folder)
	check(t, err)
	wants(t, lines,
		"0 1 opened model: claude → model",
		`1 1 frame mcp {"jsonrpc":"2.0","method":"m1"}`,
		"0 2 opened lab: claude → lab",
		`2 2 frame mcp {"jsonrpc":"2.0","method":"m2"}`,
		"0 3 opened processes: claude",
		"3 3 frame process "+start,
		"0 4 opened model: claude → model",
		`4 4 frame mcp {"jsonrpc":"2.0","method":"m3"}`,
		`5 1 frame mcp {"jsonrpc":"2.0","method":"m4"}`,
		`6 2 frame mcp {"jsonrpc":"2.0","method":"m5"}`,
		"7 3 frame process "+exit,
		"0 0 note events.ndjson: 3 lines skipped: no events",
	)
}

// What a capture of one connection says of it, without a number, is of its wire.
func TestRunWithUnnumberedConnections(t *testing.T) {
	folder := runFolder(t)
	for i, name := range []string{"mcp-a-1.pcapng", "mcp-b-2.pcapng"} {
		var b bytes.Buffer
		w, err := pcapng.NewWriter(&b, capture.Session{Controller: "claude"}, nil)
		check(t, err)
		for n, kind := range []capture.Kind{capture.Stderr, capture.HalfClosed, capture.Exited, capture.Note} {
			rec := capture.Record{Kind: kind, Time: second(10*i + n)}
			if kind == capture.Stderr || kind == capture.Note {
				rec.Text = []byte("x")
			}
			check(t, w.Write(&rec))
		}
		check(t, os.WriteFile(filepath.Join(folder, name), b.Bytes(), 0o600))
	}
	lines, err := readRun(t, folder)
	check(t, err)
	wants(t, lines,
		"0 1 opened a: claude → a", "0 1 stderr x", "0 1 half-closed", "0 1 exited", "0 0 note x",
		"0 2 opened b: claude → b", "0 2 stderr x", "0 2 half-closed", "0 2 exited", "0 0 note x",
	)
}

// A capture that is cut or damaged is read up to there, and the others to their ends.
func TestRunWithCutCapture(t *testing.T) {
	folder := runFolder(t)
	whole := captured(t, 1, 1, 3)
	check(t,
		os.WriteFile(filepath.Join(folder, "mcp-a-1.pcapng"), whole[:len(whole)-5], 0o600),
		os.WriteFile(filepath.Join(folder, "mcp-b-2.pcapng"), captured(t, 1, 2, 4), 0o600),
		os.WriteFile(filepath.Join(folder, "mcp-c-3.pcapng"), nil, 0o600),
	)
	lines, err := readRun(t, folder)
	check(t, err)
	if len(lines) != 8 || !strings.HasSuffix(lines[0], "mcp-c-3.pcapng: byte 0: the capture is cut: it is empty") {
		t.Errorf("%s", strings.Join(lines, "\n"))
	}
	if at := slices.Index(lines, "0 1 note lost"); at < 0 || !strings.Contains(lines[at-1], "mcp-a-1.pcapng: byte") {
		t.Errorf("%s", strings.Join(lines, "\n"))
	}
	if last := lines[len(lines)-1]; !strings.HasSuffix(last, `"m4"}`) {
		t.Errorf("the end is %s", last)
	}
	check(t, os.WriteFile(filepath.Join(folder, "mcp-d-4.pcapng"), []byte("no capture"), 0o600))
	if lines, err = readRun(t, folder); len(lines) != 8 || !errors.Is(err, capture.ErrForeign) || !strings.HasPrefix(err.Error(), "mcp-d-4.pcapng: ") {
		t.Errorf("%d lines, %v", len(lines), err)
	}
}

// Connections are named by their wires.
func TestRunNames(t *testing.T) {
	r := &Run{Run: history.Run{Agent: "claude"}}
	for _, tt := range [][3]string{
		{"model.pcapng", "https://api.anthropic.com:443", "model: claude → api.anthropic.com"},
		{"model.pcapng", "http://127.0.0.1:8080", "model: claude → 127.0.0.1:8080"},
		{"model.pcapng", "web: claude → mcp.example.com", "web: claude → mcp.example.com"},
		{"model", "", "model: claude → model"},
		{"mcp-lab-4711.pcapng", "node lab.js", "lab: claude → lab"},
		{"mcp-my-lab", "", "my-lab: claude → my-lab"},
		{"agent.pcapng", "editor → claude", "agent: editor → claude"},
		{"events.ndjson", "", "processes: claude"},
	} {
		if got := r.nameOf(&part{wire: wireOf(tt[0])}, tt[1]); got != tt[2] {
			t.Errorf("%s of %s is named %s, want %s", tt[1], tt[0], got, tt[2])
		}
	}
}

// While a run goes on, its captures grow, also by half a record, and others appear.
func TestRunIsFollowed(t *testing.T) {
	state := t.TempDir()
	w, err := history.BeginRun(func(name string) string { return map[string]string{"XDG_STATE_HOME": state}[name] }, history.Run{Agent: "codex", Started: second(0)})
	check(t, err)
	r, err := OpenRun(t.Context(), w.Folder(), decode.Config{}, true)
	check(t, err)
	defer r.Close()
	file := func(name string) *os.File {
		f, err := os.OpenFile(filepath.Join(w.Folder(), name), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
		check(t, err)
		return f
	}
	lab := captured(t, 1, 1, 4, 6)
	var got []string
	one := 1
	steps := []func(){
		func() { f := file("mcp-lab-1.pcapng"); _, err := f.Write(lab[:10]); check(t, err, f.Close()) },
		func() { // a record and a half
			f := file("mcp-lab-1.pcapng")
			_, err := f.Write(lab[10 : len(captured(t, 1, 1))+20])
			check(t, err, f.Close())
		},
		func() {
			check(t, history.AppendEvent(w.Folder(), history.Event{Event: "start", Time: second(2), PID: 9}))
		},
		func() {
			f := file("model.pcapng")
			_, err := f.Write(captured(t, 1, 3, 5))
			check(t, err, f.Close())
			f = file("mcp-lab-1.pcapng")
			_, err = f.Write(lab[len(captured(t, 1, 1))+20:])
			check(t, err, f.Close())
		},
		func() {
			got = append(got, "end")
			check(t, history.AppendEvent(w.Folder(), history.Event{Event: "exit", Time: second(7), PID: 9, Status: &one}), w.End(0, nil))
		},
	}
	r.wait = func() bool {
		if len(steps) == 0 {
			t.Fatal("it waits after the end")
		}
		steps[0]()
		steps = steps[1:]
		return true
	}
	for {
		var rec capture.Record
		if err := r.Next(&rec); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if got = append(got, told(&rec)); rec.Kind == capture.Frame && rec.Protocol == "process" {
			got[len(got)-1] = fmt.Sprintf("%d %d event", rec.Seq, rec.Conn)
		}
	}
	wants(t, got,
		"0 1 opened lab: claude → lab",
		`1 1 frame mcp {"jsonrpc":"2.0","method":"m1"}`,
		"0 2 opened processes: codex",
		"2 2 event",
		"0 3 opened model: claude → model",
		`3 3 frame mcp {"jsonrpc":"2.0","method":"m3"}`,
		`4 1 frame mcp {"jsonrpc":"2.0","method":"m4"}`,
		`5 3 frame mcp {"jsonrpc":"2.0","method":"m5"}`,
		`6 1 frame mcp {"jsonrpc":"2.0","method":"m6"}`,
		"end",
		"7 2 event",
	)
	if r.Wire(1) != "lab" || r.Wire(3) != "model" || r.Wire(4) != "" {
		t.Errorf("the wires are %s and %s", r.Wire(1), r.Wire(3))
	}
}

// A record that has just been made waits, since another process may write an earlier one; and nothing is
// read of a run that has ended but what is there.
func TestRunSettles(t *testing.T) {
	state := t.TempDir()
	w, err := history.BeginRun(func(name string) string { return map[string]string{"XDG_STATE_HOME": state}[name] }, history.Run{Agent: "codex"})
	check(t, err)
	check(t, history.AppendEvent(w.Folder(), history.Event{Event: "start", Time: time.Now().Add(time.Hour), PID: 9}))
	r, err := OpenRun(t.Context(), w.Folder(), decode.Config{}, true)
	check(t, err)
	defer r.Close()
	if r.Buffered() {
		t.Error("a new record does not wait")
	}
	waits := 0
	r.wait = func() bool { waits++; return waits < 3 }
	var rec capture.Record
	for range 2 {
		check(t, r.Next(&rec)) // its connection, and the event itself
	}
	if rec.Kind != capture.Frame || waits != 1 {
		t.Errorf("after %d rounds: %s", waits, told(&rec))
	}
	if err := r.Next(&rec); err != io.EOF || waits != 3 {
		t.Errorf("at the end, after %d rounds: %v", waits, err)
	}
	lines, err := readRun(t, w.Folder()) // now, without waiting
	check(t, err)
	wants(t, lines[2:], "0 0 note the run goes on: --follow waits for more", "0 0 note unended")
	check(t, w.End(0, nil))
}

// The folder of a run may come from anybody.
func TestHostileRuns(t *testing.T) {
	for _, text := range []string{"", "{", "[]", "null", `{"run":2}`, `{"run":1,"started":"never"}`, strings.Repeat(" ", 2<<20)} {
		folder := t.TempDir()
		check(t, os.WriteFile(filepath.Join(folder, history.RunFile), []byte(text), 0o600))
		if _, err := readRun(t, folder); err == nil {
			t.Errorf("%.30q was read", text)
		}
	}
	if runtime.GOOS == "windows" {
		return
	}
	folder, outside := runFolder(t), t.TempDir()
	check(t,
		os.WriteFile(filepath.Join(outside, "c2s.bin"), []byte("secret\n"), 0o600),
		os.WriteFile(filepath.Join(outside, "x.pcapng"), captured(t, 1, 1), 0o600),
		os.Symlink(filepath.Join(outside, "x.pcapng"), filepath.Join(folder, "mcp-a-1.pcapng")),
		os.Symlink(outside, filepath.Join(folder, "mcp-b")),
		os.Mkdir(filepath.Join(folder, "mcp-c"), 0o700),
		os.Symlink(filepath.Join(outside, "c2s.bin"), filepath.Join(folder, "mcp-c", "c2s.bin")),
		os.Mkdir(filepath.Join(folder, "events.ndjson"), 0o700),
		exec.Command("mkfifo", filepath.Join(folder, "mcp-d-2.pcapng")).Run(),
		os.Mkdir(filepath.Join(folder, "mcp-e"), 0o700),
		exec.Command("mkfifo", filepath.Join(folder, "mcp-e", "s2c.bin")).Run(),
		os.WriteFile(filepath.Join(folder, "mcp-f-3.pcapng"), captured(t, 1, 1), 0o600),
	)
	lines, err := readRun(t, folder)
	if err == nil || len(lines) == 0 || !strings.HasSuffix(lines[len(lines)-1], `"m1"}`) || strings.Contains(fmt.Sprint(lines, err), "secret") {
		t.Errorf("%s\n%v", strings.Join(lines, "\n"), err)
	}
	link := filepath.Join(t.TempDir(), "run")
	check(t, os.Mkdir(link, 0o700), os.Symlink(filepath.Join(folder, history.RunFile), filepath.Join(link, history.RunFile)))
	if isRunFolder(link) {
		t.Error("a link to a run was followed")
	}
}

// Only so many captures are read, those of the run itself first, and the rest is counted.
func TestRunOfManyCaptures(t *testing.T) {
	folder := runFolder(t)
	data := captured(t, 1, 1)
	for i := range 10_000 {
		check(t, os.WriteFile(filepath.Join(folder, fmt.Sprintf("mcp-a-%d.pcapng", i)), data, 0o600))
	}
	check(t, os.WriteFile(filepath.Join(folder, "model.pcapng"), data, 0o600))
	lines, err := readRun(t, folder)
	check(t, err)
	if len(lines) != 1+2*maxParts || lines[0] != fmt.Sprintf("0 0 note %d more captures of this run are not read: %d are the most", 10_001-maxParts, maxParts) || !strings.Contains(lines[1], "model") {
		t.Errorf("%d lines: %s", len(lines), lines[:2])
	}
}

func FuzzEvents(f *testing.F) {
	f.Add([]byte(`{"event":"start","time":"2026-11-28T03:34:40Z","pid":7,"what":"shell","command":"ls"}` + "\n{}\n"))
	f.Add([]byte(`{"event":"exit","time":"2026-11-28T03:34:40Z","pid":7}`))
	f.Add(bytes.Repeat([]byte("x"), 2*history.MaxEvent))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := eventsOf(bytes.NewReader(text))
		check(t, err)
		var rec capture.Record
		events := 0
		for err = r.Next(&rec); err == nil; err = r.Next(&rec) {
			if rec.Kind == capture.Frame {
				events++
			}
		}
		if err != io.EOF && !errors.Is(err, capture.ErrCut) || events > bytes.Count(text, []byte("\n")) {
			t.Errorf("%d events in %q: %v", events, text, err)
		}
	})
}

// Several sessions are one in the order of time, with the short names of their files, whatever their
// clocks say. A cut one does not end the others.
func TestTogether(t *testing.T) {
	folder := t.TempDir()
	a, b, cut := filepath.Join(folder, "model.pcapng"), filepath.Join(folder, "mcp-lab-12.pcapng"), filepath.Join(folder, "cut.pcapng")
	whole := captured(t, 1, -400*24*3600, 1)
	check(t, os.WriteFile(a, captured(t, 2, 1, 3, 4), 0o600), os.WriteFile(b, captured(t, 1, 2, 5), 0o600), os.WriteFile(cut, whole[:len(whole)-5], 0o600))
	s, err := (&Opener{}).Together(t.Context(), []string{a, b, cut}, decode.Config{}, func(string) bool { return false })
	check(t, err)
	defer s.Close()
	var lines []string
	var rec capture.Record
	for err = s.Capture.Next(&rec); err == nil; err = s.Capture.Next(&rec) {
		lines = append(lines, told(&rec))
	}
	if err != io.EOF || !s.Joins || s.OfRun {
		t.Errorf("%v, %+v", err, s.Input)
	}
	wants(t, lines,
		"0 1 opened cut: claude → cut",
		`1 1 frame mcp {"jsonrpc":"2.0","method":"m-34560000"}`,
		"0 0 note "+cut+": byte 428: the capture is cut: the last 171 bytes are not a whole block",
		"0 1 note lost",
		"0 2 opened model: claude → model",
		`2 2 frame mcp {"jsonrpc":"2.0","method":"m1"}`,
		"0 3 opened lab: claude → lab",
		`3 3 frame mcp {"jsonrpc":"2.0","method":"m2"}`,
		"0 4 opened model: claude → model",
		`4 4 frame mcp {"jsonrpc":"2.0","method":"m3"}`,
		`5 2 frame mcp {"jsonrpc":"2.0","method":"m4"}`,
		`6 3 frame mcp {"jsonrpc":"2.0","method":"m5"}`,
	)
}

// A session that is written meanwhile does not hold up the others, and ends with its reader.
func TestTogetherWithOneThatGrows(t *testing.T) {
	grows, other := filepath.Join(t.TempDir(), "lab.pcapng"), filepath.Join(t.TempDir(), "web.pcapng")
	whole := captured(t, 1, 1, 4)
	head := len(captured(t, 1, 1))
	check(t, os.WriteFile(grows, whole[:head], 0o600), os.WriteFile(other, captured(t, 1, 2, 5), 0o600))
	ctx, stop := context.WithCancel(t.Context())
	s, err := (&Opener{}).Together(ctx, []string{grows, other}, decode.Config{}, func(name string) bool { return name == grows })
	check(t, err)
	defer s.Close()
	next := func() string {
		var rec capture.Record
		if err := s.Capture.Next(&rec); err != nil {
			return err.Error()
		}
		return told(&rec)
	}
	wants(t, []string{next(), next(), next(), next(), next()},
		"0 1 opened lab: claude → lab", `1 1 frame mcp {"jsonrpc":"2.0","method":"m1"}`,
		"0 2 opened web: claude → web", `2 2 frame mcp {"jsonrpc":"2.0","method":"m2"}`, `3 2 frame mcp {"jsonrpc":"2.0","method":"m5"}`)
	check(t, os.WriteFile(grows, whole, 0o600))
	wants(t, []string{next()}, `4 1 frame mcp {"jsonrpc":"2.0","method":"m4"}`)
	stop()
	wants(t, []string{next()}, "EOF")
}

func TestWireNames(t *testing.T) {
	for _, tt := range [][2]string{
		{"run/model run/mcp-lab-4711.pcapng fixture:mcp-cancel -", "model lab fixture:mcp-cancel standard input"},
		{"a/x.pcapng b/x.pcapng", "a/x.pcapng b/x.pcapng"},
		{"tap:server run:3f9a1c", "tap:server run:3f9a1c"},
	} {
		if got := strings.Join(WireNames(strings.Fields(tt[0])), " "); got != tt[1] {
			t.Errorf("%s: %s", tt[0], got)
		}
	}
}
