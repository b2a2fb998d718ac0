package client

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/frame/carrier"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/protocol/theory"
	"github.com/wirectl/wirectl/transport"
)

// The limits of a client of theory.run.v1.
const (
	theoryProtocol = "theory.run.v1"
	ackWait        = 5 * time.Second
	frameWait      = 15 * time.Second
	theoryLimit    = 8 << 20
)

// A Theory is a client of a runtime, which runs tools.
type Theory struct {
	url   string
	watch *Watch
	http  HTTPOptions
	last  atomic.Int64
}

// NewTheory returns a client of the runtime at a ws or wss URL, whose path defaults to /run.
func NewTheory(url string, w *Watch, h HTTPOptions) *Theory {
	if scheme, rest, _ := strings.Cut(url, "://"); !strings.Contains(rest, "/") {
		url = scheme + "://" + rest + "/run"
	}
	return &Theory{url: url, watch: w, http: h}
}

// A RunRequest is a request to run a tool.
type RunRequest struct {
	// Dialect is the one to write; "" is D.
	Dialect theory.Dialect
	// RunID is the id of the run, as JSON; nil generates one. The id of an existing run
	// rejoins it.
	RunID   json.RawMessage
	Mode    string // "real" or "mock"
	Inputs  map[string]json.RawMessage
	Outputs map[string]json.RawMessage
	// Cancel says when to preempt the run.
	Cancel CancelAfter
}

// Run runs a tool. Its tokens are text, and its outputs JSON.
func (c *Theory) Run(q RunRequest) Call {
	return func(ctx context.Context, out func(Part)) error {
		q := q // each call is a run of its own
		if q.RunID == nil {
			q.RunID = jsonscan.MustMarshal("run-" + rand.Text())
		}
		ws, resp, err := websocket.Dial(ctx, c.url, &websocket.DialOptions{ //nolint:bodyclose // there is none after an upgrade
			HTTPClient: c.http.HTTPClient(), HTTPHeader: c.http.Header, Subprotocols: []string{theoryProtocol},
		})
		if resp != nil && resp.StatusCode != http.StatusSwitchingProtocols {
			err = &transport.RefusedError{Code: resp.StatusCode, Status: resp.Status}
		}
		if err != nil {
			return transport.Explain(c.url, err)
		}
		defer func() { _ = ws.CloseNow() }() // it may be closed already
		if ws.Subprotocol() != theoryProtocol {
			return faultf("the runtime does not choose the subprotocol %s", theoryProtocol)
		}
		ws.SetReadLimit(theoryLimit)
		r := &theoryRun{ws: ws, watch: c.watch, conn: int(c.last.Add(1)), request: q, out: out}
		defer c.watch.endConn(r.conn)
		if err := r.run(ctx); err != nil {
			return err
		}
		return ws.Close(websocket.StatusNormalClosure, "")
	}
}

// A theoryRun is a run on its connection.
type theoryRun struct {
	ws      *websocket.Conn
	watch   *Watch
	conn    int
	request RunRequest
	out     func(Part)
	parts   int
}

// A theoryMessage is a message of a runtime. Some dialects have content in place of data.
type theoryMessage struct {
	Kind    string `json:"kind"`
	Control struct {
		Status string `json:"status"`
	} `json:"control"`
	Data    json.RawMessage `json:"data"`
	Content json.RawMessage `json:"content"`
	Outputs json.RawMessage `json:"outputs"`
	Error   *PeerError      `json:"error"`
	theoryExtra
}

// theoryExtra are members that only some runtimes send.
type theoryExtra struct {
	// IndexPath is where the runtime has listed the outputs; as JSON.
	IndexPath json.RawMessage `json:"index_path"`
}

// A theoryResult is the content of a RunResult.
type theoryResult struct {
	Status  string          `json:"status"`
	Outputs json.RawMessage `json:"outputs"`
	Error   *PeerError      `json:"error"`
	theoryExtra
}

func (r *theoryRun) run(ctx context.Context) error {
	q := &r.request
	if err := r.send(ctx, q.opener()); err != nil {
		return err
	}
	m, err := r.receive(ctx, ackWait, "acknowledge the request")
	if err != nil {
		return err
	}
	if m.Kind != "Ack" {
		return r.last(m) // the watch reports the missing Ack
	}
	defer runAfter(q.Cancel.Time, func() {
		bounded, cancel := context.WithTimeout(ctx, parting)
		defer cancel()
		_ = r.preempt(bounded) // if the runtime is gone, the read fails too
	})()
	for {
		m, err := r.receive(ctx, frameWait, "send anything")
		if err != nil {
			return err
		}
		if m.Kind == "Response" || m.Kind == "RunResult" {
			return r.last(m)
		}
		if err := r.part(ctx, m); err != nil {
			return err
		}
	}
}

