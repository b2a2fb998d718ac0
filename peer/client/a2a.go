package client

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/protocol/a2a"
	"github.com/wirectl/wirectl/protocol/jsonscan"
	"github.com/wirectl/wirectl/transport/mcphttp"
)

// An A2A asks an agent that speaks A2A in its JSON-RPC binding. A task goes on at the agent
// when the call has ended that began it, unless that cancels it.
type A2A struct {
	url   string
	watch *Watch
	http  HTTPOptions
	last  atomic.Int64
}

// NewA2A returns a client of the agent at a URL.
func NewA2A(url string, w *Watch, h HTTPOptions) *A2A { return &A2A{url: url, watch: w, http: h} }

// Call is the call of a method, of any version. The params are JSON, or nil for none. Each
// event of a stream is a part.
func (c *A2A) Call(method string, params []byte) Call {
	return func(ctx context.Context, out func(Part)) error {
		return c.request(ctx, method, params, func(result []byte) { out(Part{JSON: result}) })
	}
}

// request makes a request and hands each result to take: several of a stream.
func (c *A2A) request(ctx context.Context, method string, params []byte, take func(result []byte)) error {
	n := int(c.last.Add(1))
	body := rpcRequest(strconv.Itoa(n), method, params)
	if _, err := c.watch.see(n, frame.C2U, frame.Line.Name(), asLine(body)); err != nil {
		return err
	}
	defer c.watch.endConn(n)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	maps.Copy(req.Header, c.http.Header)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	if _, version := a2a.ByName([]byte(method)); string(version) != a2a.V03 {
		req.Header.Set("A2A-Version", a2a.V10)
	}
	resp, err := c.http.Do(req) //nolint:bodyclose // the answer closes it
	if err != nil {
		return err
	}
	whole := mcphttp.AnswerOf(resp)
	defer whole.Close()
	answered := func(data []byte) error { return c.answered(n, data, take) }
	if whole.IsEvents() {
		return ofHTTP(whole.Read(answered))
	}
	answer, err := whole.Body()
	switch {
	case err != nil:
		return ofHTTP(err)
	case resp.StatusCode >= 400 && !answers(answer):
		return &PeerError{Code: "HTTP " + resp.Status, Message: strings.TrimSpace(string(answer[:min(len(answer), 512)]))}
	}
	return answered(answer)
}

// answered takes in an answer to the request n.
func (c *A2A) answered(n int, answer []byte, take func(result []byte)) error {
	if _, err := c.watch.see(n, frame.U2C, frame.Line.Name(), asLine(answer)); err != nil {
		return &FaultError{err}
	}
	var m struct{ Result, Error json.RawMessage }
	if err := json.Unmarshal(answer, &m); err != nil {
		return &FaultError{err}
	}
	switch {
	case !isNull(m.Error):
		return peerError(m.Error)
	case m.Result == nil:
		return faultf("the answer has neither a result nor an error: %s", answer)
	}
	take(m.Result)
	return nil
}

// Ask is the call that sends text, and streams what the agent says and produces. An agent
// that has no streams answers in one piece.
func (c *A2A) Ask(text string, after CancelAfter) Call {
	return settled(func(ctx context.Context, out func(Part)) error {
		t := &a2aTask{client: c, out: out, after: after}
		defer t.cancelled.Wait()
		defer t.cancelLater(ctx)()
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
			t.cancel(bounded) // nobody waits for the task any more
		}
		return cmp.Or(err, t.failed)
	})
}

// An a2aTask is a task, as far as it has got.
type a2aTask struct {
	client *A2A
	out    func(Part)
	after  CancelAfter
	parts  int
	failed error

	mu        sync.Mutex
	id        string
	due       bool // it is to be cancelled as soon as it has an id
	ended     bool // or its cancel was sent
	cancelled sync.WaitGroup
}

func (t *a2aTask) begun() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.id != ""
}

// cancelLater cancels the task when its time has come, unless stop is called before.
func (t *a2aTask) cancelLater(ctx context.Context) (stop func()) {
	if t.after.Time == 0 {
		return func() {}
	}
	t.cancelled.Add(1)
	timer := time.AfterFunc(t.after.Time, func() {
		defer t.cancelled.Done()
		t.cancel(ctx)
	})
	return func() {
		if timer.Stop() {
			t.cancelled.Done()
		}
	}
}

// cancel asks for the end of the task, once, and as soon as it has an id. Its stream tells
// what becomes of it: an agent may refuse.
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

// event hands out what an event says.
func (t *a2aTask) event(ctx context.Context, result []byte) {
	var e a2aEvent
	if err := json.Unmarshal(result, &e); err != nil {
		t.out(Part{JSON: result}) // of another form it is shown as it is
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

// named takes in the id of the task, which may have to be cancelled by now.
func (t *a2aTask) named(ctx context.Context, id string) {
	t.mu.Lock()
	t.id = id
	due := t.due
	t.mu.Unlock()
	if due {
		t.cancelled.Go(func() { t.cancel(ctx) })
	}
}

// say hands out the parts of a message or an artifact: texts, and other parts as JSON.
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

// status tells what state a task is in, and why.
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
