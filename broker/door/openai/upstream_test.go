package openai_test

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/wirectl/wirectl/broker"
	"github.com/wirectl/wirectl/broker/door/openai"
	"github.com/wirectl/wirectl/broker/door/web"
	"github.com/wirectl/wirectl/broker/provider"
	"github.com/wirectl/wirectl/llm"
	"github.com/wirectl/wirectl/test/kit/doortest"
)

// behind returns the URL of a door in front of a backend of a kind, which may be asked three times
// for each call, and the bodies that the backend gets.
func behind(t *testing.T, kind string, answer func(w http.ResponseWriter), budget ...broker.Budget) (url string, bodies *[]string) {
	t.Helper()
	bodies = new([]string)
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		*bodies = append(*bodies, string(body))
		answer(during{w, r})
	}))
	t.Cleanup(backend.Close)
	cfg := provider.Config{BaseURL: backend.URL}
	var p provider.Provider = provider.NewOpenAI(cfg)
	switch kind {
	case "anthropic":
		p = provider.NewAnthropic(cfg)
	case "gemini":
		p = provider.NewGemini(cfg)
	}
	t.Cleanup(p.(interface{ CloseIdleConnections() }).CloseIdleConnections)
	m := broker.Model{Name: "m", Routes: []broker.Route{{
		Backend: &broker.Backend{Name: kind, Provider: p, Retries: 2, Backoff: time.Nanosecond, MaxWait: time.Second}, Model: "gemini-3-up",
	}}}
	if len(budget) > 0 {
		m.Budget = &budget[0]
	}
	b, err := broker.New(broker.Config{Default: "m", Models: []broker.Model{m}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return "http://" + doortest.Serve(t, openai.New(b, nil, web.Access{})), bodies
}

// during writes the answer to a request.
type during struct {
	http.ResponseWriter
	r *http.Request
}

func (d during) Context() context.Context    { return d.r.Context() }
func (d during) Unwrap() http.ResponseWriter { return d.ResponseWriter }

const (
	chatAsk    = `{"model":"m","messages":[{"role":"user","content":"hi"}]}`
	messageAsk = `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}`
)

func streamed(ask string) string { return strings.TrimSuffix(ask, "}") + `,"stream":true}` }

// Clients get the status, the words and the hints of a provider's error, wherever it stands, and a
// request that may have been paid is sent once.
func TestErrorsArrive(t *testing.T) {
	for _, tt := range []struct {
		about, kind, answer, path, ask string
		status                         int
		want                           string // in the answer or its headers
		asked                          int
	}{
		{"an error as the first event", "openai", `200 data: {"error":{"type":"BadRequestError","code":400}}` + "\n\n", "/v1/chat/completions", streamed(chatAsk), 400, `"code":"BadRequestError"`, 1},
		{"an error inside a 200", "openai", `200 {"error":{"code":"insufficient_quota"}}`, "/v1/chat/completions", chatAsk, 429, `"code":"insufficient_quota"`, 1},
		{"an answer without choices", "openai", `200 {"choices":[],"usage":{"prompt_tokens":9000}}`, "/v1/chat/completions", chatAsk, 502, "invalid", 1},
		{"a page", "openai", `200 <p>`, "/v1/chat/completions", streamed(chatAsk), 502, "invalid", 1},
		{"overloaded", "anthropic", `529 {"type":"error","error":{"type":"overloaded_error"}}`, "/v1/messages", messageAsk, 529, `"type":"overloaded_error"`, 3},
		{"billing", "anthropic", `402 {"type":"error","error":{"type":"billing_error"}}`, "/v1/messages", messageAsk, 402, `"type":"billing_error"`, 1},
		{"a gateway's timeout", "openai", `504 <p>`, "/v1/messages", messageAsk, 504, `"type":"timeout_error"`, 1},
		{"RetryInfo", "gemini", `429 {"error":{"code":429,"status":"RESOURCE_EXHAUSTED","details":[{"retryDelay":"0.001s"}]}}`, "/v1/chat/completions", chatAsk, 429, "Retry-After:[1]", 3},
		{"a malformed call", "gemini", `200 {"candidates":[{"finishReason":"MALFORMED_FUNCTION_CALL","finishMessage":"it is bad"}]}`, "/v1/chat/completions", chatAsk, 502, "it is bad", 1},
		{"a prompt that is too long", "openai", `400 {"error":{"code":"context_length_exceeded"}}`, "/v1/messages", messageAsk, 400, "prompt is too long", 1},
		{"a quota that is used up", "openai", `429 {"error":{"code":"insufficient_quota"}}`, "/v1/messages", messageAsk, 429, "X-Should-Retry:[false]", 1},
		{"a type of another server", "openai", `400 {"error":{"type":"BadRequestError","code":400}}`, "/v1/chat/completions", chatAsk, 400, `"type":"BadRequestError"`, 1},
		{"a duplicate", "openai", "200 {}", "/v1/chat/completions", `{"model":"m","messages":[],"model":"n"}`, 400, "Duplicate parameter: 'model'", 0},
	} {
		url, bodies := behind(t, tt.kind, func(w http.ResponseWriter) {
			status, body, _ := strings.Cut(tt.answer, " ")
			var code int
			_, _ = fmt.Sscan(status, &code)
			w.Header().Set("X-Ratelimit-Remaining-Requests", "0")
			w.WriteHeader(code)
			_, _ = io.WriteString(w, body)
		})
		status, header, answer := doortest.Ask(t, http.MethodPost, url+tt.path, tt.ask, nil)
		if got := fmt.Sprint(answer, header); status != tt.status || !strings.Contains(got, tt.want) || len(*bodies) != tt.asked {
			t.Errorf("%s: %d %s, asked %d times; want %d %s, %d times", tt.about, status, got, len(*bodies), tt.status, tt.want, tt.asked)
		} else if passed := header.Get("X-Ratelimit-Remaining-Requests") != ""; passed != (tt.answer[:1] != "2") {
			t.Errorf("%s: the headers are %v", tt.about, header)
		}
	}
}

// An answer in a compression that nobody asked for is read, comments reach the client at once, and
// a message without its end mark gets it.
func TestOddUpstreams(t *testing.T) {
	const whole = `{"choices":[{"message":{"content":"so"}}]}`
	url, _ := behind(t, "openai", func(w http.ResponseWriter) {
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		_, _ = io.WriteString(z, whole)
		_ = z.Close()
	})
	if status, body := postTo(t, url+"/v1/chat/completions", chatAsk); status != 200 || body != whole {
		t.Errorf("%d %s", status, body)
	}
	url, _ = behind(t, "openai", func(w http.ResponseWriter) {
		_, _ = io.WriteString(w, ": PROCESSING\n\ndata: {\"choices\":[{\"delta\":{\"content\":\"so\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n")
	})
	if _, body := postTo(t, url+"/v1/messages", streamed(messageAsk)); !strings.HasPrefix(body, ": still at work\n\nevent: message_start\n") {
		t.Errorf("got %s", body)
	}
	url, _ = behind(t, "anthropic", func(w http.ResponseWriter) {
		_, _ = io.WriteString(w, `data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":1}}`+"\n\n")
	})
	if _, body := postTo(t, url+"/v1/messages", streamed(messageAsk)); !strings.HasSuffix(body, "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n") {
		t.Errorf("got %s", body)
	}
}

// The signature of a call survives a client that cannot keep it.
func TestSignaturesAreKept(t *testing.T) {
	url, bodies := behind(t, "gemini", func(w http.ResponseWriter) {
		_, _ = io.WriteString(w, `{"candidates":[{"content":{"parts":[{"functionCall":{"name":"f","args":{}},"thoughtSignature":"c2ln"}]},"finishReason":"STOP"}]}`)
	})
	_, answer := postTo(t, url+"/v1/messages", messageAsk)
	_, id, _ := strings.Cut(answer, `"id":"call_`)
	id, _, _ = strings.Cut(id, `"`)
	postTo(t, url+"/v1/messages", `{"max_tokens":9,"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":[{"type":"tool_use","id":"call_`+id+`","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"call_`+id+`","content":"1"}]}]}`)
	if last := (*bodies)[len(*bodies)-1]; !strings.Contains(last, `"thoughtSignature":"c2ln"`) {
		t.Errorf("after %s the backend got %s", answer, last)
	}
}

// cases are the odd answers of providers in llm/testdata, with the provider's kind and what each means to
// clients of every API: a text, a finish reason, tool calls and tokens, or a status and what the error
// says.
var cases = []struct{ name, kind, want string }{
	{"azure-empty-object", "openai", `"Hello" stop [] 11 5`},
	{"chunks-without-object", "openai", `"Hello" stop [] 11 5`},
	{"tool-calls-without-index", "openai", `"" tool_calls [call_1 get_weather {"city":"Paris"} call_2 get_time {"tz":"JST"}] 11 5`},
	{"tool-id-name-repeated", "openai", `"" tool_calls [call_1 get_weather {"city":"Paris"}] 11 5`},
	{"arguments-object", "openai", `"" tool_calls [call_1 get_weather {"city":"Paris"}] 11 5`},
	{"content-array", "openai", `"Hello" stop [] 11 5`},
	{"text-in-block-start", "anthropic", `"Hello" stop [] 9 7`},
	{"tool-ids-empty", "openai", `"" tool_calls [call_N get_weather {"city":"Paris"} call_N get_weather {"city":"Rome"}] 11 5`},
	{"stop-with-tool-calls", "openai", `"" tool_calls [call_1 get_weather {"city":"Paris"}] 11 5`},
	{"compaction-iterations", "anthropic", `"Hello" stop [] 1009 57`},
	{"gemini-signature", "gemini", `"" tool_calls [call_N get_weather {"city":"Paris"} call_N get_time {}] 8 17`},
	{"no-message-stop", "anthropic", `"Hello" stop [] 9 7`},
	{"tool-arguments-pieces", "anthropic", `"" tool_calls [toolu_1 get_weather {"city":"Paris"}] 9 12`},
	{"vllm-error-first", "openai", `400 BadRequestError`},
	{"openai-error-in-200", "openai", `429 insufficient_quota`},
	{"anthropic-529", "anthropic", `529 HTTP 529, overloaded_error`},
	{"anthropic-429-rejected", "anthropic", `429 HTTP 429, rate_limit_error`},
	{"html-504", "openai", `504 HTTP 504`},
	{"gemini-retryinfo", "gemini", `429 HTTP 429, RESOURCE_EXHAUSTED`},
	{"gemini-malformed-call", "gemini", `502 Malformed function call: x`},
	{"openrouter-midstream-error", "openai", `"Hello" and then HTTP 502`},
	{"error-in-tool-arguments", "anthropic", `"" and then HTTP 529, overloaded_error`},
	{"cut", "openai", `"Hello" and then broke off`},
	{"cut-anthropic", "anthropic", `"Hel" and then broke off`},
}

// upstreams returns the files of llm/testdata/upstreams.txtar, by name.
func upstreams(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile("../../../llm/testdata/upstreams.txtar")
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, part := range strings.Split(string(text), "\n-- ")[1:] {
		name, data, _ := strings.Cut(part, " --\n")
		files[name] = strings.TrimSuffix(data, "\n")
	}
	return files
}

// asks are a question in each API, and where it is asked.
var asks = map[llm.API]struct{ whole, stream, body string }{
	llm.Chat:      {"/v1/chat/completions", "", `{"model":"m","messages":[{"role":"user","content":"hi"}]}`},
	llm.Responses: {"/v1/responses", "", `{"model":"m","input":"hi"}`},
	llm.Messages:  {"/v1/messages", "", `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}`},
	llm.Contents:  {"/v1beta/models/m:generateContent", "/v1beta/models/m:streamGenerateContent?alt=sse", `{"contents":[{"parts":[{"text":"hi"}]}]}`},
}

// understood asks at a door, and returns what the client of an API understands.
func understood(t *testing.T, url string, api llm.API, stream bool) string {
	t.Helper()
	path, body := asks[api].whole, asks[api].body
	switch {
	case !stream:
	case api == llm.Contents:
		path = asks[api].stream
	case api == llm.Chat:
		body = streamed(strings.TrimSuffix(body, "}") + `,"stream_options":{"include_usage":true}}`)
	default:
		body = streamed(body)
	}
	resp, err := http.Post(url+path, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, cut := io.ReadAll(resp.Body)
	if resp.StatusCode != 200 {
		return fmt.Sprint(resp.StatusCode, " ", string(answer))
	}
	var a llm.Answer
	d := llm.Decoder{API: api, Answer: &a, Chunks: stream}
	var failed *llm.Error
	for _, event := range strings.Split(string(answer), "\n\n") {
		if _, data, ok := strings.Cut("\n"+event, "\ndata: "); ok || !stream {
			if !stream {
				data = event
			}
			_, err := d.Read([]byte(data))
			errors.As(err, &failed)
		}
	}
	a.Seal()
	if stream && failed != nil {
		if cut == nil && api != llm.Responses {
			t.Errorf("the stream ends well after %v", failed)
		}
		return fmt.Sprintf("%s and then %s", a.Text, failed.Message)
	}
	if failed != nil || cut != nil {
		return fmt.Sprint("failed: ", failed, cut)
	}
	var calls []string
	for _, c := range a.ToolCalls {
		if len(c.ID) > 20 || c.ID == "fc1" {
			c.ID = "call_N"
		}
		calls = append(calls, c.ID, c.Name, string(c.Arguments))
	}
	return fmt.Sprintf("%s %s %v %d %d", a.Text, a.Finish, calls, a.Usage.Input, a.Usage.Output)
}

// An odd answer of a provider means the same to clients of every API, streamed and whole, whichever
// of both the provider sends, and is paid once.
func TestOddAnswers(t *testing.T) {
	files := upstreams(t)
	for _, tt := range cases {
		for _, form := range []string{"json", "sse", "http"} {
			answer, found := files[tt.name+"."+form]
			if !found {
				continue
			}
			for i := range 2 * len(asks) {
				api, stream := llm.API(i/2), i%2 == 0
				url, bodies := behind(t, tt.kind, func(w http.ResponseWriter) { serveCase(w, form, answer) })
				got := understood(t, url, api, stream)
				about, want, ok := fmt.Sprintf("%s.%s for API %d, streamed %t", tt.name, form, api, stream), tt.want, got == tt.want
				if code, says, failed := strings.Cut(want, " "); failed && (code[0] >= '4' && code[0] <= '5') {
					ok = strings.HasPrefix(got, code) && strings.Contains(got, says)
				} else if text, says, failed := strings.Cut(want, " and then "); failed && !stream {
					ok = got[0] == '5' && strings.Contains(got, says)
				} else if failed {
					ok = strings.HasPrefix(got, text+" and then ") && strings.Contains(got, says)
				}
				if !ok {
					t.Errorf("%s: got %s, want %s", about, got, want)
				}
				if n := len(*bodies); n != 1 && form != "http" {
					t.Errorf("%s: asked %d times", about, n)
				}
			}
		}
	}
}

// serveCase writes an answer: one of a whole response, of a stream, or a document.
func serveCase(w http.ResponseWriter, form, answer string) {
	switch form {
	case "json":
		_, _ = io.WriteString(w, answer)
	case "sse":
		w.Header().Set("Content-Type", "text/event-stream")
		for event := range strings.SplitSeq(answer, "\n\n") {
			if event == "#CUT" {
				panic(http.ErrAbortHandler)
			}
			_, _ = io.WriteString(w, event+"\n\n")
			_ = http.NewResponseController(w).Flush()
		}
	case "http":
		head, body, _ := strings.Cut(answer, "\n\n")
		lines := strings.Split(head, "\n")
		for _, line := range lines[1:] {
			if name, value, _ := strings.Cut(line, ": "); name != "Content-Length" {
				w.Header().Set(name, value)
			}
		}
		var code int
		_, _ = fmt.Sscanf(lines[0], "HTTP/1.1 %d", &code)
		w.WriteHeader(code)
		_, _ = io.WriteString(w, body)
	}
}

// A client that leaves in mid-stream ends the call at the provider, for each pair of APIs.
func TestLeavingEndsTheCall(t *testing.T) {
	begins := map[string]string{
		"openai":    `{"choices":[{"index":0,"delta":{"content":"hi"}}]}`,
		"anthropic": `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"hi"}}`,
		"gemini":    `{"candidates":[{"content":{"parts":[{"text":"hi"}]}}]}`,
	}
	for kind, event := range begins {
		for api, ask := range asks {
			gone := make(chan struct{})
			url, bodies := behind(t, kind, func(w http.ResponseWriter) {
				_, _ = io.WriteString(w, "data: "+event+"\n\n")
				_ = http.NewResponseController(w).Flush()
				<-w.(interface{ Context() context.Context }).Context().Done()
				close(gone)
			})
			path, body := ask.whole, streamed(ask.body)
			if api == llm.Contents {
				path, body = ask.stream, ask.body
			}
			ctx, leave := context.WithCancel(t.Context())
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+path, strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := resp.Body.Read(make([]byte, 1)); err != nil {
				t.Errorf("%s for API %d: %v", kind, api, err)
			}
			leave()
			_ = resp.Body.Close()
			<-gone
			if len(*bodies) != 1 {
				t.Errorf("%s for API %d: asked %d times", kind, api, len(*bodies))
			}
		}
	}
}

// A budget counts streams whatever the client says about their usage, which it sees only if it asked:
// the fifth call of 300 tokens does not fit into 1,000.
func TestStreamsCount(t *testing.T) {
	for _, options := range []string{`null`, `{"include_usage":false}`, `{}`, `{"include_usage":null}`} {
		url, bodies := behind(t, "openai", func(w http.ResponseWriter) {
			_, _ = io.WriteString(w, `data: {"choices":[{"index":0,"delta":{"content":"hi"},"finish_reason":"stop"}]}`+"\n\n")
			_, _ = io.WriteString(w, `data: {"choices":[],"usage":{"prompt_tokens":100,"completion_tokens":200}}`+"\n\ndata: [DONE]\n\n")
		}, broker.Budget{Tokens: 1000})
		for i := range 6 {
			status, answer := postTo(t, url+"/v1/chat/completions", streamed(strings.TrimSuffix(chatAsk, "}")+`,"stream_options":`+options+`}`))
			if want := map[bool]int{true: 200, false: 429}[i < 4]; status != want || strings.Contains(answer, "usage") {
				t.Errorf("%s, call %d: %d %s", options, i+1, status, answer)
			}
		}
		if len(*bodies) != 4 || !strings.Contains((*bodies)[0], `"include_usage":true`) {
			t.Errorf("%s: the backend got %s", options, *bodies)
		}
	}
}
