package client

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/internal/wait"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/latis"
	latisv1 "github.com/wirectl/wirectl/protocol/schema/latis/v1"
	"github.com/wirectl/wirectl/transport"
)

// confirmation is how long a cancelled call may take to end.
const confirmation = 5 * time.Second

var errUnconfirmed = faultf("the request was cancelled but had not ended %v later", confirmation)

// A Latis is a connection to a unit. It is safe for concurrent calls.
type Latis struct {
	link *link

	mu   sync.Mutex
	last int
	open map[string]*latisCall // by id

	leaving sync.WaitGroup // cancels sent in the background
}

// A latisCall is an open request. Its take is called for each answer and reports whether
// that was the last.
type latisCall struct {
	id    string
	take  func(m *latisv1.ConnectResponse) (done bool, err error)
	ended chan error
}

// DialLatis returns a client that speaks latis on a connection, which it takes over.
func DialLatis(nc transport.Conn, w *Watch) *Latis {
	l := &Latis{open: map[string]*latisCall{}}
	l.link = newLink(nc, 1, frame.Len32, w, l.receive)
	l.link.start()
	return l
}

// Close closes the connection.
func (l *Latis) Close() error {
	defer l.leaving.Wait()
	return l.link.close()
}

func (l *Latis) receive(payload []byte, _ *protocol.Message) error {
	var m latisv1.ConnectResponse
	if err := proto.Unmarshal(payload, &m); err != nil {
		return &FaultError{latis.Fault(payload, err)}
	}
	l.mu.Lock()
	c := l.open[latis.Answers(&m)]
	l.mu.Unlock()
	if c == nil {
		return nil // the watch reports it
	}
	if done, err := c.take(&m); done {
		l.forget(c.id)
		c.ended <- err
	}
	return nil
}

func (l *Latis) forget(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.open, id)
}

// begin sends a request under a new id.
func (l *Latis) begin(ctx context.Context, m *latisv1.ConnectRequest, take func(*latisv1.ConnectResponse) (bool, error)) (*latisCall, error) {
	c := &latisCall{take: take, ended: make(chan error, 1)}
	l.mu.Lock()
	l.last++
	m.Id = strconv.Itoa(l.last)
	c.id = m.Id
	l.open[m.Id] = c
	l.mu.Unlock()
	payload, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err == nil {
		err = l.link.send(ctx, payload)
	}
	if err != nil {
		l.forget(m.Id)
	}
	return c, err
}

func (l *Latis) wait(ctx context.Context, c *latisCall) error {
	answered, err := await(ctx, c.ended, l.link.done, &l.link.err)
	return cmp.Or(err, answered)
}

func (l *Latis) do(ctx context.Context, m *latisv1.ConnectRequest, take func(*latisv1.ConnectResponse) (bool, error)) error {
	c, err := l.begin(ctx, m, take)
	if err != nil {
		return err
	}
	return l.wait(ctx, c)
}

// A LatisPrompt is a prompt, and when to cancel it. Its text is UTF-8.
type LatisPrompt struct {
	Content  string
	Metadata map[string]string
	Cancel   CancelAfter
	// AwaitEnd waits without limit for the end of a cancelled answer. Without it, an
	// answer that continues for 5 s is a fault of the unit.
	AwaitEnd bool
	// Beside, if not nil, is called after the prompt has been sent. The call of the
	// prompt waits for its end.
	Beside Call
}

// CancelAfter says when to cancel a request: after that many parts of its answer,
// or after that much time. The zero value means never.
type CancelAfter struct {
	Parts int
	Time  time.Duration
}

// ParseCancelAfter reads a number of parts, such as 3, or a time, such as 200ms.
func ParseCancelAfter(text string) (CancelAfter, error) {
	if n, err := strconv.Atoi(text); err == nil && n > 0 {
		return CancelAfter{Parts: n}, nil
	}
	if d, err := time.ParseDuration(text); err == nil && d > 0 {
		return CancelAfter{Time: d}, nil
	}
	return CancelAfter{}, fmt.Errorf("%q: want a number of parts such as 3, or a duration such as 200ms", text)
}

// Prompt sends p.
func (l *Latis) Prompt(p LatisPrompt) Call {
	return settled(func(ctx context.Context, out func(Part)) error {
		r := &promptRun{latis: l, prompt: p, out: out, due: make(chan struct{})}
		return r.run(ctx)
	})
}

// A promptRun is a prompt in progress.
type promptRun struct {
	latis  *Latis
	prompt LatisPrompt
	out    func(Part)
	parts  int
	due    chan struct{} // closed after the part after which to cancel
}

func (r *promptRun) run(ctx context.Context) error {
	m := &latisv1.ConnectRequest{Payload: &latisv1.ConnectRequest_PromptSend{
		PromptSend: &latisv1.PromptSend{Content: r.prompt.Content, Metadata: r.prompt.Metadata},
	}}
	c, err := r.latis.begin(ctx, m, r.take)
	if err != nil {
		return err
	}
	if r.prompt.Beside == nil {
		return r.follow(ctx, c)
	}
	beside := make(chan error, 1)
	go func() { beside <- r.prompt.Beside(ctx, r.out) }()
	return cmp.Or(r.follow(ctx, c), <-beside)
}

