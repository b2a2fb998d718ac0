package client

import (
	"bytes"
	"context"
	"errors"
	"net/http"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/protocol/jsonscan"
	"github.com/wirectl/wirectl/transport/mcphttp"
)

// HTTPOptions are what requests over HTTP carry.
type HTTPOptions = mcphttp.Options

// DialHTTP begins to speak a dialect as MCP's streamable HTTP does: each message
// is posted to the URL, and answered by JSON or by a stream of events. A server
// that takes no post there is asked for its events in the older way of MCP, which
// then bring all answers, and first the URL to post to.
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

// httpWire takes messages to a server by posting them.
type httpWire struct {
	rpc    *RPC
	watch  *Watch
	client *mcphttp.Client
}

func (w *httpWire) send(ctx context.Context, payload []byte) error {
	if err := w.see(frame.C2U, payload); err != nil {
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
		err = w.client.Receive(refused.Body) // it says why
	}
	return ofHTTP(err)
}

// receive takes in one message.
func (w *httpWire) receive(payload []byte) error {
	if err := w.see(frame.U2C, payload); err != nil {
		return &FaultError{err}
	}
	return w.rpc.receive(payload)
}

func (w *httpWire) see(dir frame.Dir, payload []byte) error {
	_, err := w.watch.see(1, dir, frame.Line.Name(), asLine(payload))
	return err
}

// close ends the session, if the server has given one, and what is under way.
func (w *httpWire) close() error {
	defer w.watch.endConn(1)
	return w.client.Close()
}

// ofHTTP returns an error of the transport as one of ours.
func ofHTTP(err error) error {
	if refused, ok := errors.AsType[*mcphttp.StatusError](err); ok {
		return &PeerError{Code: "HTTP " + refused.Status, Message: string(bytes.TrimSpace(refused.Body[:min(len(refused.Body), 512)]))}
	}
	if fault, ok := errors.AsType[*mcphttp.FaultError](err); ok {
		return &FaultError{fault.Err}
	}
	if errors.Is(err, mcphttp.ErrEnded) {
		return ErrEnded
	}
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
