package a2a_test

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/a2a"
	"github.com/wirectl/wirectl/test/kit/prototest"
)

// call returns the call that a request line and fields, NAME: VALUE, are; nil for none.
func call(r *a2a.Routes, start string, fields ...string) *a2a.Call {
	head := frame.Head{Start: start}
	for _, f := range fields {
		name, value, _ := strings.Cut(f, ": ")
		head.Fields = append(head.Fields, frame.Field{Name: name, Value: value})
	}
	return r.Call(&head)
}

// The messages of gRPC are known by the path, in both versions.
func TestMessages(t *testing.T) {
	for path, want := range map[string][2]string{
		"/lf.a2a.v1.A2AService/GetTask":       {`{"id":"k"}`, "\x12\x01k"},
		"/a2a.v1.A2AService/GetTask":          {`{"name":"tasks/k"}`, "\x0a\x07tasks/k"},
		"/a2a.v1.A2AService/TaskSubscription": {`{"name":"tasks/k"}`, "\x0a\x07tasks/k"},
	} {
		request, _, ok := a2a.Messages(path)
		if !ok {
			t.Errorf("%s is unknown", path)
			continue
		}
		if wire, err := request.(protocol.Transcoder).AppendPayload(nil, []byte(want[0])); string(wire) != want[1] {
			t.Errorf("%s: %s is %q (%v), want %q", path, want[0], wire, err, want[1])
		}
	}
	for _, path := range []string{"/lf.a2a.v1.A2AService/Other", "/other/GetTask"} {
		if _, _, ok := a2a.Messages(path); ok {
			t.Errorf("%s is known", path)
		}
	}
}

// The path of a request tells what it asks for, in both versions.
func TestRoutes(t *testing.T) {
	for start, want := range map[string]string{
		"POST /a/message:send HTTP/1.1":                      "SendMessage 1.0",
		"POST /v1/message:stream HTTP/1.1":                   "message/stream 0.3",
		"POST /t/tasks/k:cancel HTTP/1.1":                    "CancelTask 1.0 \"k\"",
		"GET /tasks/k:subscribe HTTP/1.1":                    "SubscribeToTask 1.0 \"k\"",
		"POST /v1/tasks/k:subscribe HTTP/1.1":                "tasks/resubscribe 0.3 \"k\"",
		"GET /tasks/a%20%22b?historyLength=1 HTTP/2":         "GetTask 1.0 \"a \\\"b\"",
		"GET /tasks HTTP/1.1":                                "ListTasks 1.0",
		"GET /extendedAgentCard HTTP/1.1":                    "GetExtendedAgentCard 1.0",
		"POST /tasks/k/pushNotificationConfigs HTTP/1.1":     "CreateTaskPushNotificationConfig 1.0 \"k\"",
		"GET /tasks/k/pushNotificationConfigs HTTP/1.1":      "ListTaskPushNotificationConfigs 1.0 \"k\"",
		"GET /tasks/k/pushNotificationConfigs/p HTTP/1.1":    "GetTaskPushNotificationConfig 1.0 \"k\"",
		"DELETE /tasks/k/pushNotificationConfigs/p HTTP/1.1": "DeleteTaskPushNotificationConfig 1.0 \"k\"",
		"DELETE /tasks/k HTTP/1.1":                           "-",
		"POST /tasks HTTP/1.1":                               "-",
		"POST /tasks/k:run HTTP/1.1":                         "-",
		"GET /tasks/k/other HTTP/1.1":                        "-",
		"GET /message:send HTTP/1.1":                         "-",
		"POST /message:other HTTP/1.1":                       "-",
		"POST /messages:send HTTP/1.1":                       "-",
		"POST / HTTP/1.1":                                    "-",
	} {
		r := a2a.Routes{}
		if got := describe(call(&r, start, "accept: application/a2a+json")); got != want {
			t.Errorf("%s is %s, want %s", start, got, want)
		}
	}
	for path, want := range map[string]string{
		"/lf.a2a.v1.A2AService/SendStreamingMessage": "SendStreamingMessage 1.0",
		"/a2a.v1.A2AService/TaskSubscription":        "tasks/resubscribe 0.3",
		"/lf.a2a.v1.A2AService/Other":                "-",
		"/other.A2AService/SendMessage":              "-",
	} {
		if got := describe(call(&a2a.Routes{}, "POST "+path+" HTTP/2", "content-type: application/grpc")); got != want {
			t.Errorf("%s is %s, want %s", path, got, want)
		}
	}
}

func describe(c *a2a.Call) string {
	if c == nil {
		return "-"
	}
	return strings.TrimSpace(string(c.Kind()) + " " + string(c.Version) + " " + string(c.Task.Text))
}

