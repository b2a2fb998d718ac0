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
	more chan struct{} // has a buffer of one
}

func (r *records) Write(rec *capture.Record) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = append(r.list, rec.Clone())
	select {
	case r.more <- struct{}{}:
	default:
	}
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
	return startAt(t, server.URL+path, func(text string) { t.Log(text) })
}

func startAt(t *testing.T, server string, warn func(text string)) (address string, seen *records, stop func() httpproxy.Result) {
	t.Helper()
	target, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	l, err := transport.Listen(ctx, "tcp://127.0.0.1:0", transport.Options{})
	if err != nil {
		t.Fatal(err)
	}
	seen = &records{more: make(chan struct{}, 1)}
	type outcome struct {
		result httpproxy.Result
		err    error
	}
	done := make(chan outcome, 1)
	go func() {
		result, err := httpproxy.Serve(ctx, httpproxy.Config{
			Listener: l, Target: target, Sink: relay.NewFan(func(text string) { t.Error(text) }, seen),
			Warn: warn,
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

// However the answers end that are owed before a refused request, all of them arrive, and then
// the refusal. The server writes them when the request has been refused already.
func TestPipelined(t *testing.T) {
	const host = " HTTP/1.1\r\nHost: 127.0.0.1\r\n"
	const foreign = "GET /x HTTP/1.1\r\nHost: evil.example\r\n\r\n"
	const page = "POST /x" + host + "Origin: null\r\nContent-Length: 2\r\n\r\n{}"
	long := strings.Repeat("a", 1<<20)
	for name, tt := range map[string]struct {
		requests, refused string
		answers           []string // of the server, one for each request
		want              string   // what the client gets, but for the text of the refusal
	}{
		"a length":          {"GET /1" + host + "\r\n", foreign, []string{"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"}, "200 hi, 403"},
		"without a body":    {"GET /1" + host + "\r\n", page, []string{"HTTP/1.1 405 Method Not Allowed\r\nContent-Length: 0\r\n\r\n"}, "405 , 403"},
		"a long head":       {"GET /1" + host + "\r\n", "GET /" + long + host + "\r\n", []string{"HTTP/1.1 204 No Content\r\n\r\n"}, "204 , 431"},
		"many":              {strings.Repeat("POST /1"+host+"Content-Length: 3\r\n\r\nabc", 20), page, slices.Repeat([]string{"HTTP/1.1 202 Accepted\r\nContent-Length: 1\r\n\r\nx"}, 20), strings.Repeat("202 x, ", 20) + "403"},
		"HEAD and 304":      {"HEAD /1" + host + "\r\nGET /2" + host + "\r\n", foreign, []string{"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", "HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n"}, "200 , 304 , 403"},
		"early hints":       {"GET /1" + host + "\r\n", foreign, []string{"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"}, "200 hi, 403"},
		"chunks, trailers":  {"GET /1" + host + "\r\n", page, []string{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;a=b\r\nhi\r\n0\r\nA: b\r\n\r\n"}, "200 hi, 403"},
		"a long body":       {"GET /1" + host + "\r\n", foreign, []string{fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(long), long)}, "200 " + long + ", 403"},
		"until the end":     {"GET /1" + host + "\r\n", foreign, []string{"HTTP/1.1 200 OK\r\n\r\nhi"}, "200 hi"},
		"no answer":         {"GET /1" + host + "\r\n", foreign, nil, ""},
		"nothing before":    {"", page, nil, "403"},
		"what is not HTTP":  {"GET /1" + host + "\r\n", foreign, []string{"hi\r\n\r\n"}, ""},
		"a switch":          {"GET /1" + host + "Upgrade: else\r\n\r\n", foreign, []string{"HTTP/1.1 101 Switching Protocols\r\nUpgrade: else\r\n\r\n"}, "101 "},
		"two answers":       {"GET /1" + host + "\r\n", foreign, []string{"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n1HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n"}, "200 1, 408 "},
		"HTTP/1.0":          {"GET /1 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", foreign, []string{"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nhi"}, "200 hi, 403"},
		"an answer in vain": {"POST /1" + host + "Content-Length: 99\r\n\r\n" + strings.Repeat("x", 99), page, []string{"HTTP/1.1 413 Content Too Large\r\nContent-Length: 4\r\n\r\nlong"}, "413 long, 403"},
	} {
		t.Run(name, func(t *testing.T) {
			refused := make(chan struct{})
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			go func() {
				c, err := l.Accept()
				if err != nil {
					return
				}
				defer c.Close()
				<-refused
				r := bufio.NewReader(c)
				for _, answer := range tt.answers {
					req, err := http.ReadRequest(r)
					if err != nil {
						t.Error(err)
						return
					}
					_, _ = io.Copy(io.Discard, req.Body)
					_, _ = io.WriteString(c, answer)
				}
			}()
			address, seen, stop := startAt(t, "http://"+l.Addr().String(), func(string) { close(refused) })
			c, err := net.Dial("tcp", strings.TrimPrefix(address, "http://"))
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			var writing sync.WaitGroup
			writing.Go(func() {
				body := "{}"[:2*strings.Count(tt.refused, "{}")]
				_, _ = io.WriteString(c, tt.requests+strings.TrimSuffix(tt.refused, body))
				<-refused
				_, _ = io.WriteString(c, body)
			})
			r := bufio.NewReader(c)
			requests := bufio.NewReader(strings.NewReader(tt.requests + "GET / HTTP/1.1\r\n\r\n"))
			var got []string
			for {
				req, err := http.ReadRequest(requests)
				if err != nil {
					req = nil
				} else {
					_, _ = io.Copy(io.Discard, req.Body)
				}
				resp, err := http.ReadResponse(r, req) //nolint:bodyclose // the connection ends with the test
				for err == nil && resp.StatusCode == http.StatusEarlyHints {
					resp, err = http.ReadResponse(r, req) //nolint:bodyclose // the connection ends with the test
				}
				if err != nil {
					break
				}
				body, err := io.ReadAll(resp.Body)
				if err != nil {
					t.Error(err)
				}
				if text := string(body); strings.HasPrefix(text, "wirectl: ") {
					got = append(got, fmt.Sprint(resp.StatusCode))
				} else {
					got = append(got, fmt.Sprintf("%d %s", resp.StatusCode, body))
				}
			}
			if all := strings.Join(got, ", "); all != tt.want {
				t.Errorf("the answers are %.200q, want %.200q", all, tt.want)
			}
			writing.Wait()
			c.Close()
			for tt.refused == page && !slices.Contains(seen.lines(), `c2u http "{}"`) { // it is recorded whole
				<-seen.more
			}
			stop()
			answers := slices.DeleteFunc(seen.lines(), func(line string) bool { return !strings.HasPrefix(line, "u2c http ") })
			if strings.HasSuffix(tt.want, "403") && !strings.HasPrefix(answers[len(answers)-1], `u2c http "wirectl: `) {
				t.Errorf("recorded as %.200q", answers)
			}
		})
	}
}

// A server that answers early and ends, such as with 413, refuses the rest of what the client
// sends: the client still gets the answer.
func TestEarlyAnswer(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "too large", http.StatusRequestEntityTooLarge)
	}))
	defer server.Close()
	address, _, _ := start(t, server, "/")
	for range 3 {
		c, err := net.Dial("tcp", strings.TrimPrefix(address, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		const size = 16 << 20
		head := fmt.Sprintf("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n", size)
		if _, err := io.Copy(c, io.MultiReader(strings.NewReader(head), io.LimitReader(zeros{}, size))); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil || resp.StatusCode != http.StatusRequestEntityTooLarge {
			t.Fatalf("%v, %v", resp, err)
		}
		resp.Body.Close()
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

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
