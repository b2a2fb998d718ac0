package web_test

import (
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/wirectl/wirectl/broker"
	"github.com/wirectl/wirectl/broker/door/web"
	"github.com/wirectl/wirectl/broker/provider"
	"github.com/wirectl/wirectl/test/kit/doortest"
)

func start(t testing.TB, p provider.Provider) string {
	return doortest.Serve(t, web.NewProxy(doortest.Broker(t, p), nil, web.Access{}))
}

// talk sends a request unchanged, and returns the status and the body.
func talkProxy(t testing.TB, addr, path, rest string) (string, string) {
	t.Helper()
	conn := doortest.Dial(t, addr)
	if !strings.HasPrefix(rest, "Host: ") {
		rest = "Host: localhost\r\n" + rest
	}
	_, _ = io.WriteString(conn, "POST "+path+" HTTP/1.1\r\nConnection: close\r\n"+rest)
	out, err := io.ReadAll(conn)
	if err != nil {
		t.Fatal(err)
	}
	status, _, _ := strings.Cut(strings.TrimPrefix(string(out), "HTTP/1.1 "), " ")
	_, body, _ := strings.Cut(string(out), "\r\n\r\n")
	return status, body
}

func TestProxy(t *testing.T) {
	empty := ""
	addr := start(t, provider.NewMock(provider.MockConfig{Prefix: &empty, Script: []provider.Line{{When: "fail", Status: 500}, {When: "", Say: ""}}[:1]}))
	for _, tt := range []struct{ path, body, status, want string }{
		{"/llm_query", `{"prompt":"a\u00e9","model":"mock","correlation_id":"c","depth":3,"else":1}`, "200", `{"response":"a\u00e9"}`},
		{"/llm_query", `{"prompt":""}`, "200", `{"response":""}`},
		{"/llm_query", `{"prompt":"fail"}`, "200", `{"error":"Server error: the provider failed"}`},
		{"/llm_query", `{"prompt":5}`, "200", `{"error":"Invalid prompt"}`},
		{"/llm_query", `{}`, "200", `{"error":"Invalid prompt"}`},
		{"/llm_query", `{"prompt":"a","model":1}`, "200", `{"error":"Invalid model"}`},
		{"/llm_query", `{"prompt":"a","correlation_id":1}`, "200", `{"error":"Invalid correlation_id"}`},
		{"/llm_query", `{"prompt":"a","model":"nope"}`, "200", `{"error":"Unknown model 'nope'. Allowed: ['mock']"}`},
		{"/llm_query_batched", `{"prompts":["a","fail",{"content":"b"}]}`, "200", `{"responses":["a","Error: Server error: the provider failed","b"]}`},
		{"/llm_query_batched", `{"prompts":"a"}`, "200", `{"error":"Invalid prompts"}`},
		{"/llm_query_batched", `{"prompts":[]}`, "200", `{"responses":[]}`},
		{"/llm_query_batched", `{"prompts":[],"model":"nope"}`, "200", `{"error":"Unknown model 'nope'. Allowed: ['mock']"}`},
		{"/llm_query_batched", `{}`, "200", `{"error":"Invalid prompts"}`},
		{"/llm_query_batched", `{"prompts":["a",7,null,"b",[1]]}`, "200", `{"responses":["a","Error: Invalid prompt","Error: Invalid prompt","b","Error: Invalid prompt"]}`},
		{"/llm_query_batched", `{"prompts":[7]}`, "200", `{"responses":["Error: Invalid prompt"]}`},
		{"/llm_query", `{"prompt":NaN}`, "400", `{"error":"Invalid JSON payload: NaN and Infinity are not JSON"}`},
		{"/llm_query_batched", `{"prompts":["a"` + strings.Repeat(`,"a"`, broker.MaxBatch) + `]}`, "200", `{"error":"Too many prompts (max 10000)"}`},
		{"/llm_query_batched", `{"prompts":["a"],"model":"nope"}`, "200", `{"error":"Unknown model 'nope'. Allowed: ['mock']"}`},
		{"/llm_query", `{`, "400", `{"error":"Invalid JSON payload"}`},
		{"/llm_query", `[]`, "400", `{"error":"Request body must be a JSON object"}`},
		{"/llm_query", ``, "400", `{"error":"Missing request body"}`},
		{"/elsewhere", `{}`, "404", `{"error":"Not found"}`},
	} {
		status, body := talkProxy(t, addr, tt.path, "Content-Length: "+itoa(len(tt.body))+"\r\n\r\n"+tt.body)
		if status != tt.status || body != tt.want {
			t.Errorf("%s %.200s:\n got %s %s\nwant %s %s", tt.path, tt.body, status, body, tt.status, tt.want)
		}
	}
	for _, tt := range [][3]string{
		{"\r\n", "400", `{"error":"Missing Content-Length"}`},
		{"Transfer-Encoding: chunked\r\n\r\ne\r\n{\"prompt\":\"a\"}\r\n0\r\n\r\n", "200", `{"response":"a"}`},
	} {
		if status, body := talkProxy(t, addr, "/llm_query", tt[0]); status != tt[1] || body != tt[2] {
			t.Errorf("%q: %s %s, want %s", tt[0], status, body, tt[2])
		}
	}
}

// Like a prompt, a batch for an unknown model counts as one rejected call.
func TestUnknownModelBatch(t *testing.T) {
	b := doortest.Broker(t, nil)
	addr := doortest.Serve(t, web.NewProxy(b, nil, web.Access{}))
	const body = `{"prompts":["a","b"],"model":"nope"}`
	talkProxy(t, addr, "/llm_query_batched", "Content-Length: "+itoa(len(body))+"\r\n\r\n"+body)
	if u := b.Usage(); len(u) != 1 || u[0].Refused != 1 || u[0].Calls() != 1 {
		t.Errorf("the broker was used for %+v", u)
	}
}

// Containers reach this machine by names of their own. Other names are rejected.
func TestHostOfContainers(t *testing.T) {
	addr := start(t, nil)
	for host, want := range map[string]string{
		"host.docker.internal:8761": "200", "host.containers.internal": "200", "gateway.docker.internal": "200", "example.com": "403",
	} {
		if status, body := talkProxy(t, addr, "/llm_query", "Host: "+host+"\r\nContent-Length: 14\r\n\r\n{\"prompt\":\"a\"}"); status != want {
			t.Errorf("%s: %s %s", host, status, body)
		}
	}
}

func itoa(n int) string {
	b, _ := json.Marshal(n)
	return string(b)
}

// FuzzBody checks that every body gets JSON.
func FuzzBody(f *testing.F) {
	f.Add([]byte(`{"prompt":"a","model":"mock"}`), false)
	f.Add([]byte(`{"prompts":["a",{}]}`), true)
	s := web.NewProxy(doortest.Broker(f, nil), nil, web.Access{})
	f.Fuzz(func(t *testing.T, body []byte, batched bool) {
		path := "/llm_query"
		if batched {
			path = "/llm_query_batched"
		}
		if status, out := doortest.Post(s, path, body); !json.Valid(out) || status != "200" && status != "400" {
			t.Fatalf("%q: %s %s", body, status, out)
		}
	})
}