// opener returns the message that opens the run in the dialect.
func (q *RunRequest) opener() object {
	switch inputs, outputs := orEmpty(q.Inputs), orEmpty(q.Outputs); q.Dialect {
	case theory.A:
		// Runtimes of this dialect look for the id beside the payload, or in it under either name.
		return object{"kind": "RunOpen", "content": object{"role": "client", "execution_id": q.RunID, "payload": object{
			"run_id": q.RunID, "execution_id": q.RunID, "mode": q.Mode, "inputs": inputs, "outputs": outputs,
		}}}
	case theory.B:
		return object{"kind": "RunOpen", "content": object{"run_id": q.RunID, "mode": q.Mode, "inputs": inputs, "outputs": outputs}}
	default:
		return object{"kind": "Request", "control": object{"run_id": q.RunID, "mode": q.Mode}, "inputs": inputs, "outputs": outputs}
	}
}

func orEmpty(m map[string]json.RawMessage) map[string]json.RawMessage {
	if m == nil {
		return map[string]json.RawMessage{}
	}
	return m
}

// part outputs a message before the answer.
func (r *theoryRun) part(ctx context.Context, m *theoryMessage) error {
	data := m.Data
	if data == nil {
		data = m.Content
	}
	var token struct {
		Text string `json:"text"`
	}
	if m.Kind == "Token" && json.Unmarshal(data, &token) == nil {
		r.out(Part{Text: token.Text})
	} else {
		r.out(Part{Aside: true, Name: m.Kind, JSON: data})
	}
	r.parts++
	if r.parts == r.request.Cancel.Parts {
		return r.preempt(ctx)
	}
	return nil
}

func (r *theoryRun) preempt(ctx context.Context) error {
	return r.send(ctx, object{"kind": "control", "content": object{"op": "preempt", r.request.idName(): r.request.RunID}})
}

// idName is the key of the run id in the dialect.
func (q *RunRequest) idName() string {
	if q.Dialect == theory.A {
		return "execution_id"
	}
	return "run_id"
}

// last handles the answer.
func (r *theoryRun) last(m *theoryMessage) error {
	if m.Kind == "RunResult" {
		result := theoryResult{Outputs: m.Content} // older runtimes send the outputs alone
		if err := json.Unmarshal(m.Content, &result); err != nil {
			return &FaultError{err}
		}
		m.Outputs, m.Error, m.Control.Status, m.theoryExtra = result.Outputs, result.Error, result.Status, result.theoryExtra
		if result.Status == "" && result.Error == nil {
			m.Control.Status = "success"
		}
	}
	if m.IndexPath != nil {
		r.out(Part{Aside: true, Name: "index_path", JSON: m.IndexPath})
	}
	switch {
	case m.Control.Status == "success":
		if m.Outputs == nil {
			m.Outputs = json.RawMessage("{}")
		}
		r.out(Part{JSON: m.Outputs})
		return nil
	case m.Error != nil && m.Error.Code == "ERR_PREEMPTED" && r.request.Cancel != CancelAfter{}:
		r.out(Part{Aside: true, Name: "preempted"})
		return nil
	case m.Error != nil:
		return m.Error
	}
	return faultf("a %s has the status %q and no error", m.Kind, m.Control.Status)
}

func (r *theoryRun) send(ctx context.Context, m object) error {
	payload := jsonscan.MustMarshal(m)
	if err := r.watch.seeLine(r.conn, frame.C2U, payload); err != nil {
		return err
	}
	return r.ws.Write(ctx, websocket.MessageText, payload)
}

// receive waits for a message.
func (r *theoryRun) receive(ctx context.Context, wait time.Duration, to string) (*theoryMessage, error) {
	silence := faultf("the runtime did not %s within %v", to, wait)
	bounded, cancel := context.WithTimeoutCause(ctx, wait, silence)
	defer cancel()
	_, payload, err := r.ws.Read(bounded)
	if code := websocket.CloseStatus(err); carrier.RefusesBy(int(code)) {
		r.watch.reject(r.conn)
	}
	if err != nil {
		return nil, theoryFailure(bounded, err)
	}
	if err := r.watch.seeLine(r.conn, frame.U2C, payload); err != nil {
		return nil, err
	}
	m := &theoryMessage{}
	if err := json.Unmarshal(payload, m); err != nil {
		return nil, &FaultError{err}
	}
	return m, nil
}

func theoryFailure(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if closed, ok := errors.AsType[websocket.CloseError](err); ok {
		return fmt.Errorf("the runtime closed the connection: %d %s", closed.Code, closed.Reason)
	}
	return err
}
