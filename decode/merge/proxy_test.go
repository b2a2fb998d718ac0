package merge_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/capture/pcapng"
	"github.com/wirectl/wirectl/commands"
)

// run runs wirectl, and returns its status and what it prints.
func run(ctx context.Context, args ...string) (status int, out, errs string) {
	var stdout, stderr bytes.Buffer
	status = commands.Run(ctx, env(&stdout, &stderr), append([]string{"wirectl"}, args...))
	return status, stdout.String(), stderr.String()
}

func env(stdout, stderr io.Writer) commands.Env {
	e := commands.OSEnv()
	e.Stdin, e.Stdout, e.Stderr = strings.NewReader(""), stdout, stderr
	e.IsTerminal = func(any) bool { return false }
	e.Width = func(any) int { return 0 }
	e.Linger, e.AtKill, e.Terminable = func(time.Duration) {}, func(func()) {}, func() {}
	return e
}

var listening = regexp.MustCompile(`listening on (\S+)`)

// relay starts a relay that captures, and returns its address and what ends it.
func relay(t *testing.T, file, scheme, unit string) (address string, end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r, w := io.Pipe()
	var running sync.WaitGroup
	running.Go(func() {
		commands.Run(ctx, env(io.Discard, w), []string{"wirectl", "relay", "--no-tap", "--capture", file, "--listen", scheme + "://127.0.0.1:0", unit})
		w.Close()
	})
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		if found := listening.FindStringSubmatch(lines.Text()); found != nil {
			address = found[1]
			break
		}
	}
	if address == "" {
		t.Fatal("the relay does not listen")
	}
	running.Go(func() { _, _ = io.Copy(io.Discard, r) })
	end = sync.OnceFunc(func() { cancel(); running.Wait() })
	t.Cleanup(end)
	return address, end
}

// answer is what the server says to a request; "" to a notification.
func answer(line []byte) string {
	var m struct {
		ID     json.RawMessage
		Method string
		Params struct{ Arguments json.RawMessage }
	}
	if json.Unmarshal(line, &m) != nil || m.ID == nil {
		return ""
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"content":[],"structuredContent":{"of":%s}}}`, m.ID, m.Params.Arguments)
}

func call(id int, text string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"echo","arguments":{"text":%q}}}`, id, text)
}

// listen serves the connections of a new address, until the test ends.
func listen(t *testing.T, serve func(n int, c net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for n := 0; ; n++ {
			c, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { serve(n, c); c.Close() })
		}
	})
	t.Cleanup(func() { l.Close(); serving.Wait() })
	return "tcp://" + l.Addr().String()
}

// A proxy passes lines on as it likes. It connects to the far end in the reverse order of the n connections that it
// waits for.
func proxy(t *testing.T, far string, n int, meddle func(up bool, line string) []string) string {
	turns := make([]chan struct{}, n+1)
	for i := range turns {
		turns[i] = make(chan struct{})
	}
	close(turns[n])
	return listen(t, func(i int, near net.Conn) {
		if i < n-1 {
			<-turns[i+1]
		}
		c, err := net.Dial("tcp", strings.TrimPrefix(far, "tcp://"))
		if i < n {
			close(turns[i])
		}
		if err != nil {
			return
		}
		defer c.Close()
		pass := func(up bool, from, to net.Conn) {
			for lines := bufio.NewScanner(from); lines.Scan(); {
				for _, line := range meddle(up, lines.Text()) {
					_, _ = io.WriteString(to, line+"\n")
				}
			}
			_ = to.(*net.TCPConn).CloseWrite()
		}
		var back sync.WaitGroup
		back.Go(func() { pass(false, c, near) })
		pass(true, near, c)
		back.Wait()
	})
}

// faults names what the proxy does to messages with a word.
func faults(up bool, line string) []string {
	switch {
	case up && strings.Contains(line, "drop-request"), !up && strings.Contains(line, "drop-answer"):
		return nil
	case up && strings.Contains(line, "twice"):
		return []string{line, line}
	case up && strings.Contains(line, "change-request"):
		return []string{strings.Replace(line, "change-request", "other", 1)}
	case !up && strings.Contains(line, "change-answer"):
		return []string{strings.Replace(line, `"content":[]`, `"content":[1]`, 1)}
	}
	return []string{line}
}

func honest(_ bool, line string) []string { return []string{line} }

// renaming gives messages other ids, and spells them in another way.
func renaming(up bool, line string) []string {
	if up {
		return []string{regexp.MustCompile(`"id":(\d+)`).ReplaceAllString(line, `"id": "g-$1"`)}
	}
	return []string{regexp.MustCompile(`"id": ?"g-(\d+)"`).ReplaceAllString(line, `"id":$1`)}
}

