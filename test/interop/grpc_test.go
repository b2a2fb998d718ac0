package interop

import (
	"bufio"
	"context"
	"encoding/hex"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// grpcurl builds the program pinned by its own module, and returns a function that runs it
// and must succeed.
func grpcurl(t *testing.T) func(args ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "grpcurl.exe")
	build := exec.CommandContext(t.Context(), "go", "build", "-C", "grpcurl", "-o", path, "github.com/fullstorydev/grpcurl/cmd/grpcurl")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return func(args ...string) string {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		out, err := exec.CommandContext(ctx, path, append([]string{"-plaintext"}, args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("grpcurl %q: %v\n%s", args, err, out)
		}
		return string(out)
	}
}

// grpcurl learns about Latis only by reflection, and talks to a unit through a relay, which
// extracts its calls from HTTP/2.
func TestGrpcurl(t *testing.T) {
	run := grpcurl(t)
	unit, _ := listening(t, exec.CommandContext(t.Context(), wirectl, "unit", "--listen", "grpc://127.0.0.1:0"), regexp.MustCompile(`grpc://(\S+)`))
	address, end := relayed(t, "grpc://127.0.0.1:0", "grpc://"+unit)
	_, hostPort, _ := strings.Cut(address, "://")
	if got := run(hostPort, "list"); !strings.Contains(got, "latis.v1.LatisService") {
		t.Errorf("the services are %s", got)
	}
	got := run("-d", `{"id":"7","promptSend":{"content":"from grpcurl"}}`, hostPort, "latis.v1.LatisService/Connect")
	var said strings.Builder
	completed := false
	for answers := json.NewDecoder(strings.NewReader(got)); answers.More(); {
		var a struct {
			ID               string
			ResponseChunk    struct{ Content string }
			ResponseComplete *struct{}
		}
		check(t, answers.Decode(&a))
		said.WriteString(a.ResponseChunk.Content)
		completed = completed || a.ID == "7" && a.ResponseComplete != nil
	}
	if said.String() != "Echo: from grpcurl" || !completed {
		t.Errorf("the unit answers %s", got)
	}
	count(t, end(false), map[string]int{
		`"kind":"/latis.v1.LatisService/Connect","id":"3","phase":"open"`: 1,
		`"kind":"PROMPT_SEND","id":"7"`:                                   1,
		`"content":"Echo: from grpcurl"`:                                  1,
		`"listServicesResponse":{"service"`:                               1,
	})
}

// Python's grpcio, which compresses what it sends, is answered. When the unit stops on SIGTERM,
// its open call ends as unavailable, also behind a relay.
func TestPythonGRPC(t *testing.T) {
	const python = "/usr/bin/python3" // which has the packages of the system
	if err := exec.CommandContext(t.Context(), python, "-c", "import grpc").Run(); err != nil {
		need(t, "python3-grpcio")
	}
	for _, behind := range []bool{false, true} {
		unit := exec.CommandContext(t.Context(), wirectl, "unit", "--listen", "grpc://127.0.0.1:0")
		address, _ := listening(t, unit, regexp.MustCompile(`grpc://(\S+)`))
		if behind {
			address, _ = relayed(t, "grpc://127.0.0.1:0", "grpc://"+address)
			_, address, _ = strings.Cut(address, "://")
		}
		client := exec.CommandContext(t.Context(), python, "python/grpc_client.py", address)
		client.Stderr = os.Stderr
		out, err := client.StdoutPipe()
		check(t, err)
		check(t, client.Start())
		timer := time.AfterFunc(patience, func() { _ = client.Process.Kill() })
		defer timer.Stop()
		var said []string
		for lines := bufio.NewScanner(out); lines.Scan(); {
			said = append(said, lines.Text())
			if strings.HasPrefix(lines.Text(), "answer 0a0131aa01") { // the last one
				check(t, unit.Process.Signal(syscall.SIGTERM))
			}
		}
		if err := client.Wait(); err != nil || said[len(said)-1] != "ended UNAVAILABLE" || !strings.Contains(strings.Join(said, " "), hex.EncodeToString([]byte("Echo: hi"))) {
			t.Errorf("behind a relay %t: %v, %q", behind, err, said)
		}
	}
}
