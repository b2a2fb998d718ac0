package client

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"mime"
	"net/http"
	"sync"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/protocol/jsonscan"
	"github.com/wirectl/wirectl/transport"
)

// maxBody is the longest HTTP body that is accepted, in bytes.
const maxBody = 16 << 20

// HTTPOptions are what requests over HTTP carry.
type HTTPOptions struct {
	// Client makes the requests; nil is http.DefaultClient.
	Client *http.Client
	Header http.Header
}

// client follows no redirect to another server: headers, and so keys, would go
// there.
func (o *HTTPOptions) client() *http.Client {
	c := *cmp.Or(o.Client, http.DefaultClient)
	c.CheckRedirect = sameServer
	return &c
}

// maxRedirects is how many redirects are followed, as by package net/http.
const maxRedirects = 10

func sameServer(req *http.Request, via []*http.Request) error {
	switch from, to := via[0].URL, req.URL; {
	case to.Scheme != from.Scheme || to.Host != from.Host:
		return fmt.Errorf("it sends on to another server, %s: name that instead if it is to be asked", to.Redacted())
	case len(via) >= maxRedirects:
		return fmt.Errorf("it sends on for more than %d times", maxRedirects)
	}
	return nil
}

// do makes a request. Its error says, as that of any endpoint does, what to try
// next.
func (o *HTTPOptions) do(req *http.Request) (*http.Response, error) {
	resp, err := o.client().Do(req)
	if err != nil {
		return nil, transport.Explain(req.URL.Redacted(), err)
	}
	return resp, nil
}

// DialHTTP begins to speak a dialect as MCP's streamable HTTP does: each message
// is posted to the URL, and answered by JSON or by a stream of events. A server
// that takes no post there is asked for its events in the older way of MCP, which
// then bring all answers, and first the URL to post to.
func DialHTTP(ctx context.Context, url string, d *Dialect, w *Watch, o RPCOptions, h HTTPOptions) (*RPC, error) {
	r := newRPC(d, o)
	alive, stop := context.WithCancel(context.Background())
	r.wire = &httpWire{rpc: r, url: url, watch: w, http: h, alive: alive, stop: stop}
	return r, r.begin(ctx)
}

// httpWire takes messages to a server by posting them.
type httpWire struct {
	rpc   *RPC
	watch *Watch
	http  HTTPOptions
	alive context.Context // ends with the connection
	stop  context.CancelFunc
	posts sync.WaitGroup

	mu      sync.Mutex
	url     string // where to post
	sent    bool   // a message was accepted
	session string // the Mcp-Session-Id that the server gave
	taking  sync.Mutex
}

// send posts a message. What the answer streams is read by a goroutine, which
// ends with the wire.
func (w *httpWire) send(ctx context.Context, payload []byte) error {
	if err := w.see(frame.C2U, payload); err != nil {
		return err
	}
	resp, err := w.post(ctx, payload)
	if err != nil {
		return err
	}
	if resp.StatusCode >= 400 {
		return refused(resp)
	}
	w.accepted(resp.Header.Get("Mcp-Session-Id"))
	w.follow(resp)
	return nil
}

// post posts a message, in the older way if the server knows no newer.
func (w *httpWire) post(ctx context.Context, payload []byte) (*http.Response, error) {
	resp, err := w.request(ctx, http.MethodPost, payload)
	if err != nil || !w.isOlder(resp) {
		return resp, err
	}
	refusal := refused(resp)
	if err := w.listen(ctx); err != nil {
		if fault, ok := errorAs[*FaultError](err); ok {
			return nil, fault
		}
		return nil, refusal // it says more than that the older way is none
	}
	return w.request(ctx, http.MethodPost, payload)
}

// request makes a request, whose answer lasts until its body is closed, the
// connection ends, or ctx does before there is an answer.
func (w *httpWire) request(ctx context.Context, method string, payload []byte) (*http.Response, error) {
	bounded, cancel := context.WithCancel(w.alive)
	stop := context.AfterFunc(ctx, cancel)
	w.mu.Lock()
	url := w.url
	w.mu.Unlock()
	req, err := http.NewRequestWithContext(bounded, method, url, bytes.NewReader(payload))
	if err != nil {
		cancel()
		return nil, err
	}
	w.setHeader(req.Header, method)
	resp, err := w.http.do(req)
	if err != nil {
		cancel()
		return nil, err
	}
	stop() // from here on the caller waits for the answer, and not for us
	resp.Body = cancelling{resp.Body, cancel}
	return resp, nil
}

