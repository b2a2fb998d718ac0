package web_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/wirectl/wirectl/broker/door/web"
	"github.com/wirectl/wirectl/test/kit/doortest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const limit = 1000

// echo answers with the method, the path and the body.
func echo(_ context.Context, r *web.Request, w *web.Response) {
	if r.URL.Path == "/stream" {
		w.Stream(200)
		for _, word := range strings.Fields(string(r.Body)) {
			_ = w.Chunk([]byte(word))
		}
		return
	}
	w.Send(200, "text/plain", fmt.Appendf(nil, "%s %s %t %s", r.Method, r.URL.Path, r.HasLength(), r.Body))
}

func config() web.Config {
	return web.Config{Handler: echo, Limit: limit, Fault: func(_ string, f *web.Fault) []byte { return []byte(f.Message) }}
}

// talk writes to a server and returns the bodies of all answers, each after its status.
func talk(t testing.TB, addr, text string) (answers []string, raw string) {
	t.Helper()
	conn := doortest.Dial(t, addr)
	go func() {
		_, _ = io.WriteString(conn, text)
		_ = conn.CloseWrite()
	}()
	out, _ := io.ReadAll(conn)
	r := bufio.NewReader(bytes.NewReader(out))
	for {
		resp, err := http.ReadResponse(r, nil) //nolint:bodyclose // it holds nothing
		if err != nil {
			return answers, string(out)
		}
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatalf("%q: %v", out, err)
		}
		answers = append(answers, fmt.Sprintf("%d %s", resp.StatusCode, body))
	}
}

func TestRequests(t *testing.T) {
	addr := doortest.Serve(t, web.New(config()))
	for _, tt := range []struct{ name, send, want string }{
		{"pipelined", "POST /a HTTP/1.1\r\nHost: localhost\r\ncontent-LENGTH: 2\r\n\r\nhiGET /b?q HTTP/1.1\r\nHost: localhost\r\n\r\n", "200 POST /a true hi|200 GET /b false "},
		{"chunks", "POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n2;x=y\r\nhi\r\n00A\r\n there you\r\n0\r\n\r\n", "200 POST / true hi there you"},
		{"a stream", "POST /stream HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\na b c", "200 abc"},
		{"a stream for HTTP/1.0", "POST /stream HTTP/1.0\r\nHost: localhost\r\nContent-Length: 5\r\n\r\na b c", "200 abc"},
		{"a bad chunk", "POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhixx", "400 Malformed request body"},
		{"a body that ends", "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\nx", "400 Request body ended too early"},
		{"a large body", "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1001\r\n\r\n" + strings.Repeat("x", 1001), "413 Request body too large (max 1000 bytes)"},
		{"the largest body", "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n" + strings.Repeat("x", 1000), "200 POST / true " + strings.Repeat("x", 1000)},
		{"large chunks", "POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n" + strings.Repeat("100\r\n"+strings.Repeat("x", 256)+"\r\n", 5), "413 Request body too large (max 1000 bytes)"},
		{"another's host", "GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n", "403 Forbidden host: ask this machine by an address, or as localhost"},
		{"a page from elsewhere", "POST / HTTP/1.1\r\nHost: 127.0.0.1:8768\r\nOrigin: https://evil.example\r\n\r\n", "403 Forbidden origin: web pages of other machines may not ask a broker"},
		{"a page from another address", "POST / HTTP/1.1\r\nHost: localhost\r\nOrigin: http://192.0.2.1:8768\r\n\r\n", "403 Forbidden origin: web pages of other machines may not ask a broker"},
		{"a page that hides where it is from", "POST / HTTP/1.1\r\nHost: localhost\r\nOrigin: null\r\n\r\n", "403 Forbidden origin: web pages of other machines may not ask a broker"},
		{"a page of this machine", "GET / HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost:3000\r\n\r\nGET / HTTP/1.1\r\nHost: localhost\r\nOrigin: https://[::1]\r\n\r\n", "200 GET / false |200 GET / false "},
		{"a program with an origin of its own", "GET / HTTP/1.1\r\nHost: localhost\r\nOrigin: app://notes\r\n\r\n", "200 GET / false "},
		{"a packed body", "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Encoding: gzip\r\nContent-Length: 1\r\n\r\nx", "415 Content-Encoding is not supported: send the body as it is"},
		{"a body packed in nothing", "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Encoding: identity\r\nContent-Length: 1\r\n\r\nx", "200 POST / true x"},
		{"an address for a host", "GET / HTTP/1.1\r\nHost: [::1]:80\r\n\r\n", "200 GET / false "},
	} {
		if got, raw := talk(t, addr, tt.send); strings.Join(got, "|") != tt.want {
			t.Errorf("%s: got %q, want %q\n%s", tt.name, got, tt.want, raw)
		}
	}
}

