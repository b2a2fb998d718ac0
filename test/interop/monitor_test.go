//go:build !windows

package interop

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/creack/pty"
)

// A terminal runs wirectl, and keeps its output.
type terminal struct {
	*testing.T
	pty  *os.File
	cmd  *exec.Cmd
	read chan struct{} // closed at the end of the output

	mu  sync.Mutex
	out bytes.Buffer
}

// runIn starts wirectl in a terminal.
func runIn(t *testing.T, env []string, args ...string) *terminal {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), wirectl, args...)
	cmd.Env = append(os.Environ(), env...)
	return inTerminal(t, cmd)
}

// inTerminal starts a command in a terminal.
func inTerminal(t *testing.T, cmd *exec.Cmd) *terminal {
	t.Helper()
	term := &terminal{T: t, cmd: cmd, read: make(chan struct{})}
	cmd.Env = append(slices.Clip(cmd.Env), "TERM=xterm-256color")
	var err error
	term.pty, err = pty.StartWithSize(term.cmd, &pty.Winsize{Rows: 40, Cols: 120})
	check(t, err)
	go func() {
		defer close(term.read)
		b := make([]byte, 4096)
		for {
			n, err := term.pty.Read(b)
			term.mu.Lock()
			term.out.Write(b[:n])
			term.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		_ = term.cmd.Process.Kill()
		term.pty.Close()
		<-term.read
	})
	return term
}

// painted matches the sequences that move the cursor and choose colours.
var painted = regexp.MustCompile(`\x1b(\[[0-9;?]*[A-Za-z]|\][^\x07]*\x07)`)

// text returns the output so far, without those sequences.
func (t *terminal) text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return painted.ReplaceAllString(t.out.String(), "")
}

