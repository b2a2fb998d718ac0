package httpproxy_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/relay"
	"github.com/wirectl/wirectl/relay/httpproxy"
	"github.com/wirectl/wirectl/transport"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// records keeps what passed.
type records struct {
	mu   sync.Mutex
	list []capture.Record
}

func (r *records) Write(rec *capture.Record) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = append(r.list, rec.Clone())
	return nil
}

// lines shows the frames that passed.
func (r *records) lines() (lines []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, rec := range r.list {
		if rec.Kind == capture.Frame && !rec.Gap {
			lines = append(lines, fmt.Sprintf("%s %s %q", rec.Dir, rec.Framing, rec.Payload()))
		}
	}
	return lines
}

// start puts a proxy before a server, and returns its URL and what ends it.
func start(t *testing.T, server *httptest.Server, path string) (address string, seen *records, stop func() httpproxy.Result) {
	t.Helper()
	target, err := url.Parse(server.URL + path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	l, err := transport.Listen(ctx, "tcp://127.0.0.1:0", transport.Options{})
	if err != nil {
		t.Fatal(err)
	}
	seen = &records{}
	type outcome struct {
		result httpproxy.Result
		err    error
	}
	done := make(chan outcome, 1)
	go func() {
		result, err := httpproxy.Serve(ctx, httpproxy.Config{
			Listener: l, Target: target, Sink: relay.NewFan(func(text string) { t.Error(text) }, seen),
			Warn: func(text string) { t.Log(text) },
		})
		done <- outcome{result, err}
	}()
	stop = sync.OnceValue(func() httpproxy.Result {
		cancel()
		o := <-done
		if o.err != nil {
			t.Error(o.err)
		}
		return o.result
	})
	t.Cleanup(func() { stop() })
	return "http://" + strings.TrimPrefix(l.Addr(), "tcp://"), seen, stop
}

// ends are the directions that ended, in that order.
func (r *records) ends() (dirs []frame.Dir) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, rec := range r.list {
		if rec.Kind == capture.HalfClosed {
			dirs = append(dirs, rec.Dir)
		}
	}
	return dirs
}

func get(t *testing.T, c *http.Client, method, address, body string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, address, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// client returns a client with connections of its own.
func client(t *testing.T) *http.Client {
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// Requests arrive as they were sent, but for Host and the path of a request for
// "/"; what passed is in the capture.
func TestRequests(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "[%q, %q, %q]", r.Host, r.URL, body)
	}))
	defer server.Close()
	address, seen, stop := start(t, server, "/mcp")
	host := strings.TrimPrefix(server.URL, "http://")
	c := client(t)
	for _, tt := range []struct{ path, body, want string }{
		{"/", `{"a":1}`, fmt.Sprintf(`[%q, "/mcp", "{\"a\":1}"]`, host)},
		{"/other?x=y", "", fmt.Sprintf(`[%q, "/other?x=y", ""]`, host)},
	} {
		if got := get(t, c, "POST", address+tt.path, tt.body); got != tt.want {
			t.Errorf("POST %s: %s, want %s", tt.path, got, tt.want)
		}
	}
	c.CloseIdleConnections()
	result := stop()
	want := []string{
		`c2u http "{\"a\":1}"`, fmt.Sprintf(`u2c http "[\"%s\", \"/mcp\", \"{\\\"a\\\":1}\"]"`, host),
		`c2u http ""`, fmt.Sprintf(`u2c http "[\"%s\", \"/other?x=y\", \"\"]"`, host),
	}
	if diff := cmp.Diff(want, seen.lines()); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
	if result.Conns != 1 || result.ToUnit.Frames != 2 || result.ToController.Frames != 2 {
		t.Errorf("result: %+v", result)
	}
}

// Each event is there as soon as the server has written it, and the server
// learns at once that a client went away.
func TestEvents(t *testing.T) {
	more := make(chan struct{})
	gone := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for i := 0; ; i++ {
			fmt.Fprintf(w, "data: {\"n\":%d}\n\n", i)
			w.(http.Flusher).Flush()
			select {
			case <-more:
			case <-r.Context().Done():
				close(gone)
				panic(http.ErrAbortHandler) // to return would end the events, which may still be seen
			}
		}
	}))
	defer server.Close()
	address, seen, stop := start(t, server, "/sse")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client(t).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	for i := range 3 {
		if !lines.Scan() || lines.Text() != fmt.Sprintf(`data: {"n":%d}`, i) {
			t.Fatalf("event %d: %q, %v", i, lines.Text(), lines.Err())
		}
		lines.Scan()
		if i < 2 {
			more <- struct{}{}
		}
	}
	cancel()
	select {
	case <-gone:
	case <-time.After(10 * time.Second):
		t.Error("the server was not told that its client is gone")
	}
	stop()
	want := []string{`c2u http ""`, `u2c http ""`, `u2c http "{\"n\":0}"`, `u2c http "{\"n\":1}"`, `u2c http "{\"n\":2}"`}
	if diff := cmp.Diff(want, seen.lines()); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
}

// The capture says what requests are changed to, and not that nothing is.
func TestNotes(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	host := strings.TrimPrefix(server.URL, "http://")
	for path, want := range map[string]string{
		"":     "requests are forwarded with Host: " + host,
		"/":    "requests are forwarded with Host: " + host,
		"/mcp": "requests are forwarded with Host: " + host + ", and those for / to /mcp",
	} {
		address, seen, stop := start(t, server, path)
		c := client(t)
		get(t, c, "GET", address, "")
		c.CloseIdleConnections()
		stop()
		is := func(rec capture.Record) bool { return rec.Kind == capture.Note && string(rec.Text) == want }
		if !slices.ContainsFunc(seen.list, is) {
			t.Errorf("%q: no note %q", path, want)
		}
	}
}

