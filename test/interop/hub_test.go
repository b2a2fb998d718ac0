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

// Any one of three servers with three copies may be killed, one after another, while a
// relay sends. The hub has the whole session, each frame once and in order.
func TestHubSurvivesItsServers(t *testing.T) {
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

	relay := exec.CommandContext(t.Context(), wirectl, "relay", "--no-tap", "--name", "files", "--hub-policy", "lossless", "--", "cat")
	var stderr bytes.Buffer
	relay.Stderr, relay.Stdout = &stderr, io.Discard
	stdin, err := relay.StdinPipe()
	check(t, err)
	check(t, relay.Start())
	count := 0
	write := func() {
		for range 300 {
			count++
			_, err := fmt.Fprintf(stdin, `{"jsonrpc":"2.0","method":"notifications/n","params":{"n":%d}}`+"\n", count)
			check(t, err)
		}
	}
	for _, n := range nodes {
		write()
		n.kill()
		write()
		n.start(t)
		eventually(t, "the cluster is healthy again", healthy)
	}
	check(t, stdin.Close())
	if err := relay.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, &stderr)
	}
	// The next relay sends the rest.
	whole := regexp.MustCompile(fmt.Sprintf(`"name":"files",.*"ended":.*"frames":%d,`, 2*count))
	eventually(t, "the hub has the session", func() bool {
		if whole.MatchString(sessions(t)) {
			return true
		}
		next := exec.CommandContext(t.Context(), wirectl, "relay", "--no-tap", "--hub-policy", "lossless", "--", "sleep", "2")
		_ = next.Run()
		return false
	})
	for _, way := range []string{"c2u", "u2c"} {
		n := 0
		out, _ := command(t, nil, "decode", "-q", "-o", "ndjson", "hub:files")
		for line := range bytes.Lines(out) {
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
		if n != count {
			t.Errorf("the hub has %d frames of %s, want %d", n, way, count)
		}
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
