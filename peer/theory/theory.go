// Package theory is a runtime of theory.run.v1: it accepts requests over WebSocket, runs
// a [Handler] for each, and reports progress and result to every client of the run.
//
// It serves HTTP, and neither listens nor starts anything but its handlers' worker
// processes.
package theory

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"
	"golang.org/x/net/http/httpguts"

	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/protocol/theory"
	"github.com/wirectl/wirectl/transport"
)

// Subprotocol is the WebSocket subprotocol that clients must request.
const Subprotocol = "theory.run.v1"

// A Handler runs a tool.
type Handler interface {
	// Run runs the tool with its inputs and returns its outputs. It passes progress to emit and
	// gets the requests of controllers from r.Controls. When ctx is done, it stops;
	// [context.Cause] returns the reason. The client is sent an [*Error]; any other error is
	// hidden from it. A Result returned with an [*Error] is sent with it, and its outputs are
	// not stored. The Result of a run that was stopped is stored and sent with the reason.
	Run(ctx context.Context, r *Request, emit func(Message)) (*Result, error)
}

// HandlerFunc is a function that is a Handler.
type HandlerFunc func(ctx context.Context, r *Request, emit func(Message)) (*Result, error)

// Run calls f.
func (f HandlerFunc) Run(ctx context.Context, r *Request, emit func(Message)) (*Result, error) {
	return f(ctx, r, emit)
}

// A Request is a request to run a tool.
type Request struct {
	RunID  string // as text, even if it was a number
	Mode   string // "mock" or "real"
	Inputs map[string]json.RawMessage
	// Outputs are the destinations of outputs.
	Outputs map[string]json.RawMessage
	// Controls receives requests of controllers, such as to pause. A cancel ends
	// the context of the run instead.
	Controls <-chan json.RawMessage

	id   identity // the run id as received
	more values   // other members of the payload of the oldest dialect
}

// A Message is the progress of a running tool.
type Message struct {
	Kind string // Event, Log, Token, or one of the tool's own
	Data json.RawMessage
}

// A Result is the result of a tool.
type Result struct {
	Outputs   map[string]json.RawMessage
	CostMicro int64 // in millionths of a dollar

	more values // other members of a handler's Response, passed on unchanged
}

// An Error is a failure that is sent to the client.
type Error struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

func (e *Error) Error() string { return e.Code + ": " + e.Message }

// The error codes of the runtime itself. Tools have their own.
const (
	ErrInputs     = "ERR_INPUTS"     // an input cannot be read
	ErrValidation = "ERR_VALIDATION" // the request breaks a rule
	ErrRuntime    = "ERR_RUNTIME"    // the runtime, or the worker, failed
	ErrHandler    = "ERR_HANDLER"    // the tool failed
	ErrPreempted  = "ERR_PREEMPTED"
)

// Options configure a runtime.
type Options struct {
	// Digest names the tool in /healthz.
	Digest string
	// MaxRuns bounds the concurrent runs; 0 is 16. Further runs wait, or are
	// refused if Refuse is set.
	MaxRuns int
	Refuse  bool
	// KeepAlive is the time without a message after which an Event is sent; 0 is 10 s.
	KeepAlive time.Duration
	// Orphan is how long a run without clients continues; 0 is a minute.
	Orphan time.Duration
	// Remember is how long the answer of a run is kept for clients that rejoin it; 0
	// is ten minutes.
	Remember time.Duration
	// Dialect defaults to D.
	Dialect theory.Dialect
	// Files loads and stores inputs and outputs that are given by reference.
	Files Files
	// Listener says which hosts and web pages may use the runtime.
	Listener transport.Options
	// Log, if not nil, gets the details that clients must not see.
	Log *slog.Logger
}

// A Runtime runs a tool for its clients. It is an [http.Handler] with the paths
// /healthz and /run.
type Runtime struct {
	handler Handler
	options Options
	mux     *http.ServeMux

	slots chan struct{}   // has an element for each current run
	ctx   context.Context // of all runs
	stop  context.CancelCauseFunc

	running, connected sync.WaitGroup

	mu      sync.Mutex
	clients map[*client]bool
	runs    map[string]*run
	kept    []*run // ended ones, oldest first
}

// maxKept bounds the number of ended runs in memory.
const maxKept = 1024

var (
	errPreempted = errors.New("the run was preempted")
	errOrphaned  = errors.New("all clients left")
	errStopped   = errors.New("the runtime is shutting down")
)

