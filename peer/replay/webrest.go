package replay

import (
	"bytes"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/a2a"
	"github.com/wirectl/wirectl/protocol/carried"
)

// setCall marks the line as a call of A2A over REST or gRPC, unless call is nil. The task in its
// path is an id.
func (l *webLine) setCall(call *a2a.Call) {
	if call == nil {
		return
	}
	l.Call, l.Version = string(call.Kind()), string(call.Version)
	for i := 1; i < len(l.Path); i++ {
		if segment, ok := l.Path[i].(string); ok && l.Path[i-1] == "tasks" && !call.Task.IsZero() {
			id, verb, hasVerb := strings.Cut(segment, ":")
			named := map[string]any{"id": id}
			if hasVerb {
				named["verb"] = ":" + verb
			}
			l.Path[i] = named
		}
	}
}

// readCall parses a line of A2A over REST or gRPC. It reports whether the line holds a message.
func (l *webLine) readCall(m *protocol.Message) bool {
	method, _ := a2a.ByName([]byte(l.Call))
	code, failed := strings.CutPrefix(l.End, callStatus)
	failed = failed && code != "0"
	if method == nil || l.End != "" && !failed || l.Ref != 0 {
		return false
	}
	call := a2a.Call{Method: method, Version: []byte(l.Version), Task: l.task()}
	switch status := strconv.Itoa(l.Status); {
	case l.Request != "":
		call.Open(l.Body, m)
	case failed:
		a2a.Fail(nil, []byte(code), m)
	case l.Body == nil:
		return false
	case l.Status != 0 && carried.Failed(status):
		a2a.Fail(l.Body, []byte(status), m)
	case l.Event != nil && *l.Event == "error":
		a2a.Fail(l.Body, nil, m)
	default:
		call.Answer(l.Body, m)
	}
	m.ID = protocol.Token{Space: protocol.SpaceID, Text: strconv.AppendInt(nil, l.ID, 10)}
	return true
}

// task returns the task in the path of a request, or in a resource name of its body, as in gRPC
// of version 0.3.
func (l *webLine) task() (t protocol.Token) {
	for i := 1; i < len(l.Path); i++ {
		if of, ok := l.Path[i].(map[string]any); ok && l.Path[i-1] == "tasks" {
			id, _ := of["id"].(string)
			if text, err := url.PathUnescape(id); err == nil && text != "" {
				return protocol.Token{Space: protocol.SpaceTask, Text: jsonscan.AppendQuote(nil, []byte(text))}
			}
		}
	}
	for _, key := range []string{"name", "parent"} {
		if name, ok := jsonscan.Get(l.Body, key); ok {
			text, _ := jsonscan.Unquote(name)
			if id, isTask := strings.CutPrefix(string(text), "tasks/"); isTask {
				id, _, _ = strings.Cut(id, "/")
				return protocol.Token{Space: protocol.SpaceTask, Text: jsonscan.AppendQuote(nil, []byte(id))}
			}
		}
	}
	return t
}

// aboutTask returns a request to the same agent that does in REST or gRPC what a request about a
// task does in JSON-RPC.
func (l *webLine) aboutTask(call []byte, id int64) *webLine {
	name, _ := jsonscan.Get(call, "method")
	task, _ := jsonscan.Get(call, "params", "id")
	text, _ := jsonscan.Unquote(task)
	method, _ := a2a.ByName(bytes.Trim(name, `"`))
	if strings.HasPrefix(l.Head["Content-Type"], "application/grpc") {
		return l.callAbout(method, task, id)
	}
	of, verb := map[string]any{"id": url.PathEscape(string(text))}, http.MethodGet
	if method.Cancels {
		of["verb"], verb = ":cancel", http.MethodPost
	}
	c := a2a.Call{Method: method, Version: []byte(l.Version)}
	return &webLine{
		ID: id, Request: verb, Head: maps.Clone(l.Head), Call: string(c.Kind()), Version: l.Version,
		Path: append(slices.Clone(l.Path[:len(l.Path)-1]), "tasks", of),
	}
}

// callAbout is aboutTask for gRPC.
func (l *webLine) callAbout(method *a2a.Method, task []byte, id int64) *webLine {
	c := a2a.Call{Method: method, Version: []byte(l.Version)}
	body := fmt.Appendf(nil, `{"id":%s}`, task)
	if l.Version < a2a.V10 {
		text, _ := jsonscan.Unquote(task)
		body = fmt.Appendf(nil, `{"name":%s}`, jsonscan.AppendQuote(nil, append([]byte("tasks/"), text...)))
	}
	return &webLine{
		ID: id, Request: l.Request, Head: maps.Clone(l.Head), Call: string(c.Kind()), Version: l.Version,
		Path: []any{l.Path[0], method.Newer}, Body: body, Last: true,
	}
}
