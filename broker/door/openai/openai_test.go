package openai_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/wirectl/wirectl/broker"
	"github.com/wirectl/wirectl/broker/door/openai"
	"github.com/wirectl/wirectl/broker/door/web"
	"github.com/wirectl/wirectl/broker/provider"
	"github.com/wirectl/wirectl/llm"
	"github.com/wirectl/wirectl/test/kit/doortest"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

func start(t testing.TB, p provider.Provider) string {
	return "http://" + doortest.Serve(t, openai.New(doortest.Broker(t, p), nil, web.Access{}))
}

// post returns the status and the body, with values that vary between runs set to 0.
func post(t testing.TB, url, body string) (int, string) {
	t.Helper()
	return postTo(t, url+"/v1/chat/completions", body)
}

func postTo(t testing.TB, url, body string) (int, string) {
	t.Helper()
	status, _, answer := doortest.Ask(t, http.MethodPost, url, body, nil)
	return status, doortest.Zero(answer, "created")
}

const hello = `{"messages":[{"role":"user","content":"hi \u00e9"}]`

func TestCompletion(t *testing.T) {
	url := start(t, provider.NewMock(provider.MockConfig{Script: []provider.Line{
		{When: "call", Say: "", ToolCalls: []provider.ToolCall{{ID: "c1", Name: "f", Arguments: []byte(`{"a":"b"}`)}}},
		{When: "busy", Status: 429, RetryAfter: 2 * time.Second},
		{When: "", Say: "so \"it\" is"},
	}}))
	status, body := post(t, url, hello+"}")
	want := `{"id":"chatcmpl-1","object":"chat.completion","created":0,"model":"mock","choices":[{"index":0,"message":{"role":"assistant","content":"so \"it\" is","refusal":null},"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":13,"completion_tokens":3,"total_tokens":16}}`
	if status != 200 || body != want {
		t.Errorf("%d\n got %s\nwant %s", status, body, want)
	}
	_, body = post(t, url, `{"messages":[{"role":"user","content":"call"}]}`)
	if want := `"content":null,"refusal":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{\"a\":\"b\"}"}}]},"logprobs":null,"finish_reason":"tool_calls"`; !strings.Contains(body, want) {
		t.Errorf("tools: %s", body)
	}
	if status, body := post(t, url, `{"messages":[{"role":"user","content":"busy"}]}`); status != 429 || !strings.Contains(body, `"type":"rate_limit_error"`) {
		t.Errorf("busy: %d %s", status, body)
	}
}

// The client gets the backend's Retry-After, in seconds or as a date, in either API.
func TestRetryAfter(t *testing.T) {
	var after atomic.Value
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", after.Load().(string))
		w.WriteHeader(http.StatusTooManyRequests)
	}))
	defer backend.Close()
	behind := provider.NewOpenAI(provider.Config{BaseURL: backend.URL})
	defer behind.CloseIdleConnections()
	url := start(t, behind)
	for _, tt := range []struct {
		after string
		want  []string
	}{
		{"7", []string{"7"}},
		{"1.2", []string{"2"}},
		{time.Now().Add(time.Hour).UTC().Format(http.TimeFormat), []string{"3600", "3599", "3598", "3597"}},
		{time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat), []string{""}},
		{"soon", []string{""}},
	} {
		after.Store(tt.after)
		for _, path := range []string{"/v1/chat/completions", "/v1/messages"} {
			resp, err := http.Post(url+path, "application/json", strings.NewReader(hello+"}")) //nolint:noctx // short
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if got := resp.Header.Get("Retry-After"); resp.StatusCode != 429 || !slices.Contains(tt.want, got) {
				t.Errorf("%s, %s: %d, %q; want %q", tt.after, path, resp.StatusCode, got, tt.want)
			}
		}
	}
}

