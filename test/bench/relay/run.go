package main

import (
	"crypto/tls"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/wirectl/wirectl/test/bench/harness"
)

// agents measures what wirectl run adds to the start of an agent, and to the first event of an answer over TLS.
// In both cases the agent, which is this program, reaches its model through a proxy.
func agents(b *harness.Bench) {
	const (
		start = "wirectl run -- true: added to the start and end of true"
		first = "wirectl run, recorded in full: added to the p50 of the first event of an answer"
	)
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: {}\n\n")
	}))
	defer server.Close()
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		to := harness.Must(net.Dial("tcp", server.Listener.Addr().String()))
		defer to.Close()
		from, _, err := http.NewResponseController(w).Hijack()
		harness.Check(err)
		defer from.Close()
		_, _ = io.WriteString(from, "HTTP/1.1 200 OK\r\n\r\n")
		go func() {
			_, _ = io.Copy(to, from)
			_ = to.(*net.TCPConn).CloseWrite()
		}()
		_, _ = io.Copy(from, to)
	}))
	defer proxy.Close()
	roots := filepath.Join(b.Dir, "roots.pem")
	harness.Check(os.WriteFile(roots, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600))
	command := func(args ...string) *exec.Cmd {
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Env = append(os.Environ(), "HTTPS_PROXY="+proxy.URL, "SSL_CERT_FILE="+roots, "XDG_STATE_HOME="+b.Dir, "TMPDIR="+b.Dir)
		return cmd
	}
	wirectl, self := b.Bin("wirectl"), harness.Must(os.Executable())
	difference := func(with, without []float64) (added []float64) {
		for i := range with {
			added = append(added, with[i]-without[i])
		}
		return added
	}
	if b.Wants(start) {
		took := func(args ...string) func() float64 {
			return func() float64 {
				began := time.Now()
				harness.Run(command(args...))
				return float64(time.Since(began).Microseconds()) / 1000
			}
		}
		times := harness.Turns(b.Rounds, took("true"), took(wirectl, "run", "-q", "--", "true"))
		b.AtMost(start, difference(times[1], times[0]), 200, "ms")
	}
	if b.Wants(first) {
		ask := func(args ...string) func() float64 {
			args = append(args, self, "agent", strconv.Itoa(max(20, 1000/b.Scale)))
			return func() float64 {
				return harness.Must(strconv.ParseFloat(strings.TrimSpace(string(harness.Output(command(args...)))), 64))
			}
		}
		times := harness.Turns(b.Rounds, ask(), ask(wirectl, "run", "-q", "--hosts", "example.com", "--"))
		b.AtMost(first, difference(times[1], times[0]), 1, "ms")
	}
}

// agent asks a model, and prints the median time until the first bytes of an answer, in milliseconds.
func agent(times string) {
	n := harness.Must(strconv.Atoi(times))
	client := &http.Client{Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: &tls.Config{}}}
	var list []float64
	for range n {
		began := time.Now()
		answer := harness.Must(client.Post("https://example.com/v1/messages", "application/json", strings.NewReader(`{"model":"m"}`)))
		_, err := io.ReadFull(answer.Body, make([]byte, 1))
		harness.Check(err)
		list = append(list, float64(time.Since(began).Microseconds())/1000)
		_, _ = io.Copy(io.Discard, answer.Body)
		answer.Body.Close()
	}
	fmt.Println(harness.Median(list))
}
