package unit

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/wait"
	"github.com/wirectl/wirectl/protocol/latis"
	latisv1 "github.com/wirectl/wirectl/protocol/schema/latis/v1"
	"github.com/wirectl/wirectl/transport"
)

// The bounds of data that is returned to controllers.
const (
	maxID            = 4 << 10  // bytes of an id
	maxSessionData   = 64 << 10 // bytes of the metadata of a session, which is its state
	maxSubscriptions = 64
	maxComplaint     = 64 << 10 // bytes of the text of an error
	maxPart          = 1 << 20  // bytes of a part; longer ones are sent as several
)

// A conn is one connection that a unit serves.
type conn struct {
	unit *Unit
	out  *outbox
	ctx  context.Context // ends with the connection
	work sync.WaitGroup  // the prompts in flight
	bad  *deviation      // nil if it behaves
	seen *seen           // nil without an observer

	mu            sync.Mutex
	prompts       map[string]*prompt
	held          int      // bytes of the prompts
	subscriptions []string // ids of STATE_SUBSCRIBE
	session       *session
}

// A prompt is a prompt in flight.
type prompt struct {
	Prompt
	size    int // in bytes
	cancel  context.CancelCauseFunc
	session *session
	parts   uint32 // sent so far
}

func (u *Unit) newConn(ctx context.Context, nc transport.Conn, failed func(error)) *conn {
	var w io.Writer = nc
	seen := u.view.open()
	if seen != nil {
		w = seenWriter{w, seen}
	}
	c := &conn{unit: u, ctx: ctx, seen: seen, prompts: map[string]*prompt{}, out: newOutbox(w, failed)}
	if m := u.options.Misbehave; m != nil {
		c.bad = &deviation{rule: m, out: c.out, unheeded: map[string]bool{}}
	}
	return c
}

// finish waits for the prompts in flight and writes the remaining answers.
func (c *conn) finish() error {
	c.work.Wait()
	if c.bad != nil {
		c.out.addRaw(c.bad.rule.last)
	}
	err := c.out.drainAndStop()
	if c.session != nil {
		c.unit.sessions.leave(c.session)
	}
	return err
}

// parting is how long answering the prompts in flight may take at the end. The controller
// may not read the answers.
const parting = time.Second

// part ends the prompts in flight with an error, and closes the connection.
func (c *conn) part(nc transport.Conn, cancel context.CancelCauseFunc) {
	c.mu.Lock()
	cancel(ErrStopped) // no prompt begins after this
	c.mu.Unlock()
	transport.GoAway(nc)
	late := time.AfterFunc(parting, func() { nc.Close() })
	defer late.Stop()
	c.work.Wait()
	c.out.drain()
	_ = nc.CloseWrite()
	nc.Close()
}

// takeMessage handles one message. It does not flush the answers.
func (c *conn) takeMessage(payload []byte) {
	var m latisv1.ConnectRequest
	err := proto.Unmarshal(payload, &m)
	switch {
	case m.Id == "" || len(m.Id) > maxID:
		c.unit.options.Log.Warn("skipped a message that cannot be answered: its id is missing, not text or too long", "bytes", len(payload))
	case err != nil:
		c.sendError(m.Id, errorf(BadRequest, "the message is not a ConnectRequest of latis.v1: %v", latis.Fault(payload, err)))
	default:
		c.handle(&m)
	}
}

func (c *conn) handle(m *latisv1.ConnectRequest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	id := m.Id
	if c.isOpen(id) {
		c.sendError(id, errorf(DuplicateID, "the id %q is that of a request which is still open", id))
		return
	}
	switch p := m.Payload.(type) {
	case *latisv1.ConnectRequest_Ping:
		c.sendAnswer(id, &latisv1.Pong{PingTimestamp: p.Ping.Timestamp, PongTimestamp: time.Now().UnixNano()})
	case *latisv1.ConnectRequest_PromptSend:
		c.beginPrompt(id, p.PromptSend)
	case *latisv1.ConnectRequest_PromptCancel:
		c.cancel(id, p.PromptCancel.TargetId)
	case *latisv1.ConnectRequest_StateGet:
		c.sendState(id)
	case *latisv1.ConnectRequest_StateSubscribe:
		c.subscribe(id, p.StateSubscribe.Unsubscribe)
	case *latisv1.ConnectRequest_SessionCreate:
		c.createSession(id, p.SessionCreate.Metadata)
	case *latisv1.ConnectRequest_SessionResume:
		c.resumeSession(id, p.SessionResume.SessionId)
	case *latisv1.ConnectRequest_SessionDestroy:
		c.destroySession(id, p.SessionDestroy.SessionId)
	default:
		c.sendError(id, errorf(Unsupported, "the message has no payload that this unit knows"))
	}
}

