package openai_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/wirectl/wirectl/broker"
	"github.com/wirectl/wirectl/broker/door/openai"
	"github.com/wirectl/wirectl/broker/door/web"
	"github.com/wirectl/wirectl/broker/provider"
	"github.com/wirectl/wirectl/test/kit/doortest"
)

const question = `{"model":"mock","max_tokens":9,"messages":[{"role":"user","content":"hi"}]`

// An Anthropic client gets messages, whatever API the backend has.
func TestMessage(t *testing.T) {
	url := start(t, provider.NewMock(provider.MockConfig{Script: []provider.Line{
		{When: "call", Say: "I see", ToolCalls: []provider.ToolCall{{ID: "c1", Name: "f", Arguments: []byte(`{"a":"b"}`)}, {ID: "c2", Name: "g", Arguments: []byte(`7`)}}},
		{When: "long", Say: "so", Finish: "length"},
		{When: "busy", Status: 429, RetryAfter: 2 * time.Second},
		{When: "", Say: "so \"it\" is"},
	}}))
	for _, tt := range []struct {
		body   string
		status int
		want   string
	}{
		{question + "}", 200, `{"id":"msg_1","type":"message","role":"assistant","model":"mock","content":[{"type":"text","text":"so \"it\" is"}],"stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":19,"output_tokens":3}}`},
		{`{"messages":[{"role":"user","content":[{"type":"text","text":"call"}]}]}`, 200, `{"id":"msg_2","type":"message","role":"assistant","model":"mock","content":[{"type":"text","text":"I see"},{"type":"tool_use","id":"c1","name":"f","input":{"a":"b"}},{"type":"tool_use","id":"c2","name":"g","input":{"arguments":7}}],"stop_reason":"tool_use","stop_sequence":null,"usage":{"input_tokens":12,"output_tokens":2}}`},
		{`{"messages":[{"role":"user","content":"long"}]}`, 200, `{"id":"msg_3","type":"message","role":"assistant","model":"mock","content":[{"type":"text","text":"so"}],"stop_reason":"max_tokens","stop_sequence":null,"usage":{"input_tokens":12,"output_tokens":1}}`},
		{`{"messages":[{"role":"user","content":"busy"}]}`, 429, `{"type":"error","error":{"type":"rate_limit_error","message":"The provider's rate limit was exceeded (HTTP 429)"}}`},
		{`{`, 400, `{"type":"error","error":{"type":"invalid_request_error","message":"The request body is not valid JSON: byte 1: unexpected end looking for a key."}}`},
		{`[]`, 400, `{"type":"error","error":{"type":"invalid_request_error","message":"The request body must be a JSON object."}}`},
		{`{}`, 400, `{"type":"error","error":{"type":"invalid_request_error","message":"messages: Field required"}}`},
		{`{"messages":{}}`, 400, `{"type":"error","error":{"type":"invalid_request_error","message":"messages: Input should be a valid list"}}`},
		{`{"model":1,"messages":[]}`, 400, `{"type":"error","error":{"type":"invalid_request_error","message":"model: Input should be a valid string"}}`},
		{`{"model":"nope","messages":[]}`, 404, `{"type":"error","error":{"type":"not_found_error","message":"Unknown model 'nope'. Allowed: ['mock']"}}`},
	} {
		if status, body := postTo(t, url+"/v1/messages", tt.body); status != tt.status || body != tt.want {
			t.Errorf("%.80s\n got %d %s\nwant %d %s", tt.body, status, body, tt.status, tt.want)
		}
	}
}