// follow waits for the end of the prompt and cancels it when due.
func (r *promptRun) follow(ctx context.Context, c *latisCall) error {
	var timer <-chan time.Time
	if d := r.prompt.Cancel.Time; d > 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		timer = t.C
	}
	select {
	case err := <-c.ended:
		return err
	case <-r.latis.link.done:
		return r.latis.wait(ctx, c)
	case <-ctx.Done():
		r.latis.leave(c)
		return context.Cause(ctx)
	case <-timer:
	case <-r.due:
	}
	return r.cancel(ctx, c)
}

// take handles a part of the answer, or its end.
func (r *promptRun) take(m *latisv1.ConnectResponse) (done bool, err error) {
	switch p := m.Payload.(type) {
	case *latisv1.ConnectResponse_ResponseChunk:
		r.out(Part{Text: p.ResponseChunk.Content})
		r.parts++
		if r.parts == r.prompt.Cancel.Parts {
			close(r.due)
		}
		return false, nil
	case *latisv1.ConnectResponse_ResponseComplete:
		if len(p.ResponseComplete.Metadata) > 0 {
			r.out(Part{Aside: true, Name: "metadata", JSON: jsonscan.MustMarshal(p.ResponseComplete.Metadata)})
		}
		return true, nil
	case *latisv1.ConnectResponse_ResponseCancelled:
		r.out(Part{Aside: true, Name: "cancelled"})
		return true, nil
	}
	return true, unexpected(m)
}

// askCancel cancels a prompt. The answer to the cancel is optional; an error in it only
// means that the prompt ended first.
func (l *Latis) askCancel(ctx context.Context, c *latisCall) (asked *latisCall, err error) {
	m := &latisv1.ConnectRequest{Payload: &latisv1.ConnectRequest_PromptCancel{PromptCancel: &latisv1.PromptCancel{TargetId: c.id}}}
	return l.begin(ctx, m, func(*latisv1.ConnectResponse) (bool, error) { return true, nil })
}

// leave cancels a prompt that nobody waits for, if the unit still reads.
func (l *Latis) leave(c *latisCall) {
	sent := make(chan struct{})
	l.leaving.Go(func() {
		_, _ = l.askCancel(context.Background(), c) // best effort
		close(sent)
	})
	wait.Done(sent, parting) // closing the connection ends the send
}

// cancel cancels the prompt and waits for its end.
func (r *promptRun) cancel(ctx context.Context, c *latisCall) error {
	asked, err := r.latis.askCancel(ctx, c)
	if err != nil {
		return err
	}
	defer r.latis.forget(asked.id)
	if !r.prompt.AwaitEnd {
		limited, cancel := context.WithTimeoutCause(ctx, confirmation, errUnconfirmed)
		defer cancel()
		ctx = limited
	}
	return r.latis.wait(ctx, c)
}

// unexpected returns the error for a message that is not the answer of its call.
func unexpected(m *latisv1.ConnectResponse) error {
	if e := m.GetError(); e != nil {
		return &PeerError{Code: e.Code, Message: e.Message}
	}
	return faultf("%v is not an answer to the request %q", latis.KindOf(m), latis.Answers(m))
}

// Ping measures the round trip to the unit.
func (l *Latis) Ping() Call {
	return settled(func(ctx context.Context, out func(Part)) error {
		begun := time.Now()
		m := &latisv1.ConnectRequest{Payload: &latisv1.ConnectRequest_Ping{Ping: &latisv1.Ping{Timestamp: begun.UnixNano()}}}
		return l.do(ctx, m, func(m *latisv1.ConnectResponse) (bool, error) {
			switch pong := m.GetPong(); {
			case pong == nil:
				return true, unexpected(m)
			case pong.PingTimestamp != begun.UnixNano():
				return true, faultf("the PONG repeats the timestamp %d, and the PING had %d", pong.PingTimestamp, begun.UnixNano())
			}
			out(Part{Text: "pong after " + time.Since(begun).Round(time.Microsecond).String()})
			return true, nil
		})
	})
}

// State asks for the state of the unit.
func (l *Latis) State() Call {
	return settled(func(ctx context.Context, out func(Part)) error {
		m := &latisv1.ConnectRequest{Payload: &latisv1.ConnectRequest_StateGet{StateGet: &latisv1.StateGet{}}}
		return l.do(ctx, m, func(m *latisv1.ConnectResponse) (bool, error) { return true, state(m, out) })
	})
}

// Subscribe asks for the state at every change, until ctx ends.
func (l *Latis) Subscribe() Call {
	return settled(func(ctx context.Context, out func(Part)) error {
		err := l.do(ctx, subscription(false), func(m *latisv1.ConnectResponse) (bool, error) {
			err := state(m, out)
			return err != nil, err
		})
		if ctx.Err() == nil || l.link.closing.Load() {
			return err
		}
		return l.unsubscribe()
	})
}

