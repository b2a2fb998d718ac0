package nexus

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"sync"

	"github.com/wirectl/wirectl/broker"
	"github.com/wirectl/wirectl/broker/door/web"
	"github.com/wirectl/wirectl/broker/observe"
	"github.com/wirectl/wirectl/broker/provider"
	"github.com/wirectl/wirectl/internal/jsonscan"
)

// A talk is a conversation. Its sends run one after the other; a cancel does not wait.
type talk struct {
	broker *broker.Broker
	model  string // "" is the default
	start  []byte // the start of messages, with the system's if there is one

	mu       sync.Mutex
	messages []byte // a JSON array without its end
	count    int
	sends    map[string]context.CancelCauseFunc // by request id, as it is written

	turn chan struct{} // held by the running send
}

// budget is the token budget that clients are told, and maxMessages the largest
// conversation, in bytes: a larger one begins anew.
const (
	budget      = 200_000
	maxMessages = 16 << 20
)

// newTalk returns a conversation with a model. The system's prompt is a string
// token, or nil.
func newTalk(b *broker.Broker, model string, system []byte) *talk {
	start := []byte{'['}
	if system != nil {
		start = appendMessage(start, "system", system)
	}
	return &talk{broker: b, model: model, start: start, messages: start, sends: map[string]context.CancelCauseFunc{}, turn: make(chan struct{}, 1)}
}

func (t *talk) send(ctx context.Context, r *web.Request, req *request, tap *observe.Conn) (any, *fault) {
	content, id := req.param("content"), req.param("request_id")
	switch {
	case content == nil:
		return nil, &fault{codeParams, "Missing required parameter: content"}
	case jsonscan.KindOf(content) != jsonscan.String:
		return nil, &fault{codeParams, "content must be string, got: " + pyType(content)}
	case id == nil || jsonscan.KindOf(id) == jsonscan.Null:
		id = newID()
	case !isID(id):
		return nil, &fault{codeParams, "request_id must be string or integer, got: " + pyType(id)}
	}
	return t.say(ctx, r, content, id, tap)
}

func newID() []byte { return provider.Quote(rand.Text()) }

// say sends content and returns the result.
func (t *talk) say(ctx context.Context, r *web.Request, content, id []byte, tap *observe.Conn) (any, *fault) {
	ctx, release, f := t.reserve(ctx, id)
	if f != nil {
		return nil, f
	}
	defer release()
	text := []byte(`""`)
	err := t.await(ctx)
	if err == nil {
		text, err = t.exchange(ctx, t.call(r, id, tap), content)
		t.pass()
	}
	switch {
	case errors.Is(err, broker.ErrCancelled):
		return object(`{"content":%s,"request_id":%s,"cancelled":true}`, text, id), nil
	case err != nil:
		return nil, failed(err)
	}
	return object(`{"content":%s,"request_id":%s}`, text, id), nil
}

// failed is the fault for a call that failed.
func failed(err error) *fault {
	code := codeFailed
	if errors.Is(err, broker.ErrShutdown) || errors.Is(err, broker.ErrGone) || errors.Is(err, broker.ErrCancelled) {
		code = codeServer
	}
	return &fault{code, broker.Message(err)}
}

// call is a call for the conversation, without a prompt.
func (t *talk) call(r *web.Request, id []byte, tap *observe.Conn) *broker.Call {
	return &broker.Call{Door: Name, Client: r.Client, Ref: plain(id), Model: t.model, Parent: r.Header.Get("Traceparent"), Tap: tap.Tap()}
}

// reserve registers a send, so that it can be cancelled by its id until release is called.
func (t *talk) reserve(ctx context.Context, id []byte) (sending context.Context, release func(), f *fault) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.sends[string(id)] != nil {
		return nil, nil, &fault{codeParams, "request_id is in use: " + string(id)}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	t.sends[string(id)] = cancel
	return ctx, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.sends, string(id))
		cancel(nil)
	}, nil
}

// plain returns an id without its quotes.
func plain(id []byte) string {
	if jsonscan.KindOf(id) == jsonscan.String {
		return provider.Unquote(id)
	}
	return string(id)
}

// await waits for the turn, which pass gives back.
func (t *talk) await(ctx context.Context) error {
	select {
	case t.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (t *talk) pass() { <-t.turn }

// exchange sends content; the caller holds the turn. A partial answer before a cancel becomes
// part of the conversation; a failed call leaves no trace.
func (t *talk) exchange(ctx context.Context, c *broker.Call, content []byte) (text []byte, err error) {
	said := appendMessage(t.history(), "user", content)
	c.Prompt = append(said[:len(said):len(said)], ']')
	var partial provider.Completion
	c.Emit = func(p provider.Part) error {
		if p.Text != nil {
			partial.AppendText(p.Text)
		}
		return nil
	}
	err = t.broker.Do(ctx, c)
	text = c.Completion.Text
	switch {
	case errors.Is(err, broker.ErrCancelled):
		partial.Seal()
		text = partial.Text
	case err != nil:
		return []byte(`""`), err
	}
	t.keep(appendMessage(said, "assistant", text), t.size()+2)
	return text, err
}

// history returns a copy of the messages.
func (t *talk) history() []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.messages) > maxMessages {
		t.messages, t.count = t.start, 0
	}
	return append([]byte(nil), t.messages...)
}