// A page of another site, whose name was made to lead here, does not reach the server,
// to which it would look like any client.
func TestForeignHost(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("the server was asked")
	}))
	defer server.Close()
	address, seen, stop := start(t, server, "/mcp")
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address, strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	req.Host = "evil.example:7000"
	resp, err := client(t).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusForbidden {
		t.Errorf("the answer is %s", resp.Status)
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	stop()
	if lines := seen.lines(); len(lines) != 2 || !strings.HasPrefix(lines[1], "u2c http ") {
		t.Errorf("the refusal is not recorded: %q", lines)
	}
}

// A server that is not there is a 502 for its clients.
func TestNoServer(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	address, _, _ := start(t, server, "/")
	if got := get(t, client(t), "GET", address, ""); !strings.HasPrefix(got, "wirectl: ") {
		t.Errorf("%q", got)
	}
}

// What is not HTTP, or no more after an upgrade, passes as it is.
func TestPassing(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		c, rw, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		defer c.Close()
		fmt.Fprint(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		_, _ = io.Copy(c, rw)
	}))
	defer server.Close()
	address, seen, stop := start(t, server, "/")
	c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(address, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprint(c, "GET /run HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
	r := bufio.NewReader(c)
	for line := ""; line != "\r\n"; {
		if line, err = r.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	message := "\x81\x02{}"
	fmt.Fprint(c, message)
	got := make([]byte, len(message))
	if _, err := io.ReadFull(r, got); err != nil || string(got) != message {
		t.Errorf("%q, %v", got, err)
	}
	c.Close()
	stop()
	want := []string{`c2u http ""`, `u2c http ""`, `c2u ws "{}"`, `u2c ws "{}"`}
	if diff := cmp.Diff(want, seen.lines()); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
}

// The capture says who left first: a client that does not wait for its answer, or a
// server that gives none. When the proxy stops, neither has left.
func TestWhoLeavesFirst(t *testing.T) {
	byClient, byServer := []frame.Dir{frame.C2U, frame.U2C}, []frame.Dir{frame.U2C, frame.C2U}
	for _, tt := range []struct {
		about string
		leave func(client net.Conn, server chan<- bool, stop func() httpproxy.Result)
		want  []frame.Dir
	}{
		{"the client", func(client net.Conn, _ chan<- bool, _ func() httpproxy.Result) { client.Close() }, byClient},
		{"the client, rudely", func(client net.Conn, _ chan<- bool, _ func() httpproxy.Result) {
			_ = client.(*net.TCPConn).SetLinger(0)
			client.Close()
		}, byClient},
		{"the server", func(_ net.Conn, server chan<- bool, _ func() httpproxy.Result) { server <- true }, byServer},
		{"the proxy", func(_ net.Conn, _ chan<- bool, stop func() httpproxy.Result) { stop() }, nil},
	} {
		t.Run(tt.about, func(t *testing.T) {
			asked, leave, gone := make(chan bool, 1), make(chan bool, 1), make(chan bool)
			server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				asked <- true
				defer close(gone)
				select {
				case <-leave:
					panic(http.ErrAbortHandler)
				case <-r.Context().Done():
				}
			}))
			defer server.Close()
			address, seen, stop := start(t, server, "")
			client, err := net.Dial("tcp", strings.TrimPrefix(address, "http://"))
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			fmt.Fprint(client, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
			<-asked
			tt.leave(client, leave, stop)
			<-gone
			if tt.about == "the server" {
				_, _ = io.Copy(io.Discard, client) // until the proxy has passed the end on
			}
			client.Close()
			stop()
			if diff := cmp.Diff(tt.want, seen.ends()); diff != "" {
				t.Errorf("the directions ended otherwise (-want +got):\n%s", diff)
			}
		})
	}
}

// What one connection causes on another is recorded after it, even if it takes longer to
// be taken apart.
func TestOrderOfConnections(t *testing.T) {
	const rounds = 5
	posted := make(chan int, rounds)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			_, _ = io.Copy(io.Discard, r.Body)
			posted <- 1
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		w.(http.Flusher).Flush()
		for range rounds {
			select {
			case <-posted:
			case <-r.Context().Done():
				return
			}
			_, _ = io.WriteString(w, "data: {\"seen\":1}\n\n")
			w.(http.Flusher).Flush()
		}
	}))
	defer server.Close()
	address, seen, stop := start(t, server, "/")
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address+"/events", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	listener, poster := client(t), client(t)
	resp, err := listener.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var body bytes.Buffer
	zip := gzip.NewWriter(&body)
	_, _ = fmt.Fprintf(zip, "%q", make([]byte, 1<<18))
	_ = zip.Close()
	events := bufio.NewScanner(resp.Body)
	for range rounds {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address+"/post", bytes.NewReader(body.Bytes()))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Encoding", "gzip")
		resp, err := poster.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		for events.Scan() && events.Text() != "" { // to the end of an event
		}
	}
	listener.CloseIdleConnections()
	poster.CloseIdleConnections()
	stop()
	var order []string
	var last time.Time
	for _, r := range seen.list {
		if r.Time.Before(last) {
			t.Errorf("the record of %v comes after that of %v", r.Time, last)
		}
		last = r.Time
		switch {
		case r.Kind != capture.Frame || r.Gap:
		case r.Dir == frame.C2U && len(r.Payload()) > 1<<18:
			order = append(order, "post")
		case strings.Contains(string(r.Payload()), "seen"):
			order = append(order, "event")
		}
	}
	if want := slices.Repeat([]string{"post", "event"}, rounds); !slices.Equal(want, order) {
		t.Errorf("recorded %q", order)
	}
}