func subscription(end bool) *latisv1.ConnectRequest {
	return &latisv1.ConnectRequest{Payload: &latisv1.ConnectRequest_StateSubscribe{StateSubscribe: &latisv1.StateSubscribe{Unsubscribe: end}}}
}

func (l *Latis) unsubscribe() error {
	ctx, cancel := context.WithTimeoutCause(context.Background(), confirmation, faultf("the end of the subscription was not confirmed within %v", confirmation))
	defer cancel()
	_, err := l.acknowledged(ctx, subscription(true))
	return err
}

func state(m *latisv1.ConnectResponse, out func(Part)) error {
	update := m.GetStateUpdate()
	if update == nil {
		return unexpected(m)
	}
	out(Part{JSON: jsonscan.MustMarshal(struct {
		Busy  bool              `json:"busy"`
		State map[string]string `json:"state,omitempty"`
	}{update.Busy, update.State})})
	return nil
}

// CreateSession opens a session and returns its id.
func (l *Latis) CreateSession(ctx context.Context, metadata map[string]string) (id string, err error) {
	a, err := l.acknowledged(ctx, &latisv1.ConnectRequest{Payload: &latisv1.ConnectRequest_SessionCreate{SessionCreate: &latisv1.SessionCreate{Metadata: metadata}}})
	if err == nil && a.SessionId == "" {
		err = faultf("the ACK of SESSION_CREATE names no session")
	}
	return a.GetSessionId(), err
}

// ResumeSession resumes a session and returns its state.
func (l *Latis) ResumeSession(ctx context.Context, id string) (map[string]string, error) {
	a, err := l.acknowledged(ctx, &latisv1.ConnectRequest{Payload: &latisv1.ConnectRequest_SessionResume{SessionResume: &latisv1.SessionResume{SessionId: id}}})
	return a.GetState(), err
}

// DestroySession ends a session.
func (l *Latis) DestroySession(ctx context.Context, id string) error {
	_, err := l.acknowledged(ctx, &latisv1.ConnectRequest{Payload: &latisv1.ConnectRequest_SessionDestroy{SessionDestroy: &latisv1.SessionDestroy{SessionId: id}}})
	return err
}

// acknowledged makes a request and returns its ACK.
func (l *Latis) acknowledged(ctx context.Context, m *latisv1.ConnectRequest) (ack *latisv1.Ack, err error) {
	var got *latisv1.Ack // written by the reader until the call has ended
	err = l.do(ctx, m, func(m *latisv1.ConnectResponse) (bool, error) {
		if got = m.GetAck(); got == nil {
			return true, unexpected(m)
		}
		return true, nil
	})
	if err != nil {
		return nil, err
	}
	return got, nil
}

// A LatisAsk combines what one command may request from a unit.
type LatisAsk struct {
	Ping bool
	// Session is created with Metadata if it is "new", and otherwise resumed, or
	// destroyed if Destroy is set. "" means no session.
	Session   string
	Destroy   bool
	Metadata  map[string]string
	Prompt    *LatisPrompt // or nil
	State     bool         // beside the prompt, or alone
	Subscribe bool         // beside the rest, or alone
	// Created receives the id of a new session; Resumed receives the state of a resumed
	// one, as JSON.
	Created, Resumed func(string)
}

// IsEmpty reports whether a requests nothing.
func (a *LatisAsk) IsEmpty() bool {
	return !a.Ping && a.Session == "" && a.Prompt == nil && !a.State && !a.Subscribe
}

// Enter creates or resumes the session.
func (a *LatisAsk) Enter(ctx context.Context, l *Latis) error {
	switch {
	case a.Session == "" || a.Destroy:
		return nil
	case a.Session == "new":
		id, err := l.CreateSession(ctx, a.Metadata)
		if err == nil {
			a.Created(id)
		}
		return err
	}
	state, err := l.ResumeSession(ctx, a.Session)
	if err == nil {
		a.Resumed(string(jsonscan.MustMarshal(state)))
	}
	return err
}

// Call makes all requests, in the session that Enter entered.
func (a *LatisAsk) Call(l *Latis) Call {
	call := a.call(l)
	switch {
	case call == nil && a.Subscribe:
		return l.Subscribe()
	case call == nil:
		return func(context.Context, func(Part)) error { return nil }
	case !a.Subscribe:
		return call
	}
	return During(l.Subscribe(), call)
}

// call is Call without the subscription; nil if nothing else is requested.
func (a *LatisAsk) call(l *Latis) Call {
	switch {
	case a.Ping:
		return l.Ping()
	case a.Destroy:
		return func(ctx context.Context, _ func(Part)) error { return l.DestroySession(ctx, a.Session) }
	case a.Prompt != nil:
		p := *a.Prompt // Beside differs per connection
		if a.State {
			p.Beside = l.State()
		}
		return l.Prompt(p)
	case a.State:
		return l.State()
	}
	return nil
}
