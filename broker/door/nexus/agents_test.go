package nexus_test

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/wirectl/wirectl/broker"
	"github.com/wirectl/wirectl/broker/provider"
	"github.com/wirectl/wirectl/test/kit/doortest"
)

// These differ from run to run.
var (
	madeUp = regexp.MustCompile(`"[A-Z2-7]{26}"`)
	when   = regexp.MustCompile(`"created_at":"[^"]*Z"`)
)

// Newer clients create agents. Each has its own path, model, system prompt and
// conversation, separate from that of older clients.
func TestAgents(t *testing.T) {
	url := start(t, nil, nil)
	agent := func(rest string) string { return `"result":{"agent_id":` + rest + `}` }
	invalid := func(message string) string {
		return fmt.Sprintf(`"error":{"code":-32602,"message":%q}`, message)
	}
	for _, tt := range []struct{ path, method, params, want string }{
		{"/", "list_agents", `{}`, `"result":{"agents":[]}`},
		{"/", "create_agent", `{"agent_id":"w-1","model":"mock","system_prompt":"be brief","preset":"trusted","cwd":"/tmp"}`, agent(`"w-1","url":"/agent/w-1"`)},
		{"/rpc", "create_agent", `{}`, agent(`".1","url":"/agent/.1"`)},
		{"/rpc", "create_agent", `{"agent_id":".2","initial_message":"hi","wait_for_initial_response":true}`, agent(`".2","url":"/agent/.2","initial_request_id":ID,"response":{"content":"Echo: hi","request_id":ID}`)},
		{"/", "create_agent", `{"agent_id":null,"model":null}`, agent(`".3","url":"/agent/.3"`)},
		{"/", "create_agent", `{"agent_id":"w-1"}`, invalid("Agent already exists: w-1")},
		{"/", "create_agent", `{"agent_id":"../x"}`, invalid("agent_id must be 1 to 64 letters, digits, '.', '_' and '-', not dots alone")},
		{"/", "create_agent", `{"agent_id":".."}`, invalid("agent_id must be 1 to 64 letters, digits, '.', '_' and '-', not dots alone")},
		{"/", "create_agent", `{"agent_id":""}`, invalid("agent_id must be 1 to 64 letters, digits, '.', '_' and '-', not dots alone")},
		{"/", "create_agent", `{"agent_id":"x","wait_for_initial_response":"yes"}`, invalid("wait_for_initial_response must be boolean, got: str")},
		{"/", "create_agent", `{"agent_id":7}`, invalid("agent_id must be string, got: int")},
		{"/", "create_agent", `{"model":"nope"}`, invalid("Unknown model 'nope'. Allowed: ['mock']")},
		{"/agent/w-1", "send", `{"content":"yo","request_id":1}`, `"result":{"content":"Echo: yo","request_id":1}`},
		{"/agent/w-1", "get_context", `{}`, `"result":{"message_count":2,"system_prompt":true}`},
		{"/agent/w-1", "get_tokens", `{}`, `"result":{"system":9,"tools":0,"messages":19,"total":28,"budget":200000,"available":199972}`},
		{"/agent/w-1", "get_messages", `{}`, agent(`"w-1","total":2,"offset":0,"limit":200,"messages":[{"index":0,"role":"user","content":"yo"},{"index":1,"role":"assistant","content":"Echo: yo"}]`)},
		{"/agent/w-1", "get_messages", `{"offset":1,"limit":1}`, agent(`"w-1","total":2,"offset":1,"limit":1,"messages":[{"index":1,"role":"assistant","content":"Echo: yo"}]`)},
		{"/agent/w-1", "get_messages", `{"offset":9}`, agent(`"w-1","total":2,"offset":9,"limit":200,"messages":[]`)},
		{"/agent/w-1", "get_messages", `{"limit":0}`, invalid("limit must be an integer from 1 to 2000")},
		{"/agent/w-1", "get_messages", `{"offset":-1}`, invalid("offset must be an integer from 0 to 2147483647")},
		{"/", "get_messages", `{}`, agent(`null,"total":0,"offset":0,"limit":200,"messages":[]`)},
		{"/agent/w-1", "compact", `{}`, `"result":{"compacted":false,"reason":"summary_is_not_shorter"}`},
		{"/", "compact", `{"force":true}`, `"result":{"compacted":false,"reason":"nothing_to_compact"}`},
		{"/agent/.2", "get_context", `{}`, `"result":{"message_count":2,"system_prompt":false}`},
		{"/", "get_context", `{}`, `"result":{"message_count":0,"system_prompt":false}`},
		{"/agent/w-1", "create_agent", `{}`, `"error":{"code":-32601,"message":"Method not found: create_agent"}`},
		{"/", "destroy_agent", `{}`, invalid("Missing required parameter: agent_id")},
		{"/", "destroy_agent", `{"agent_id":".1"}`, `"result":{"success":true,"agent_id":".1"}`},
		{"/", "destroy_agent", `{"agent_id":".1"}`, `"result":{"success":false,"agent_id":".1"}`},
		{"/agent/.3", "shutdown", `{}`, `"result":{"success":true}`},
		{"/", "list_agents", `{}`, `"result":{"agents":[{"agent_id":"w-1","model":"mock","created_at":T,"message_count":2},{"agent_id":".2","model":"","created_at":T,"message_count":2}]}`},
	} {
		status, body := post(t, url+tt.path, `{"jsonrpc":"2.0","id":1,"method":"`+tt.method+`","params":`+tt.params+`}`)
		body = when.ReplaceAllString(madeUp.ReplaceAllString(body, "ID"), `"created_at":T`)
		if want := `{"jsonrpc":"2.0","id":1,` + tt.want + `}`; status != 200 || body != want {
			t.Errorf("%s %s %s:\n got %d %s\nwant %s", tt.path, tt.method, tt.params, status, body, want)
		}
	}
	for _, path := range []string{"/agent/.1", "/agent/", "/agent/nope", "/agent"} {
		if status, body := post(t, url+path, `{"jsonrpc":"2.0","id":1,"method":"get_tokens"}`); status != 404 || !strings.Contains(body, `"id":null,"error":`) {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
}

// An agent asks its own model, with its own system prompt first.
func TestAgentsModel(t *testing.T) {
	p := doortest.NewHeld()
	b, err := broker.New(broker.Config{Default: "a", Models: []broker.Model{
		{Name: "a", Routes: []broker.Route{{Backend: &broker.Backend{Provider: provider.NewMock(provider.MockConfig{})}}}},
		{Name: "b", Routes: []broker.Route{{Backend: &broker.Backend{Provider: p}}}},
	}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	url := serve(t, b, nil)
	post(t, url, `{"jsonrpc":"2.0","id":1,"method":"create_agent","params":{"agent_id":"x","model":"b","system_prompt":"be \"brief\""}}`)
	answer := make(chan string, 1)
	go func() {
		_, body := post(t, url+"/agent/x", `{"jsonrpc":"2.0","id":1,"method":"send","params":{"content":"hi","request_id":"r"}}`)
		answer <- body
	}()
	call := <-p.Calls
	if got, want := string(call.Prompt), `[{"role":"system","content":"be \"brief\""},{"role":"user","content":"hi"}]`; call.Model != "b" || got != want {
		t.Errorf("%s got %s, want %s", call.Model, got, want)
	}
	// A cancel by another agent does not find it. The end of its own agent cancels it.
	if _, body := post(t, url, `{"jsonrpc":"2.0","id":2,"method":"cancel","params":{"request_id":"r"}}`); !strings.Contains(body, `"cancelled":false`) {
		t.Errorf("got %s", body)
	}
	call.Say("so far")
	post(t, url, `{"jsonrpc":"2.0","id":2,"method":"destroy_agent","params":{"agent_id":"x"}}`)
	if got, want := <-answer, `{"jsonrpc":"2.0","id":1,"result":{"content":"so far","request_id":"r","cancelled":true}}`; got != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
	if err := <-call.Ended; err != broker.ErrCancelled {
		t.Errorf("the call ended with %v", err)
	}
}

// The number of agents is bounded. Deleting one makes room for another.
func TestManyAgents(t *testing.T) {
	url := start(t, nil, nil)
	create := func() string {
		_, body := post(t, url, `{"jsonrpc":"2.0","id":1,"method":"create_agent"}`)
		return body
	}
	for i := range 100 {
		if body := create(); !strings.Contains(body, `"result"`) {
			t.Fatalf("%d: %s", i, body)
		}
	}
	if body := create(); !strings.Contains(body, `"There are too many agents (max 100)"`) {
		t.Errorf("got %s", body)
	}
	post(t, url, `{"jsonrpc":"2.0","id":1,"method":"destroy_agent","params":{"agent_id":".50"}}`)
	if body := create(); !strings.Contains(body, `"result"`) {
		t.Errorf("got %s", body)
	}
}

// shutdown_server stops the broker, as shutdown does for older clients. At an agent's path,
// shutdown stops only that agent.
func TestShutdownServer(t *testing.T) {
	stopped := make(chan struct{}, 1)
	url := start(t, nil, func() { stopped <- struct{}{} })
	post(t, url, `{"jsonrpc":"2.0","id":1,"method":"create_agent","params":{"agent_id":"x"}}`)
	post(t, url+"/agent/x", `{"jsonrpc":"2.0","id":1,"method":"shutdown"}`)
	select {
	case <-stopped:
		t.Error("an agent stopped the broker")
	default:
	}
	if status, body := post(t, url, `{"jsonrpc":"2.0","id":1,"method":"shutdown_server"}`); status != http.StatusOK || body != `{"jsonrpc":"2.0","id":1,"result":{"success":true,"message":"Server shutting down"}}` {
		t.Errorf("%d %s", status, body)
	}
	<-stopped
}

// An initial message is queued. The answer does not wait for it, a send runs after it, and
// its own id cancels it.
func TestInitialMessageIsQueued(t *testing.T) {
	p := doortest.NewHeld()
	url := start(t, p, nil)
	create := func(id string) string {
		_, body := post(t, url, `{"jsonrpc":"2.0","id":1,"method":"create_agent","params":{"agent_id":"`+id+`","initial_message":"first"}}`)
		request := madeUp.FindString(body)
		if want := `{"jsonrpc":"2.0","id":1,"result":{"agent_id":"` + id + `","url":"/agent/` + id + `","initial_request_id":` + request + `,"initial_status":"queued"}}`; body != want {
			t.Fatalf("\n got %s\nwant %s", body, want)
		}
		return request
	}
	request := create("x")
	answer := make(chan string, 1)
	go func() {
		_, body := post(t, url+"/agent/x", `{"jsonrpc":"2.0","id":1,"method":"send","params":{"content":"second","request_id":1}}`)
		answer <- body
	}()
	call := <-p.Calls
	if got, want := string(call.Prompt), `[{"role":"user","content":"first"}]`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	call.Say("so far")
	if _, body := post(t, url+"/agent/x", `{"jsonrpc":"2.0","id":2,"method":"cancel","params":{"request_id":`+request+`}}`); !strings.Contains(body, `"cancelled":true`) {
		t.Errorf("got %s", body)
	}
	if err := <-call.Ended; err != broker.ErrCancelled {
		t.Errorf("the call ended with %v", err)
	}
	second := <-p.Calls
	if got, want := string(second.Prompt), `[{"role":"user","content":"first"},{"role":"assistant","content":"so far"},{"role":"user","content":"second"}]`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	post(t, url, `{"jsonrpc":"2.0","id":2,"method":"destroy_agent","params":{"agent_id":"x"}}`)
	if err := <-second.Ended; err != broker.ErrCancelled {
		t.Errorf("the call ended with %v", err)
	}
	<-answer
	create("y") // the end of the server cancels the rest
	<-p.Calls
}

// compact replaces the messages after the system prompt by the model's summary.
func TestCompact(t *testing.T) {
	url := start(t, provider.NewMock(provider.MockConfig{Script: []provider.Line{{When: "Summarize", Say: "short"}, {When: "fail", Status: 401}, {Say: strings.Repeat("long ", 100)}}}), nil)
	ask := func(method, params, want string) {
		t.Helper()
		if _, body := post(t, url, `{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":`+params+`}`); body != `{"jsonrpc":"2.0","id":1,`+want+`}` {
			t.Errorf("%s: got %s", method, body)
		}
	}
	post(t, url, `{"jsonrpc":"2.0","id":1,"method":"send","params":{"content":"hi"}}`)
	ask("send", `{"content":"fail"}`, `"error":{"code":-32603,"message":"Authentication failed: check the key of the provider"}`)
	ask("compact", `{"force":true}`, `"result":{"compacted":true,"tokens_before":141,"tokens_after":18,"tokens_saved":123}`)
	ask("get_messages", `{}`, `"result":{"agent_id":null,"total":1,"offset":0,"limit":200,"messages":[{"index":0,"role":"user","content":"Summary of the conversation so far:\n\nshort"}]}`)
}