// Each path has its methods, and a model's name may have any characters. A pattern is not
// the name of a model, but matches models.
func TestPaths(t *testing.T) {
	routes := []broker.Route{{Backend: &broker.Backend{Provider: provider.NewMock(provider.MockConfig{})}}}
	b, err := broker.New(broker.Config{Models: []broker.Model{{Name: "org/m é", Routes: routes}, {Name: "any-*", Routes: routes}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	url := "http://" + doortest.Serve(t, openai.New(b, nil, web.Access{}))
	const model = `{"id":"org/m é","object":"model","created":0,"owned_by":"wirectl"}`
	fault := func(message, param, code string) string {
		return fmt.Sprintf(`{"error":{"message":%q,"type":"invalid_request_error","param":%s,"code":%q}}`, message, param, code)
	}
	for _, tt := range []struct {
		ask, want, body string
	}{
		{"GET /v1/models", "200", `{"object":"list","data":[` + model + `]}`},
		{"HEAD /v1/models", "200", ""},
		{"POST /v1/models", "405 GET, HEAD", fault("Not allowed to POST here", "null", "method_not_allowed")},
		{"GET /v1/models/org%2Fm%20%C3%A9", "200", model},
		{"HEAD /v1/models/org%2Fm%20%C3%A9", "200", ""},
		{"DELETE /v1/models/x", "405 GET, HEAD", fault("Not allowed to DELETE here", "null", "method_not_allowed")},
		{"GET /v1/models/any-one", "200", strings.Replace(model, "org/m é", "any-one", 1)},
		{"GET /v1/models/no%2Fpe", "404", fault("Unknown model 'no/pe'. Allowed: ['any-*', 'org/m é']", `"model"`, "model_not_found")},
		{"GET /v1/models/", "404", fault("Unknown request URL: GET /v1/models/ (there are /v1/chat/completions, /v1/responses, /v1/embeddings, /v1/messages, /v1beta/models and /v1/models)", "null", "unknown_url")},
		{"GET /v1/chat/completions", "405 POST", fault("Not allowed to GET here", "null", "method_not_allowed")},
		{"POST /chat/completions", "404", fault("Unknown request URL: POST /chat/completions (the base URL of this API ends in /v1)", "null", "unknown_url")},
		{"POST /v1/audio", "404", fault("Unknown request URL: POST /v1/audio (there are /v1/chat/completions, /v1/responses, /v1/embeddings, /v1/messages, /v1beta/models and /v1/models)", "null", "unknown_url")},
	} {
		method, path, _ := strings.Cut(tt.ask, " ")
		status, header, body := doortest.Ask(t, method, url+path, "", nil)
		if got := strings.TrimSpace(fmt.Sprint(status, " ", header.Get("Allow"))); got != tt.want || body != tt.body {
			t.Errorf("%s:\n got %s %s\nwant %s %s", tt.ask, got, body, tt.want, tt.body)
		}
	}
}

// Clients get the status of a provider's error and the code for it, on which programs rely,
// and nothing else of it.
func TestWords(t *testing.T) {
	for answer, want := range map[string]string{
		`400 {"error":{"message":"sk-canary","code":"context_length_exceeded"}}`: `400 {"error":{"message":"The provider refused the request (HTTP 400, context_length_exceeded)","type":"invalid_request_error","param":null,"code":"context_length_exceeded"}}`,
		`429 {"error":{"message":"sk-canary","type":"insufficient_quota"}}`:      `429 {"error":{"message":"The provider's rate limit was exceeded (HTTP 429, insufficient_quota)","type":"insufficient_quota","param":null,"code":"insufficient_quota"}}`,
		`401 {"error":{"message":"sk-canary","code":"invalid_api_key"}}`:         `502 {"error":{"message":"The provider rejected the broker's key (HTTP 401, invalid_api_key)","type":"server_error","param":null,"code":null}}`,
		`400 {"error":{"code":"sk-canary-1"}}`:                                   `400 {"error":{"message":"The provider refused the request (HTTP 400)","type":"invalid_request_error","param":null,"code":null}}`,
		`302 {}`:                                                                 `502 {"error":{"message":"The provider failed (HTTP 302)","type":"server_error","param":null,"code":null}}`,
		`200 sk-canary`:                                                          `502 {"error":{"message":"The provider's answer is invalid","type":"server_error","param":null,"code":null}}`,
		`200 {"choices":1}`:                                                      `502 {"error":{"message":"The provider's answer is invalid","type":"server_error","param":null,"code":null}}`,
	} {
		status, body, _ := strings.Cut(answer, " ")
		code, _ := strconv.Atoi(status)
		backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(code)
			_, _ = io.WriteString(w, body)
		}))
		behind := provider.NewOpenAI(provider.Config{BaseURL: backend.URL})
		got, said := post(t, start(t, behind), hello+"}")
		behind.CloseIdleConnections()
		backend.Close()
		if got := fmt.Sprint(got, " ", said); got != want {
			t.Errorf("%s:\n got %s\nwant %s", answer, got, want)
		}
	}
}

