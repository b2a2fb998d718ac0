package interop

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A natsServer is a member of a cluster.
type natsServer struct {
	args          []string
	port, monitor int
	cmd           *exec.Cmd
}

func (n *natsServer) start(t *testing.T) {
	t.Helper()
	n.cmd = exec.Command(n.args[0], n.args[1:]...)
	check(t, n.cmd.Start())
}

// kill ends the server as kill -9 does.
func (n *natsServer) kill() {
	_ = n.cmd.Process.Kill()
	_ = n.cmd.Wait() // it reports that the process was killed
}

// lastingPort returns a port that no other connection gets while its server is down.
func lastingPort(t *testing.T) int {
	t.Helper()
	for {
		port := 15000 + rand.IntN(15000)
		if l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			check(t, l.Close())
			return port
		}
	}
}

// cluster starts three servers of NATS.
func cluster(t *testing.T) (nodes []*natsServer, address string) {
	t.Helper()
	program := filepath.Join(t.TempDir(), "nats-server.exe")
	build := exec.CommandContext(t.Context(), "go", "build", "-C", "../..", "-o", program, "github.com/nats-io/nats-server/v2")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var peers [3]int
	var routes, addresses []string
	for i := range peers {
		peers[i] = lastingPort(t)
		routes = append(routes, fmt.Sprintf("nats://127.0.0.1:%d", peers[i]))
	}
	for i, peer := range peers {
		n := &natsServer{port: lastingPort(t), monitor: lastingPort(t)}
		n.args = []string{
			program, "-a", "127.0.0.1", "-p", fmt.Sprint(n.port), "-m", fmt.Sprint(n.monitor), "--server_name", fmt.Sprintf("n%d", i),
			"-js", "-sd", t.TempDir(), "--cluster_name", "test", "--cluster", fmt.Sprintf("nats://127.0.0.1:%d", peer), "--routes", strings.Join(routes, ","),
		}
		n.start(t)
		t.Cleanup(func() { n.kill() })
		nodes = append(nodes, n)
		addresses = append(addresses, fmt.Sprintf("nats://127.0.0.1:%d", n.port))
	}
	return nodes, strings.Join(addresses, ",")
}

// isHealthy reports whether a server is in sync with its cluster.
func (n *natsServer) isHealthy() bool {
	var jsz struct {
		Meta struct {
			Leader string `json:"leader"`
			Size   int    `json:"cluster_size"`
		} `json:"meta_cluster"`
	}
	body, status := n.ask("/jsz")
	if status != http.StatusOK || json.Unmarshal(body, &jsz) != nil || jsz.Meta.Leader == "" || jsz.Meta.Size != 3 {
		return false
	}
	_, status = n.ask("/healthz")
	return status == http.StatusOK
}

func (n *natsServer) ask(path string) (body []byte, status int) {
	resp, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d%s", n.monitor, path))
	if err != nil {
		return nil, 0
	}
	defer resp.Body.Close()
	body, _ = io.ReadAll(resp.Body)
	return body, resp.StatusCode
}

// A sending is a relay that sends losslessly, and a viewer of its session.
type sending struct {
	name          string
	relay, viewer *exec.Cmd
	stdin         io.WriteCloser
	said          bytes.Buffer
	seen          string // the file with what the viewer prints
	count         int
}

// newSending starts the relay.
func newSending(t *testing.T, name string) *sending {
	t.Helper()
	s := &sending{name: name, relay: exec.CommandContext(t.Context(), wirectl, "relay", "--no-tap", "--name", name, "--hub-policy", "lossless", "--", "cat")}
	s.relay.Stderr = &s.said
	stdin, err := s.relay.StdinPipe()
	check(t, err)
	s.stdin = stdin
	check(t, s.relay.Start())
	return s
}

// view starts the viewer.
func (s *sending) view(t *testing.T) {
	t.Helper()
	s.viewer = exec.CommandContext(t.Context(), wirectl, "decode", "-q", "-o", "ndjson", "hub:"+s.name)
	s.seen = filepath.Join(t.TempDir(), s.name)
	out, err := os.Create(s.seen)
	check(t, err)
	defer out.Close()
	s.viewer.Stdout, s.viewer.Stderr = out, t.Output()
	check(t, s.viewer.Start())
}

// saw returns what the viewer has printed.
func (s *sending) saw(t *testing.T) []byte {
	t.Helper()
	out, err := os.ReadFile(s.seen)
	check(t, err)
	return out
}