func (t *talk) keep(messages []byte, count int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.messages, t.count = messages, count
}

func appendMessage(b []byte, role string, content []byte) []byte {
	if len(b) > 1 {
		b = append(b, ',')
	}
	b = append(append(append(b, `{"role":"`...), role...), `","content":`...)
	return append(append(b, content...), '}')
}

func (t *talk) cancel(req *request) (any, *fault) {
	id := req.param("request_id")
	switch {
	case id == nil:
		return nil, &fault{codeParams, "Missing required parameter: request_id"}
	case !isID(id):
		return nil, &fault{codeParams, "request_id must be string or integer, got: " + pyType(id)}
	}
	t.mu.Lock()
	cancel := t.sends[string(id)]
	t.mu.Unlock()
	if cancel == nil {
		return object(`{"cancelled":false,"request_id":%s,"reason":"not_found_or_completed"}`, id), nil
	}
	cancel(broker.ErrCancelled)
	return object(`{"cancelled":true,"request_id":%s}`, id), nil
}

// cancelAll cancels the running sends.
func (t *talk) cancelAll() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, cancel := range t.sends {
		cancel(broker.ErrCancelled)
	}
}

func (t *talk) tokens() any {
	t.mu.Lock()
	defer t.mu.Unlock()
	total, system := len(t.messages)/4, (len(t.start)-1)/4
	return object(`{"system":%d,"tools":0,"messages":%d,"total":%d,"budget":%d,"available":%d}`, system, total-system, total, budget, max(0, budget-total))
}

func (t *talk) context() any {
	return object(`{"message_count":%d,"system_prompt":%t}`, t.size(), len(t.start) > 1)
}

// size returns how many messages there are.
func (t *talk) size() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.count
}

// maxListed is how many messages get_messages returns at most, usualListed how many by
// default.
const (
	maxListed   = 2000
	usualListed = 200
)

// list is the result of get_messages. The agent is nil for the server's own conversation.
func (t *talk) list(req *request, a *agent) (any, *fault) {
	offset, f := req.count("offset", 0, 0, math.MaxInt32)
	if f != nil {
		return nil, f
	}
	limit, f := req.count("limit", usualListed, 1, maxListed)
	if f != nil {
		return nil, f
	}
	var id any
	if a != nil {
		id = a.id
	}
	list := []message{}
	t.mu.Lock()
	defer t.mu.Unlock()
	index := 0
	for m := range provider.EachMessage(slices.Concat(t.messages, []byte{']'})) {
		if m.Role == "system" {
			continue
		}
		if offset <= index && index < offset+limit {
			list = append(list, message{index, m.Role, m.Content})
		}
		index++
	}
	return object(`{"agent_id":%s,"total":%d,"offset":%d,"limit":%d,"messages":%s}`,
		jsonscan.MustMarshal(id), t.count, offset, limit, jsonscan.MustMarshal(list)), nil
}

// A message is an entry of get_messages.
type message struct {
	Index   int             `json:"index"`
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
}

// The prompt of compact, and the start of the new conversation.
const (
	askSummary   = `"Summarize this conversation. Keep facts, decisions and open tasks. Answer with the summary alone."`
	summaryStart = `"Summary of the conversation so far:\n\n`
)

// compact replaces the conversation by a summary of the model.
func (t *talk) compact(ctx context.Context, r *web.Request, tap *observe.Conn) (any, *fault) {
	id := newID()
	ctx, release, f := t.reserve(ctx, id)
	if f != nil {
		return nil, f
	}
	defer release()
	if err := t.await(ctx); err != nil {
		return nil, failed(err)
	}
	defer t.pass()
	if t.size() == 0 {
		return object(`{"compacted":false,"reason":"nothing_to_compact"}`), nil
	}
	before := t.history()
	c := t.call(r, id, tap)
	c.Prompt = append(appendMessage(slices.Clone(before), "user", []byte(askSummary)), ']')
	if err := t.broker.Do(ctx, c); err != nil {
		return nil, failed(err)
	}
	after := appendMessage(slices.Clone(t.start), "user", append([]byte(summaryStart), c.Completion.Text[1:]...))
	if len(after) >= len(before) {
		return object(`{"compacted":false,"reason":"summary_is_not_shorter"}`), nil
	}
	t.keep(after, 1)
	return object(`{"compacted":true,"tokens_before":%d,"tokens_after":%d,"tokens_saved":%d}`,
		len(before)/4, len(after)/4, len(before)/4-len(after)/4), nil
}
