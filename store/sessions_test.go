package store_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wirectl/wirectl/capture/history"
	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/decode/source"
	"github.com/wirectl/wirectl/decode/track"
	"github.com/wirectl/wirectl/internal/prices"
	"github.com/wirectl/wirectl/protocol"
	callslog "github.com/wirectl/wirectl/session/calls"
	"github.com/wirectl/wirectl/store"
)

const agentFiles = "../test/testdata/files"

// agentHome returns the environment of a user with the transcripts of agents.
func agentHome(t *testing.T) (home string, getenv func(string) string) {
	t.Helper()
	home = t.TempDir()
	for agent, from := range map[string]string{"claude": "claude-code", "codex": "codex", "gemini": "gemini", "qwen": "qwen", "copilot": "copilot"} {
		if err := os.CopyFS(filepath.Join(home, "."+agent), os.DirFS(filepath.Join(agentFiles, from))); err != nil {
			t.Fatal(err)
		}
	}
	return home, func(name string) string {
		return map[string]string{"HOME": home, "XDG_STATE_HOME": filepath.Join(home, "state")}[name]
	}
}

var agentPrices = func() prices.Book {
	cached := 1.5
	return prices.Book{User: prices.List{"claude-*": {Input: 3, Cached: &cached, Output: 15}, "mock*": {Input: 1, Output: 2}}}
}()

// countCalls counts the calls of a session as wirectl calls lists them.
func countCalls(t *testing.T, o *source.Opener, name string) (n, failures int64, u protocol.Usage) {
	t.Helper()
	log := &callslog.Log{Show: func(c *callslog.Call) {
		if n++; c.Outcome.Failed() {
			failures++
		}
		if c.Operation == 0 { // it has the tokens of its sub-agents, too
			u = u.Plus(c.Usage)
		}
	}}
	cfg := decode.Config{Workers: 1, Resync: true, Prices: agentPrices}
	ts := &track.Trackers{OneWay: true, Watcher: log}
	var f *track.Follower
	cfg.Event = nil
	s, err := o.Session(t.Context(), name, cfg, false)
	if err != nil {
		return
	}
	defer s.Close()
	f = track.NewFollower(ts, s.Input, cfg)
	cfg.Event = f.Event
	if _, err := decode.Run(t.Context(), s.Input, io.Discard, cfg, func() decode.View { return f.View }); err != nil {
		f.Release()
	} else {
		f.End()
	}
	log.Finish(s.Capture.Session().Created)
	return n, failures, u
}

