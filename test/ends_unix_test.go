//go:build unix

package test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"
)

// startRelay starts a relay in a process of its own, and returns it and the address it
// listens on.
func startRelay(t *testing.T, args ...string) (relay *exec.Cmd, address string) {
	t.Helper()
	relay = exec.Command("wirectl", append([]string{"relay", "--no-tap"}, args...)...)
	stderr, err := relay.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := relay.Start(); err != nil {
		t.Fatal(err)
	}
	told := make(chan struct{})
	t.Cleanup(func() {
		_ = relay.Process.Kill()
		<-told
		_ = relay.Wait()
	})
	lines := bufio.NewScanner(stderr)
	for lines.Scan() {
		var found bool
		if _, address, found = strings.Cut(lines.Text(), "listening on "); found {
			break
		}
	}
	go func() {
		defer close(told)
		for lines.Scan() {
			t.Log(lines.Text())
		}
	}()
	if address == "" {
		t.Fatal("the relay does not listen")
	}
	return relay, address
}

// Without a terminal an interrupt reaches the agent only through the run. One that was ignored stays so.
func TestInterruptedRun(t *testing.T) {
	start := func(script string, line ...string) (agent *exec.Cmd, output *bufio.Reader) {
		agent = exec.Command("sh", append([]string{"-c", script, "sh"}, line...)...)
		dir := t.TempDir()
		agent.Env = append(os.Environ(), "HOME="+dir, "XDG_STATE_HOME="+dir, "XDG_RUNTIME_DIR="+dir)
		agent.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		stdout, err := agent.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := agent.Start(); err != nil {
			t.Fatal(err)
		}
		late := time.AfterFunc(30*time.Second, func() { _ = agent.Process.Kill() })
		t.Cleanup(func() { late.Stop() })
		return agent, bufio.NewReader(stdout)
	}
	const loop = "; echo ready; while :; do sleep 0.05; done"
	for name, number := range map[string]syscall.Signal{"INT": syscall.SIGINT, "QUIT": syscall.SIGQUIT} {
		agent, output := start(`exec wirectl run -q -- sh -c "$1"`, `trap "echo heard; exit 3" `+name+loop)
		if line, err := output.ReadString('\n'); line != "ready\n" {
			t.Fatal(line, err)
		}
		if err := agent.Process.Signal(number); err != nil {
			t.Fatal(err)
		}
		heard, _ := io.ReadAll(output)
		if _ = agent.Wait(); agent.ProcessState.ExitCode() != 3 || string(heard) != "heard\n" {
			t.Errorf("after %s: status %d, and it printed %q", name, agent.ProcessState.ExitCode(), heard)
		}
	}
	agent, output := start(`trap "" INT; exec wirectl run -q -- sh -c 'kill -INT $$; echo alive'`)
	alive, _ := io.ReadAll(output)
	if err := agent.Wait(); err != nil || string(alive) != "alive\n" {
		t.Errorf("an ignored interrupt: %q, %v", alive, err)
	}
}

// A killed relay causes a reset on both sides. Its capture can be read up to the cut.
func TestKilledRelay(t *testing.T) {
	unit, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer unit.Close()
	file := filepath.Join(t.TempDir(), "s.pcapng")
	relay, address := startRelay(t, "--capture", file, "--framing", "line", "--protocol", "json",
		"--listen", "tcp://127.0.0.1:0", "tcp://"+unit.Addr().String())
	asks, err := net.Dial("tcp", strings.TrimPrefix(address, "tcp://"))
	if err != nil {
		t.Fatal(err)
	}
	defer asks.Close()
	works, err := unit.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer works.Close()
	const line = "{\"part\":1}\n"
	got := make([]byte, len(line))
	for _, way := range [][2]net.Conn{{asks, works}, {works, asks}} {
		if _, err := io.WriteString(way[0], line); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(way[1], got); err != nil || string(got) != line {
			t.Fatalf("heard %q, %v", got, err)
		}
	}
	for deadline := time.Now().Add(time.Minute); framesIn(t, file) < 2; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the capture lacks frames")
		}
	}
	if err := relay.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for side, c := range map[string]net.Conn{"controller": asks, "unit": works} {
		if n, err := c.Read(got); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("the %s reads %d bytes, %v; want a reset", side, n, err)
		}
	}
	if n := framesIn(t, file); n != 2 {
		t.Errorf("the capture has %d frames", n)
	}
}

// framesIn returns the current number of frames in a capture.
func framesIn(t *testing.T, file string) int {
	t.Helper()
	out, err := exec.Command("wirectl", "decode", "-o", "ndjson", file).Output()
	if err != nil {
		return 0 // the file is missing, or has no frame
	}
	return strings.Count(string(out), `"dir"`)
}

// A WebSocket client is answered once the unit is connected, or gets the reason why it is
// not.
func TestWebSocketUnitRefuses(t *testing.T) {
	forbids := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) })}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	go func() { defer close(served); _ = forbids.Serve(l) }()
	defer func() { forbids.Close(); <-served }()
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone.Close()
	for unit, want := range map[string]int{
		"ws://" + l.Addr().String():     http.StatusForbidden,
		"ws://" + gone.Addr().String():  http.StatusBadGateway,
		"tcp://" + gone.Addr().String(): http.StatusBadGateway,
	} {
		_, address := startRelay(t, "--framing", "line", "--listen", "ws://127.0.0.1:0", unit)
		// the library has read it
		//nolint:bodyclose // the library has read it
		_, resp, err := websocket.Dial(t.Context(), address, nil)
		if err == nil || resp == nil || resp.StatusCode != want {
			t.Errorf("%s: %v, %v; want status %d", unit, resp, err, want)
		}
	}
}

// A relay between two WebSockets passes on the client's path, query and subprotocol.
func TestWebSocketAsks(t *testing.T) {
	asked := make(chan string, 1)
	answers := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.URL.RequestURI()
		if ws, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{"b"}}); err == nil {
			_ = ws.Close(websocket.StatusNormalClosure, "")
		}
	})}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	go func() { defer close(served); _ = answers.Serve(l) }()
	defer func() { answers.Close(); <-served }()
	_, address := startRelay(t, "--listen", "ws://127.0.0.1:0", "ws://"+l.Addr().String()+"/agent")
	for path, want := range map[string]string{"/": "/agent", "/other?a=1": "/other?a=1", "/?a=1": "/agent?a=1"} {
		//nolint:bodyclose // there is none
		ws, _, err := websocket.Dial(t.Context(), address+path, &websocket.DialOptions{Subprotocols: []string{"a", "b"}})
		if err != nil {
			t.Fatal(err)
		}
		if got := <-asked; got != want || ws.Subprotocol() != "b" {
			t.Errorf("%s: the unit was asked for %s, and %q was agreed on", path, got, ws.Subprotocol())
		}
		_ = ws.CloseNow()
	}
}
