// Package theory is a runtime of theory.run.v1: it accepts requests over WebSocket, runs
// a [Handler] for each, and reports progress and result to every client of the run.
//
// It serves HTTP, and neither listens nor starts anything but its handlers' worker
// processes.
package theory

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"slices"
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
