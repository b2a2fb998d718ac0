package hub_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	nserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/wirectl/wirectl/hub"
	"github.com/wirectl/wirectl/hub/server"
)

// A node is a server of NATS in a process of its own, which can be killed.
type node struct {
	Name, Dir  string
	Port, Peer int      // that it listens at, and for others of its cluster
	Routes     []string // to the others; none is no cluster

	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stdout *bufio.Reader
}

const nodeVariable = "WIRECTL_TEST_NODE"

// The test program is a node, too.
func TestMain(m *testing.M) {
	if text := os.Getenv(nodeVariable); text != "" {
		if err := runNode(text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// runNode is a node until its standard input ends.
func runNode(text string) error {
	var n node
	if err := json.Unmarshal([]byte(text), &n); err != nil {
		return err
	}
	o := &nserver.Options{ServerName: n.Name, Host: "127.0.0.1", Port: n.Port, NoSigs: true, NoLog: true, JetStream: true, StoreDir: n.Dir}
	if len(n.Routes) > 0 {
		o.Cluster = nserver.ClusterOpts{Name: "test", Host: "127.0.0.1", Port: n.Peer}
		for _, route := range n.Routes {
			u, err := url.Parse(route)
			if err != nil {
				return err
			}
			o.Routes = append(o.Routes, u)
		}
	}
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

// start starts the process and waits until it listens.
func (n *node) start(t *testing.T) {
	t.Helper()
	n.spawn(t)
	n.await(t)
}

func (n *node) spawn(t *testing.T) {
	t.Helper()
	text, err := json.Marshal(n)
	check(t, err)
	n.cmd = exec.Command(os.Args[0])
	n.cmd.Env = append(os.Environ(), nodeVariable+"="+string(text))
	n.cmd.Stderr = os.Stderr
	n.stdin, err = n.cmd.StdinPipe()
	check(t, err)
	stdout, err := n.cmd.StdoutPipe()
	n.stdout = bufio.NewReader(stdout)
	check(t, err, n.cmd.Start())
}

func (n *node) await(t *testing.T) {
	t.Helper()
	if line, err := n.stdout.ReadString('\n'); err != nil {
		t.Fatalf("%s: %q, %v", n.Name, line, err)
	}
}

// kill ends the process as kill -9 does.
func (n *node) kill() {
	_ = n.cmd.Process.Kill()
	_ = n.cmd.Wait() // its status is that it was killed
}

func port(t *testing.T) (n int) {
	t.Helper()
	_, err := fmt.Sscanf(freePort(t), "127.0.0.1:%d", &n)
	check(t, err)
	return n
}

// newNodes makes a cluster of nodes, or one alone.
func newNodes(t *testing.T, count int) (nodes []*node, address string) {
	t.Helper()
	var routes, servers []string
	for i := range count {
		n := &node{Name: fmt.Sprintf("n%d", i), Dir: filepath.Join(t.TempDir(), "store"), Port: port(t), Peer: port(t)}
		nodes = append(nodes, n)
		routes = append(routes, fmt.Sprintf("nats://127.0.0.1:%d", n.Peer))
		servers = append(servers, fmt.Sprintf("nats://127.0.0.1:%d", n.Port))
	}
	for _, n := range nodes {
		if count > 1 {
			n.Routes = routes
		}
		n.spawn(t)
		t.Cleanup(n.kill)
	}
	for _, n := range nodes {
		n.await(t)
	}
	return nodes, strings.Join(servers, ",")
}

// onto prepares the nodes for a hub, once they have found each other.
func onto(t *testing.T, address string) *server.Hub {
	t.Helper()
	guard := time.Now().Add(time.Minute)
	for {
		few := false // servers have found each other
		h, err := server.Start(t.Context(), server.Options{NATS: address, MaxBytes: 1 << 30, MaxAge: time.Hour, Warn: func(string) { few = true }})
		if err == nil && !few {
			t.Cleanup(func() { check(t, h.Close()) })
			return h
		}
		if err == nil {
			js, err := jetstream.New(h.Conn().NATS())
			check(t, err)
			for name := range js.StreamNames(t.Context()).Name() {
				check(t, js.DeleteStream(t.Context(), name))
			}
			check(t, h.Close())
		}
		if time.Now().After(guard) {
			t.Fatal(err)
		}
	}
}

// A server that is killed and comes back has all that it has confirmed, and gets the rest.
func TestServerIsKilled(t *testing.T) {
	nodes, address := newNodes(t, 1)
	h := onto(t, address)
	f := send(t, address, lossless)
	for range 3 {
		f.writeMany(2000)
		nodes[0].kill()
		f.writeMany(2000)
		nodes[0].start(t)
	}
	f.end()
	frames, _ := read(t, h.Conn(), f.sender.Info().ID)
	isWhole(t, frames, f.frames)
}

// Of three servers with three copies any one may be killed.
func TestOneOfThreeIsKilled(t *testing.T) {
	nodes, address := newNodes(t, 3)
	h := onto(t, address)
	f := send(t, address, lossless)
	for _, n := range nodes {
		f.writeMany(1000)
		n.kill()
		f.writeMany(1000)
		n.start(t)
	}
	f.end()
	readWhole(t, h, f)
}

// readWhole reads a session from a cluster whose copies may lag behind each other.
func readWhole(t *testing.T, h *server.Hub, f *feed) {
	t.Helper()
	guard := time.Now().Add(time.Minute)
	for {
		frames, _ := read(t, h.Conn(), f.sender.Info().ID)
		if int64(len(frames)) == f.frames || time.Now().After(guard) {
			isWhole(t, frames, f.frames)
			return
		}
	}
}

// Many relays lose nothing in one hub.
func TestManyRelays(t *testing.T) {
	const relays, frames = 50, 2000
	h := start(t, t.TempDir(), "")
	var feeds []*feed
	for range relays {
		feeds = append(feeds, send(t, h.URL(), func(o *hub.Sending) { o.Policy = hub.Lossless }))
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