// New returns a runtime. Close ends it.
func New(h Handler, o Options) *Runtime {
	o.MaxRuns = cmp.Or(max(o.MaxRuns, 0), 16)
	o.KeepAlive = cmp.Or(max(o.KeepAlive, 0), 10*time.Second)
	o.Orphan = cmp.Or(max(o.Orphan, 0), time.Minute)
	o.Remember = cmp.Or(max(o.Remember, 0), 10*time.Minute)
	o.Dialect = cmp.Or(o.Dialect, theory.D)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	o.Files.log, o.Files.client = o.Log, o.Files.newClient()
	t := &Runtime{handler: h, options: o, mux: http.NewServeMux(), slots: make(chan struct{}, o.MaxRuns), clients: map[*client]bool{}, runs: map[string]*run{}}
	t.ctx, t.stop = context.WithCancelCause(context.Background())
	t.mux.HandleFunc("GET /healthz", t.healthz)
	t.mux.HandleFunc("GET /run", t.serveRun)
	return t
}

// Close stops and answers all runs, and closes their connections.
func (t *Runtime) Close() {
	t.mu.Lock()
	t.stop(errStopped)
	t.mu.Unlock()
	t.running.Wait()
	t.mu.Lock()
	for c := range t.clients {
		c.closeAfterQueue()
	}
	for _, r := range t.kept {
		r.expiry.Stop()
	}
	t.mu.Unlock()
	t.connected.Wait()
	t.options.Files.client.CloseIdleConnections()
}

// ServeHTTP answers a request.
func (t *Runtime) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if t.options.Listener.Admit(w, r) {
		t.mux.ServeHTTP(w, r)
	}
}

func (t *Runtime) healthz(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(jsonscan.MustMarshal(struct {
		OK     bool   `json:"ok"`
		Digest string `json:"digest"`
	}{true, t.options.Digest})) // the client may be gone
}

func (t *Runtime) serveRun(w http.ResponseWriter, r *http.Request) {
	if !httpguts.HeaderValuesContainsToken(r.Header["Sec-Websocket-Protocol"], Subprotocol) {
		http.Error(w, "the subprotocol "+Subprotocol+" is required", http.StatusForbidden)
		return
	}
	ws, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{Subprotocol}, InsecureSkipVerify: true}) // ServeHTTP has verified the origin
	if err != nil {
		return // Accept has responded
	}
	c := newClient(t, ws)
	if !t.enter(c) {
		ws.Close(websocket.StatusGoingAway, errStopped.Error())
		return
	}
	defer t.leave(c)
	c.serveRequest()
}

// enter registers a client, unless the runtime stops.
func (t *Runtime) enter(c *client) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ctx.Err() != nil {
		return false
	}
	t.clients[c] = true
	t.connected.Add(1)
	return true
}

func (t *Runtime) leave(c *client) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.clients, c)
	t.connected.Done()
}

// runOf returns the run with the id of the request, or else a fresh one, which the caller
// must start. It returns nil if the runtime stops.
func (t *Runtime) runOf(q *Request) (r *run, fresh bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if r := t.runs[q.id.key()]; r != nil || t.ctx.Err() != nil {
		return r, false
	}
	r = newRun(t, q)
	t.runs[q.id.key()] = r
	t.running.Add(1)
	return r, true
}

// keepRun keeps a run that has ended, for clients that rejoin it.
func (t *Runtime) keepRun(r *run) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r.expiry = time.AfterFunc(t.options.Remember, func() { t.forget(r) })
	t.kept = append(t.kept, r)
	if len(t.kept) > maxKept {
		oldest := t.kept[0]
		t.kept = t.kept[1:]
		oldest.expiry.Stop()
		delete(t.runs, oldest.request.id.key())
	}
}

func (t *Runtime) forget(r *run) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if i := slices.Index(t.kept, r); i >= 0 {
		t.kept = slices.Delete(t.kept, i, i+1)
		delete(t.runs, r.request.id.key())
	}
}

