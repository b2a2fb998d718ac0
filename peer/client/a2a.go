package client

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync"

	"github.com/wirectl/wirectl/protocol/a2a"
	"github.com/wirectl/wirectl/protocol/jsonscan"
)

// An A2A is a client of an agent that speaks the JSON-RPC binding of A2A. A task outlives
// the call that started it, unless that call cancels it.
type A2A struct{ httpRPC }

// NewA2A returns a client of the agent at a URL.
func NewA2A(url string, w *Watch, h HTTPOptions) *A2A {
	return &A2A{httpRPC{url: url, watch: w, http: h}}
}

// Call calls a method of any version of A2A. The params are JSON; nil omits them. Each event
// of a stream is a part.
func (c *A2A) Call(method string, params []byte) Call {
	return func(ctx context.Context, out func(Part)) error {
		return c.request(ctx, method, params, func(result []byte) { out(Part{JSON: result}) })
	}
}

func (c *A2A) request(ctx context.Context, method string, params []byte, handle func(result []byte)) error {
	header := http.Header{"Accept": {"application/json, text/event-stream"}}
	if _, version := a2a.ByName([]byte(method)); string(version) != a2a.V03 {
		header.Set("A2A-Version", a2a.V10)
	}
	return c.post(ctx, method, params, header, handle)
}

// Ask sends text and streams the agent's messages and artifacts. An agent without streaming
// answers in one piece.
func (c *A2A) Ask(text string, after CancelAfter) Call {
	return settled(func(ctx context.Context, out func(Part)) error {
		t := &a2aTask{client: c, out: out, after: after}
		defer t.cancelled.Wait()
		defer runAfter(t.after.Time, func() { t.cancel(ctx) })()
		params := jsonscan.MustMarshal(object{"message": object{
			"messageId": rand.Text(), "role": "ROLE_USER", "parts": []object{{"text": text}},
		}})
		err := c.request(ctx, "SendStreamingMessage", params, func(result []byte) { t.event(ctx, result) })
		if refused, ok := errors.AsType[*PeerError](err); ok && (refused.Code == "-32004" || refused.Code == "-32601") && !t.begun() {
			err = c.request(ctx, "SendMessage", params, func(result []byte) { t.event(ctx, result) })
		}
		if ctx.Err() != nil {
			bounded, stop := context.WithTimeout(context.WithoutCancel(ctx), parting)
			defer stop()
			t.cancel(bounded)
		}
		return cmp.Or(err, t.failed)
	})
}

// An a2aTask is a task in progress.
type a2aTask struct {
	client *A2A
	out    func(Part)
	after  CancelAfter
	parts  int
	failed error

	mu        sync.Mutex
	id        string
	due       bool // cancel it as soon as its id is known
	ended     bool // it has ended, or its cancel was sent
	cancelled sync.WaitGroup
}

func (t *a2aTask) begun() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.id != ""
}

// cancel cancels the task once, as soon as its id is known. The agent may refuse; the
// stream shows the outcome.
func (t *a2aTask) cancel(ctx context.Context) {
	t.mu.Lock()
	t.due = true
	id, over := t.id, t.ended
	t.ended = over || id != ""
	t.mu.Unlock()
	if id == "" || over {
		return
	}
	limited, stop := context.WithTimeoutCause(ctx, confirmation, errUnconfirmed)
	defer stop()
	params := jsonscan.MustMarshal(object{"id": id})
	err := t.client.request(limited, "CancelTask", params, func([]byte) {})
	if refused, ok := errors.AsType[*PeerError](err); ok {
		t.out(Part{Aside: true, Name: "the cancel was refused: " + refused.Error()})
	}
}

// An a2aEvent is a result of SendMessage, or an event of a stream.
type a2aEvent struct {
	Message *a2aMessage
	Task    *struct {
		ID        string
		Status    a2aStatus
		Artifacts []a2aMessage
	}
	StatusUpdate *struct {
		TaskID string
		Status a2aStatus
	}
	ArtifactUpdate *struct {
		TaskID   string
		Artifact a2aMessage
	}
}

// An a2aMessage is a message, or an artifact.
type a2aMessage struct{ Parts []json.RawMessage }

type a2aStatus struct {
	State   string
	Message *a2aMessage
}

// event outputs the content of an event.
func (t *a2aTask) event(ctx context.Context, result []byte) {
	var e a2aEvent
	if err := json.Unmarshal(result, &e); err != nil {
		t.out(Part{JSON: result})
		return
	}
	switch {
	case e.Message != nil:
		t.say(e.Message)
	case e.Task != nil:
		t.named(ctx, e.Task.ID)
		for i := range e.Task.Artifacts {
			t.say(&e.Task.Artifacts[i])
		}
		t.status(&e.Task.Status)
	case e.StatusUpdate != nil:
		t.status(&e.StatusUpdate.Status)
	case e.ArtifactUpdate != nil:
		t.say(&e.ArtifactUpdate.Artifact)
		if t.parts++; t.parts == t.after.Parts {
			t.cancelled.Go(func() { t.cancel(ctx) })
		}
	default:
		t.out(Part{JSON: result})
	}
}

// named sets the id of the task and, if a cancel is due, sends it.
func (t *a2aTask) named(ctx context.Context, id string) {
	t.mu.Lock()
	t.id = id
	due := t.due
	t.mu.Unlock()
	if due {
		t.cancelled.Go(func() { t.cancel(ctx) })
	}
}

// say outputs the parts of a message or an artifact: text parts as text, others as JSON.
func (t *a2aTask) say(m *a2aMessage) {
	for _, raw := range m.Parts {
		if text, ok := partText(raw); ok {
			t.out(Part{Text: text})
		} else {
			t.out(Part{JSON: raw})
		}
	}
}

func partText(raw []byte) (text string, ok bool) {
	var part struct{ Text *string }
	if json.Unmarshal(raw, &part) != nil || part.Text == nil {
		return "", false
	}
	return *part.Text, true
}

// status outputs the state of the task and the reason.
func (t *a2aTask) status(s *a2aStatus) {
	var words []string
	if s.Message != nil {
		for _, raw := range s.Message.Parts {
			if text, ok := partText(raw); ok {
				words = append(words, text)
			}
		}
	}
	state := strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(s.State, "TASK_STATE_"), "_", "-"))
	why := strings.Join(words, " ")
	switch state {
	case "failed", "rejected":
		t.failed = &PeerError{Code: "task " + state, Message: why}
	default:
		t.out(Part{Aside: true, Name: strings.TrimSpace(state + " " + why)})
	}
	if state == "completed" || state == "failed" || state == "rejected" || state == "canceled" {
		t.mu.Lock()
		t.ended = true
		t.mu.Unlock()
	}
}
