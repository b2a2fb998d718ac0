package commands_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"io"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/wirectl/wirectl/commands"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// env is an environment without terminals and variables.
func env(stdin io.Reader, stdout, stderr io.Writer) commands.Env {
	return commands.Env{
		Stdin: stdin, Stdout: stdout, Stderr: stderr,
		Getenv:     func(string) string { return "" },
		IsTerminal: func(any) bool { return false },
		Width:      func(any) int { return 0 },
	}
}

// The status of a command says how it ended: done, failed, called wrongly, the
// input broke its protocol, interrupted.
func TestStatus(t *testing.T) {
	const ping = `{"jsonrpc":"2.0","id":1,"method":"ping"}` + "\n"
	for _, c := range []struct {
		args  string
		stdin string
		want  int
	}{
		{"decode", ping, 0},
		{"decode", "", 0},
		{"decode nowhere.bin", "", 1},
		{"decode --framing nope", ping, 2},
		{"decode --nope", ping, 2},
		{"nope", "", 2},
		{"list something", "", 2},
		{"decode --where id", ping, 2},
		{"decode --color sometimes", ping, 2},
		{"decode --protocol mcp", ping + "log line\n", 3},
		{"decode --framing len32", ping, 3},
		{"encode --protocol rlm", "not json\n", 3},
		{"encode", ping, 2},
	} {
		var out, errs bytes.Buffer
		args := append([]string{"wirectl"}, strings.Fields(c.args)...)
		if got := commands.Run(t.Context(), env(strings.NewReader(c.stdin), &out, &errs), args); got != c.want {
			t.Errorf("wirectl %s: status %d, want %d\n%s", c.args, got, c.want, &errs)
		}
	}
}

func TestInterruptedIsStatus130(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	in, source := io.Pipe()
	go func() {
		_, err := io.WriteString(source, `{"id":1}`+"\n")
		cancel()
		source.CloseWithError(err)
	}()
	var out, errs bytes.Buffer
	if got := commands.Run(ctx, env(in, &out, &errs), []string{"wirectl", "decode"}); got != 130 {
		t.Errorf("status %d\n%s", got, &errs)
	}
}

// A reader of our output that goes away, as head does, is not a failure.
func TestBrokenPipeIsQuiet(t *testing.T) {
	r, w := io.Pipe()
	r.Close()
	var errs bytes.Buffer
	if got := commands.Run(t.Context(), env(nil, w, &errs), []string{"wirectl", "decode", "-q", "fixture:mcp-everything/s2c.bin"}); got != 0 || errs.Len() > 0 {
		t.Errorf("status %d\n%s", got, &errs)
	}
}

// A terminal that cannot be drawn on gets text, or is told how to get it.
func TestDumbTerminal(t *testing.T) {
	for args, want := range map[string]string{
		"monitor":                      "TERM says that this one is dumb: wirectl decode --follow SESSION shows",
		"monitor fixture:latis-cancel": "wirectl decode --follow fixture:latis-cancel shows",
		"demo":                         "tools/call",
	} {
		ctx, cancel := context.WithCancel(t.Context())
		var errs bytes.Buffer
		out := &seen{text: want, then: cancel}
		e := env(strings.NewReader(""), out, &errs)
		e.IsTerminal = func(any) bool { return true }
		e.Getenv = func(name string) string { return map[string]string{"TERM": "dumb"}[name] }
		commands.Run(ctx, e, append([]string{"wirectl"}, strings.Fields(args)...))
		cancel()
		if got := out.all.String() + errs.String(); !strings.Contains(got, want) || strings.Contains(got, "\x1b") {
			t.Errorf("%s: %q, want %q", args, got, want)
		}
	}
}

// The monitor waits for what is to run, and says so on its screen alone: a line on
// standard error would be written across it.
func TestMonitorWaits(t *testing.T) {
	keys, typed := io.Pipe()
	defer typed.Close()
	screen := &seen{text: "waiting: try wirectl relay", then: func() { _, _ = io.WriteString(typed, "q") }}
	vars := map[string]string{"XDG_RUNTIME_DIR": t.TempDir()}
	var errs bytes.Buffer
	e := env(keys, screen, &errs)
	e.IsTerminal = func(any) bool { return true }
	e.Getenv = func(name string) string { return vars[name] }
	if got := commands.Run(t.Context(), e, []string{"wirectl", "monitor"}); got != 0 || errs.Len() > 0 {
		t.Errorf("status %d, %q", got, &errs)
	}
}

// seen is a screen that does something, once, when a text is on it.
type seen struct {
	all  bytes.Buffer
	text string
	then func()
}