// tcp records both ends of the connections of several clients, each of which sends calls and waits for the answers.
func tcp(t *testing.T, meddle func(bool, string) []string, clients ...[]string) (a, b string) {
	a, b = filepath.Join(t.TempDir(), "a.pcapng"), filepath.Join(t.TempDir(), "b.pcapng")
	server := listen(t, func(_ int, c net.Conn) {
		for lines := bufio.NewScanner(c); lines.Scan(); {
			if text := answer(lines.Bytes()); text != "" {
				fmt.Fprintln(c, text)
			}
		}
	})
	farRelay, endFar := relay(t, b, "tcp", server)
	nearRelay, endNear := relay(t, a, "tcp", proxy(t, farRelay, len(clients), meddle))
	var conns []net.Conn
	for range clients {
		c, err := net.Dial("tcp", strings.TrimPrefix(nearRelay, "tcp://"))
		if err != nil {
			t.Fatal(err)
		}
		conns = append(conns, c)
	}
	var talking sync.WaitGroup
	for i, c := range conns {
		talking.Go(func() {
			defer c.Close()
			for n, text := range clients[i] {
				fmt.Fprintln(c, call(n+1, text))
			}
			_ = c.(*net.TCPConn).CloseWrite()
			_, _ = io.Copy(io.Discard, c)
		})
	}
	talking.Wait()
	endNear()
	endFar()
	return a, b
}

// rewrite writes the records of a capture again after f has changed them.
func rewrite(t *testing.T, name string, f func(r *capture.Record)) string {
	t.Helper()
	in, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	r, err := pcapng.NewReader(in, 0)
	if err != nil {
		t.Fatal(err)
	}
	name = filepath.Join(t.TempDir(), filepath.Base(name))
	out, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	about := *r.Session()
	var rec capture.Record
	f(&rec)
	w, err := pcapng.NewWriter(out, about, nil)
	for err == nil {
		if err = r.Next(&rec); err == nil {
			f(&rec)
			err = w.Write(&rec)
		}
	}
	if err != io.EOF {
		t.Fatal(err)
	}
	return name
}

// found returns the sorted findings of two captures, without the numbers of frames of B.
func found(t *testing.T, a, b string) (texts []string, clock string) {
	t.Helper()
	_, out, errs := run(t.Context(), "merge", "-o", "ndjson", a, b)
	for line := range strings.Lines(out) {
		var f struct{ Finding, Message string }
		if err := json.Unmarshal([]byte(line), &f); err != nil {
			t.Fatal(err, line)
		}
		texts = append(texts, regexp.MustCompile(` \(frame \d+ of [AB]\)`).ReplaceAllString(f.Finding+": "+f.Message, ""))
	}
	slices.Sort(texts)
	status, text, _ := run(t.Context(), "merge", a, b)
	if want := map[bool]int{true: 3, false: 0}[len(texts) > 0]; status != want {
		t.Errorf("the status is %d: %s%s", status, text, errs)
	}
	lines := strings.Split(text, "\n")
	if len(lines) < 3 {
		t.Fatal(text, errs)
	}
	return texts, lines[2]
}

