package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wirectl/wirectl/test/bench/harness"
)

const sharers = 4 // number of brokers, and of workers

// startHub starts a hub with its own folder.
func startHub(b *harness.Bench) *harness.Server {
	dir := harness.Must(os.MkdirTemp(b.Dir, "hub"))
	return harness.Serve(`WIRECTL_HUB='([^']+)'`, "env", "XDG_STATE_HOME="+dir, "wirectl", "hub", "--listen", "127.0.0.1:0", "--page=")
}

// startAll starts servers, and returns the function that stops them.
func startAll(n int, start func(i int) *harness.Server) (list []*harness.Server, stop func()) {
	stop = func() {
		for _, s := range list {
			s.Stop()
		}
	}
	defer func() {
		if len(list) < n { // one did not start
			stop()
		}
	}()
	for i := range n {
		list = append(list, start(i))
	}
	return list, stop
}

func writeConfig(b *harness.Bench, name, text string) string {
	path := filepath.Join(b.Dir, name)
	harness.Check(os.WriteFile(path, []byte(text), 0o600))
	return path
}

// sharedRate measures 64 clients that send as many requests as possible to four brokers
// with a shared rate.
func sharedRate(b *harness.Bench) {
	const name = "share, 4 brokers, 64 clients: calls to what one rate of 400/s allows"
	if !b.Wants(name) {
		return
	}
	hub := startHub(b)
	defer hub.Stop()
	const perSecond, burst = 400, 20
	config := writeConfig(b, "rate.yaml", fmt.Sprintf("providers: {m: {kind: mock, rate: %d, burst: %d}}\nmodels: {m: {provider: m}}\n", perSecond, burst))
	brokers, stop := startAll(sharers, func(int) *harness.Server { return serve("rlm", "--join", hub.Address, "--config", config) })
	defer stop()
	payload := `{"correlation_id":"0123456789abcdef","model":"m","prompt":"hi"}`
	l := load{
		request: append([]byte{0, 0, 0, byte(len(payload))}, payload...), answer: "Echo: hi", read: readFrame,
		clients: 64 / sharers, time: 8 * time.Second / time.Duration(b.Scale),
	}
	for _, s := range brokers {
		l.check(s.Address)
	}
	measured := harness.Turns(b.Rounds, func() float64 {
		time.Sleep(time.Second) // the burst is available again
		var calls, errs atomic.Int64
		var group sync.WaitGroup
		begun := time.Now()
		for _, s := range brokers {
			for range l.clients {
				group.Go(func() {
					times, n := l.client(s.Address, begun.Add(l.time))
					calls.Add(int64(len(times)))
					errs.Add(int64(n))
				})
			}
		}
		group.Wait()
		if n := errs.Load(); n > 0 {
			harness.Check(fmt.Errorf("%d calls failed", n))
		}
		return float64(calls.Load()) / (burst + perSecond*time.Since(begun).Seconds())
	})
	b.AtMost(name+", at most", slices.Clone(measured[0]), 1.05, "")
	b.AtLeast(name+", at least", measured[0], 0.95, "")
}

// sharedCancels measures 64 clients that abandon calls after workers have begun them.
func sharedCancels(b *harness.Bench) {
	const name = "share, cancels from client to a worker's provider"
	if !b.Wants(name) {
		return
	}
	hub := startHub(b)
	defer hub.Stop()
	config := writeConfig(b, "worker.yaml", "providers: {m: {kind: mock, mock: {delay: 1h}}}\nmodels: {\"llama-*\": {provider: m}}\n")
	log := func(i int) string { return filepath.Join(b.Dir, fmt.Sprintf("worker%d.log", i)) }
	_, stop := startAll(sharers, func(i int) *harness.Server {
		return harness.Serve(`msg=working as=(\S+)`, "wirectl", "serve", "--no-tap", "--worker", "--join", hub.Address,
			"--config", config, "--parallel", "32", "--log", log(i), "--log-prompts")
	})
	defer stop()
	brokers, stopBrokers := startAll(sharers, func(int) *harness.Server { return serve("openai", "--join", hub.Address) })
	defer stopBrokers()
	all := 1024 / b.Scale
	left := make([]time.Time, all)
	var next, failed atomic.Int64
	var group sync.WaitGroup
	for i := range 64 {
		group.Go(func() {
			for n := next.Add(1) - 1; n < int64(all); n = next.Add(1) - 1 {
				var err error
				if left[n], err = leave(brokers[i%sharers].Address, int(n)); err != nil {
					failed.Add(1)
				}
			}
		})
	}
	group.Wait()
	if n := failed.Load(); n > 0 {
		harness.Check(fmt.Errorf("%d of %d calls failed", n, all))
	}
	ended := cancelled(log, all)
	var took []float64
	for n, at := range ended {
		took = append(took, at.Sub(left[n]).Seconds()*1000)
	}
	slices.Sort(took)
	b.AtLeast(name+": of them that arrived", []float64{float64(len(took)) / float64(all)}, 1, "")
	if len(took) > 0 {
		b.AtMost(name+": p99", []float64{took[len(took)*99/100]}, 50, "ms")
	}
}

// leave asks for a stream, and closes the connection after its first part.
func leave(addr string, n int) (time.Time, error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return time.Time{}, err
	}
	defer conn.Close()
	body := fmt.Sprintf(`{"model":"llama-3","stream":true,"messages":[{"role":"user","content":"call %d."}]}`, n)
	if _, err := fmt.Fprintf(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body); err != nil {
		return time.Time{}, err
	}
	for r := bufio.NewReader(conn); ; {
		line, err := r.ReadString('\n')
		if err != nil {
			return time.Time{}, err
		}
		if strings.Contains(line, `"content":"Echo:`) {
			return time.Now(), nil
		}
	}
}

// cancelled reads from the logs of workers when each call was cancelled. It waits up to ten
// seconds for the last one.
func cancelled(log func(int) string, all int) map[int]time.Time {
	ended := map[int]time.Time{}
	for deadline := time.Now().Add(10 * time.Second); len(ended) < all && time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		for i := range sharers {
			text := harness.Must(os.ReadFile(log(i)))
			readEnds(text, ended)
		}
	}
	return ended
}

func readEnds(text []byte, ended map[int]time.Time) {
	for dec := json.NewDecoder(bytes.NewReader(text)); ; {
		var line struct {
			Time    time.Time
			Seconds float64
			Outcome string
			Prompt  json.RawMessage
		}
		err := dec.Decode(&line)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return
		}
		harness.Check(err)
		var n int
		if _, rest, ok := bytes.Cut(line.Prompt, []byte("call ")); ok && line.Outcome == "cancelled" {
			if _, err := fmt.Sscanf(string(rest), "%d.", &n); err == nil {
				ended[n] = line.Time.Add(time.Duration(line.Seconds * float64(time.Second)))
			}
		}
	}
}