// The error for an unreachable backend suggests what to do, and does not use the words of
// the rlm protocol.
func TestNobodyThere(t *testing.T) {
	backend := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	defer backend.Close()
	behind := provider.NewOpenAI(provider.Config{BaseURL: backend.URL})
	defer behind.CloseIdleConnections()
	late := provided(func(context.Context, *provider.Request) error {
		return &provider.Error{Cause: provider.TimedOut, Err: context.DeadlineExceeded}
	})
	for want, p := range map[string]provider.Provider{
		"502 The provider cannot be reached, or broke off the connection: wirectl serve --log FILE logs the cause": behind,
		"504 The provider did not answer in time: wirectl serve --log FILE logs which timeout ended the call":      late,
	} {
		status, body := post(t, start(t, p), hello+"}")
		if got := fmt.Sprintf(`%d {"error":{"message":"%s","type":"server_error","param":null,"code":null}}`, status, want[4:]); fmt.Sprint(want[:3], " ", body) != got {
			t.Errorf("got %d %s, want %s", status, body, want)
		}
	}
}

// Clients get only the status of a provider's error, in words that say whose fault it is.
func TestFailures(t *testing.T) {
	for status, want := range map[int]string{
		400: "400 The provider refused the request (HTTP 400)",
		401: "502 The provider rejected the broker's key (HTTP 401)",
		429: "429 The provider's rate limit was exceeded (HTTP 429)",
		503: "503 The provider failed (HTTP 503)",
	} {
		url := start(t, provider.NewMock(provider.MockConfig{Faults: []provider.Fault{{Every: 1, Status: status}}}))
		for _, path := range []string{"/v1/chat/completions", "/v1/messages"} {
			got, body := postTo(t, url+path, hello+"}")
			var answer struct{ Error struct{ Message string } }
			_ = json.Unmarshal([]byte(body), &answer)
			if got := fmt.Sprintf("%d %s", got, answer.Error.Message); got != want {
				t.Errorf("%s: got %s, want %s", path, got, want)
			}
		}
	}
}

func TestStream(t *testing.T) {
	url := start(t, nil)
	_, body := post(t, url, hello+`,"stream":true,"stream_options":{"include_usage":true}}`)
	chunk := func(rest string) string {
		return `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":0,"model":"mock",` + rest + "}\n\n"
	}
	want := chunk(`"choices":[{"index":0,"delta":{"role":"assistant","content":"Echo:"},"logprobs":null,"finish_reason":null}]`) +
		chunk(`"choices":[{"index":0,"delta":{"content":" hi"},"logprobs":null,"finish_reason":null}]`) +
		chunk(`"choices":[{"index":0,"delta":{"content":" \u00e9"},"logprobs":null,"finish_reason":null}]`) +
		chunk(`"choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":"stop"}]`) +
		chunk(`"choices":[],"usage":{"prompt_tokens":27,"completion_tokens":4,"total_tokens":31}`) + "data: [DONE]\n\n"
	if body != want {
		t.Errorf("\n got %s\nwant %s", body, want)
	}
}