// isOpen reports whether an id is in use.
func (c *conn) isOpen(id string) bool {
	return c.prompts[id] != nil || slices.Contains(c.subscriptions, id)
}

func (c *conn) beginPrompt(id string, m *latisv1.PromptSend) {
	size := len(m.Content) + sizeOf(m.Metadata)
	switch {
	case m.Content == "":
		c.sendError(id, errorf(InvalidPrompt, "the prompt is empty"))
		return
	case context.Cause(c.ctx) == ErrStopped:
		c.sendError(id, errStopped)
		return
	case len(c.prompts) >= c.unit.options.MaxPrompts:
		c.sendError(id, errorf(Busy, "there are %d prompts in flight already", len(c.prompts)))
		return
	case c.held > 0 && c.held+size > c.unit.options.MaxPromptBytes:
		c.sendError(id, errorf(Busy, "the prompts in flight have %d bytes already, and this one has %d; %d are allowed", c.held, size, c.unit.options.MaxPromptBytes))
		return
	}
	p := &prompt{Prompt: Prompt{ID: id, Content: m.Content, Metadata: m.Metadata}, size: size, session: c.session}
	ctx, cancel := context.WithCancelCause(c.ctx)
	p.cancel = cancel
	stop := func() bool { return true }
	if s := c.session; s != nil {
		p.Session = s.id
		stop = context.AfterFunc(s.over, func() { cancel(ErrCancelled) })
	}
	c.prompts[id] = p
	c.held += size
	if len(c.prompts) == 1 {
		c.publish()
	}
	c.work.Go(func() {
		defer cancel(nil)
		defer stop()
		metadata, err := c.unit.agent.Answer(ctx, &p.Prompt, func(text string) error { return c.emit(ctx, p, text) })
		c.endPrompt(ctx, p, metadata, err)
	})
}

// emit sends a part of an answer, unless the prompt has ended.
func (c *conn) emit(ctx context.Context, p *prompt, text string) error {
	for first := true; first || text != ""; first = false {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := c.out.await(ctx); err != nil {
			return err
		}
		var part string
		part, text = cutText(text, maxPart)
		c.sendAnswer(p.ID, &latisv1.ResponseChunk{Sequence: p.parts, Content: strings.ToValidUTF8(part, "\uFFFD")})
		p.parts++
		c.out.flush()
	}
	return nil
}

// cutText cuts text after at most n bytes, between characters.
func cutText(text string, n int) (head, rest string) {
	if len(text) <= n {
		return text, ""
	}
	for i := range utf8.UTFMax {
		if utf8.RuneStart(text[n-i]) {
			return text[:n-i], text[n-i:]
		}
	}
	return text[:n], text[n:]
}

// endPrompt sends the message that ends a prompt. A prompt whose cancel was accepted ends
// as cancelled, even if the agent was faster.
func (c *conn) endPrompt(ctx context.Context, p *prompt, metadata map[string]string, err error) {
	cause := context.Cause(ctx)
	if p.session != nil {
		c.unit.sessions.ended(p.session, cause == nil || cause == ErrCancelled)
	}
	c.mu.Lock()
	var known *Error
	switch {
	case cause == ErrCancelled:
		c.sendAnswer(p.ID, &latisv1.ResponseCancelled{})
	case cause == ErrStopped:
		c.sendError(p.ID, errStopped)
	case cause != nil: // the controller is gone
	case err == nil:
		c.sendAnswer(p.ID, &latisv1.ResponseComplete{Metadata: validMap(metadata)})
	case errors.As(err, &known):
		c.sendError(p.ID, known)
	default:
		c.unit.options.Log.Error("the agent failed", "prompt", p.ID, "error", err)
		c.sendError(p.ID, errorf(AgentFailed, "the agent failed"))
	}
	delete(c.prompts, p.ID)
	c.held -= p.size
	if len(c.prompts) == 0 {
		c.publish()
	}
	c.mu.Unlock()
	c.out.flush()
}

