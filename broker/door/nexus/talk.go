package nexus

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"

	"github.com/wirectl/wirectl/broker"
	"github.com/wirectl/wirectl/broker/door/web"
	"github.com/wirectl/wirectl/broker/provider"
	"github.com/wirectl/wirectl/broker/publish"
	"github.com/wirectl/wirectl/protocol/jsonscan"
)

// A talk is a conversation. Its messages are taken up one send after the
// other; cancels come in between.
type talk struct {
	broker *broker.Broker
	model  string // "" is the default
	start  []byte // what the messages begin with: the system's, if there is one

	mu       sync.Mutex
	messages []byte // a JSON array without its end
	count    int
	sends    map[string]context.CancelCauseFunc // by request id, as it is written

	turn chan struct{} // whose send it is
}

// budget is how many tokens a conversation may have, and maxMessages how many
// bytes: one that is over it begins anew.
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

func (t *talk) send(ctx context.Context, r *web.Request, req *request, tap *publish.Conn) ([]byte, *fault) {
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

// say says content and returns the result of a send.
func (t *talk) say(ctx context.Context, r *web.Request, content, id []byte, tap *publish.Conn) ([]byte, *fault) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if !t.register(string(id), cancel) {
		return nil, &fault{codeParams, "request_id is in use: " + string(id)}
	}
	defer t.unregister(string(id))
	c := &broker.Call{Door: Name, Client: r.Client, Ref: plain(id), Model: t.model, Parent: r.Header("Traceparent"), Tap: tap.Tap()}
	text, err := t.take(ctx, c, content)
	if err != nil && !errors.Is(err, broker.ErrCancelled) {
		return nil, &fault{codeServer, broker.Message(err)}
	}
	b := append(append([]byte(`{"content":`), text...), `,"request_id":`...)
	b = append(b, id...)
	if err != nil {
		b = append(b, `,"cancelled":true`...)
	}
	return append(b, '}'), nil
}

// plain returns an id as people write it.
func plain(id []byte) string {
	if jsonscan.KindOf(id) == jsonscan.String {
		return provider.Unquote(id)
	}
	return string(id)
}

func (t *talk) register(id string, cancel context.CancelCauseFunc) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.sends[id] != nil {
		return false
	}
	t.sends[id] = cancel
	return true
}

func (t *talk) unregister(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.sends, id)
}

// take waits for its turn and says content. What was answered up to a cancel is
// part of the conversation; a call that failed leaves no trace in it.
func (t *talk) take(ctx context.Context, c *broker.Call, content []byte) (text []byte, err error) {
	empty := []byte(`""`)
	select {
	case t.turn <- struct{}{}:
		defer func() { <-t.turn }()
	case <-ctx.Done():
		return empty, context.Cause(ctx)
	}
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
		return empty, err
	}
	t.keep(appendMessage(said, "assistant", text))
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

func (t *talk) keep(messages []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.messages = messages
	t.count += 2
}

func appendMessage(b []byte, role string, content []byte) []byte {
	if len(b) > 1 {
		b = append(b, ',')
	}
	b = append(append(append(b, `{"role":"`...), role...), `","content":`...)
	return append(append(b, content...), '}')
}

func (t *talk) cancel(req *request) ([]byte, *fault) {
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
		return fmt.Appendf(nil, `{"cancelled":false,"request_id":%s,"reason":"not_found_or_completed"}`, id), nil
	}
	cancel(broker.ErrCancelled)
	return fmt.Appendf(nil, `{"cancelled":true,"request_id":%s}`, id), nil
}

// cancelAll cancels the sends that run.
func (t *talk) cancelAll() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, cancel := range t.sends {
		cancel(broker.ErrCancelled)
	}
}

func (t *talk) tokens() []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	total, system := len(t.messages)/4, (len(t.start)-1)/4
	return fmt.Appendf(nil, `{"system":%d,"tools":0,"messages":%d,"total":%d,"budget":%d,"available":%d}`, system, total-system, total, budget, max(0, budget-total))
}

func (t *talk) context() []byte {
	return fmt.Appendf(nil, `{"message_count":%d,"system_prompt":%t}`, t.size(), len(t.start) > 1)
}

// size returns how many messages there are.
func (t *talk) size() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.count
}
