package client

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/peer/internal/jsonline"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/transport"
)

// An RPC is a connection to a peer that speaks JSON-RPC, or DAP, which is similar.
// It is safe for concurrent calls. The dialect answers the peer's requests.
type RPC struct {
	dialect *Dialect
	options RPCOptions
	wire    rpcWire

	mu   sync.Mutex
	last int
	open map[string]*rpcCall // by the token of the id
	// session is the session of ACP, or the thread of Codex.
	session string
	version string     // of MCP or ACP, as negotiated; "" before
	turning sync.Mutex // held during a turn
	turn    *turn      // the current one, or nil
	turnID  string     // of Codex
	err     error      // why there will be no more answers
	ended   chan struct{}
	parted  atomic.Bool // a call has already sent the shutdown request
}

// RPCOptions are options of the handshake and of answers to the peer.
type RPCOptions struct {
	// Version is ours.
	Version string
	// Allow grants the permissions that the peer asks for.
	Allow bool
	// Dir is the working folder of the peer.
	Dir string
	// ACPVersion is the version of ACP to speak; 0 is 1.
	ACPVersion int
	// NoHandshake skips the handshake and the shutdown.
	NoHandshake bool
	// Stateless speaks MCP without a handshake, as from 2026-07-28 on: each request states
	// its version. Inputs are the answers to a server's requests for input, by key.
	Stateless bool
	Inputs    map[string]json.RawMessage
}

// An rpcWire sends messages to the peer. Messages from the peer go to receive.
type rpcWire interface {
	send(ctx context.Context, payload []byte) error
	close() error
}

// An rpcCall is an open request.
type rpcCall struct {
	out    func(Part)
	answer chan *rpcMessage
}