// cancel stops a prompt, which then ends as cancelled.
func (c *conn) cancel(id, target string) {
	p := c.prompts[target]
	if p == nil {
		c.sendError(id, errorf(UnknownTarget, "no prompt %q is being worked on", target))
		return
	}
	c.sendAnswer(id, &latisv1.Ack{})
	if !c.bad.ignore(target) {
		p.cancel(ErrCancelled)
	}
}

// subscribe starts a subscription to the state, or ends all subscriptions.
func (c *conn) subscribe(id string, unsubscribe bool) {
	switch {
	case unsubscribe:
		c.subscriptions = nil
		c.sendAnswer(id, &latisv1.Ack{})
	case len(c.subscriptions) >= maxSubscriptions:
		c.sendError(id, errorf(Busy, "there are %d subscriptions already", len(c.subscriptions)))
	default:
		c.subscriptions = append(c.subscriptions, id)
		c.sendState(id)
	}
}

// publish sends the state to the subscribers. If many bytes are unread, it waits for room, and
// changes until then are combined.
func (c *conn) publish() {
	if !c.out.defers(c.publishLocked) {
		c.publishNow()
	}
}

func (c *conn) publishLocked() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.publishNow()
}

func (c *conn) publishNow() {
	for _, id := range c.subscriptions {
		c.sendState(id)
	}
}

func (c *conn) sendState(id string) {
	m := &latisv1.StateUpdate{Busy: len(c.prompts) > 0}
	if c.session != nil {
		m.State = c.unit.sessions.state(c.session)
	}
	c.sendAnswer(id, m)
}

func (c *conn) createSession(id string, metadata map[string]string) {
	size := sizeOf(metadata)
	if size > maxSessionData {
		c.sendError(id, errorf(BadRequest, "the metadata of the session has %d bytes; %d are allowed", size, maxSessionData))
		return
	}
	s, err := c.unit.sessions.create(metadata)
	if err != nil {
		c.sendError(id, err)
		return
	}
	c.enter(s)
	c.sendAnswer(id, &latisv1.Ack{SessionId: s.id})
	c.publish()
}

func (c *conn) resumeSession(id, name string) {
	s, state, err := c.unit.sessions.resume(name)
	if err != nil {
		c.sendError(id, err)
		return
	}
	c.enter(s)
	c.sendAnswer(id, &latisv1.Ack{SessionId: s.id, State: state})
	c.publish()
}

func (c *conn) destroySession(id, name string) {
	if err := c.unit.sessions.remove(name); err != nil {
		c.sendError(id, err)
		return
	}
	c.sendAnswer(id, &latisv1.Ack{SessionId: name})
	if c.session != nil && c.session.id == name {
		c.enter(nil)
		c.publish()
	}
}

// enter makes s, which may be nil, the session of the connection.
func (c *conn) enter(s *session) {
	if c.session != nil {
		c.unit.sessions.leave(c.session)
	}
	c.session = s
}

func (c *conn) sendError(id string, e *Error) {
	code, _ := cutText(e.Code, maxComplaint)
	text, _ := cutText(e.Message, maxComplaint)
	c.sendAnswer(id, &latisv1.Error{Code: strings.ToValidUTF8(code, "\uFFFD"), Message: strings.ToValidUTF8(text, "\uFFFD")})
}

// sendAnswer queues the answer to a request for the next flush.
func (c *conn) sendAnswer(id string, payload proto.Message) {
	m := response(id, payload)
	if c.bad != nil {
		c.bad.respond(m)
		return
	}
	c.out.addMessage(m)
}

// sizeOf returns the number of bytes in a map.
func sizeOf(m map[string]string) (size int) {
	for k, v := range m {
		size += len(k) + len(v)
	}
	return size
}

// validMap makes the text of a map UTF-8.
func validMap(m map[string]string) map[string]string {
	for k, v := range m {
		if utf8.ValidString(k) && utf8.ValidString(v) {
			continue
		}
		delete(m, k)
		m[strings.ToValidUTF8(k, "\uFFFD")] = strings.ToValidUTF8(v, "\uFFFD")
	}
	return m
}

// A messageConn is the unit's end of a transport with messages.
type messageConn struct {
	transport.Messenger
	ws   latis.WebSocket
	rest bytes.Buffer // read and not yet returned
}