// The token, the host and the origin are checked before the body is read, so bodies of strangers
// cost no memory.
func TestStrangersTakeNoMemory(t *testing.T) {
	const clients, size = 50, 16 << 20
	for name, tt := range map[string]struct{ token, head, want string }{
		"a wrong token":         {"nxk_1", "Host: localhost\r\nAuthorization: Bearer nxk_2", unauthorized[len("401 "):]},
		"another's host":        {"", "Host: evil.example", "Forbidden host"},
		"a page from elsewhere": {"", "Host: localhost\r\nOrigin: https://evil.example", "Forbidden origin"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := config()
			cfg.Token, cfg.Limit = tt.token, size
			addr := doortest.Serve(t, web.New(cfg))
			var before, peak runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			var group sync.WaitGroup
			for range clients {
				conn := doortest.Dial(t, addr)
				group.Go(func() {
					fmt.Fprintf(conn, "POST / HTTP/1.1\r\n%s\r\nContent-Length: %d\r\n\r\n", tt.head, size)
					_, _ = io.CopyN(conn, endless{}, size)
					if answer, _ := io.ReadAll(conn); !strings.Contains(string(answer), tt.want) {
						t.Errorf("got %q", answer)
					}
				})
			}
			group.Wait()
			runtime.ReadMemStats(&peak)
			if taken := peak.TotalAlloc - before.TotalAlloc; taken > 32<<20 {
				t.Errorf("%d bodies of strangers took %d MiB", clients, taken>>20)
			}
		})
	}
}

// endless yields bytes without end.
type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

// The total memory of all bodies is bounded.
func TestBodiesInFlight(t *testing.T) {
	const size = 64 << 20
	entered, release := make(chan bool), make(chan bool)
	cfg := config()
	cfg.Limit = size
	cfg.Handler = func(_ context.Context, _ *web.Request, w *web.Response) {
		entered <- true
		<-release
		w.JSON(200, nil)
	}
	addr := doortest.Serve(t, web.New(cfg))
	ask := func() *net.TCPConn {
		conn := doortest.Dial(t, addr)
		go func() {
			fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: %d\r\n\r\n", size)
			_, _ = io.CopyN(conn, endless{}, size)
		}()
		return conn
	}
	for range 3 { // a fourth body does not fit
		ask()
		<-entered
	}
	if answer, _ := io.ReadAll(ask()); !strings.HasPrefix(string(answer), "HTTP/1.1 503 ") {
		t.Errorf("got %.100q", answer)
	}
	close(release)
	last := ask()
	<-entered
	if answer, _ := io.ReadAll(last); !strings.HasPrefix(string(answer), "HTTP/1.1 200 ") {
		t.Errorf("afterwards, got %.100q", answer)
	}
}

// A panic in a handler ends only its request.
func TestPanic(t *testing.T) {
	cfg := config()
	cfg.Handler = func(ctx context.Context, r *web.Request, w *web.Response) {
		if r.URL.Path == "/panic" {
			panic("on purpose")
		}
		echo(ctx, r, w)
	}
	addr := doortest.Serve(t, web.New(cfg))
	if got, raw := talk(t, addr, "GET /panic HTTP/1.1\r\nHost: localhost\r\n\r\n"); len(got) != 0 {
		t.Errorf("got %s", raw)
	}
	if got, _ := talk(t, addr, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"); len(got) != 1 {
		t.Errorf("got %q", got)
	}
}

const unauthorized = "401 Unauthorized: show the broker's token as Authorization: Bearer TOKEN"