// Others have tasks too: a path of theirs tells nothing, unless the protocol is stated or
// the same agent was asked something before that nobody else is.
func TestRoutesOfOthers(t *testing.T) {
	var r a2a.Routes
	for _, step := range []struct{ start, field, want string }{
		{"GET /api/tasks/k HTTP/1.1", "", "-"},
		{"POST /api/tasks/k:cancel HTTP/1.1", "", "-"},
		{"POST /agent/message:send HTTP/1.1", "", "SendMessage 1.0"},
		{"GET /agent/tasks/k HTTP/1.1", "", "GetTask 1.0 \"k\""},
		{"GET /api/tasks/k HTTP/1.1", "", "-"},
		{"GET /api/tasks/k HTTP/1.1", "A2A-Version: 1.1", "GetTask 1.1 \"k\""},
		{"GET /api/tasks/k HTTP/1.1", "", "GetTask 1.0 \"k\""},
	} {
		if got := describe(call(&r, step.start, step.field)); got != step.want {
			t.Errorf("%s %s is %s, want %s", step.start, step.field, got, step.want)
		}
	}
}

// A request and its answer mean the same in REST as in JSON-RPC.
func TestREST(t *testing.T) {
	var r a2a.Routes
	stream := call(&r, "POST /message:stream HTTP/1.1", "A2A-Version: 1.0")
	get := call(&r, "GET /tasks/k HTTP/1.1", "A2A-Version: 1.0")
	cancel := call(&r, "POST /v1/tasks/k:cancel HTTP/1.1", "A2A-Version: 0.3")
	for _, test := range []struct {
		call       *a2a.Call
		ask        string
		body, want string
	}{
		{stream, "open", `{"message":{"taskId":"k"}}`, `SendStreamingMessage open from=c2u ref="k" ref-space=task does=part of="k" of-space=task version=1.0`},
		{stream, "open", `not JSON`, `SendStreamingMessage open from=c2u version=1.0`},
		{get, "open", ``, `GetTask open from=c2u ref="k" ref-space=task does=open of="k" of-space=task version=1.0`},
		{cancel, "open", `{}`, `tasks/cancel open from=c2u ref="k" ref-space=task does=cancel of="k" of-space=task version=0.3`},
		{stream, "answer", `{"task":{"id":"k","status":{"state":"TASK_STATE_WORKING"}}}`, `result close from=u2c bind="k" bind-space=task label=TASK_STATE_WORKING does=open of="k" of-space=task goes-on=true`},
		{stream, "answer", `{"statusUpdate":{"taskId":"k","status":{"state":"TASK_STATE_WORKING"},"metadata":NaN}}`, `result part from=u2c bind="k" bind-space=task label=TASK_STATE_WORKING does=part of="k" of-space=task`},
		{stream, "answer", `{"message":{"content":[]}}`, `result close from=u2c`},
		{get, "answer", `{"id":"k","status":{"state":"TASK_STATE_CANCELLED"}}`, `result close from=u2c bind="k" bind-space=task label=TASK_STATE_CANCELLED does=cancelled of="k" of-space=task`},
		{get, "answer", `{"kind":"task","id":"k","status":{"state":"failed"}}`, `result close from=u2c bind="k" bind-space=task label=failed does=fail of="k" of-space=task version=0.3`},
		{stream, "answer", `{"error":{"code":404,"message":"no"}}`, `error fail from=u2c label=404`},
	} {
		var m protocol.Message
		if test.ask == "open" {
			test.call.Open([]byte(test.body), &m)
		} else {
			test.call.Answer([]byte(test.body), &m)
		}
		if got := prototest.Say(&m); got != test.want {
			t.Errorf("%s %s\nsays %s\nwant %s", test.call.Kind(), test.body, got, test.want)
		}
	}
	var m protocol.Message
	a2a.Fail([]byte(`{"code":-32002,"message":"no"}`), []byte("409"), &m)
	if got := prototest.Say(&m); got != "error fail from=u2c label=-32002" || string(m.Text) != `"no"` {
		t.Errorf("an error says %s, %s", got, m.Text)
	}
}

// message is a protobuf message of fields of bytes, by their numbers.
func message(fields ...any) string {
	var b []byte
	for i := 0; i < len(fields); i += 2 {
		n := protowire.Number(fields[i].(int))
		switch v := fields[i+1].(type) {
		case string:
			b = protowire.AppendString(protowire.AppendTag(b, n, protowire.BytesType), v)
		case int:
			b = protowire.AppendVarint(protowire.AppendTag(b, n, protowire.VarintType), uint64(v))
		}
	}
	return string(b)
}

