package commands_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/capture/pcapng"
	"github.com/wirectl/wirectl/commands"
	"github.com/wirectl/wirectl/frame"
)

// hungUp is a line that stands for the end of the connection.
const hungUp = "hung up"

// captured returns a capture of lines, one a millisecond; what begins with ">"
// comes from the controller.
func captured(t testing.TB, lines ...string) []byte {
	t.Helper()
	var file bytes.Buffer
	w, err := pcapng.NewWriter(&file, capture.Session{Framing: "line"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, line := range lines {
		line, ours := strings.CutPrefix(line, ">")
		r := capture.Record{Seq: int64(i + 1), Time: time.Unix(1_800_000_000, int64(i)*1e6)}
		r.Frame = frame.Frame{Raw: []byte(line + "\n"), End: len(line), Conn: 1, Dir: frame.U2C}
		if ours {
			r.Dir = frame.C2U
		}
		if line == hungUp {
			r.Kind, r.Frame = capture.HalfClosed, frame.Frame{Conn: 1, Dir: frame.C2U}
			if err := w.Write(&r); err != nil {
				t.Fatal(err)
			}
			r.Dir = frame.U2C
		}
		if err := w.Write(&r); err != nil {
			t.Fatal(err)
		}
	}
	return file.Bytes()
}

// run runs a command on a file of that content.
func run(t testing.TB, content []byte, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "session.pcapng")
	if err := os.WriteFile(name, content, 0o666); err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	status = commands.Run(t.Context(), env(nil, &out, &errs), append(append([]string{"wirectl"}, args...), name))
	return status, out.String(), errs.String()
}

// In a capture that is cut nobody knows what came behind the cut: it is judged
// up to there, and what is open then is not unanswered.
func TestLintOfCutCapture(t *testing.T) {
	whole := captured(t,
		`>{"jsonrpc":"2.0","id":1,"method":"tools/list"}`,
		`{"jsonrpc":"2.0","id":2,"result":{}}`,
		`{"jsonrpc":"2.0","method":"notifications/message"}`)
	status, out, _ := run(t, whole, "lint", "-q")
	if status != 3 || !strings.Contains(out, "orphan") || !strings.Contains(out, "unanswered") {
		t.Errorf("whole: status %d\n%s", status, out)
	}
	status, out, errs := run(t, whole[:len(whole)-10], "lint", "-q")
	if status != 3 || !strings.Contains(out, "orphan") || strings.Contains(out, "unanswered") || !strings.Contains(errs, "the capture is cut") {
		t.Errorf("cut: status %d\n%s%s", status, out, errs)
	}
}

// What was open on a connection that has ended is unanswered, wherever the capture
// is cut behind that.
func TestLintOfEndedConnection(t *testing.T) {
	whole := captured(t,
		`>{"jsonrpc":"2.0","id":1,"method":"tools/list"}`,
		`{"jsonrpc":"2.0","method":"notifications/message"}`,
		hungUp,
		`{"jsonrpc":"2.0","method":"notifications/message"}`)
	if _, out, errs := run(t, whole[:len(whole)-10], "lint", "-q"); !strings.Contains(out, "unanswered") {
		t.Errorf("nothing is unanswered:\n%s%s", out, errs)
	}
}

// A session that never tells its protocol is judged all the same, without
// keeping more than a part of it.
func TestLintOfLongUntoldSession(t *testing.T) {
	var lines []string
	for i := range 3000 {
		lines = append(lines,
			fmt.Sprintf(`>{"jsonrpc":"2.0","id":%d,"method":"call","params":{"text":%q}}`, i, strings.Repeat("x", 2000)),
			fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{}}`, i))
	}
	lines = append(lines, `{"jsonrpc":"2.0","id":"never","result":{}}`)
	status, out, errs := run(t, captured(t, lines...), "lint", "-q")
	if status != 3 || !strings.Contains(out, "frame 6001: result \"never\" answers nothing") {
		t.Errorf("status %d\n%s%s", status, out, errs)
	}
	if !strings.Contains(errs, "1 finding (1 error) in 6001 frames and 3000 exchanges") {
		t.Error(errs)
	}
}

// Connections of different sessions have nothing to do with each other, though
// their numbers are the same and the first session is cut.
func TestStatsKeepConnectionsApart(t *testing.T) {
	const told = `{"jsonrpc":"2.0","method":"notifications/message"}`
	asked := captured(t, told, `>{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, told)
	other := filepath.Join(t.TempDir(), "other.pcapng")
	if err := os.WriteFile(other, asked[:len(asked)-10], 0o666); err != nil {
		t.Fatal(err)
	}
	answered := captured(t, told, `{"jsonrpc":"2.0","id":1,"result":{}}`)
	status, out, errs := run(t, answered, "stats", "-q", "-o", "ndjson", other)
	if status != 0 || !strings.Contains(out, `"exchanges":{"open":1}`) {
		t.Errorf("status %d\n%s%s", status, out, errs)
	}
}

// The filter with which the monitor begins may be a word, which is not a condition on frames.
func TestMonitorBeginsWithWord(t *testing.T) {
	var out, errs bytes.Buffer
	e := env(nil, &out, &errs)
	e.IsTerminal = func(stream any) bool { return stream == e.Stdout }
	args := []string{"wirectl", "monitor", "--where", "failed", "nowhere.pcapng"}
	if status := commands.Run(t.Context(), e, args); status != 1 || !strings.Contains(errs.String(), "nowhere.pcapng") {
		t.Errorf("status %d: %s", status, &errs)
	}
}

// Where a capture is cut, or reading was interrupted, calls are open and not abandoned.
func TestCallsOfCutCapture(t *testing.T) {
	whole := captured(t,
		`>{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t"}}`,
		`{"jsonrpc":"2.0","method":"notifications/message"}`)
	for outcome, content := range map[string][]byte{"abandoned": whole, "open": whole[:len(whole)-10]} {
		if status, out, _ := run(t, content, "calls", "-q", "-o", "ndjson"); status != 0 || !strings.Contains(out, `"outcome":"`+outcome+`"`) {
			t.Errorf("status %d: %s", status, out)
		}
	}
}

// A table fits the terminal, and lines for it have nothing that a terminal would act on.
func TestCallsOnTerminal(t *testing.T) {
	name := filepath.Join(t.TempDir(), "session.pcapng")
	content := captured(t, `>{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"`+strings.Repeat("long", 50)+`\u001b[2J"}}`)
	if err := os.WriteFile(name, content, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, output := range []string{"text", "csv", "ndjson"} {
		var out, errs bytes.Buffer
		e := env(nil, &out, &errs)
		e.IsTerminal = func(stream any) bool { return stream == e.Stdout }
		e.Width = func(any) int { return 80 }
		status := commands.Run(t.Context(), e, []string{"wirectl", "calls", "-q", "-o", output, "--color", "never", name})
		if status != 0 || strings.ContainsRune(out.String(), '\x1b') || !strings.Contains(out.String(), "longlong") {
			t.Errorf("%s: status %d: %q%s", output, status, &out, &errs)
		}
		for line := range strings.Lines(out.String()) {
			if output == "text" && utf8.RuneCountInString(line) > 81 {
				t.Errorf("%q", line)
			}
		}
	}
}