func (c *messageConn) Read(p []byte) (int, error) {
	for c.rest.Len() == 0 {
		m, err := c.ReadMessage(context.Background())
		if err != nil {
			return 0, err
		}
		if err := c.ws.CopyFrames(&c.rest, bytes.NewReader(m.Data)); err != nil {
			return 0, err
		}
	}
	return c.rest.Read(p)
}

func (c *messageConn) Write(p []byte) (int, error) {
	err := c.ws.SendFrames(p, func(m []byte) error {
		_, err := c.Messenger.Write(m)
		return err
	})
	if err != nil {
		return 0, err
	}
	return len(p), nil
}

// outboxRoom is how many bytes may wait to be written before answers block.
const outboxRoom = 256 << 10

// An outbox collects messages, so that answers that are ready at the same time are written
// together. The goroutine that adds a message writes it, unless another one is writing.
// Messages added meanwhile are left to the outbox's own goroutine, because a reader that is
// busy writing would not see cancels.
type outbox struct {
	w      io.Writer
	more   chan struct{} // wakes the goroutine, and gives it the turn to write
	ended  chan struct{} // closed when the goroutine has returned
	failed func(error)   // called with the error that ends writing

	mu         sync.Mutex
	changed    sync.Cond // room was made, or writing ended
	buf, spare []byte
	writing    bool // some goroutine has the turn to write
	err        error
	waiting    func() // called once when there is room, if not nil
}

func newOutbox(w io.Writer, failed func(error)) *outbox {
	o := &outbox{w: w, more: make(chan struct{}, 1), ended: make(chan struct{}), failed: failed}
	o.changed.L = &o.mu
	go o.writeBatches()
	return o
}

func (o *outbox) writeBatches() {
	defer close(o.ended)
	for range o.more {
		for o.writeBatch() {
		}
	}
}

// drain writes the queued messages, and waits until they are written.
func (o *outbox) drain() {
	o.flush()
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.writing {
		o.changed.Wait()
	}
}

// drainAndStop writes the queued messages and ends the goroutine. Nothing may be added
// afterwards.
func (o *outbox) drainAndStop() error {
	o.drain()
	o.mu.Lock()
	defer o.mu.Unlock()
	close(o.more)
	<-o.ended
	return o.err
}

// addMessage appends a message. It never blocks, so callers may only add a little between two
// flushes.
func (o *outbox) addMessage(m proto.Message) {
	o.mu.Lock()
	o.buf = appendFrame(o.buf, m)
	o.mu.Unlock()
}

// addRaw appends bytes as they are.
func (o *outbox) addRaw(b []byte) {
	o.mu.Lock()
	o.buf = append(o.buf, b...)
	o.mu.Unlock()
}

// await waits until there is room, or ctx ends.
func (o *outbox) await(ctx context.Context) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.buf) < outboxRoom {
		return o.err
	}
	stop := context.AfterFunc(ctx, func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.changed.Broadcast()
	})
	defer stop()
	for len(o.buf) >= outboxRoom && o.err == nil && ctx.Err() == nil {
		o.changed.Wait()
	}
	return o.err
}

// defers arranges for f to be called when there is room; only the last f is called. It returns
// false if there is room already.
func (o *outbox) defers(f func()) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.buf) < outboxRoom {
		return false
	}
	o.waiting = f
	return true
}

// flush writes the added messages, or leaves them to the goroutine that is writing.
func (o *outbox) flush() {
	o.mu.Lock()
	if o.writing || len(o.buf) == 0 {
		o.mu.Unlock()
		return
	}
	o.writing = true
	o.mu.Unlock()
	if o.writeBatch() {
		o.more <- struct{}{}
	}
}

// writeBatch writes the queued bytes and reports whether more were added meanwhile. The
// caller must hold the turn, and keeps it while there is more.
func (o *outbox) writeBatch() bool {
	o.mu.Lock()
	out := o.buf
	o.buf = o.spare[:0]
	o.mu.Unlock()

	_, err := o.w.Write(out)

	o.mu.Lock()
	defer o.mu.Unlock()
	if f := o.waiting; f != nil && len(o.buf) < outboxRoom {
		o.waiting = nil
		o.mu.Unlock()
		f()
		o.mu.Lock()
	}
	o.spare = out
	if cap(o.spare) > 4*outboxRoom {
		o.spare = nil
	}
	if err != nil && o.err == nil {
		o.err = err
		o.failed(err)
	}
	if o.err != nil {
		o.buf = o.buf[:0]
	}
	o.writing = len(o.buf) > 0
	o.changed.Broadcast()
	return o.writing
}

