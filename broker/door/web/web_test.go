package web_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/wirectl/wirectl/broker/door/internal/doortest"
	"github.com/wirectl/wirectl/broker/door/web"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const limit = 1000

// echo answers with the method, the path and the body.
func echo(_ context.Context, r *web.Request, w *web.Response) {
	if r.Path == "/stream" {
		w.Stream(200)
		for _, word := range strings.Fields(string(r.Body)) {
			_ = w.Chunk([]byte(word))
		}
		return
	}
	w.Send(200, "text/plain", fmt.Appendf(nil, "%s %s %d %s", r.Method, r.Path, r.Length, r.Body))
}

func config() web.Config {
	return web.Config{Handler: echo, Limit: limit, Fault: func(_ string, f *web.Fault) []byte { return []byte(f.Message) }}
}

// talk writes to a server and returns the bodies of all answers, each behind its
// status.
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
	addr := doortest.Serve(t, web.Server(config()))
	for _, tt := range []struct{ name, send, want string }{
		{"pipelined", "POST /a HTTP/1.1\r\ncontent-LENGTH: 2\r\n\r\nhiGET /b?q HTTP/1.1\r\n\r\n", "200 POST /a 2 hi|200 GET /b 0 "},
		{"chunks, extensions, trailers", "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2;x=y\r\nhi\r\n00A\r\n there you\r\n0\r\nX: y\r\n\r\nGET /b HTTP/1.1\r\n\r\n", "200 POST / 2 hi there you|200 GET /b 0 "},
		{"bare line feeds, an empty line in front", "\r\nPOST / HTTP/1.1\nContent-Length: 1\n\nx", "200 POST / 2 x"},
		{"a stream", "POST /stream HTTP/1.1\r\nContent-Length: 5\r\n\r\na b cGET / HTTP/1.1\r\n\r\n", "200 abc|200 GET / 0 "},
		{"a stream for HTTP/1.0", "POST /stream HTTP/1.0\r\nContent-Length: 5\r\n\r\na b cGET / HTTP/1.1\r\n\r\n", "200 abc"},
		{"close", "GET / HTTP/1.1\r\nConnection: Close\r\n\r\nGET / HTTP/1.1\r\n\r\n", "200 GET / 0 "},
		{"an invalid length", "POST / HTTP/1.1\r\nContent-Length: 1x\r\n\r\nGET / HTTP/1.1\r\n\r\n", "200 POST / 1 "},
		{"two lengths", "POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", "200 POST / 1 "},
		{"length and chunks", "POST / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", "400 Content-Length and Transfer-Encoding exclude each other"},
		{"another coding", "POST / HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\n", "501 Transfer-Encoding not supported"},
		{"no HTTP", "hello\r\n\r\n", "400 Malformed request line"},
		{"HTTP/2", "PRI * HTTP/2.0\r\n\r\n", "505 HTTP version not supported"},
		{"a header without colon", "GET / HTTP/1.1\r\nx\r\n\r\n", "400 Malformed header"},
		{"a folded header", "GET / HTTP/1.1\r\na: b\r\n c: d\r\n\r\n", "400 Malformed header"},
		{"a bad chunk", "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhixx", "400 Malformed chunk"},
		{"a body that ends", "POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\nx", "400 Request body ended too early"},
		{"a head that ends", "GET / HT", ""},
		{"a large body", "POST / HTTP/1.1\r\nContent-Length: 1001\r\n\r\n" + strings.Repeat("x", 1001), "413 Request body too large (max 1000 bytes)"},
		{"large chunks", "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n" + strings.Repeat("100\r\n"+strings.Repeat("x", 256)+"\r\n", 5), "413 Request body too large (max 1000 bytes)"},
		{"a large head", "GET / HTTP/1.1\r\nx: " + strings.Repeat("x", 40_000) + "\r\n\r\n", "431 Request header too large"},
		{"another's host", "GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n", "403 Forbidden host: ask this machine by an address, or as localhost"},
		{"a page from elsewhere", "POST / HTTP/1.1\r\nHost: 127.0.0.1:8768\r\nOrigin: https://evil.example\r\n\r\n", "403 Forbidden origin: web pages of other machines may not ask a broker without a token"},
		{"a page from another address", "POST / HTTP/1.1\r\nOrigin: http://192.0.2.1:8768\r\n\r\n", "403 Forbidden origin: web pages of other machines may not ask a broker without a token"},
		{"a page that hides where it is from", "POST / HTTP/1.1\r\nOrigin: null\r\n\r\n", "403 Forbidden origin: web pages of other machines may not ask a broker without a token"},
		{"a page of this machine", "GET / HTTP/1.1\r\nOrigin: http://localhost:3000\r\n\r\nGET / HTTP/1.1\r\nOrigin: https://[::1]\r\n\r\n", "200 GET / 0 |200 GET / 0 "},
		{"a program with an origin of its own", "GET / HTTP/1.1\r\nOrigin: app://notes\r\n\r\n", "200 GET / 0 "},
		{"a packed body", "POST / HTTP/1.1\r\nContent-Encoding: gzip\r\nContent-Length: 1\r\n\r\nx", "415 Content-Encoding is not supported: send the body as it is"},
		{"a body packed in nothing", "POST / HTTP/1.1\r\nContent-Encoding: identity\r\nContent-Length: 1\r\n\r\nx", "200 POST / 2 x"},
		{"an address for a host", "GET / HTTP/1.1\r\nHost: [::1]:80\r\n\r\n", "200 GET / 0 "},
	} {
		if got, raw := talk(t, addr, tt.send); strings.Join(got, "|") != tt.want {
			t.Errorf("%s: got %q, want %q\n%s", tt.name, got, tt.want, raw)
		}
	}
}