// cancelling is a body whose request ends when it is closed.
type cancelling struct {
	io.ReadCloser
	cancel context.CancelFunc
}

func (c cancelling) Close() error {
	defer c.cancel()
	return c.ReadCloser.Close()
}

func (w *httpWire) accepted(session string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sent = true
	if session != "" {
		w.session = session
	}
}

// follow reads an answer.
func (w *httpWire) follow(resp *http.Response) {
	w.posts.Go(func() {
		defer resp.Body.Close()
		if err := w.read(resp); err != nil && w.alive.Err() == nil {
			w.rpc.fail(err)
		}
	})
}

func (w *httpWire) setHeader(h http.Header, method string) {
	for k, v := range w.http.Header {
		h[k] = v
	}
	switch method {
	case http.MethodPost:
		h.Set("Content-Type", "application/json")
		h.Set("Accept", "application/json, text/event-stream")
	case http.MethodGet:
		h.Set("Accept", "text/event-stream")
	}
	w.mu.Lock()
	session := w.session
	w.mu.Unlock()
	if session != "" {
		h.Set("Mcp-Session-Id", session)
	}
	if version := w.rpc.agreed(); version != "" {
		h.Set("Mcp-Protocol-Version", version)
	}
}

// refused is the error of an answer whose status says that there is none.
func refused(resp *http.Response) error {
	defer resp.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(resp.Body, 512)) // as much as there is
	return &PeerError{Code: "HTTP " + resp.Status, Message: string(bytes.TrimSpace(body))}
}

// read takes in the messages of an answer.
func (w *httpWire) read(resp *http.Response) error {
	switch {
	case resp.StatusCode == http.StatusAccepted: // what there is to say comes elsewhere
		return nil
	case isEvents(resp):
		return readEvents(resp.Body, func(_ string, data []byte) error { return w.receive(data) })
	}
	body, err := readBody(resp.Body)
	if err != nil || len(bytes.TrimSpace(body)) == 0 {
		return err
	}
	return w.receive(body)
}

func isEvents(resp *http.Response) bool {
	media, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	return media == "text/event-stream"
}

func readBody(r io.Reader) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(r, maxBody+1))
	if err == nil && len(body) > maxBody {
		err = faultf("the answer is over the limit of %d bytes", maxBody)
	}
	return body, err
}

// receive takes in one message; several answers may be read at once.
func (w *httpWire) receive(payload []byte) error {
	w.taking.Lock()
	defer w.taking.Unlock()
	if err := w.see(frame.U2C, payload); err != nil {
		return &FaultError{err}
	}
	return w.rpc.receive(payload)
}

func (w *httpWire) see(dir frame.Dir, payload []byte) error {
	_, err := w.watch.see(1, dir, frame.Line.Name(), asLine(payload))
	return err
}

// asLine returns the frame of a line that holds a JSON body, which a session has
// in place of HTTP.
func asLine(payload []byte) frame.Frame {
	line := payload
	if bytes.ContainsAny(payload, "\r\n") && jsonscan.Valid(payload) == nil {
		line = jsonscan.AppendCompact(nil, payload)
	}
	return frame.Frame{Raw: append(bytes.Clone(line), '\n'), End: len(line)}
}

// close ends the session, if the server has given one, and what is under way.
func (w *httpWire) close() error {
	defer w.posts.Wait()
	defer w.stop()
	defer w.watch.end(1)
	w.mu.Lock()
	session := w.session
	w.mu.Unlock()
	if session == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(w.alive, parting)
	defer cancel()
	resp, err := w.request(ctx, http.MethodDelete, nil)
	if err != nil {
		return fmt.Errorf("the session could not be ended: %w", err)
	}
	return resp.Body.Close()
}