// sees waits until all of these texts were written.
func (t *terminal) sees(texts ...string) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for _, text := range texts {
		for !strings.Contains(t.text(), text) {
			if time.Now().After(deadline) {
				t.Fatalf("the terminal never shows %q:\n%s", text, t.text())
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
}

// types types keys, and forgets the output so far.
func (t *terminal) types(keys string) {
	t.Helper()
	t.mu.Lock()
	t.out.Reset()
	t.mu.Unlock()
	_, err := io.WriteString(t.pty, keys)
	check(t.T, err)
}

// ends waits for the program to exit with success.
func (t *terminal) ends() {
	t.Helper()
	<-t.read
	check(t.T, t.cmd.Wait())
}

// The monitor on a fixture: views, a frame, a filter, help.
func TestMonitorInTerminal(t *testing.T) {
	term := runIn(t, nil, "monitor", "fixture:mcp-cancel")
	term.sees("ended", "late result", "crossed", "tools/call")
	term.types("2g")
	term.sees("WHAT IT SAYS", "notifications/cancelled")
	term.types("\r")
	term.sees("#1", `"protocolVersion"`)
	term.types("\x1b")
	term.sees("WHAT IT SAYS") // an escape directly followed by a letter is another key
	term.types("3")
	term.sees("late-result", "a cancelled request gets no response")
	term.types("fkind==ping\r")
	term.sees("of 18 frames")
	term.types("?")
	term.sees("Views", "send a cancel")
	term.types("\x1b")
	term.sees("late-result")
	term.types("q")
	term.ends()
}

// waiting runs a monitor that waits for a relay, and returns the environment in which it
// finds one.
func waiting(t *testing.T) (term *terminal, env []string) {
	t.Helper()
	env = []string{"XDG_RUNTIME_DIR=" + t.TempDir()}
	term = runIn(t, env, "monitor")
	term.sees("waiting")
	return term, env
}

// The monitor waits for a relay, and shows the cancel of a prompt that passes it.
func TestMonitorOfRelayThroughCancel(t *testing.T) {
	term, env := waiting(t)
	words := strings.Repeat("word ", 200)
	send := exec.CommandContext(t.Context(), wirectl, "send", "-q", "--prompt", words, "--cancel-after", "3",
		"latis", "--", wirectl, "relay", "-q", "--", wirectl, "unit", "-q", "--delay", "50ms")
	send.Env = append(os.Environ(), env...)
	out, _ := send.CombinedOutput() // the status says that it was cancelled
	if t.Logf("%s", out); len(out) == 0 {
		t.Error("nothing was answered")
	}
	term.sees("PROMPT_SEND", "cancelled", "ended")
	term.types("2")
	term.sees("PROMPT_CANCEL", "RESPONSE_CANCELLED", "RESPONSE_CHUNK")
	term.types("5")
	term.sees("exit status 0")
	term.types("q")
	term.ends()
}

// twice types a key that changes the wire, and confirms it twice.
func (t *terminal) twice(keys, done string) {
	t.Helper()
	t.types(keys)
	t.sees("this changes live traffic")
	t.types("y")
	t.sees("Really")
	t.types("y")
	t.sees("done: " + done)
}

// throughRelay runs a prompt of that many words through a relay that accepts commands.
func throughRelay(t *testing.T, env []string, words int, flags ...string) *exec.Cmd {
	t.Helper()
	args := []string{"send", "-q", "--prompt", strings.TrimSpace(strings.Repeat("word ", words)), "latis", "--", wirectl, "relay", "-q", "--control"}
	args = append(append(args, flags...), "--", wirectl, "unit", "-q", "--delay", "50ms")
	send := exec.CommandContext(t.Context(), wirectl, args...)
	send.Env = append(os.Environ(), env...)
	send.Stdout = new(bytes.Buffer)
	check(t, send.Start())
	return send
}

// A running prompt is cancelled from the monitor after two confirmations.
func TestMonitorCancels(t *testing.T) {
	term, env := waiting(t)
	send := throughRelay(t, env, 20_000)
	term.sees("PROMPT_SEND", "in flight")
	term.types("X")
	term.sees("this changes live traffic")
	term.types("n")
	term.sees("nothing was done")
	term.twice("X", "cancel PROMPT_SEND 1")
	term.sees("altered", "ended")
	_ = send.Wait() // the prompt did not expect the cancel
	term.types("5")
	term.sees("by request: a cancel of 1")
	term.types("q")
	term.ends()
}

// When the relay has ended, the monitor waits for another one, follows that, and can change
// its wire.
func TestMonitorGoesOnWithTheNextRelay(t *testing.T) {
	term, env := waiting(t)
	first := throughRelay(t, env, 20_000)
	term.sees("PROMPT_SEND", "in flight")
	_ = first.Process.Kill()
	_ = first.Wait()
	term.sees("ended, waiting", "abandoned")
	second := throughRelay(t, env, 20_000)
	term.sees("live", "CONN", "Calls 2")
	term.twice("X", "cancel PROMPT_SEND 1")
	term.sees("ended, waiting")
	_ = second.Wait()
	term.types("5")
	term.sees("by request: a cancel of 1")
	term.types("q")
	term.ends()
}

// The monitor repeats a request.
func TestMonitorResends(t *testing.T) {
	term, env := waiting(t)
	send := throughRelay(t, env, 20_000)
	term.sees("PROMPT_SEND", "in flight")
	term.twice("R", "send PROMPT_SEND 1 again")
	term.sees("altered")
	term.types("5")
	term.sees("by request: frame 1 once more")
	_ = send.Process.Kill()
	_ = send.Wait()
	term.types("q")
	term.ends()
}

// Frames wait on the wire until the monitor sends them unchanged, edits them or drops them.
func TestMonitorHolds(t *testing.T) {
	term, env := waiting(t)
	send := throughRelay(t, env, 3, "--hold", "kind~R")
	term.sees("1 held")
	term.twice("u", "release frame 1")
	term.types("j")     // clears the message
	term.sees("5 held") // three words, the frame before them, and the end
	term.types("e")
	term.sees("frame 2 becomes", `"content":"Echo: `)
	term.types(strings.Repeat("\x1b[D", len(`Echo: "}}`)) + "Changed ") // moves to the left
	term.twice("\r", "change frame 2")
	term.twice("D", "drop frame 3")
	term.twice("H\r", "stop holding frames")
	_ = send.Wait()
	if out := send.Stdout.(*bytes.Buffer).String(); !strings.Contains(out, "Changed Echo: word") {
		t.Errorf("the controller got %q", out)
	}
	term.types("q")
	term.ends()
}

// A command that draws nothing does not query the terminal.
func TestNoCommandAsksTheTerminal(t *testing.T) {
	term := runIn(t, nil, "version")
	term.ends()
	if out := term.out.String(); strings.Contains(out, "\x1b") || !strings.Contains(out, "wirectl") {
		t.Errorf("wirectl version writes %q", out)
	}
}
