package mcphttp

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/wirectl/wirectl/frame"
)

// A Tap takes the bytes of an HTTP/1.1 connection. Close ends both directions, beginning with
// first.
type Tap interface {
	Feed(dir frame.Dir, data []byte)
	Close(first frame.Dir)
}

// A recorded makes HTTP requests, and writes each exchange to a tap as if it had passed on an
// HTTP/1.1 connection, on which exchanges follow each other. Of the headers, it writes those
// that tell how the exchange went, and none that the user has configured: they may be keys.
type recorded struct {
	next   http.RoundTripper
	hidden http.Header
	open   func() Tap

	mu   sync.Mutex
	idle []Tap // of connections without an exchange
}

// record makes the requests of a client recorded.
func (o *Options) record(open func() Tap) *recorded {
	client := *cmp.Or(o.Client, http.DefaultClient)
	r := &recorded{next: cmp.Or(client.Transport, http.DefaultTransport), hidden: o.Header, open: open}
	client.Transport = r
	o.Client = &client
	return r
}

func (r *recorded) takeTap() Tap {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := len(r.idle)
	if n == 0 {
		return r.open()
	}
	t := r.idle[n-1]
	r.idle = r.idle[:n-1]
	return t
}

func (r *recorded) put(t Tap) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.idle = append(r.idle, t)
}

// close closes the idle connections.
func (r *recorded) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, t := range r.idle {
		t.Close(frame.C2U)
	}
	r.idle = nil
}

// RoundTrip makes a request.
func (r *recorded) RoundTrip(req *http.Request) (*http.Response, error) {
	t := r.takeTap()
	var body []byte
	if req.GetBody != nil {
		if b, err := req.GetBody(); err == nil {
			body, _ = io.ReadAll(b) // it is in memory
		}
	}
	start := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: %s\r\n", req.Method, req.URL.RequestURI(), req.URL.Host)
	length := ""
	if len(body) > 0 {
		length = fmt.Sprintf("Content-Length: %d\r\n", len(body))
	}
	t.Feed(frame.C2U, append([]byte(start+r.fields(req.Header)+length+"\r\n"), body...))
	resp, err := r.next.RoundTrip(req)
	b := &recordedBody{recorder: r, tap: t, req: req}
	if err != nil {
		b.cut()
		return nil, err
	}
	b.ReadCloser, b.chunked = resp.Body, resp.ContentLength < 0
	size := fmt.Sprintf("Content-Length: %d\r\n", resp.ContentLength)
	if b.chunked {
		size = "Transfer-Encoding: chunked\r\n"
	}
	t.Feed(frame.U2C, []byte("HTTP/1.1 "+resp.Status+"\r\n"+r.fields(resp.Header)+size+"\r\n"))
	if resp.ContentLength == 0 || resp.Body == http.NoBody {
		b.end()
	}
	resp.Body = b
	return resp, nil
}

// shown are the fields that are recorded, besides those of MCP.
var shown = append([]string{"Accept", "Content-Type", "Content-Encoding", "Last-Event-Id", "Allow", "Location"}, advices...)

// fields returns the lines of a head for the record.
func (r *recorded) fields(h http.Header) string {
	var lines strings.Builder
	for _, name := range slices.Sorted(maps.Keys(h)) {
		isShown := strings.HasPrefix(name, "Mcp-") || slices.ContainsFunc(shown, func(s string) bool { return strings.EqualFold(s, name) })
		if _, isHidden := r.hidden[name]; !isShown || isHidden {
			continue
		}
		for _, value := range h[name] {
			lines.WriteString(name + ": " + value + "\r\n")
		}
	}
	return lines.String()
}

// A recordedBody is the body of a response that is recorded as it is read.
type recordedBody struct {
	io.ReadCloser
	recorder *recorded
	tap      Tap
	req      *http.Request
	chunked  bool // its length is not known at its beginning

	mu    sync.Mutex
	ended bool
}

func (b *recordedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.mu.Lock()
	if n > 0 && !b.ended {
		b.feed(p[:n])
	}
	b.mu.Unlock()
	switch {
	case err == io.EOF:
		b.end()
	case err != nil:
		b.cut()
	}
	return n, err
}

func (b *recordedBody) feed(data []byte) {
	if b.chunked {
		data = fmt.Appendf(nil, "%x\r\n%s\r\n", len(data), data)
	}
	b.tap.Feed(frame.U2C, data)
}

// Close ends the reading. The server may have more to say.
func (b *recordedBody) Close() error {
	err := b.ReadCloser.Close()
	b.finish(func() { b.tap.Close(frame.C2U) })
	return err
}

// end records that the response is complete.
func (b *recordedBody) end() {
	b.finish(func() {
		if b.chunked {
			b.tap.Feed(frame.U2C, []byte("0\r\n\r\n"))
		}
		b.recorder.put(b.tap)
	})
}

// cut records that the connection broke, or that its client has left it.
func (b *recordedBody) cut() {
	first := frame.U2C
	if b.req.Context().Err() != nil {
		first = frame.C2U
	}
	b.finish(func() { b.tap.Close(first) })
}

// finish ends the exchange, once.
func (b *recordedBody) finish(how func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.ended {
		b.ended = true
		how()
	}
}