// The client gets as many choices as it asked for, or an error that says why not and what
// to do. It never silently gets fewer.
func TestChoices(t *testing.T) {
	url := start(t, provider.NewMock(provider.MockConfig{Script: []provider.Line{
		{When: "call", ToolCalls: []provider.ToolCall{{ID: "c1", Name: "f", Arguments: []byte(`{}`)}}},
		{When: "", Say: "so it"},
	}}))
	choice := func(i int) string {
		return fmt.Sprintf(`{"index":%d,"message":{"role":"assistant","content":"so it","refusal":null},"logprobs":null,"finish_reason":"stop"}`, i)
	}
	const invalid = `{"error":{"message":"Invalid 'n': expected a whole number from 1 to 128.","type":"invalid_request_error","param":"n","code":"invalid_value"}}`
	for n, want := range map[string]string{
		"null": `"choices":[` + choice(0) + `],"usage":{"prompt_tokens":16,"completion_tokens":2,"total_tokens":18}}`,
		"1":    `"choices":[` + choice(0) + `],"usage":{"prompt_tokens":15,"completion_tokens":2,"total_tokens":17}}`,
		"3":    `"choices":[` + choice(0) + "," + choice(1) + "," + choice(2) + `],"usage":{"prompt_tokens":15,"completion_tokens":6,"total_tokens":21}}`,
		"0":    invalid, "129": invalid, "-1": invalid, `"2"`: invalid, "1.5": invalid, "99999999999999999999": invalid,
	} {
		if _, body := post(t, url, hello+`,"n":`+n+"}"); !strings.HasSuffix(body, want) {
			t.Errorf("n %s:\n got %s\nwant %s", n, body, want)
		}
	}
	if _, body := post(t, url, `{"n":2,"messages":[{"role":"user","content":"call"}]}`); strings.Count(body, `"tool_calls":[{"id":"c1"`) != 2 {
		t.Errorf("tools: %s", body)
	}
	_, body := post(t, url, hello+`,"n":2,"stream":true}`)
	chunk := func(i int, delta, finish string) string {
		return fmt.Sprintf(`data: {"id":"chatcmpl-11","object":"chat.completion.chunk","created":0,"model":"mock","choices":[{"index":%d,"delta":{%s},"logprobs":null,"finish_reason":%s}]}`, i, delta, finish) + "\n\n"
	}
	const first, second = `"role":"assistant","content":"so"`, `"content":" it"`
	want := chunk(0, first, "null") + chunk(1, first, "null") + chunk(0, second, "null") + chunk(1, second, "null") +
		chunk(0, "", `"stop"`) + chunk(1, "", `"stop"`) + "data: [DONE]\n\n"
	if body != want {
		t.Errorf("\n got %s\nwant %s", body, want)
	}
	unasked := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the backend was asked") }))
	defer unasked.Close()
	for kind, p := range map[string]provider.Provider{
		"anthropic": provider.NewAnthropic(provider.Config{BaseURL: unasked.URL}),
		"gemini":    provider.NewGemini(provider.Config{BaseURL: unasked.URL}),
	} {
		want := `{"error":{"message":"Unsupported parameter: 'n' cannot be translated for this model's provider, of the kind ` + kind + `. Ask once for each choice, or ask a model of a provider of the kind openai. The broker drops it if its configuration says drop: [n] at the provider.","type":"invalid_request_error","param":"n","code":"unsupported_parameter"}}`
		for _, more := range []string{`,"n":2}`, `,"n":2,"stream":true}`, `,"n":"x"}`} {
			if status, body := post(t, start(t, p), hello+more); status != 400 || body != want {
				t.Errorf("%s:\n got %d %s\nwant 400 %s", more, status, body, want)
			}
		}
	}
}

