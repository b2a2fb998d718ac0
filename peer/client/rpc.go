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
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/jsonscan"
	"github.com/wirectl/wirectl/transport"
)

// An RPC is a connection to a peer that speaks JSON-RPC, or DAP, which is like it.
// Any number of calls may be made at once. What the peer asks of us is answered
// by the dialect.
type RPC struct {
	dialect *Dialect
	options RPCOptions
	wire    rpcWire

	mu   sync.Mutex
	last int
	open map[string]*rpcCall // by the token of the id
	// session is what session methods of ACP are about, or the thread of Codex.
	session string
	// version is that of MCP or ACP which was agreed on; "" before.
	version string
	turning sync.Mutex // held while a turn goes on
	turn    *turn      // that goes on, or nil
	turnID  string     // of Codex
	err     error      // why there will be no more answers
	ended   chan struct{}
	parted  atomic.Bool // a call was what the goodbye asks
}

// RPCOptions are what is said of ourselves and allowed to the peer.
type RPCOptions struct {
	// Version is ours.
	Version string
	// Allow grants what the peer asks permission for.
	Allow bool
	// Dir is the folder that the peer is to work in.
	Dir string
	// ACPVersion is the version of ACP to speak; 0 is 1.
	ACPVersion int
	// NoHandshake leaves out the messages that a dialect begins with.
	NoHandshake bool
	// Stateless speaks MCP as it is from 2026-07-28 on: each request states its version,
	// and Inputs answer what a server asks for, by its key.
	Stateless bool
	Inputs    map[string]json.RawMessage
}

// An rpcWire takes messages to the peer. What comes from there goes to receive.
type rpcWire interface {
	send(ctx context.Context, payload []byte) error
	close() error
}

// An rpcCall is a request that is not answered yet.
type rpcCall struct {
	out    func(Part)
	answer chan *rpcMessage
}

// An rpcMessage is what a peer sent: of JSON-RPC the first members, of DAP the
// others.
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

// DialRPC begins to speak a dialect on a connection, which it takes over. On one
// that keeps the bounds of messages each message of the dialect is one of those.
func DialRPC(ctx context.Context, nc transport.Conn, d *Dialect, w *Watch, o RPCOptions) (*RPC, error) {
	r := newRPC(d, o)
	framing := d.framing
	if m, ok := nc.(transport.Messenger); ok {
		nc, framing = &lined{Messenger: m}, frame.Line
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

// begin does what the dialect begins with.
func (r *RPC) begin(ctx context.Context) error {
	if r.options.NoHandshake || r.dialect.begin == nil {
		return nil
	}
	if err := r.dialect.begin(ctx, r); err != nil {
		return cmp.Or(err, r.wire.close())
	}
	return nil
}

// Close says goodbye as the dialect wants it and ends the connection.
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

// Call is the call of a method. The params are JSON, or nil for none.
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

// Notify is the call that sends a notification, which nothing answers.
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

// cancelRequest cancels a request, or the turn that it began, if ctx has ended.
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
	_ = r.wire.send(bounded, payload) // we are leaving anyhow
}

// nextID returns an id for a message whose answer nobody waits for.
func (r *RPC) nextID() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last++
	return strconv.Itoa(r.last)
}

func (r *RPC) notify(ctx context.Context, method string, params []byte) error {
	return r.wire.send(ctx, r.dialect.request("", method, params))
}

// receive takes in a message, or a batch of them.
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

// take takes in a message in JSON-RPC's terms.
func (r *RPC) take(m *rpcMessage) error {
	switch {
	case m.Method == "":
		if c := r.answered(m); c != nil { // else the watch has judged it
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
	// The error of a peer that has gone is told by who waits for its answer.
	_ = r.wire.send(context.Background(), r.dialect.response(r, m, result, refusal))
	return nil
}

// answered returns the call that a message answers, which is open no longer; nil if
// there is none. An error without an id is about a request that the peer could not
// read: where one alone is open, that.
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

// isNull reports whether a member is not there, or null, which some write instead.
func isNull(member json.RawMessage) bool { return member == nil || string(member) == "null" }

// listener returns who listens to notifications: the call that was made last, or the turn
// that goes on.
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