func (s *seen) Write(p []byte) (int, error) {
	s.all.Write(p)
	if s.then != nil && bytes.Contains(s.all.Bytes(), []byte(s.text)) {
		go s.then()
		s.then = nil
	}
	return len(p), nil
}

// NDJSON on a terminal is the same values, with nothing that it would act on.
func TestNDJSONOnATerminal(t *testing.T) {
	const message = `{"text":	"` + "\x7f\u202e\u009b2J" + `"}`
	for terminal, want := range map[bool]string{
		true:  `{"text":	"\u007f\u202e\u009b2J"}`,
		false: message,
	} {
		var out, errs bytes.Buffer
		e := env(strings.NewReader(message+"\n"), &out, &errs)
		e.IsTerminal = func(stream any) bool { return terminal && stream == &out }
		got := commands.Run(t.Context(), e, []string{"wirectl", "decode", "-q", "-o", "ndjson"})
		if got != 0 || !strings.HasSuffix(out.String(), `,"payload":`+want+"}\n") || terminal && strings.Contains(out.String(), "\x7f") {
			t.Errorf("terminal %t: %q, want %q; status %d, %s", terminal, &out, want, got, &errs)
		}
	}
}

// Bytes are given as they are to whoever reads them, and shown with escapes to those who
// only look at a terminal.
func TestBytesOnATerminal(t *testing.T) {
	const payload = `{"text":	"` + "\x7f\u202e\xff" + `"}`
	const frame = "Content-Length: 17\r\n\r\n" + payload
	const shown = `{"text":	"\x7f\u202e\xff"}`
	const shownFrame = `Content-Length: 17\r` + "\n" + `\r` + "\n" + shown
	record := `{"framing":"header","raw":"` + base64.StdEncoding.EncodeToString([]byte(frame)) + `"}` + "\n"
	for _, c := range []struct{ args, stdin, piped, shown string }{
		{"decode -q -o raw", frame, frame, shownFrame},
		{"decode -q --payload", frame, payload, shown},
		{"encode", record, frame, shownFrame},
	} {
		for terminal, want := range map[bool]string{true: c.shown, false: c.piped} {
			var out, errs bytes.Buffer
			e := env(strings.NewReader(c.stdin), &out, &errs)
			e.IsTerminal = func(stream any) bool { return terminal && stream == &out }
			commands.Run(t.Context(), e, append([]string{"wirectl"}, strings.Fields(c.args)...))
			if out.String() != want {
				t.Errorf("%s: terminal %t: %q, want %q; %s", c.args, terminal, &out, want, &errs)
			}
		}
	}
}

// A conversion that is for programs is not written to a terminal; records are, as decode
// writes them.
func TestConvertToATerminal(t *testing.T) {
	const message = `{"text":"` + "\u202e" + `"}` + "\n"
	for to, want := range map[string]string{
		"pcapng": "refusing to write pcapng to a terminal: name a file, or redirect standard output",
		"trace":  "refusing to write trace to a terminal",
		"har":    "refusing to write har to a terminal",
		"ndjson": `"payload":{"text":"\u202e"}`,
	} {
		var out, errs bytes.Buffer
		e := env(strings.NewReader(message), &out, &errs)
		e.IsTerminal = func(stream any) bool { return stream == &out }
		commands.Run(t.Context(), e, []string{"wirectl", "convert", "--to", to, "-", "-"})
		if got := out.String() + errs.String(); !strings.Contains(got, want) || strings.Contains(out.String(), "\u202e") {
			t.Errorf("%s: %q, want %q", to, got, want)
		}
	}
}

// What jq makes of a message may be anything; a terminal gets none of it that it
// would act on, and anybody else all of it.
func TestJQOnATerminal(t *testing.T) {
	const message = `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"text":"a` + "\u202e\u009b2J" + `b"}}` + "\n"
	for terminal, want := range map[bool]string{
		true:  `"a\u202e\u009b2Jb"` + "\n",
		false: `"a` + "\u202e\u009b2J" + `b"` + "\n",
	} {
		var out, errs bytes.Buffer
		e := env(strings.NewReader(message), &out, &errs)
		e.IsTerminal = func(stream any) bool { return terminal && stream == &out }
		args := []string{"wirectl", "decode", "-q", "--jq", ".payload.params.text"}
		if got := commands.Run(t.Context(), e, args); got != 0 || out.String() != want {
			t.Errorf("terminal %t: %q, want %q; status %d, %s", terminal, &out, want, got, &errs)
		}
	}
}