// An rpcMessage is a message of the peer: JSON-RPC uses the first members, DAP the others.
type rpcMessage struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`

	Seq        json.RawMessage `json:"seq"`
	Type       string          `json:"type"`
	Command    string          `json:"command"`
	Event      string          `json:"event"`
	RequestSeq json.RawMessage `json:"request_seq"`
	Success    bool            `json:"success"`
	Body       json.RawMessage `json:"body"`
	Arguments  json.RawMessage `json:"arguments"`
	Message    string          `json:"message"`
}

// DialRPC opens a session in a dialect on a connection, which it takes over. On a
// [transport.Messenger], each message of the dialect is one message of the transport.
func DialRPC(ctx context.Context, nc transport.Conn, d *Dialect, w *Watch, o RPCOptions) (*RPC, error) {
	r := newRPC(d, o)
	framing := d.framing
	if m, ok := nc.(transport.Messenger); ok {
		nc, framing = &jsonline.Conn{Messenger: m, Context: context.Background()}, frame.Line
	}
	l := newLink(nc, 1, framing, w, func(payload []byte, _ *protocol.Message) error { return r.receive(payload) })
	r.wire = l
	l.start()
	go func() {
		<-l.done
		r.fail(l.err)
	}()
	return r, r.begin(ctx)
}

func newRPC(d *Dialect, o RPCOptions) *RPC {
	return &RPC{dialect: d, options: o, open: map[string]*rpcCall{}, ended: make(chan struct{})}
}

// begin does the handshake.
func (r *RPC) begin(ctx context.Context) error {
	if r.options.NoHandshake || r.dialect.begin == nil {
		return nil
	}
	if err := r.dialect.begin(ctx, r); err != nil {
		return cmp.Or(err, r.wire.close())
	}
	return nil
}

// Close does the shutdown of the dialect and closes the connection.
func (r *RPC) Close() error {
	select {
	case <-r.ended:
	default:
		if r.dialect.end != nil && !r.options.NoHandshake {
			ctx, cancel := context.WithTimeout(context.Background(), parting)
			defer cancel()
			r.dialect.end(ctx, r)
		}
	}
	return r.wire.close()
}

// fail ends all calls.
func (r *RPC) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil {
		r.err = err
		close(r.ended)
	}
}

// Call calls a method. The params are JSON; nil omits them.
func (r *RPC) Call(method string, params []byte) Call {
	return settled(func(ctx context.Context, out func(Part)) error {
		result, err := r.request(ctx, method, params, out)
		for round := 0; err == nil && r.options.Stateless; round++ {
			var again []byte
			if again, err = r.retryMCP(method, params, result, round); again == nil {
				break
			}
			out(Part{Aside: true, Name: "input_required", JSON: result})
			result, err = r.request(ctx, method, again, out)
		}
		if err != nil {
			return err
		}
		if method == r.dialect.last {
			r.parted.Store(true)
		}
		out(Part{JSON: result})
		return nil
	})
}

// Notify sends a notification, which has no answer.
func (r *RPC) Notify(method string, params []byte) Call {
	return func(ctx context.Context, _ func(Part)) error { return r.notify(ctx, method, params) }
}

// request makes a request and returns its result.
func (r *RPC) request(ctx context.Context, method string, params []byte, out func(Part)) ([]byte, error) {
	params, err := r.stated(params)
	if err != nil {
		return nil, err
	}
	c := &rpcCall{out: out, answer: make(chan *rpcMessage, 1)}
	r.mu.Lock()
	r.last++
	id := strconv.Itoa(r.last)
	r.open[id] = c
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.open, id)
	}()
	if err := r.wire.send(ctx, r.dialect.request(id, method, params)); err != nil {
		return nil, err
	}
	m, err := await(ctx, c.answer, r.ended, &r.err)
	if err == nil {
		return r.dialect.result(m)
	}
	r.cancelRequest(ctx, id, params)
	return nil, err
}

// cancelRequest cancels a request, or the turn that it started, if ctx has ended.
func (r *RPC) cancelRequest(ctx context.Context, id string, params []byte) {
	if r.dialect.cancel == nil || ctx.Err() == nil || r.leavingCancels() {
		return
	}
	payload := r.dialect.cancel(r, id, params)
	if payload == nil {
		return
	}
	bounded, stop := context.WithTimeout(context.WithoutCancel(ctx), parting)
	defer stop()
	_ = r.wire.send(bounded, payload) // best effort
}

// nextID returns an id for a request whose answer is ignored.
func (r *RPC) nextID() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last++
	return strconv.Itoa(r.last)
}

func (r *RPC) notify(ctx context.Context, method string, params []byte) error {
	return r.wire.send(ctx, r.dialect.request("", method, params))
}

// receive handles a message or a batch.
func (r *RPC) receive(payload []byte) error {
	if jsonscan.KindOf(bytes.TrimLeft(payload, " \t\r\n")) == jsonscan.Array {
		var batch []json.RawMessage
		if err := json.Unmarshal(payload, &batch); err != nil {
			return &FaultError{err}
		}
		for _, one := range batch {
			if err := r.receive(one); err != nil {
				return err
			}
		}
		return nil
	}
	m := &rpcMessage{}
	if err := json.Unmarshal(payload, m); err != nil {
		return &FaultError{err}
	}
	return r.take(r.dialect.plain(m))
}

// take handles a message in JSON-RPC's terms.
func (r *RPC) take(m *rpcMessage) error {
	switch {
	case m.Method == "":
		if c := r.answered(m); c != nil { // else the watch reports it
			c.answer <- m
		}
		return nil
	case m.ID == nil:
		part := r.dialect.part(m)
		if out := r.listener(); out != nil {
			out(part)
		}
		r.endTurn(m)
		return nil
	}
	result, refusal := r.dialect.serve(r, m)
	// If the peer is gone, the call that waits for its answer returns the error.
	_ = r.wire.send(context.Background(), r.dialect.response(r, m, result, refusal))
	return nil
}

// answered closes and returns the call that a message answers; nil if there is none. An
// error without an id is about a request that the peer could not read: if only one is
// open, that one.
func (r *RPC) answered(m *rpcMessage) *rpcCall {
	r.mu.Lock()
	defer r.mu.Unlock()
	id := string(m.ID)
	if isNull(m.ID) && !isNull(m.Error) && len(r.open) == 1 {
		for id = range r.open {
		}
	}
	c := r.open[id]
	delete(r.open, id)
	return c
}

// isNull reports whether a member is missing, or null, which some peers write instead.
func isNull(member json.RawMessage) bool { return member == nil || string(member) == "null" }

// listener returns the output for notifications: that of the latest call, or of the current
// turn.
func (r *RPC) listener() func(Part) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.open[strconv.Itoa(r.last)]
	switch {
	case c != nil:
		return c.out
	case r.turn != nil:
		return r.turn.out
	}
	return nil
}