// A backend that can counts the tokens of a question, and gets the client's headers. If
// none can, the client is told.
func TestCountTokens(t *testing.T) {
	asked := make(chan *http.Request, 1)
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		asked <- r
		_, _ = io.WriteString(w, `{"input_tokens": 17}`)
	}))
	defer backend.Close()
	beside := provider.NewAnthropic(provider.Config{BaseURL: backend.URL, Key: "k", Header: http.Header{"Anthropic-Beta": {"ours"}}})
	defer beside.CloseIdleConnections()
	url := start(t, beside)
	header := http.Header{"Anthropic-Beta": {"theirs-1,theirs-2"}, "Anthropic-Version": {"2099-01-01"}, "X-Api-Key": {"their key"}, "X-Other": {"o"}}
	if status, _, body := doortest.Ask(t, http.MethodPost, url+"/v1/messages/count_tokens", question+"}", header); status != 200 || body != `{"input_tokens": 17}` {
		t.Errorf("got %d %s", status, body)
	}
	got := <-asked
	if body, _ := io.ReadAll(got.Body); got.URL.Path != "/v1/messages/count_tokens" || string(body) != question+"}" {
		t.Errorf("the backend was asked %s %s", got.URL.Path, body)
	}
	h := got.Header
	if strings.Join(h.Values("Anthropic-Beta"), ";") != "ours;theirs-1,theirs-2" || strings.Join(h.Values("Anthropic-Version"), ";") != "2099-01-01" || h.Get("X-Api-Key") != "k" || h.Get("X-Other") != "" {
		t.Errorf("the backend got %v", h)
	}
	if status, body := postTo(t, start(t, provider.NewMock(provider.MockConfig{}))+"/v1/messages/count_tokens", question+"}"); status != 200 || body != `{"input_tokens":19}` {
		t.Errorf("the mock: %d %s", status, body)
	}
	other := start(t, doortest.NewHeld())
	for path, want := range map[string]string{
		"/v1/messages/count_tokens": `{"type":"error","error":{"type":"not_found_error","message":"No provider of this model can count tokens"}}`,
		"/v1/messages/batches":      `{"type":"error","error":{"type":"not_found_error","message":"Unknown request URL: POST /v1/messages/batches"}}`,
	} {
		if status, body := postTo(t, other+path, question+"}"); status != 404 || body != want {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
}

// A streamed message has the same events as Anthropic's, in the same order.
func TestMessageStream(t *testing.T) {
	url := start(t, provider.NewMock(provider.MockConfig{Script: []provider.Line{
		{When: "call", Say: "I see", ToolCalls: []provider.ToolCall{{ID: "c1", Name: "f", Arguments: []byte(`{"a":"b"}`)}}},
		{When: "mute", Say: ""},
	}}))
	const begin = `event: message_start
data: {"type":"message_start","message":{"id":"msg_N","type":"message","role":"assistant","model":"mock","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":0,"output_tokens":0}}}

`
	for prompt, want := range map[string]string{
		"call": begin + `event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"I"}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":" see"}}

event: content_block_stop
data: {"type":"content_block_stop","index":0}

event: content_block_start
data: {"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"c1","name":"f","input":{}}}

event: content_block_delta
data: {"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"a\":\"b\"}"}}

event: content_block_stop
data: {"type":"content_block_stop","index":1}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"input_tokens":16,"output_tokens":2}}

event: message_stop
data: {"type":"message_stop"}

`,
		"mute": begin + `event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"input_tokens":16,"output_tokens":0}}

event: message_stop
data: {"type":"message_stop"}

`,
	} {
		_, body := postTo(t, url+"/v1/messages", `{"stream":true,"messages":[{"role":"user","content":"`+prompt+`"}]}`)
		body = strings.NewReplacer("msg_1", "msg_N", "msg_2", "msg_N").Replace(body)
		if body != want {
			t.Errorf("%s:\n got %s\nwant %s", prompt, body, want)
		}
	}
	cut := start(t, provider.NewMock(provider.MockConfig{Faults: []provider.Fault{{Every: 1}}}))
	if status, body := postTo(t, cut+"/v1/messages", question+`,"stream":true}`); status != 200 || body != "unexpected EOF" {
		t.Errorf("a stream that is cut ends with %d %s", status, body)
	}
}

// untranslated is why a request cannot be sent to a backend with OpenAI's API.
func untranslated(r *provider.Request) error {
	_, err := r.Read(provider.Kind{Name: "openai"})
	return err
}

// A backend with OpenAI's API gets every parameter that has a counterpart.
func TestMessageTranslated(t *testing.T) {
	p := doortest.NewHeld()
	url := start(t, p)
	body := `{"model":"mock","max_tokens":9,"temperature":0.5,"stop_sequences":["x"],"thinking":{"type":"enabled"},"stream":true,
		"system":[{"type":"text","text":"be"},{"type":"text","text":" kind","cache_control":{"type":"ephemeral"}}],
		"tools":[{"name":"f","description":"d","input_schema":{"type":"object"}},{"type":"web_search_20250305","name":"web_search"}],
		"tool_choice":{"type":"tool","name":"f","disable_parallel_tool_use":true},
		"messages":[{"role":"user","content":[{"type":"text","text":"look"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"QQ=="}}]},
		{"role":"assistant","content":[{"type":"thinking","thinking":"hm"},{"type":"text","text":"I call"},{"type":"tool_use","id":"c1","name":"f","input":{"a":1}}]},
		{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":[{"type":"text","text":"42"}]},{"type":"text","text":"so?"}]},
		{"role":"user","content":"well?"}]}`
	want := `{"max_tokens":9,"messages":[{"role":"system","content":"be kind"},` +
		`{"role":"user","content":[{"type":"text","text":"look"},{"type":"image_url","image_url":{"url":"data:image/png;base64,QQ=="}}]},` +
		`{"role":"assistant","content":"I call","tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}}]},` +
		`{"role":"tool","content":"42","tool_call_id":"c1"},{"role":"user","content":"so?"},{"role":"user","content":"well?"}],` +
		`"model":"mock","parallel_tool_calls":false,"stop":["x"],"stream":true,"temperature":0.5,` +
		`"tool_choice":{"function":{"name":"f"},"type":"function"},"tools":[{"function":{"name":"f","description":"d","parameters":{"type":"object"}},"type":"function"}]}`
	done := make(chan struct{})
	go func() {
		defer close(done)
		postTo(t, url+"/v1/messages", body)
	}()
	call := <-p.Calls
	if got := string(call.Chat()); got != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
	if broker.Message(untranslated(call.Request)) != "tools.1: cannot be translated for this model's provider, which is not of the kind anthropic. Use a tool of your own, with an input_schema, or ask a model of a provider of the kind anthropic. The broker drops such tools if its configuration says drop: [tools] at the provider." {
		t.Errorf("what cannot be translated: %v", untranslated(call.Request))
	}
	if string(call.Body) != body {
		t.Errorf("the words of the client became %s", call.Body)
	}
	call.Finish("so")
	<-done
}

// Between a client and a backend that both use Anthropic's API, only the name of the model
// changes.
func TestMessagePassed(t *testing.T) {
	const thinking = `{"type":"message","id":"theirs","content":[{"type":"thinking","thinking":"hm"},{"type":"text","text":"so"}],"stop_reason":"end_turn","usage":{"input_tokens":5,"output_tokens":3}}`
	events := []string{
		`{"type":"message_start","message":{"id":"theirs","usage":{"input_tokens":5,"output_tokens":1}}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"hm"}}`,
		`{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"so"}}`,
		`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":3}}`,
		`{"type":"message_stop"}`,
	}
	var stream string
	for _, e := range events {
		var of struct{ Type string }
		_ = json.Unmarshal([]byte(e), &of)
		stream += "event: " + of.Type + "\ndata: " + e + "\n\n"
	}
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if !bytes.Contains(body, []byte(`{"model":"big", "thinking":{"type":"enabled"},`)) {
			t.Errorf("the backend got %s", body)
		}
		if bytes.Contains(body, []byte(`"stream":true`)) {
			_, _ = io.WriteString(w, stream)
			return
		}
		_, _ = io.WriteString(w, thinking)
	}))
	defer backend.Close()
	p := provider.NewAnthropic(provider.Config{BaseURL: backend.URL})
	defer p.CloseIdleConnections()
	b, err := broker.New(broker.Config{Models: []broker.Model{{Name: "m", Routes: []broker.Route{{Backend: &broker.Backend{Name: "a", Provider: p}, Model: "big"}}}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	url := "http://" + doortest.Serve(t, openai.New(b, nil, web.Access{})) + "/v1/messages"
	const body = `{"model":"m", "thinking":{"type":"enabled"},"messages":[{"role":"user","content":"hi"}]`
	if status, got := postTo(t, url, body+"}"); status != 200 || got != thinking {
		t.Errorf("%d %s", status, got)
	}
	if status, got := postTo(t, url, body+`,"stream":true}`); status != 200 || got != stream {
		t.Errorf("%d %s", status, got)
	}
	usage := b.Usage()[0]
	if usage.InputTokens != 10 || usage.OutputTokens != 6 {
		t.Errorf("what was used: %+v", usage)
	}
}

// A client without a token gets an error in the format of its API.
func TestMessageToken(t *testing.T) {
	url := "http://" + doortest.Serve(t, openai.New(doortest.Broker(t, nil), nil, web.Access{Token: "t"})) + "/v1/messages"
	for key, want := range map[string]int{"t": 200, "": 401, "u": 401} {
		status, _, body := doortest.Ask(t, http.MethodPost, url, question+"}", http.Header{"X-Api-Key": {key}})
		refused := body == `{"type":"error","error":{"type":"authentication_error","message":"Unauthorized: show the broker's token as Authorization: Bearer TOKEN"}}`
		if status != want || refused != (want == 401) {
			t.Errorf("%q: %d %s", key, status, body)
		}
	}
}

// FuzzMessage checks that every body gets JSON or JSON events, and that requests to other
// backends are JSON, too.
func FuzzMessage(f *testing.F) {
	f.Add([]byte(question + "}"))
	f.Add([]byte(question + `,"stream":true}`))
	f.Add([]byte(`{"system":[{"text":"a"}],"tools":[{"name":"f","input_schema":{}}],"tool_choice":{"type":"any"},"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"x","content":[{"type":"text","text":"y"}]},{"type":"image","source":{"type":"url","url":"z"}}]}]}`))
	f.Add([]byte(`{"messages":[{"content":{"a":"\ud800"}}],"model":null}`))
	f.Add([]byte(`{"output_config":{"format":{"type":"json_schema","schema":{}}},"top_k":1,"messages":[{"content":[{"type":"document","title":"t","source":{"type":"content","content":"x"}}]}]}`))
	fuzz(f, "/v1/messages")
}

// A tool's arguments of the greatest depth that JSON may have are an error where they would
// be nested one deeper. A stream can carry them.
func TestMessageOfDeepArguments(t *testing.T) {
	deep := strings.Repeat("[", 10000) + strings.Repeat("]", 10000)
	url := start(t, provider.NewMock(provider.MockConfig{Script: []provider.Line{{ToolCalls: []provider.ToolCall{{ID: "c1", Name: "f", Arguments: []byte(deep)}}}}}))
	question := `{"model":"mock","max_tokens":9,"messages":[{"role":"user","content":"hi"}]`
	if status, body := postTo(t, url+"/v1/messages", question+"}"); status != 500 || !strings.HasPrefix(body, `{"type":"error","error":{"type":"api_error",`) {
		t.Errorf("got %d %.200s", status, body)
	}
	if status, body := postTo(t, url+"/v1/messages", question+`,"stream":true}`); status != 200 || !strings.Contains(body, deep) {
		t.Errorf("got %d %.200s", status, body)
	}
}