// An interrupted stream is recognizable as cut, and its last event says why.
func TestCutStream(t *testing.T) {
	url := start(t, provider.NewMock(provider.MockConfig{Faults: []provider.Fault{{Every: 1}}}))
	status, body := post(t, url, hello+`,"stream":true}`)
	if status != 200 || body != "unexpected EOF" {
		t.Errorf("%d %s", status, body)
	}
}

func TestErrors(t *testing.T) {
	url := start(t, nil)
	for _, tt := range []struct {
		body   string
		status int
		want   string
	}{
		{``, 400, `{"error":{"message":"We could not parse the JSON body of your request: byte 0: unexpected end looking for a value.","type":"invalid_request_error","param":null,"code":null}}`},
		{`{"messages":['hi']}`, 400, `{"error":{"message":"We could not parse the JSON body of your request: byte 13: invalid character '\\'' looking for a value.","type":"invalid_request_error","param":null,"code":null}}`},
		{`{`, 400, `{"error":{"message":"We could not parse the JSON body of your request: byte 1: unexpected end looking for a key.","type":"invalid_request_error","param":null,"code":null}}`},
		{`[]`, 400, `{"error":{"message":"The body of your request must be a JSON object.","type":"invalid_request_error","param":null,"code":null}}`},
		{`{}`, 400, `{"error":{"message":"Missing required parameter: 'messages'.","type":"invalid_request_error","param":"messages","code":null}}`},
		{`{"messages":"x"}`, 400, `{"error":{"message":"Invalid type for 'messages': expected an array of objects.","type":"invalid_request_error","param":"messages","code":null}}`},
		{`{"model":1,"messages":[]}`, 400, `{"error":{"message":"Invalid type for 'model': expected a string.","type":"invalid_request_error","param":"model","code":null}}`},
		{`{"model":"nope","messages":[]}`, 404, `{"error":{"message":"Unknown model 'nope'. Allowed: ['mock']","type":"invalid_request_error","param":"model","code":"model_not_found"}}`},
	} {
		if status, body := post(t, url, tt.body); status != tt.status || body != tt.want {
			t.Errorf("%s:\n got %d %s\nwant %d %s", tt.body, status, body, tt.status, tt.want)
		}
	}
}

// A client that disconnects in the middle of a stream is noticed, even while the backend
// sends nothing to forward.
func TestGoneWhileNothingComes(t *testing.T) {
	p := doortest.NewHeld()
	addr := strings.TrimPrefix(start(t, p), "http://")
	for _, version := range []string{"1.1", "1.0"} {
		conn := doortest.Dial(t, addr)
		_, _ = io.WriteString(conn, "POST /v1/chat/completions HTTP/"+version+"\r\nHost: localhost\r\nContent-Length: 29\r\n\r\n"+`{"messages":[],"stream":true}`)
		call := <-p.Calls
		call.Say("so")
		if _, err := conn.Read(make([]byte, 4096)); err != nil {
			t.Fatal(err)
		}
		conn.Close()
		if err := <-call.Ended; err != broker.ErrGone {
			t.Errorf("HTTP/%s: the call ended with %v", version, err)
		}
	}
}