// The list counts what wirectl calls counts, of whole files and of each that ends early.
func TestKeptCounts(t *testing.T) {
	home, getenv := agentHome(t)
	var files []string
	_ = fs.WalkDir(os.DirFS(home), ".", func(name string, e fs.DirEntry, _ error) error {
		if strings.HasSuffix(name, ".jsonl") && !strings.Contains(name, "subagents") && e.Type().IsRegular() {
			files = append(files, filepath.Join(home, filepath.FromSlash(name)))
		}
		return nil
	})
	if len(files) != 12 {
		t.Fatalf("there are %d transcripts", len(files))
	}
	whole := map[string][][]byte{}
	most := 0
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		whole[name] = bytes.SplitAfter(bytes.TrimSuffix(text, []byte("\n")), []byte("\n"))
		most = max(most, len(whole[name]))
	}
	o := &source.Opener{Getenv: getenv}
	q := store.KeptQuery{Prices: agentPrices, Fresh: true, Unread: func(err error) { t.Error(err) }}
	for n := most; n > 0; n -= 5 {
		for _, name := range files {
			lines := whole[name]
			if err := os.WriteFile(name, bytes.Join(lines[:min(n, len(lines))], nil), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		list, err := store.ListKept(t.Context(), getenv, nil, q)
		if err != nil || len(list) < 2 {
			t.Fatalf("%d lines: %v, %v", n, list, err)
		}
		for _, k := range list {
			calls, failures, u := countCalls(t, o, k.Capture)
			if k.Calls != calls || k.Failures != failures || k.Usage.Input != u.Input || k.Usage.Cached != u.Cached || k.Usage.Output != u.Output {
				t.Errorf("%d lines of %s: %d calls, %d failed, %+v; want %d, %d, %+v", n, k.ID, k.Calls, k.Failures, k.Usage, calls, failures, u)
			}
		}
	}
}

// The prompt is the user's, masked, whatever the program has written before it.
func TestKeptPrompt(t *testing.T) {
	home, getenv := agentHome(t)
	name := filepath.Join(home, ".claude", "projects", "p", "0c0c0c0c-1.jsonl")
	line := func(uuid, more, content string) string {
		return `{"type":"user","uuid":"` + uuid + `","parentUuid":null,"sessionId":"0c0c0c0c-1","version":"2","cwd":"/w",` + more +
			`"timestamp":"2026-01-01T00:00:00Z","message":{"role":"user","content":"` + content + `"}}` + "\n"
	}
	secret := "sk-" + strings.Repeat("x", 24)
	text := `{"type":"summary","summary":"never shown"}` + "\n" + line("1", `"isMeta":true,`, "Caveat: of the program") + line("2", "", `<system-reminder>remember</system-reminder>`) +
		line("3", "", `use `+secret+`\nand \u001b[31mgo`)
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	list, err := store.ListKept(t.Context(), getenv, nil, store.KeptQuery{Project: "/w"})
	if err != nil || len(list) != 1 || list[0].Prompt != "use [redacted] and \x1b[31mgo" || list[0].ID != "claude:0c0c0c0c" {
		t.Errorf("%+v, %v", list, err)
	}
}

// The monitor follows a transcript while it is written, and those of sub-agents that begin meanwhile or go on
// when the session itself waits for them. A line that is not complete yet waits.
func TestFollowTranscript(t *testing.T) {
	home, getenv := agentHome(t)
	folder := filepath.Join(home, ".claude", "projects", "-home-user-project")
	const session = "adf0d08a-3370-4c9c-810a-3410263a0aa6"
	child := filepath.Join(folder, session, "subagents", "agent-a5106edf2c425c8d7.jsonl")
	main := filepath.Join(folder, session+".jsonl")
	read := func(name string) []string {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return strings.SplitAfter(string(text), "\n")
	}
	lines, childLines := read(main), read(child)
	task := slices.IndexFunc(lines, func(line string) bool { return strings.Contains(line, `"name":"Agent"`) }) + 1
	at := slices.IndexFunc(childLines, func(line string) bool { return strings.Contains(line, `"type":"assistant"`) })
	cut := len(childLines[at]) / 2
	write := func(name, text string) {
		f, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND, 0)
		if err == nil {
			_, err = f.WriteString(text)
			f.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{main, child} {
		if err := os.Truncate(name, 0); err != nil {
			t.Fatal(err)
		}
	}
	write(main, strings.Join(lines[:task], ""))

	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		s := store.New(store.Options{})
		defer s.Close()
		cfg := decode.Config{Workers: 1, Resync: true}
		v := &store.Viewing{Name: "claude:adf0", Opener: &source.Opener{Getenv: getenv}, Store: s, Config: cfg, Follow: true}
		if err := v.Open(ctx); err != nil {
			t.Fatal(err)
		}
		defer v.Close()
		done := make(chan bool)
		go func() {
			v.Run(ctx)
			close(done)
		}()
		// frames returns how many frames there are some time later.
		frames := func() int64 {
			time.Sleep(time.Second)
			synctest.Wait()
			return s.Overview().Frames
		}
		begun := frames()
		if begun < 10 {
			t.Fatalf("%d frames", begun)
		}
		write(child, strings.Join(childLines[:at], "")+childLines[at][:cut])
		prompted := frames()
		write(child, childLines[at][cut:])
		answered := frames()
		if prompted <= begun || answered <= prompted || frames() != answered {
			t.Errorf("%d frames, %d with a sub-agent, %d when that went on", begun, prompted, answered)
		}
		write(child, strings.Join(childLines[at+1:], ""))
		if grown := frames(); grown <= answered {
			t.Errorf("%d frames, %d before", grown, answered)
		}
		write(main, strings.Join(lines[task:], ""))
		if got := frames(); got != 55 {
			t.Errorf("%d frames at the end, want 55", got)
		}
		if x := s.Overview(); x.Exchanges != 18 {
			t.Errorf("%d exchanges", x.Exchanges)
		}
		stop()
		<-done
	})
}