func TestToken(t *testing.T) {
	cfg := config()
	cfg.Token = "nxk_1"
	addr := doortest.Serve(t, web.New(cfg))
	for header, want := range map[string]string{"": unauthorized, "Authorization: Bearer nxk_2\r\n": unauthorized, "Authorization: Bearer nxk_1\r\n": "200 GET / false "} {
		if got, _ := talk(t, addr, "GET / HTTP/1.1\r\nHost: localhost\r\n"+header+"\r\n"); len(got) != 1 || got[0] != want {
			t.Errorf("%q: %q, want %q", header, got, want)
		}
	}
}

// Where pages are allowed, a browser's preflight request succeeds before it sends a token.
// Elsewhere it gets the same answer as any OPTIONS request.
func TestPages(t *testing.T) {
	const preflight = "OPTIONS / HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost:3000\r\nAccess-Control-Request-Method: POST\r\n\r\n"
	cfg := config()
	if got, raw := talk(t, doortest.Serve(t, web.New(cfg)), preflight); len(got) != 1 || strings.Contains(raw, "Access-Control") {
		t.Errorf("no pages: %q\n%s", got, raw)
	}
	cfg.Pages, cfg.Token = true, "nxk_1"
	addr := doortest.Serve(t, web.New(cfg))
	got, raw := talk(t, addr, preflight)
	if len(got) != 1 || got[0] != "200 " || !strings.Contains(raw, "Access-Control-Allow-Headers: Authorization, *\r\nAccess-Control-Allow-Methods: GET, POST\r\nAccess-Control-Allow-Origin: *\r\n") {
		t.Errorf("leave: %q\n%s", got, raw)
	}
	for token, want := range map[string]string{"nxk_1": "200 GET / false ", "nxk_2": unauthorized} {
		got, raw := talk(t, addr, "GET / HTTP/1.1\r\nHost: localhost\r\nOrigin: http://127.0.0.1:3000\r\nAuthorization: bearer "+token+"\r\n\r\n")
		if len(got) != 1 || got[0] != want || !strings.Contains(raw, "Access-Control-Allow-Origin: *\r\n") {
			t.Errorf("%s: %q, want %q\n%s", token, got, want, raw)
		}
	}
	for _, ask := range []string{"GET / HTTP/1.1\r\nAuthorization: Bearer nxk_1\r\n", "OPTIONS / HTTP/1.1\r\nAccess-Control-Request-Method: POST\r\n"} {
		got, raw := talk(t, addr, ask+"Host: localhost\r\nOrigin: https://elsewhere.example\r\n\r\n")
		if len(got) != 1 || !strings.HasPrefix(got[0], "403 ") || strings.Contains(raw, "Access-Control") {
			t.Errorf("a page of another machine: %q\n%s", got, raw)
		}
	}
}

// A client that waits for 100 Continue gets it.
func TestContinue(t *testing.T) {
	conn := doortest.Dial(t, doortest.Serve(t, web.New(config())))
	_, _ = io.WriteString(conn, "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n")
	r := bufio.NewReader(conn)
	if line, _ := r.ReadString('\n'); line != "HTTP/1.1 100 Continue\r\n" {
		t.Fatalf("got %q", line)
	}
	_, _ = r.ReadString('\n')
	_, _ = io.WriteString(conn, "ok")
	resp, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, _ := io.ReadAll(resp.Body); string(body) != "POST / true ok" {
		t.Errorf("got %q", body)
	}
}

// Each part of a request has a timeout.
func TestSlow(t *testing.T) {
	s := web.New(config())
	s.Times.Read = 50 * time.Millisecond
	addr := doortest.Serve(t, s)
	for _, begin := range []string{"G", "GET / HTTP/1.1\r\nHost: x", "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nx", "POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n5"} {
		conn := doortest.Dial(t, addr)
		_, _ = io.WriteString(conn, begin)
		out, _ := io.ReadAll(conn)
		if strings.HasPrefix(begin, "POST") && !strings.HasSuffix(string(out), "Request timed out") {
			t.Errorf("%q: %q", begin, out)
		}
	}
}