// write writes frames to the relay.
func (s *sending) write(t *testing.T) {
	t.Helper()
	for range 100 {
		s.count++
		_, err := fmt.Fprintf(s.stdin, `{"jsonrpc":"2.0","method":"notifications/n","params":{"n":%d}}`+"\n", s.count)
		check(t, err)
	}
}

// isWhole checks that NDJSON has each frame once and in order, in both directions.
func (s *sending) isWhole(t *testing.T, ndjson []byte) {
	t.Helper()
	for _, way := range []string{"c2u", "u2c"} {
		n := 0
		for line := range bytes.Lines(ndjson) {
			var r struct {
				Dir     string
				Payload struct{ Params struct{ N int } }
			}
			check(t, json.Unmarshal(line, &r))
			if r.Dir != way {
				continue
			}
			if n++; r.Payload.Params.N != n {
				t.Fatalf("frame %d of %s is %s", n, way, line)
			}
		}
		if n != s.count {
			t.Errorf("%s has %d frames of %s, want %d", s.name, n, way, s.count)
		}
	}
}

// Any one of three servers with three copies may be killed, one after another, while 20
// relays send. The hub has all of their sessions, each frame once and in order. Viewers go
// on and see the same.
func TestHubSurvivesItsServers(t *testing.T) {
	const relays, viewers = 20, 3
	nodes, address := cluster(t)
	healthy := func() bool {
		for _, n := range nodes {
			if !n.isHealthy() {
				return false
			}
		}
		return true
	}
	eventually(t, "the cluster is healthy", healthy)
	t.Setenv("WIRECTL_HUB", address)
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	eventually(t, "the cluster is a hub", func() bool { return prepares(t, address) })

	var all []*sending
	for i := range relays {
		all = append(all, newSending(t, fmt.Sprintf("files-%02d", i)))
	}
	write := func() {
		for _, s := range all {
			s.write(t)
		}
	}
	write()
	for _, s := range all[:viewers] {
		eventually(t, "the hub knows "+s.name, func() bool { return strings.Contains(sessions(t), s.name) })
		s.view(t)
	}
	for _, n := range nodes {
		write()
		n.kill()
		write()
		n.start(t)
		eventually(t, "the cluster is healthy again", healthy)
	}
	for _, s := range all[:viewers] {
		eventually(t, "the viewer of "+s.name+" sees everything", func() bool { return bytes.Count(s.saw(t), []byte("\n")) >= 2*s.count })
	}
	for _, s := range all {
		check(t, s.stdin.Close())
	}
	for _, s := range all {
		if err := s.relay.Wait(); err != nil {
			t.Fatalf("%v\n%s", err, &s.said)
		}
		// If it could not send everything, the next relay does.
		whole := regexp.MustCompile(fmt.Sprintf(`"name":"%s",.*"ended":.*"frames":%d,`, s.name, 2*s.count))
		eventually(t, "the hub has "+s.name, func() bool {
			if whole.MatchString(sessions(t)) {
				return true
			}
			next := exec.CommandContext(t.Context(), wirectl, "relay", "--no-tap", "--hub-policy", "lossless", "--", "sleep", "2")
			_ = next.Run()
			return false
		})
		out, _ := command(t, nil, "decode", "-q", "-o", "ndjson", "hub:"+s.name)
		s.isWhole(t, out)
	}
	for _, s := range all[:viewers] {
		if err := s.viewer.Wait(); err != nil {
			t.Errorf("the viewer of %s: %v", s.name, err)
		}
		s.isWhole(t, s.saw(t))
	}
}

// sessions returns wirectl's list of the sessions at the hub, or "" if there is none yet.
func sessions(t *testing.T) string {
	t.Helper()
	out, _ := exec.CommandContext(t.Context(), wirectl, "sessions", "--hub", "-o", "ndjson").Output()
	return string(out)
}

// prepares reports whether wirectl hub made its streams, in three copies.
func prepares(t *testing.T, address string) bool {
	t.Helper()
	var stderr bytes.Buffer
	cmd := exec.CommandContext(t.Context(), wirectl, "hub", "--nats", address)
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	check(t, err)
	check(t, cmd.Start())
	_, err = out.Read(make([]byte, 1)) // it has failed, or printed its address
	_ = cmd.Process.Signal(os.Interrupt)
	_ = cmd.Wait()
	if strings.Contains(stderr.String(), "too few servers") {
		t.Fatalf("of three servers: %s", &stderr)
	}
	return err == nil
}