// And the same in gRPC, by the numbers of the fields.
func TestGRPC(t *testing.T) {
	newer := func(name string) *a2a.Call {
		return call(&a2a.Routes{}, "POST /lf.a2a.v1.A2AService/"+name+" HTTP/2", "content-type: application/grpc", "a2a-version: 1.0")
	}
	older := func(name string) *a2a.Call {
		return call(&a2a.Routes{}, "POST /a2a.v1.A2AService/"+name+" HTTP/2", "content-type: application/grpc")
	}
	task := message(1, "k", 2, "c", 3, message(1, 3), 4, "", 5, message(3, "j"))
	for _, test := range []struct {
		call       *a2a.Call
		ask        string
		body, want string
	}{
		{newer("SendMessage"), "open", message(1, "tenant", 2, message(1, "m", 3, "k"), 4, ""), `SendMessage open from=c2u ref="k" ref-space=task does=part of="k" of-space=task version=1.0`},
		{newer("SendMessage"), "open", message(2, message(1, "m")), `SendMessage open from=c2u version=1.0`},
		{newer("CancelTask"), "open", message(2, "k"), `CancelTask open from=c2u ref="k" ref-space=task does=cancel of="k" of-space=task version=1.0`},
		{newer("CreateTaskPushNotificationConfig"), "open", message(2, "p", 3, "k"), `CreateTaskPushNotificationConfig open from=c2u ref="k" ref-space=task does=open of="k" of-space=task version=1.0`},
		{older("SendMessage"), "open", message(1, message(1, "m", 3, "k")), `message/send open from=c2u ref="k" ref-space=task does=part of="k" of-space=task version=0.3`},
		{older("CancelTask"), "open", message(1, "tasks/k"), `tasks/cancel open from=c2u ref="k" ref-space=task does=cancel of="k" of-space=task version=0.3`},

		{newer("GetTask"), "answer", task, `result close from=u2c bind="k" bind-space=task label=TASK_STATE_COMPLETED does=close of="k" of-space=task context="c"`},
		{newer("SendMessage"), "answer", message(1, task), `result close from=u2c bind="k" bind-space=task label=TASK_STATE_COMPLETED does=close of="k" of-space=task context="c"`},
		{newer("SendMessage"), "answer", message(2, message(1, "m", 3, "k")), `result close from=u2c`},
		{newer("SubscribeToTask"), "answer", message(1, message(1, "k", 3, message(1, 6), 4, "", 4, "")), `result close from=u2c bind="k" bind-space=task count=2 label=TASK_STATE_INPUT_REQUIRED does=open of="k" of-space=task goes-on=true`},
		{newer("SendStreamingMessage"), "answer", message(3, message(1, "k", 3, message(1, 7))), `result close from=u2c bind="k" bind-space=task label=TASK_STATE_REJECTED does=fail of="k" of-space=task`},
		{newer("SendStreamingMessage"), "answer", message(4, message(1, "k", 3, message(1, "x"), 4, 1, 5, 1)), `result part from=u2c bind="k" bind-space=task does=part of="k" of-space=task piece="x" appends=true last=true`},
		{newer("ListTasks"), "answer", message(1, task), `result close from=u2c`},
		{newer("GetTask"), "answer", "\x0a\xff", `result close from=u2c`},
	} {
		var m protocol.Message
		if test.ask == "open" {
			test.call.Open([]byte(test.body), &m)
		} else {
			test.call.Answer([]byte(test.body), &m)
		}
		if got := prototest.Say(&m); got != test.want {
			t.Errorf("%s %q\nsays %s\nwant %s", test.call.Kind(), test.body, got, test.want)
		}
	}
}

// Whatever a body is, in whichever binding, reading it ends.
func Fuzz(f *testing.F) {
	f.Add("POST /v1/message:stream HTTP/1.1", []byte(`{"message":{"taskId":"k"}}`))
	f.Add("GET /tasks/%zz:subscribe HTTP/2", []byte(`{"artifactUpdate":{"taskId":"k","artifact":{"artifactId":"x"}}}`))
	f.Add("POST /lf.a2a.v1.A2AService/SendStreamingMessage HTTP/2", []byte(message(4, message(1, "k", 3, message(1, "x"), 5, 1))))
	f.Add("POST /a2a.v1.A2AService/GetTask HTTP/2", []byte(message(1, "tasks/k")))
	f.Fuzz(func(t *testing.T, start string, body []byte) {
		for _, media := range []string{"application/grpc", "application/json"} {
			c := call(&a2a.Routes{}, start, "content-type: "+media, "a2a-version: 1.0")
			if c == nil {
				continue
			}
			var m protocol.Message
			c.Open(body, &m)
			if len(m.Kind) == 0 || m.Phase != protocol.Open || m.Operation.Does != protocol.Note && m.Operation.Of.IsZero() {
				t.Errorf("a request says %s", prototest.Say(&m))
			}
			c.Answer(body, &m)
			if !m.Phase.Ends() && m.Phase != protocol.Part {
				t.Errorf("an answer says %s", prototest.Say(&m))
			}
		}
	})
}
