package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"strconv"
	"sync/atomic"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/transport/mcphttp"
)

// HTTPOptions are the options of HTTP requests.
type HTTPOptions = mcphttp.Options

// DialHTTP opens a session over MCP's streamable HTTP: each message is posted to
// the URL, and answered by JSON or an event stream. If an MCP server does not accept
// that, the older transport is used: an event stream names the URL to post to and
// carries all answers.
func DialHTTP(ctx context.Context, url string, d *Dialect, w *Watch, o RPCOptions, h HTTPOptions) (*RPC, error) {
	r := newRPC(d, o)
	wire := &httpWire{rpc: r, watch: w}
	wire.client = mcphttp.NewClient(mcphttp.Config{
		URL: url, Options: h, Older: d == MCP && !o.Stateless, Receive: wire.receive,
		Fail: func(err error) { r.fail(ofHTTP(err)) },
	})
	r.wire = wire
	return r, r.begin(ctx)
}

// httpWire sends messages by posting them.
type httpWire struct {
	rpc    *RPC
	watch  *Watch
	client *mcphttp.Client
}

func (w *httpWire) send(ctx context.Context, payload []byte) error {
	if err := w.watch.seeLine(1, frame.C2U, payload); err != nil {
		return err
	}
	if version := w.rpc.agreed(); version != "" {
		w.client.Agree(version)
	}
	var header http.Header
	if w.rpc.options.Stateless {
		header = mcphttp.Header(statelessVersion, payload)
	}
	err := w.client.Send(ctx, payload, header)
	if refused, ok := errors.AsType[*mcphttp.StatusError](err); ok && w.rpc.options.Stateless && refused.IsJSON {
		err = w.client.Receive(refused.Body) // the answer is in the body
	}
	return ofHTTP(err)
}

func (w *httpWire) receive(payload []byte) error {
	if err := w.watch.seeLine(1, frame.U2C, payload); err != nil {
		return err
	}
	return w.rpc.receive(payload)
}

// close ends the session, if the server has opened one, and the calls in flight.
func (w *httpWire) close() error {
	defer w.watch.endConn(1)
	return w.client.Close()
}

// An httpRPC is a client of a server that speaks JSON-RPC over HTTP. In the record, each
// request has a connection of its own.
type httpRPC struct {
	url   string
	watch *Watch
	http  HTTPOptions
	last  atomic.Int64
}

// post makes a request and passes each result to handle: an event stream has several.
func (c *httpRPC) post(ctx context.Context, method string, params []byte, header http.Header, handle func(result []byte)) error {
	n := int(c.last.Add(1))
	body := rpcRequest(strconv.Itoa(n), method, params)
	if err := c.watch.seeLine(n, frame.C2U, body); err != nil {
		return err
	}
	defer c.watch.endConn(n)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	maps.Copy(req.Header, c.http.Header)
	maps.Copy(req.Header, header)
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.http.Do(req) //nolint:bodyclose // the answer closes it
	if err != nil {
		return err
	}
	answer := mcphttp.AnswerOf(resp)
	defer answer.Close()
	answered := func(data []byte) error { return c.answered(n, data, handle) }
	if answer.IsEvents() {
		return ofHTTP(answer.Read(answered))
	}
	data, err := answer.Body()
	switch {
	case err != nil:
		return ofHTTP(err)
	case resp.StatusCode >= 400 && !hasOutcome(data):
		return statusError(resp.Status, data)
	}
	return answered(data)
}

// hasOutcome reports whether a body is an answer of JSON-RPC, which may come with any status.
func hasOutcome(body []byte) bool {
	var m struct{ Result, Error json.RawMessage }
	return json.Unmarshal(body, &m) == nil && (m.Result != nil || m.Error != nil)
}

func (c *httpRPC) answered(n int, answer []byte, handle func(result []byte)) error {
	if err := c.watch.seeLine(n, frame.U2C, answer); err != nil {
		return err
	}
	var m struct{ Result, Error json.RawMessage }
	if err := json.Unmarshal(answer, &m); err != nil {
		return &FaultError{err}
	}
	switch {
	case !isNull(m.Error):
		return peerError(m.Error)
	case m.Result == nil:
		return faultf("the answer has neither a result nor an error: %s", answer)
	}
	handle(m.Result)
	return nil
}

func statusError(status string, body []byte) error {
	return &PeerError{Code: "HTTP " + status, Message: string(bytes.TrimSpace(body[:min(len(body), 512)]))}
}

// ofHTTP turns an error of the transport into one of this package.
func ofHTTP(err error) error {
	if refused, ok := errors.AsType[*mcphttp.StatusError](err); ok {
		return statusError(refused.Status, refused.Body)
	}
	if fault, ok := errors.AsType[*mcphttp.FaultError](err); ok {
		return &FaultError{fault.Err}
	}
	if errors.Is(err, mcphttp.ErrEnded) {
		return ErrEnded
	}
	return err
}