// Serve serves until ctx ends.
func (t *Runtime) Serve(ctx context.Context, l net.Listener) error {
	s := &http.Server{Handler: t, ReadHeaderTimeout: 30 * time.Second}
	defer t.Close()
	defer context.AfterFunc(ctx, func() {
		t.Close() // every run is answered before its connection ends
		s.Close()
	})()
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// A run is one run of the tool, with any number of clients.
type run struct {
	runtime  *Runtime
	request  *Request
	controls chan json.RawMessage
	ctx      context.Context
	cancel   context.CancelCauseFunc
	expiry   *time.Timer // set when the run is kept

	mu      sync.Mutex
	clients []*client
	final   []byte      // the Response; nil before
	orphan  *time.Timer // ends a run without clients
	alive   *time.Timer // sends an Event when no other message is sent
}

func newRun(t *Runtime, q *Request) *run {
	r := &run{runtime: t, request: q, controls: make(chan json.RawMessage, 16)}
	q.Controls = r.controls
	r.ctx, r.cancel = context.WithCancelCause(t.ctx)
	r.mu.Lock() // the timer may fire before it is stored
	defer r.mu.Unlock()
	r.alive = time.AfterFunc(t.options.KeepAlive, func() { r.event("keepalive") })
	return r
}

// join adds a client to the run, or sends it the Response if the run has ended.
func (r *run) join(c *client) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c.push(message(r.runtime.options.Dialect, "Ack", r.request.id, nil), false, true)
	if r.final != nil {
		c.push(r.final, false, true)
		return
	}
	r.clients = append(r.clients, c)
	if r.orphan != nil {
		r.orphan.Stop()
		r.orphan = nil
	}
}

// leave removes a client. Some time after the last client has left, the run is stopped.
func (r *run) leave(c *client) {
	c.drop() // a pending write to the client must not block the run
	r.mu.Lock()
	defer r.mu.Unlock()
	i := slices.Index(r.clients, c)
	if i < 0 {
		return
	}
	r.clients = slices.Delete(r.clients, i, i+1)
	if len(r.clients) == 0 && r.final == nil {
		r.orphan = time.AfterFunc(r.runtime.options.Orphan, func() { r.cancel(errOrphaned) })
	}
}

// tell sends a message to all clients, unless the run has ended.
func (r *run) tell(kind string, data json.RawMessage) {
	m := message(r.runtime.options.Dialect, kind, r.request.id, data)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.final != nil {
		return
	}
	if len(m) > peerLimit {
		r.runtime.options.Log.Warn("a message was dropped: clients do not accept messages of its size", "run", r.request.RunID, "bytes", len(m))
		return
	}
	r.alive.Reset(r.runtime.options.KeepAlive)
	r.push(m, kind == "Token")
}

// push queues a message for all clients.
func (r *run) push(m []byte, droppable bool) {
	for _, c := range r.clients {
		c.push(m, droppable, len(r.clients) == 1)
	}
}

// event sends an Event with a phase to all clients.
func (r *run) event(phase string) { r.eventOf(phase, nil, nil) }

func (r *run) eventOf(phase string, by *string, budgets *budget) {
	r.tell("Event", jsonscan.MustMarshal(struct {
		Phase   string  `json:"phase"`
		By      *string `json:"by,omitempty"`
		TS      int64   `json:"ts"` // in milliseconds
		Budgets *budget `json:"budgets,omitempty"`
	}{phase, by, time.Now().UnixMilli(), budgets}))
}

// phases are the phases that the ops of controls lead to.
var phases = map[string]string{
	"preempt": "preempted", "pause": "paused", "resume": "resumed", "set_budget": "budget_updated",
}

// control executes a request of a controller. If allowed is false, it only answers with
// control_noop.
func (r *run) control(content json.RawMessage, allowed bool) {
	var op controlOp
	if err := json.Unmarshal(content, &op); err != nil || !allowed {
		op = controlOp{By: op.By}
	}
	by := cmp.Or(op.By, "controller")
	phase := phases[op.Op]
	switch {
	case phase == "" || r.ctx.Err() != nil:
		phase = "control_noop"
	case op.Op != "preempt":
		select {
		case r.controls <- content:
		default: // the tool's queue is full
			phase = "control_noop"
		}
	}
	var budgets *budget
	if phase == "budget_updated" {
		budgets = &budget{op.Tokens, op.TimeS}
	}
	r.eventOf(phase, &by, budgets)
	if phase == "preempted" {
		r.cancel(errPreempted)
	}
}

// work runs the tool: it waits for a turn and ends with the Response.
func (r *run) work() {
	defer r.runtime.running.Done()
	defer r.cancel(nil)
	result, err := r.attempt()
	failure := r.failure(err)
	dialect, id := r.runtime.options.Dialect, r.request.id
	m := response(dialect, id, result, failure)
	if len(m) > peerLimit {
		m = response(dialect, id, nil, &Error{ErrRuntime, fmt.Sprintf("the outputs take %d bytes, and clients accept %d: write them to a URL or to /artifacts/", len(m), peerLimit)})
	}
	if failure == nil {
		r.event("completed")
	}
	r.runtime.keepRun(r)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.alive.Stop()
	r.final = m
	r.push(m, false)
	r.clients = nil
	if r.orphan != nil {
		r.orphan.Stop()
	}
}