func expect(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("found\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}

var clients = [][]string{
	{"one", "drop-request", "three", "change-answer"},
	{"uno", "drop-answer", "tres", "twice"},
	{"eins", "change-request", "drei", "held"},
}

// A proxy between two relays drops, changes and repeats frames, and connects in another order. Each fault is
// named, and nothing else, in both orders of the captures.
func TestProxy(t *testing.T) {
	a, b := tcp(t, faults, clients...)
	late := func(r *capture.Record) {
		if bytes.Contains(r.Raw, []byte("held")) {
			r.Time = r.Time.Add(1900 * time.Millisecond)
		}
	}
	b = rewrite(t, b, late)
	a = rewrite(t, a, func(r *capture.Record) {
		if bytes.Contains(r.Raw, []byte("result")) {
			late(r)
		}
	})
	want := []string{
		"changed-between: B got tools/call echo 4 again, which A sent only once",
		`changed-between: result 4 was changed between B and A: result.content.0 absent → 1`,
		`changed-between: tools/call echo 2 was changed between A and B: params.arguments.text "change-request" → "other"`,
		"delayed-between: tools/call echo 4 was held for at least 1.9s between A and B",
		"lost-between: result 2 left B and never reached A",
		"lost-between: tools/call echo 2 left A and never reached B",
	}
	got, _ := found(t, a, b)
	for i := range got {
		got[i] = regexp.MustCompile(`1\.\d+s`).ReplaceAllString(got[i], "1.9s")
	}
	expect(t, got, want...)
	out := filepath.Join(t.TempDir(), "out.pcapng")
	if status, text, errs := run(t.Context(), "merge", a, b, out); status != 3 {
		t.Fatal(status, text, errs)
	}
	_, text, _ := run(t.Context(), "lint", "-o", "ndjson", out)
	for name, n := range map[string]int{"lost-between": 2, "changed-between": 3, "delayed-between": 1} {
		if got := strings.Count(text, `"finding":"`+name+`"`); got != n {
			t.Errorf("lint tells %d %s, want %d:\n%s", got, name, n, text)
		}
	}
}

// Where nothing happened nothing is found, whatever the ids, and whatever the order of connections.
func TestCleanProxy(t *testing.T) {
	for name, meddle := range map[string]func(bool, string) []string{"as it is": honest, "renamed": renaming} {
		t.Run(name, func(t *testing.T) {
			a, b := tcp(t, meddle, clients...)
			got, clock := found(t, a, b)
			expect(t, got)
			if !strings.HasPrefix(clock, "Both clocks show the same time, ± ") {
				t.Error(clock)
			}
		})
	}
}

// The clocks of two machines differ by 3 s: that is found, with its error, and nothing is held.
func TestClocks(t *testing.T) {
	a, b := tcp(t, honest, []string{"one", "two", "three"}, []string{"uno"})
	far := func(of string) string {
		return rewrite(t, of, func(r *capture.Record) { r.Time = r.Time.Add(3 * time.Second) })
	}
	for _, test := range []struct {
		a, b string
		want time.Duration // B is ahead
	}{{a, far(b), 3 * time.Second}, {far(a), b, -3 * time.Second}, {b, a, 0}} {
		got, clock := found(t, test.a, test.b)
		expect(t, got)
		said := regexp.MustCompile(`^(?:The clock of B is (\S+) (ahead|behind).*|Both clocks show the same time), ± (\S+)$`).FindStringSubmatch(clock)
		if said == nil {
			t.Fatal(clock)
		}
		ahead, _ := time.ParseDuration(said[1])
		if said[2] == "behind" {
			ahead = -ahead
		}
		if margin, err := time.ParseDuration(said[3]); err != nil || (ahead-test.want).Abs() > margin+2*time.Millisecond { // as it is rounded
			t.Errorf("%s, want %v", clock, test.want)
		}
	}
}

// Over HTTP, an answer compressed at one end is the same as one that is not. A path, events in place of JSON
// and other connections change nothing.
func TestHTTP(t *testing.T) {
	a, b := overHTTP(t, false)
	got, _ := found(t, a, b)
	expect(t, got)
	a, b = overHTTP(t, true)
	got, _ = found(t, a, b)
	expect(t, got,
		`changed-between: tools/call echo 3 was changed between A and B: params.arguments.text "change-request" → "other"`,
		"lost-between: tools/call echo 1 left A and never reached B; its answer came from between",
		"lost-between: tools/call echo 2 left A and never reached B; its answer came from between",
	)
}

// overHTTP records both ends of a gateway for MCP over HTTP.
func overHTTP(t *testing.T, faulty bool) (a, b string) {
	a, b = filepath.Join(t.TempDir(), "a.pcapng"), filepath.Join(t.TempDir(), "b.pcapng")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		text := answer(body)
		if text == "" {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		_, _ = io.WriteString(z, text)
		z.Close()
	}))
	defer server.Close()
	farRelay, endFar := relay(t, b, "http", server.URL+"/inner")
	transport := &http.Transport{DisableCompression: true}
	defer transport.CloseIdleConnections()
	gateway := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if bytes.Contains(body, []byte("drop-request")) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, strings.Replace(answer(body), `"result":{`, `"result":{"isError":true,`, 1))
			return
		}
		if bytes.Contains(body, []byte("change-request")) {
			body = bytes.Replace(body, []byte("change-request"), []byte("other"), 1)
		}
		q, _ := http.NewRequestWithContext(r.Context(), r.Method, farRelay+"/mcp", bytes.NewReader(body))
		q.Header.Set("Content-Type", "application/json")
		q.Header.Set("Accept-Encoding", "gzip")
		p, err := transport.RoundTrip(q)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		defer p.Body.Close()
		var text []byte
		if z, err := gzip.NewReader(p.Body); err == nil {
			text, _ = io.ReadAll(z)
		}
		if bytes.Contains(text, []byte("events")) {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprintf(w, "data: %s\n\n", text)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(p.StatusCode)
		_, _ = w.Write(text)
	}))
	defer gateway.Close()
	nearRelay, endNear := relay(t, a, "http", gateway.URL)
	post := func(texts ...string) {
		for i, text := range texts {
			r, err := http.Post(nearRelay+"/mcp", "application/json", strings.NewReader(call(i+1, text)))
			if err != nil {
				t.Fatal(err)
			}
			_, err = io.Copy(io.Discard, r.Body)
			if err = errors.Join(err, r.Body.Close()); err != nil {
				t.Fatal(err)
			}
		}
	}
	post("one", "two", "events", "four")
	var talking sync.WaitGroup
	for range 4 {
		talking.Go(func() { post("same", "same", "events") })
	}
	talking.Wait()
	if faulty {
		post("drop-request", "drop-request", "change-request")
	}
	http.DefaultClient.CloseIdleConnections()
	endNear()
	endFar()
	return a, b
}