const unauthorized = "401 Unauthorized: show the broker's token as Authorization: Bearer TOKEN"

func TestToken(t *testing.T) {
	cfg := config()
	cfg.Token = "nxk_1"
	addr := doortest.Serve(t, web.Server(cfg))
	for header, want := range map[string]string{"": unauthorized, "Authorization: Bearer nxk_2\r\n": unauthorized, "Authorization: Bearer nxk_1\r\n": "200 GET / 0 "} {
		if got, _ := talk(t, addr, "GET / HTTP/1.1\r\n"+header+"\r\n"); len(got) != 1 || got[0] != want {
			t.Errorf("%q: %q, want %q", header, got, want)
		}
	}
}

// A browser that asks for leave gets it where pages are let in, before it shows a
// token, and elsewhere what any OPTIONS gets.
func TestPages(t *testing.T) {
	const preflight = "OPTIONS / HTTP/1.1\r\nOrigin: http://localhost:3000\r\nAccess-Control-Request-Method: POST\r\n\r\n"
	cfg := config()
	if got, raw := talk(t, doortest.Serve(t, web.Server(cfg)), preflight); len(got) != 1 || strings.Contains(raw, "Access-Control") {
		t.Errorf("no pages: %q\n%s", got, raw)
	}
	cfg.Pages, cfg.Token = true, "nxk_1"
	addr := doortest.Serve(t, web.Server(cfg))
	got, raw := talk(t, addr, preflight)
	if len(got) != 1 || got[0] != "200 " || !strings.Contains(raw, "Access-Control-Allow-Origin: *\r\nAccess-Control-Allow-Methods: GET, POST\r\nAccess-Control-Allow-Headers: Authorization, *\r\n") {
		t.Errorf("leave: %q\n%s", got, raw)
	}
	for token, want := range map[string]string{"nxk_1": "200 GET / 0 ", "nxk_2": unauthorized} {
		got, raw := talk(t, addr, "GET / HTTP/1.1\r\nOrigin: https://elsewhere.example\r\nAuthorization: Bearer "+token+"\r\n\r\n")
		if len(got) != 1 || got[0] != want || !strings.Contains(raw, "Access-Control-Allow-Origin: *\r\n") {
			t.Errorf("%s: %q, want %q\n%s", token, got, want, raw)
		}
	}
}

// A client that waits for leave to send its body gets it.
func TestContinue(t *testing.T) {
	conn := doortest.Dial(t, doortest.Serve(t, web.Server(config())))
	_, _ = io.WriteString(conn, "POST / HTTP/1.1\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n")
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
	if body, _ := io.ReadAll(resp.Body); string(body) != "POST / 2 ok" {
		t.Errorf("got %q", body)
	}
}

// Each part of a request has its time.
func TestSlow(t *testing.T) {
	s := web.Server(config())
	s.Times.Read = 50 * time.Millisecond
	addr := doortest.Serve(t, s)
	for _, begin := range []string{"G", "GET / HTTP/1.1\r\nHost: x", "POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\nx", "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5"} {
		conn := doortest.Dial(t, addr)
		_, _ = io.WriteString(conn, begin)
		out, _ := io.ReadAll(conn)
		if !strings.HasPrefix(string(out), "HTTP/1.1 408 ") || !strings.HasSuffix(string(out), "Request timed out") {
			t.Errorf("%q: %q", begin, out)
		}
	}
}

// FuzzServer: whatever comes in, what goes out is HTTP.
func FuzzServer(f *testing.F) {
	f.Add([]byte("POST /a HTTP/1.1\r\nContent-Length: 2\r\n\r\nhiGET /b HTTP/1.1\r\n\r\n"))
	f.Add([]byte("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n"))
	f.Add([]byte("GET / HTTP/1.0\nx: y\n\n"))
	s := web.Server(config())
	f.Fuzz(func(t *testing.T, data []byte) {
		out := doortest.Talk(s, data)
		if len(out) > 0 && !bytes.HasPrefix(out, []byte("HTTP/1.1 ")) {
			t.Fatalf("%q was answered by %q", data, out)
		}
	})
}
