package hub_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	nserver "github.com/nats-io/nats-server/v2/server"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/capture/history"
	"github.com/wirectl/wirectl/capture/journal"
	"github.com/wirectl/wirectl/hub"
	"github.com/wirectl/wirectl/hub/server"
)

// A node is a NATS server in a process of its own, or a sender, which can be killed.
type node struct {
	Dir     string
	Port    int   // to listen on
	Payload int32 // limit of a message; 0 is the default
	Disk    bool  // a hub whose Dir is a small disk
	Sends   bool  // no server, but a sender to one at Port, with Dir for its state

	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stdout *bufio.Reader
}

// runDisk runs a node with a small disk, on systems that support it.
var runDisk func(*node) error

const nodeVariable = "WIRECTL_TEST_NODE"

// The test program also serves as a node.
func TestMain(m *testing.M) {
	if text := os.Getenv(nodeVariable); text != "" {
		if err := runNode(text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	_ = flag.Set("test.parallel", "4") // most of them wait; the command line comes first
	os.Exit(m.Run())
}

// runNode runs a node until its standard input ends.
func runNode(text string) error {
	var n node
	if err := json.Unmarshal([]byte(text), &n); err != nil {
		return err
	}
	switch {
	case n.Disk:
		return runDisk(&n)
	case n.Sends:
		return runSender(&n)
	}
	o := &nserver.Options{Host: "127.0.0.1", Port: n.Port, NoSigs: true, NoLog: true, JetStream: true, StoreDir: n.Dir, MaxPayload: n.Payload}
	s, err := nserver.NewServer(o)
	if err != nil {
		return err
	}
	s.Start()
	if !s.ReadyForConnections(time.Minute) {
		return fmt.Errorf("the port %d is taken", n.Port)
	}
	fmt.Println("ready")
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// runSender sends a session of as many frames as standard input names, one line after another.
func runSender(n *node) error {
	a, err := hub.ParseAddress(n.address())
	if err != nil {
		return err
	}
	quiet := func(string) {}
	o := hub.Sending{Address: a, Policy: hub.Lossless, Level: history.Full, Kind: "relay", State: n.Dir, Say: quiet, Warn: quiet}
	j := journal.New(capture.Session{Created: time.Now(), Protocol: "mcp", Framing: "line"}, journal.Options{})
	if _, err := o.Open(j, "killed"); err != nil {
		return err
	}
	fmt.Println("ready")
	lines := bufio.NewScanner(os.Stdin)
	for sent := int64(0); lines.Scan(); {
		many, err := strconv.ParseInt(lines.Text(), 10, 64)
		if err != nil {
			return err
		}
		for ; sent < many; sent++ {
			if err := j.Write(record(sent+1, payload(sent+1))); err != nil {
				return err
			}
		}
	}
	return lines.Err()
}

// start starts the process and waits until it listens.
func (n *node) start(t *testing.T) {
	t.Helper()
	n.prepare(t)
	n.launch(t)
}

func (n *node) prepare(t *testing.T) {
	t.Helper()
	text, err := json.Marshal(n)
	check(t, err)
	n.cmd = exec.Command(os.Args[0])
	n.cmd.Env = append(os.Environ(), nodeVariable+"="+string(text))
	n.cmd.Stderr = os.Stderr
}

func (n *node) launch(t *testing.T) {
	t.Helper()
	var err error
	n.stdin, err = n.cmd.StdinPipe()
	check(t, err)
	stdout, err := n.cmd.StdoutPipe()
	n.stdout = bufio.NewReader(stdout)
	check(t, err, n.cmd.Start())
	if line, err := n.stdout.ReadString('\n'); err != nil {
		t.Fatalf("the node: %q, %v", line, err)
	}
}

// kill ends the process as kill -9 does.
func (n *node) kill() {
	_ = n.cmd.Process.Kill()
	_ = n.cmd.Wait() // it reports that the process was killed
}

func port(t *testing.T) (n int) {
	t.Helper()
	_, err := fmt.Sscanf(freePort(t), "127.0.0.1:%d", &n)
	check(t, err)
	return n
}

// newNode starts a node that runs until it is killed, and a hub on it.
func newNode(t *testing.T, payload int32) (*node, *server.Hub) {
	t.Helper()
	n := &node{Dir: filepath.Join(t.TempDir(), "store"), Port: port(t), Payload: payload}
	n.start(t)
	t.Cleanup(func() { n.kill() })
	h, err := server.Start(t.Context(), server.Options{NATS: n.address(), MaxBytes: 1 << 30, MaxAge: time.Hour, Warn: func(text string) { t.Log(text) }})
	check(t, err)
	t.Cleanup(func() { check(t, h.Close()) })
	return n, h
}

// until asks again until it is so. It fails the test after a minute.
func until(t *testing.T, what string, so func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !so(); runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatalf("a minute has passed, and not yet: %s", what)
		}
	}
}

func (n *node) address() string { return fmt.Sprintf("nats://127.0.0.1:%d", n.Port) }

// A server that is killed and restarted has everything that it confirmed, and receives the
// rest.
func TestServerIsKilled(t *testing.T) {
	t.Parallel()
	n, h := newNode(t, 0)
	f := send(t, n.address(), lossless)
	for range 3 {
		f.writeMany(500)
		n.kill()
		f.writeMany(500)
		n.start(t)
	}
	f.end()
	frames, _ := read(t, h.Conn(), f.sender.Info().ID)
	isWhole(t, frames, f.frames)
}

// The server is killed, and then a relay that sends to it. The next relay sends what the
// killed one had in its spool: the hub has each frame once and in order, and the end is told.
func TestSenderIsKilled(t *testing.T) {
	t.Parallel()
	n, h := newNode(t, 0)
	sender := &node{Dir: t.TempDir(), Port: n.Port, Sends: true}
	sender.start(t)
	t.Cleanup(sender.kill)
	has := func(many int64) {
		t.Helper()
		_, err := fmt.Fprintln(sender.stdin, many)
		check(t, err)
	}
	has(1000)
	until(t, "the session was reported", func() bool {
		list, err := h.Conn().Sessions(t.Context())
		return err == nil && len(list) == 1
	})
	n.kill()
	has(3000)
	parts := filepath.Join(sender.Dir, "spool", "*", "*", "*.segments")
	until(t, "the session was spooled", func() bool {
		names, _ := filepath.Glob(parts)
		return len(names) == 1 && hub.Spooled(names[0]) == 3000
	})
	sender.kill()
	n.start(t)
	next := send(t, n.address(), func(o *hub.Sending) { o.Policy, o.State = hub.Lossless, sender.Dir })
	next.warned.await(t, "has the rest of the session")
	next.end()
	frames, notes := read(t, h.Conn(), "killed")
	isWhole(t, frames, 3000)
	if len(notes) == 0 || !strings.Contains(notes[len(notes)-1], "was killed here") {
		t.Errorf("notes: %q", notes)
	}
	if left, _ := filepath.Glob(filepath.Join(sender.Dir, "spool", "*", "*")); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

// A frame larger than the server's message limit is sent in pieces, however small.
func TestLargeFrame(t *testing.T) {
	t.Parallel()
	n, h := newNode(t, 32<<10)
	f := send(t, n.address(), lossless)
	random := rand.New(rand.NewPCG(1, 2))
	large := []byte(`{"jsonrpc":"2.0","id":1,"result":"`)
	for len(large) < 300<<10 {
		large = strconv.AppendUint(large, random.Uint64(), 36)
	}
	large = append(large, "\"}\n"...)
	f.write([]byte("{}\n"))
	f.write(large)
	f.write([]byte("{}\n"))
	f.end()
	frames, _ := read(t, h.Conn(), f.sender.Info().ID)
	if len(frames) != 3 || !bytes.Equal(frames[1].Raw, large) {
		t.Errorf("%d frames", len(frames))
	}
}

// Many relays send to one hub without loss.
func TestManyRelays(t *testing.T) {
	const relays, frames = 50, 500
	h := start(t, t.TempDir(), "")
	var feeds []*feed
	for range relays {
		feeds = append(feeds, send(t, h.URL(), lossless))
	}
	var writing sync.WaitGroup
	for _, f := range feeds {
		writing.Go(func() { f.writeMany(frames) })
	}
	writing.Wait()
	for _, f := range feeds {
		writing.Go(f.end)
	}
	writing.Wait()
	for _, f := range feeds {
		got, _ := read(t, h.Conn(), f.sender.Info().ID)
		isWhole(t, got, frames)
	}
}