// attempt waits for a turn, loads the inputs, runs the tool and stores the outputs.
func (r *run) attempt() (*Result, error) {
	if err := r.validate(); err != nil {
		return nil, err
	}
	if err := r.await(); err != nil {
		return nil, err
	}
	defer func() { <-r.runtime.slots }()
	r.event("started")
	o := &r.runtime.options
	q := *r.request
	inputs, err := o.Files.hydrate(r.ctx, q.RunID, q.Inputs)
	if err != nil {
		return nil, err
	}
	q.Inputs = inputs
	result, err := r.runtime.handler.Run(r.ctx, &q, func(m Message) { r.tell(m.Kind, m.Data) })
	if err != nil {
		return result, err
	}
	// The client has paid for the outputs of a run that was stopped, so they are stored, too.
	cause := context.Cause(r.ctx)
	if cause != errStopped { // there is no time any more
		err = o.Files.store(context.WithoutCancel(r.ctx), q.RunID, result.Outputs, q.Outputs)
	}
	return result, cmp.Or(cause, err)
}

func (r *run) validate() error {
	if mode := r.request.Mode; mode != "mock" && mode != "real" {
		return &Error{ErrValidation, fmt.Sprintf("invalid mode %q: want mock or real", mode)}
	}
	return nil
}

// await waits for a turn.
func (r *run) await() error {
	select {
	case r.runtime.slots <- struct{}{}:
		return nil
	default:
	}
	if r.runtime.options.Refuse {
		return &Error{ErrRuntime, fmt.Sprintf("%d runs are in progress; try again later", r.runtime.options.MaxRuns)}
	}
	r.event("queued")
	select {
	case r.runtime.slots <- struct{}{}:
		return nil
	case <-r.ctx.Done():
		return context.Cause(r.ctx)
	}
}

// failure returns the error for the client; nil if err is nil.
func (r *run) failure(err error) *Error {
	var known *Error
	cause := context.Cause(r.ctx)
	switch {
	case err == nil:
		return nil
	case cause == errPreempted && errors.As(err, &known) && known.Code == ErrPreempted:
		return known // in the tool's own words
	case cause == errPreempted:
		return &Error{ErrPreempted, cause.Error()}
	case cause != nil:
		return &Error{ErrRuntime, cause.Error()}
	case errors.As(err, &known):
		return known
	}
	r.runtime.options.Log.Error("the run failed", "run", r.request.RunID, "error", err)
	return &Error{ErrRuntime, "the run failed"}
}

// presignTime is how long a presigned URL is valid.
const presignTime = 3600 * time.Second

// A Scope resolves the names of an intent.
type Scope struct {
	RunID   string
	WorldID string
	// Presign returns the URL that allows a method on a key of the artifacts bucket; nil if
	// there is no bucket.
	Presign func(ctx context.Context, method, key string) (url string, err error)
}

// NewScope returns the scope of a run, whose id is JSON and may be a number.
func NewScope(runID json.RawMessage, worldID string) Scope {
	s := Scope{RunID: string(runID), WorldID: worldID}
	var text string
	if json.Unmarshal(runID, &text) == nil {
		s.RunID = text
	}
	return s
}

// Resolve turns the inputs and outputs of an intent into those of a Request. The key becomes
// NAME, and the value depends on the scope:
//
//   - The path of NAME.world becomes a presigned URL of WORLD_ID/PATH, to GET an input or PUT
//     an output.
//   - The path of NAME.local becomes /artifacts/RUN_ID/PATH.
//
// Other inputs are inline. Other outputs have no destination, and are left out: they come back inline.
func (s *Scope) Resolve(ctx context.Context, inputs, outputs map[string]json.RawMessage) (in, out map[string]json.RawMessage, err error) {
	if in, err = s.resolveAll(ctx, inputs, "GET"); err != nil {
		return nil, nil, err
	}
	if out, err = s.resolveAll(ctx, outputs, "PUT"); err != nil {
		return nil, nil, err
	}
	return in, out, nil
}

