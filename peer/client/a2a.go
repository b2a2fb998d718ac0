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

	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/protocol/a2a"
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

// An a2aVersion has the words of one version of the protocol.
type a2aVersion struct {
	stream, send, cancel string
	role                 string
	kinds                bool // objects state their kind
}

// a2aVersions are the versions, newest first.
var a2aVersions = []a2aVersion{
	{stream: "SendStreamingMessage", send: "SendMessage", cancel: "CancelTask", role: "ROLE_USER"},
	{stream: "message/stream", send: "message/send", cancel: "tasks/cancel", role: "user", kinds: true},
}

// message returns the params that send a text.
func (v *a2aVersion) message(text, id string) []byte {
	part := object{"text": text}
	message := object{"messageId": id, "role": v.role, "parts": []object{part}}
	if v.kinds {
		part["kind"], message["kind"] = "text", "message"
	}
	return jsonscan.MustMarshal(object{"message": message})
}

// The codes with which an agent refuses a method or a version.
const (
	a2aNoMethod  = "-32601"
	a2aNoStream  = "-32004"
	a2aNoVersion = "-32009"
)

// Ask sends text and streams the agent's messages and artifacts. An agent without streaming
// answers in one piece. An agent of version 0.3 is asked again in that version.
func (c *A2A) Ask(text string, after CancelAfter) Call {
	return settled(func(ctx context.Context, out func(Part)) error {
		t := &a2aTask{client: c, out: out, after: after}
		defer t.cancelled.Wait()
		defer runAfter(t.after.Time, func() { t.cancel(ctx) })()
		err := t.ask(ctx, text)
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
	client  *A2A
	version *a2aVersion // it no longer changes once the id is known
	out     func(Part)
	after   CancelAfter
	parts   int
	failed  error

	mu        sync.Mutex
	id        string
	due       bool // cancel it as soon as its id is known
	ended     bool // it has ended, or its cancel was sent
	cancelled sync.WaitGroup
}

// ask sends a text in the first version and by the first method that the agent knows.
func (t *a2aTask) ask(ctx context.Context, text string) (err error) {
	id := rand.Text()
	try := func(method string) (code string) {
		err = t.client.request(ctx, method, t.version.message(text, id), func(result []byte) { t.event(ctx, result) })
		if refused, ok := errors.AsType[*PeerError](err); ok && !t.begun() {
			return refused.Code
		}
		return ""
	}
	for i := range a2aVersions {
		t.version = &a2aVersions[i]
		code := try(t.version.stream)
		if code == a2aNoStream || code == a2aNoMethod {
			code = try(t.version.send)
		}
		if code != a2aNoMethod && code != a2aNoVersion {
			break
		}
	}
	return err
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
	err := t.client.request(limited, t.version.cancel, params, func([]byte) {})
	if refused, ok := errors.AsType[*PeerError](err); ok {
		t.out(Part{Aside: true, Name: "the cancel was refused: " + refused.Error()})
	}
}

// An a2aEvent is an answer to a message, or an event of a stream.
type a2aEvent struct {
	Message *a2aMessage
	Task    *struct {
		ID        string
		Status    a2aStatus
		Artifacts []a2aMessage
	}
	StatusUpdate   *struct{ Status a2aStatus }
	ArtifactUpdate *struct{ Artifact a2aMessage }
}

// a2aMembers are the members of an event by its kind in version 0.3, where it has none.
var a2aMembers = map[string]string{
	"message": "message", "task": "task", "status-update": "statusUpdate", "artifact-update": "artifactUpdate",
}

// readEvent parses an event of any version.
func readEvent(result []byte) (e a2aEvent, err error) {
	var old struct{ Kind string }
	if err = json.Unmarshal(result, &old); err == nil && a2aMembers[old.Kind] != "" {
		result = jsonscan.MustMarshal(map[string]json.RawMessage{a2aMembers[old.Kind]: result})
	}
	if err == nil {
		err = json.Unmarshal(result, &e)
	}
	return e, err
}

// An a2aMessage is a message, or an artifact.
type a2aMessage struct{ Parts []json.RawMessage }

type a2aStatus struct {
	State   string
	Message *a2aMessage
}

// event outputs the content of an event.
func (t *a2aTask) event(ctx context.Context, result []byte) {
	switch e, err := readEvent(result); {
	case err != nil:
		t.out(Part{JSON: result})
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
