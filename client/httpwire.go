package client

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"mime"
	"net/http"
	"sync"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/protocol/jsonscan"
)

// maxBody is the longest HTTP body that is accepted, in bytes.
const maxBody = 16 << 20

// HTTPOptions are what requests over HTTP carry.
type HTTPOptions struct {
	// Client makes the requests; nil is http.DefaultClient.
	Client *http.Client
	Header http.Header
}

func (o *HTTPOptions) client() *http.Client {
	if o.Client == nil {
		return http.DefaultClient
	}
	return o.Client
}

// DialHTTP begins to speak a dialect as MCP's streamable HTTP does: each message
// is posted to the URL, and answered by JSON or by a stream of events.
func DialHTTP(ctx context.Context, url string, d *Dialect, w *Watch, o RPCOptions, h HTTPOptions) (*RPC, error) {
	r := newRPC(d, o)
	alive, stop := context.WithCancel(context.Background())
	r.wire = &httpWire{rpc: r, url: url, watch: w, http: h, alive: alive, stop: stop}
	return r, r.begin(ctx)
}

// httpWire takes messages to a server by posting them.
type httpWire struct {
	rpc   *RPC
	url   string
	watch *Watch
	http  HTTPOptions
	alive context.Context // ends with the connection
	stop  context.CancelFunc
	posts sync.WaitGroup

	mu      sync.Mutex
	session string // the Mcp-Session-Id that the server gave
	taking  sync.Mutex
}

// send posts a message. What the answer streams is read by a goroutine, which
// ends with the wire.
func (w *httpWire) send(ctx context.Context, payload []byte) error {
	if err := w.see(frame.C2U, payload); err != nil {
		return err
	}
	bounded, cancel := context.WithCancel(w.alive)
	stop := context.AfterFunc(ctx, cancel)
	req, err := http.NewRequestWithContext(bounded, http.MethodPost, w.url, bytes.NewReader(payload))
	if err != nil {
		cancel()
		return err
	}
	w.setHeader(req.Header)
	resp, err := w.http.client().Do(req)
	if err != nil {
		cancel()
		return err
	}
	stop() // from here on the caller waits for the answer, and not for us
	if id := resp.Header.Get("Mcp-Session-Id"); id != "" {
		w.mu.Lock()
		w.session = id
		w.mu.Unlock()
	}
	if resp.StatusCode >= 400 {
		defer cancel()
		return refused(resp)
	}
	w.posts.Go(func() {
		defer cancel()
		defer resp.Body.Close()
		if err := w.read(resp); err != nil && w.alive.Err() == nil {
			w.rpc.fail(err)
		}
	})
	return nil
}

func (w *httpWire) setHeader(h http.Header) {
	for k, v := range w.http.Header {
		h[k] = v
	}
	h.Set("Content-Type", "application/json")
	h.Set("Accept", "application/json, text/event-stream")
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.session != "" {
		h.Set("Mcp-Session-Id", w.session)
		h.Set("Mcp-Protocol-Version", mcpVersion)
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
	media, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if media == "text/event-stream" {
		return readEvents(resp.Body, w.receive)
	}
	body, err := readBody(resp.Body)
	if err != nil || len(bytes.TrimSpace(body)) == 0 {
		return err
	}
	return w.receive(body)
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
	req, err := http.NewRequestWithContext(ctx, http.MethodDelete, w.url, nil)
	if err != nil {
		return err
	}
	w.setHeader(req.Header)
	resp, err := w.http.client().Do(req)
	if err != nil {
		return fmt.Errorf("the session could not be ended: %w", err)
	}
	return resp.Body.Close()
}