func (s *Scope) resolveAll(ctx context.Context, intent map[string]json.RawMessage, method string) (map[string]json.RawMessage, error) {
	resolved := make(map[string]json.RawMessage, len(intent))
	for _, key := range slices.Sorted(maps.Keys(intent)) { // sorted, so that the first error is always the same
		value := intent[key]
		name, scope := cutScope(key)
		if scope == "" {
			if method == "GET" {
				err := enter(resolved, key, value)
				if err != nil {
					return nil, err
				}
			}
			continue
		}
		place, err := s.place(ctx, scope, value, method)
		if err != nil {
			return nil, &Error{ErrInputs, fmt.Sprintf("%q: %v", key, err)}
		}
		if err := enter(resolved, name, jsonscan.MustMarshal(place)); err != nil {
			return nil, err
		}
	}
	return resolved, nil
}

// HasScope reports whether the key of an input or output names a place for it.
func HasScope(key string) bool {
	_, scope := cutScope(key)
	return scope != ""
}

// cutScope splits a key into its name and scope.
func cutScope(key string) (name, scope string) {
	for _, scope := range []string{"world", "local"} {
		if name, ok := strings.CutSuffix(key, "."+scope); ok && name != "" {
			return name, scope
		}
	}
	return key, ""
}

func enter(resolved map[string]json.RawMessage, name string, value json.RawMessage) error {
	if _, twice := resolved[name]; twice {
		return &Error{ErrInputs, fmt.Sprintf("%q is named in two scopes", name)}
	}
	resolved[name] = value
	return nil
}

// place returns the URL or path for the path in value.
func (s *Scope) place(ctx context.Context, scope string, value json.RawMessage, method string) (string, error) {
	var path string
	if err := json.Unmarshal(value, &path); err != nil {
		return "", fmt.Errorf("a path must be a string; got %s", value)
	}
	path = strings.TrimLeft(path, "/") // it is relative to the root of the world or run
	kind, owner := "run", s.RunID
	if scope == "world" {
		kind, owner = "world", s.WorldID
	}
	switch {
	case !isSegment(owner):
		return "", fmt.Errorf("the id of the %s is %q, which cannot be part of a path", kind, owner)
	case !inside(path):
		return "", fmt.Errorf("the path %q leaves its %s, or names no file in it", path, kind)
	case scope == "local":
		return artifacts + owner + "/" + path, nil
	case s.Presign == nil:
		return "", errors.New("no store for names that end in .world: give --s3")
	}
	return s.Presign(ctx, method, owner+"/"+path)
}

// isSegment reports whether an id is one segment of a path.
func isSegment(id string) bool { return inside(id) && !strings.Contains(id, "/") }

// An Intent describes a run: a Request, of which most may be omitted.
type Intent struct {
	Kind    string                     `json:"kind"`
	Control intentControl              `json:"control"`
	Inputs  map[string]json.RawMessage `json:"inputs"`
	Outputs map[string]json.RawMessage `json:"outputs"`
}

type intentControl struct {
	RunID json.RawMessage `json:"run_id,omitempty"`
	Mode  string          `json:"mode"`
}

// ParseIntent reads an intent, whose mode and run_id may be in control or at the top. The error
// continues "it is not an intent".
func ParseIntent(data []byte) (*Intent, error) {
	var read struct {
		Intent
		intentControl
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields() // a member that is not obeyed must not be lost
	if err := d.Decode(&read); err != nil {
		if shape, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && shape.Field != "" {
			return nil, fmt.Errorf("its %s cannot be a JSON %s", shape.Field[strings.LastIndexByte(shape.Field, '.')+1:], shape.Value)
		} else if ok {
			return nil, fmt.Errorf("want an object with inputs and outputs, not a JSON %s", shape.Value)
		}
		if name, unknown := strings.CutPrefix(err.Error(), "json: unknown field "); unknown {
			return nil, fmt.Errorf("it has a member %s: want kind, inputs, outputs, and mode and run_id, which may be in control", name)
		}
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("more follows the object")
	}
	c, top := &read.Control, &read.intentControl
	switch {
	case read.Kind != "" && read.Kind != "Request":
		return nil, fmt.Errorf("its kind is %q; want a Request", read.Kind)
	case c.Mode != "" && top.Mode != "" && c.Mode != top.Mode, c.RunID != nil && top.RunID != nil && !bytes.Equal(c.RunID, top.RunID):
		return nil, errors.New("its control contradicts the mode or run_id at the top")
	}
	c.Mode = cmp.Or(c.Mode, top.Mode)
	if c.RunID == nil {
		c.RunID = top.RunID
	}
	return &read.Intent, nil
}