// A run is a line of the list. It is counted once, after its end.
func TestKeptRuns(t *testing.T) {
	state := t.TempDir()
	getenv := func(name string) string { return map[string]string{"XDG_STATE_HOME": state}[name] }
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	folder, err := history.RunsFolder(getenv)
	check(err)
	for name, id := range map[string]string{"claude": "c1a0de", "codex": "c0de01"} {
		check(os.CopyFS(filepath.Join(folder, id), os.DirFS("../test/testdata/runs/"+name)))
	}
	list := func(q store.KeptQuery) (lines []string) {
		q.Unread, q.Prices = func(err error) { t.Error(err) }, agentPrices
		kept, err := store.ListKept(t.Context(), getenv, nil, q)
		check(err)
		for _, k := range kept {
			lines = append(lines, fmt.Sprint(k.ID, " ", k.Agent, " ", k.Project, " ", k.Calls, " ", k.Failures, " ", k.Usage, " ", k.Prompt != ""))
		}
		return lines
	}
	claude, codex := "run:c1a0de claude /home/user/project 14 0 {60 0 72 1260 0 0 0 1260 false {0 0 0}} true", "run:c0de01 codex /home/user/project 10 0 {60 0 18 96 0 0 0 96 false {0 0 0}} true"
	for _, tt := range []struct {
		q    store.KeptQuery
		want []string
	}{
		{store.KeptQuery{}, []string{codex, claude}},
		{store.KeptQuery{Search: "SLOWTOOL", Agent: "claude"}, []string{claude}},
		{store.KeptQuery{Search: "in none of them"}, nil},
		{store.KeptQuery{Project: "PROJECT", Fresh: true, Agent: "codex"}, []string{codex}},
		{store.KeptQuery{Project: "other"}, nil},
		{store.KeptQuery{Until: time.Unix(1, 0)}, nil},
	} {
		if got := list(tt.q); !slices.Equal(got, tt.want) {
			t.Errorf("%+v: %q, want %q", tt.q, got, tt.want)
		}
	}
	r, err := history.FindRun(getenv, "c1")
	check(err)
	if r.Counts == nil || r.Counts.Calls != 14 || len(r.Notes) != 1 || r.AgentVersion != "2.1.332" {
		t.Errorf("it was written as %+v", r)
	}
}

// What a record says of a call is shown whatever it is of: the prompt of a transcript, which has a model,
// and a command that sends the request to the server, not to the name of both sides.
func TestCallsOfFiles(t *testing.T) {
	for _, tt := range []struct {
		file      string
		command   bool
		kind, one string
	}{
		{"claude-code/projects/-home-user-project/a2079dff-f635-4227-9a8e-4cb7d5f494f6.jsonl", false, "prompt", "capital again?"},
		{"har/playwright.har", true, "tools/call", `wirectl send mcp tools/call '{"name":"echo"}' ws://127.0.0.1:4821`},
		{"../runs/cancel-made", true, "tools/call", `wirectl send mcp tools/call '{"name":"search","arguments":{"q":1},"_meta":{"claudecode/toolUseId":"t1"}}' ENDPOINT`},
	} {
		s := store.New(store.Options{})
		o := &source.Opener{Getenv: func(string) string { return "" }}
		cfg := decode.Config{Workers: 1, Resync: true}
		in, err := o.Session(t.Context(), filepath.Join(agentFiles, tt.file), cfg, false)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Take(t.Context(), in.Input, cfg); err != nil {
			t.Fatal(err)
		}
		var seen []string
		for _, x := range s.IDs(store.IDsQuery{Sort: store.ByArrival, N: 100}).List {
			switch {
			case x.Kind != tt.kind:
			case !tt.command:
				seen = append(seen, x.Arguments)
			default:
				r, err := s.Request(x.First)
				if err != nil {
					t.Fatal(err)
				}
				seen = append(seen, r.Command([]string{"mcp"}))
			}
		}
		if !slices.Contains(seen, tt.one) {
			t.Errorf("%s: %q, want %s", tt.file, seen, tt.one)
		}
		in.Close()
		s.Close()
	}
}