// response returns the answer to a request, with the id of the request.
func response(id string, payload proto.Message) *latisv1.ConnectResponse {
	m := &latisv1.ConnectResponse{Id: id}
	switch p := payload.(type) {
	case *latisv1.ResponseChunk:
		p.RequestId = id
		m.Payload = &latisv1.ConnectResponse_ResponseChunk{ResponseChunk: p}
	case *latisv1.ResponseComplete:
		p.RequestId = id
		m.Payload = &latisv1.ConnectResponse_ResponseComplete{ResponseComplete: p}
	case *latisv1.ResponseCancelled:
		p.RequestId = id
		m.Payload = &latisv1.ConnectResponse_ResponseCancelled{ResponseCancelled: p}
	case *latisv1.StateUpdate:
		m.Payload = &latisv1.ConnectResponse_StateUpdate{StateUpdate: p}
	case *latisv1.Error:
		p.RequestId = id
		m.Payload = &latisv1.ConnectResponse_Error{Error: p}
	case *latisv1.Ack:
		p.RequestId = id
		m.Payload = &latisv1.ConnectResponse_Ack{Ack: p}
	case *latisv1.Pong:
		m.Payload = &latisv1.ConnectResponse_Pong{Pong: p}
	}
	return m
}

// appendFrame appends a message as a frame.
func appendFrame(dst []byte, m proto.Message) []byte {
	start := len(dst)
	dst, err := proto.MarshalOptions{Deterministic: true}.MarshalAppend(append(dst, 0, 0, 0, 0), m)
	if err != nil {
		panic(err) // all text is valid UTF-8 by now
	}
	binary.BigEndian.PutUint32(dst[start:], uint32(len(dst)-start-4))
	return dst
}

// declared returns the length of the payload in a frame's header.
func declared(p []byte) int64 { return int64(binary.BigEndian.Uint32(p)) }

// The bounds of the delay between two attempts to connect to a controller.
const (
	firstPause = 100 * time.Millisecond
	lastPause  = 5 * time.Second
)

// ServeOne connects to e once and serves that connection.
func (u *Unit) ServeOne(ctx context.Context, e transport.Endpoint) error {
	nc, err := e.Dial(ctx)
	if err != nil {
		return err
	}
	return u.Serve(ctx, nc)
}

// Dial connects to a controller, waiting until it listens, and serves it. If the connection
// ends while a session can be resumed, Dial reconnects. It does so for at most the TTL of the
// session, and then returns the error. Without such a session, it returns.
func (u *Unit) Dial(ctx context.Context, e transport.Endpoint) error {
	nc, err := u.reach(ctx, e)
	for err == nil {
		err = u.Serve(ctx, nc)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case u.sessions.none(), frame.IsFault(err) && !errors.Is(err, frame.ErrTruncated): // a fault would recur
			return err
		}
		attrs := []any{"to", e.String(), "for", u.options.SessionTTL}
		if err != nil {
			attrs = append(attrs, "error", err)
		}
		u.options.Log.Warn("the connection ended, and a session waits; reconnecting", attrs...)
		nc, err = u.reachAgain(ctx, e)
	}
	return err
}

// reachAgain is reach for at most the TTL of sessions.
func (u *Unit) reachAgain(ctx context.Context, e transport.Endpoint) (transport.Conn, error) {
	limited, cancel := context.WithTimeout(ctx, u.options.SessionTTL)
	defer cancel()
	return u.reach(limited, e)
}

// reach connects, retrying until the controller listens.
func (u *Unit) reach(ctx context.Context, e transport.Endpoint) (transport.Conn, error) {
	told := false
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		nc, err := e.Dial(ctx)
		if err == nil {
			u.options.Log.Info("connected", "to", e.String())
			return nc, nil
		}
		if !transport.IsAbsent(err) {
			return nil, err
		}
		if !told {
			u.options.Log.Warn("nothing listens there; waiting", "error", err)
			told = true
		}
		if wait.For(ctx, pause) != nil {
			return nil, err
		}
	}
}
