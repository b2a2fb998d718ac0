package mcphttp_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/transport/mcphttp"
)

// A connTap keeps what passed on a connection.
type connTap struct {
	all   *connTaps
	bytes [3]strings.Builder
	first frame.Dir // the direction that ended first, once it is closed
}

type connTaps struct {
	mu    sync.Mutex
	more  chan struct{} // has a buffer of one
	conns []*connTap
}

func (t *connTaps) open() mcphttp.Tap {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.conns = append(t.conns, &connTap{all: t})
	return t.conns[len(t.conns)-1]
}

func (t *connTap) Feed(dir frame.Dir, data []byte) {
	t.all.mu.Lock()
	defer t.all.mu.Unlock()
	t.bytes[dir].Write(data)
	select {
	case t.all.more <- struct{}{}:
	default:
	}
}

func (t *connTap) sent(dir frame.Dir) string {
	t.all.mu.Lock()
	defer t.all.mu.Unlock()
	return t.bytes[dir].String()
}

func (t *connTap) Close(first frame.Dir) {
	t.all.mu.Lock()
	defer t.all.mu.Unlock()
	t.first = first
}

// Exchanges are recorded as on a connection of HTTP/1.1 with what tells how they went, whatever
// passed really, and without what the user has configured. Who ends them first is seen.
func TestRecorded(t *testing.T) {
	const request = "POST /mcp?a=b HTTP/1.1\r\nHost: HOST\r\nAccept: application/json, text/event-stream\r\nContent-Type: application/json\r\nContent-Length: 49\r\n\r\n" +
		`{"jsonrpc":"2.0","id":1,"method":"a","params":{}}`
	for name, tt := range map[string]struct {
		serve func(w http.ResponseWriter, r *http.Request)
		want  string // the answer
		first frame.Dir
	}{
		"JSON": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Set-Cookie", "secret=1")
			_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":1,"result":{}}`)
		}, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 36\r\n\r\n" + `{"jsonrpc":"2.0","id":1,"result":{}}`, frame.C2U},
		"events": {func(w http.ResponseWriter, _ *http.Request) {
			event(w, `data: {"jsonrpc":"2.0","id":1,"result":{}}`)
		}, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n2c\r\n" + `data: {"jsonrpc":"2.0","id":1,"result":{}}` + "\n\n\r\n0\r\n\r\n", frame.C2U},
		"a refusal": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("WWW-Authenticate", "Bearer")
			w.WriteHeader(http.StatusUnauthorized)
		}, "HTTP/1.1 401 Unauthorized\r\nWww-Authenticate: Bearer\r\nContent-Length: 0\r\n\r\n", frame.C2U},
		"a broken stream": {func(w http.ResponseWriter, _ *http.Request) {
			event(w, "data: 1")
			panic(http.ErrAbortHandler)
		}, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n9\r\ndata: 1\n\n\r\n", frame.U2C},
		"no answer": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "", frame.U2C},
	} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("X-Key") != "sesame" {
					t.Errorf("the header is %v", r.Header)
				}
				tt.serve(w, r)
			}))
			defer s.Close()
			taps := &connTaps{more: make(chan struct{}, 1)}
			u, err := url.Parse(s.URL + "/mcp?a=b")
			if err != nil {
				t.Fatal(err)
			}
			e := &mcphttp.Endpoint{URL: u, Options: mcphttp.Options{Client: s.Client(), Header: http.Header{"X-Key": {"sesame"}}}, Tap: taps.open}
			c, err := e.Dial(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.WriteString(c, `{"jsonrpc":"2.0","id":1,"method":"a","params":{}}`+"\n")
			_, _ = bufio.NewReader(c).ReadString('\n')
			got := taps.conns[0]
			for tt.want != got.sent(frame.U2C) { // to the end of the answer
				<-taps.more
			}
			_ = c.Close()
			if asked := strings.ReplaceAll(got.bytes[frame.C2U].String(), u.Host, "HOST"); asked != request {
				t.Errorf("the request is %q, want %q", asked, request)
			}
			if answer := got.bytes[frame.U2C].String(); answer != tt.want || got.first != tt.first {
				t.Errorf("the answer is %q, and %s ends first; want %q, and %s", answer, got.first, tt.want, tt.first)
			}
		})
	}
}

// Exchanges that follow each other share a connection; others do not.
func TestRecordedConns(t *testing.T) {
	var both sync.WaitGroup
	both.Add(2)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		id := string(body[strings.Index(string(body), `"id":`)+5])
		if id > "2" {
			both.Done()
			both.Wait()
		}
		_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{}}`, id)
	}))
	defer s.Close()
	taps := &connTaps{more: make(chan struct{}, 1)}
	u, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	e := &mcphttp.Endpoint{URL: u, Options: mcphttp.Options{Client: s.Client()}, Tap: taps.open}
	c, err := e.Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	b := &bridge{T: t, conn: c, lines: bufio.NewReader(c)}
	for _, ids := range [][]int{{1}, {2}, {3, 4}} {
		for _, id := range ids {
			b.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"ping"}`, id))
		}
		b.sorted(len(ids))
	}
	if _ = c.Close(); len(taps.conns) != 2 {
		t.Errorf("there are %d connections", len(taps.conns))
	}
}
