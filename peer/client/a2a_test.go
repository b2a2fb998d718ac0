package client_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wirectl/wirectl/peer/client"
	"github.com/wirectl/wirectl/protocol/jsonrpc"
)

// An agent is one of A2A, which works at a task until that is cancelled, or does as the text
// of its message says.
type agent struct {
	mu       sync.Mutex
	canceled chan struct{}
	asked    []string // methods, with the version stated
}

func (a *agent) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var m struct {
		ID     json.RawMessage
		Method string
		Params struct {
			ID      string
			Message struct{ Parts []struct{ Text string } }
		}
	}
	if json.NewDecoder(r.Body).Decode(&m) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	a.mu.Lock()
	a.asked = append(a.asked, strings.TrimSpace(m.Method+" "+r.Header.Get("A2A-Version")))
	a.mu.Unlock()
	answer := func(result string) { fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,%s}`, m.ID, result) }
	event := func(result string) {
		_, _ = io.WriteString(w, "data: ")
		answer(result)
		_, _ = io.WriteString(w, "\n\n")
		_ = http.NewResponseController(w).Flush()
	}
	const task = `"result":{"task":{"id":"k","contextId":"c","status":{"state":"TASK_STATE_%s"}}}`
	const status = `"result":{"statusUpdate":{"taskId":"k","contextId":"c","status":{"state":"TASK_STATE_%s","message":{"parts":[{"text":"why"}]}}}}`
	const chunk = `"result":{"artifactUpdate":{"taskId":"k","contextId":"c","artifact":{"artifactId":"x","parts":[{"text":"meal "},{"data":{"n":1}}]}}}`
	text := ""
	if len(m.Params.Message.Parts) > 0 {
		text = m.Params.Message.Parts[0].Text
	}
	switch {
	case m.Method == "CancelTask":
		answer(`"result":{"id":"` + m.Params.ID + `","contextId":"c","status":{"state":"TASK_STATE_CANCELED"}}`)
		close(a.canceled)
	case text == "0.3" && m.Method != "message/stream":
		answer(`"error":{"code":-32601,"message":"no such method"}`)
	case text == "0.3":
		w.Header().Set("Content-Type", "text/event-stream")
		event(`"result":{"kind":"task","id":"k","contextId":"c","status":{"state":"working"}}`)
		event(`"result":{"kind":"artifact-update","taskId":"k","contextId":"c","artifact":{"artifactId":"x","parts":[{"kind":"text","text":"meal"}]}}`)
		event(`"result":{"kind":"status-update","taskId":"k","contextId":"c","status":{"state":"completed"},"final":true}`)
	case m.Method == "message/send":
		answer(`"result":{"kind":"message","parts":[]}`)
	case m.Method == "SendMessage":
		answer(`"result":{"message":{"parts":[{"text":"in one piece"}]}}`)
	case text == "old":
		answer(`"error":{"code":-32004,"message":"no streams"}`)
	default:
		w.Header().Set("Content-Type", "text/event-stream")
		event(fmt.Sprintf(task, "WORKING"))
		event(chunk)
		if text == "fail" {
			event(fmt.Sprintf(status, "FAILED"))
			return
		}
		if text == "wait" {
			<-a.canceled
			event(fmt.Sprintf(status, "CANCELED"))
			return
		}
		event(fmt.Sprintf(status, "COMPLETED"))
	}
}

// said is what a call hands out, on a line, and how it ends.
func said(t *testing.T, a *agent, make func(c *client.A2A) client.Call) (string, error) {
	t.Helper()
	server := httptest.NewServer(a)
	defer server.Close()
	defer http.DefaultClient.CloseIdleConnections()
	watch := client.NewWatch(jsonrpc.A2A, nil)
	var b strings.Builder
	err := make(client.NewA2A(server.URL, watch, client.HTTPOptions{}))(t.Context(), func(p client.Part) {
		if p.Aside {
			fmt.Fprintf(&b, "(%s)", p.Name)
		} else {
			fmt.Fprintf(&b, "%s%s", p.Text, p.JSON)
		}
	})
	if peer, own := watch.Findings(); len(peer)+len(own) > 0 {
		t.Errorf("findings %v, %v", peer, own)
	}
	return b.String(), err
}

// A task is followed to its end, and its artifacts are the answer.
func TestA2A(t *testing.T) {
	for text, want := range map[string]string{
		"grind": `(working)meal {"data":{"n":1}}(completed why)`,
		"old":   "in one piece",
		"0.3":   "(working)meal(completed)",
		"fail":  `(working)meal {"data":{"n":1}}`,
	} {
		got, err := said(t, &agent{}, func(c *client.A2A) client.Call { return c.Ask(text, client.CancelAfter{}) })
		if got != want {
			t.Errorf("%s: said %s, want %s", text, got, want)
		}
		failed, ok := errors.AsType[*client.PeerError](err)
		if ok != (text == "fail") || ok && failed.Error() != "task failed: why" {
			t.Errorf("%s: the error is %v", text, err)
		}
	}
}

// A task is cancelled by a request of its own, after so many parts or so much time, and its
// stream tells the end.
func TestA2ACancel(t *testing.T) {
	for _, after := range []client.CancelAfter{{Parts: 1}, {Time: time.Millisecond}} {
		a := &agent{canceled: make(chan struct{})}
		got, err := said(t, a, func(c *client.A2A) client.Call { return c.Ask("wait", after) })
		if want := `(working)meal {"data":{"n":1}}(canceled why)`; got != want || err != nil {
			t.Errorf("%v: said %s, %v", after, got, err)
		}
		if asked := strings.Join(a.asked, ", "); asked != "SendStreamingMessage 1.0, CancelTask 1.0" {
			t.Errorf("%v: asked %s", after, asked)
		}
	}
}

// A method is called as it is named, and each result is handed out.
func TestA2ACall(t *testing.T) {
	a := &agent{}
	got, err := said(t, a, func(c *client.A2A) client.Call {
		return c.Call("message/send", []byte(`{"message":{"kind":"message","parts":[]}}`))
	})
	if err != nil || got != `{"kind":"message","parts":[]}` || a.asked[0] != "message/send" {
		t.Errorf("%s, %v: asked %v", got, err, a.asked)
	}
}

// A refusal of HTTP is told as such.
func TestA2ANotFound(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	defer http.DefaultClient.CloseIdleConnections()
	watch := client.NewWatch(jsonrpc.A2A, nil)
	c := client.NewA2A(server.URL, watch, client.HTTPOptions{})
	err := watch.Outcome(c.Ask("hi", client.CancelAfter{})(t.Context(), func(client.Part) {}), false, false, func(string) {})
	if err == nil || !strings.Contains(err.Error(), "HTTP 404 Not Found") || !strings.Contains(err.Error(), "A2A agents name it in /.well-known/agent-card.json") {
		t.Errorf("the error is %v", err)
	}
}