// A client that disconnects ends its call, even in the middle of a stream.
func TestDisconnect(t *testing.T) {
	p := doortest.NewHeld()
	addr := strings.TrimPrefix(start(t, p), "http://")
	conn := doortest.Dial(t, addr)
	_, _ = io.WriteString(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 15\r\n\r\n"+`{"messages":[]}`)
	call := <-p.Calls
	conn.Close()
	if err := <-call.Ended; err != broker.ErrGone {
		t.Errorf("the call ended with %v", err)
	}
	streaming := make(chan error, 1)
	url := start(t, provided(func(ctx context.Context, r *provider.Request) error {
		for {
			if err := r.Emit(provider.Part{Delta: llm.Delta{Text: []byte(`"x"`)}}); err != nil {
				streaming <- err
				return err
			}
			select {
			case <-ctx.Done():
				streaming <- context.Cause(ctx)
				return context.Cause(ctx)
			case <-time.After(time.Millisecond):
			}
		}
	}))
	conn = doortest.Dial(t, strings.TrimPrefix(url, "http://"))
	_, _ = io.WriteString(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 29\r\n\r\n"+`{"messages":[],"stream":true}`)
	if _, err := io.ReadFull(conn, make([]byte, 500)); err != nil {
		t.Fatal(err)
	}
	conn.Close()
	if err := <-streaming; err == nil {
		t.Error("the stream went on")
	}
}

type provided func(ctx context.Context, r *provider.Request) error

func (f provided) Complete(ctx context.Context, r *provider.Request, _ *provider.Completion) error {
	return f(ctx, r)
}

// FuzzBody checks that every body gets JSON, or JSON events.
func FuzzBody(f *testing.F) {
	f.Add([]byte(hello + "}"))
	f.Add([]byte(hello + `,"stream":true}`))
	f.Add([]byte(`{"model":"mock","messages":[{"role":"user","content":[{"type":"text","text":"x"}]}]}`))
	f.Add([]byte(`{"messages":[{"content":{"a":"\ud800"}}],"model":null}`))
	fuzz(f, "/v1/chat/completions")
}

// fuzz posts any body, and fails unless the answer is JSON or JSON events.
func fuzz(f *testing.F, path string) {
	s := openai.New(doortest.Broker(f, nil), nil, web.Access{})
	f.Fuzz(func(t *testing.T, body []byte) {
		if status, out := doortest.Post(s, path, body); !json.Valid(out) && !areEvents(out) {
			t.Fatalf("%q: %s %s", body, status, out)
		}
	})
}

// areEvents reports whether an answer is events whose data is JSON, except for the mark of
// the end.
func areEvents(out []byte) bool {
	for line := range bytes.Lines(out) {
		line = bytes.TrimSuffix(line, []byte("\n"))
		data, ok := bytes.CutPrefix(line, []byte("data: "))
		switch {
		case ok && (json.Valid(data) || string(data) == "[DONE]"):
		case len(line) == 0, bytes.HasPrefix(line, []byte("event: ")):
		default:
			return false
		}
	}
	return len(out) > 0
}

// The client learns that an answer was too large, rather than that the provider could not
// be reached.
func TestTooLarge(t *testing.T) {
	answer := func(w http.ResponseWriter, r *http.Request) {
		if body, _ := io.ReadAll(r.Body); strings.Contains(string(body), `"stream":true`) {
			_, _ = io.WriteString(w, "data: "+strings.Repeat("x", 9<<20)+"\n\n")
			return
		}
		w.Header().Set("Content-Length", strconv.Itoa(64<<20+1))
		_, _ = io.WriteString(w, "{")
	}
	backend := httptest.NewServer(http.HandlerFunc(answer))
	defer backend.Close()
	p := provider.NewOpenAI(provider.Config{BaseURL: backend.URL})
	defer p.CloseIdleConnections()
	front := "http://" + doortest.Serve(t, openai.New(doortest.Broker(t, p), nil, web.Access{}))
	for _, path := range []string{"/v1/chat/completions", "/v1/messages"} {
		for stream, want := range map[string]string{
			"false": "The provider's answer is too large: it exceeds the limit of 67108864 bytes",
			"true":  "The provider's answer is too large: an event exceeds the limit of 8388608 bytes",
		} {
			status, _, got := doortest.Ask(t, http.MethodPost, front+path, hello+`,"stream":`+stream+`}`, http.Header{})
			if status != http.StatusBadGateway || !strings.Contains(got, want) {
				t.Errorf("%s, stream %s: %d %s", path, stream, status, got)
			}
		}
	}
}
