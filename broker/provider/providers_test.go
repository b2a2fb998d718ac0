package provider_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/wirectl/wirectl/broker/provider"
	"github.com/wirectl/wirectl/internal/jsonscan"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const key = "sk-very-secret"

// A dialect is one of the APIs, with the answers of its backends.
type dialect struct {
	name    string
	make    func(url string) provider.Provider
	request string // for the prompt "hi"
	auth    string // the header with the key
	whole   string
	tools   string
	stream  []string
	end     string // the end of a stream, "" if it has none
}

var dialects = []dialect{
	{
		"openai", func(url string) provider.Provider {
			return provider.NewOpenAI(provider.Config{BaseURL: url + "/v1", Key: key})
		},
		`/v1/chat/completions {"model":"big","messages":[{"role":"user","content":"hi"}]}`, "Authorization",
		`{"id":"x","choices":[{"message":{"role":"assistant","content":"h\u00e9 \"y\""},"finish_reason":"stop"}],"usage":{"prompt_tokens":7,"completion_tokens":3}}`,
		`{"choices":[{"message":{"content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}}]},"finish_reason":"tool_calls"}]}`,
		[]string{
			`{"choices":[{"delta":{"role":"assistant","content":""}}]}`, `{"choices":[{"delta":{"content":"h\u00e9 "}}]}`,
			`{"choices":[{"delta":{"content":"\"y\""}}]}`, `{"choices":[{"delta":{},"finish_reason":"stop"}]}`, `{"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":3}}`,
		},
		"[DONE]",
	},
	{
		"anthropic", func(url string) provider.Provider {
			return provider.NewAnthropic(provider.Config{BaseURL: url, Key: key})
		},
		`/v1/messages {"max_tokens":4096,"messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}],"model":"big"}`, "X-Api-Key",
		`{"type":"message","content":[{"type":"text","text":"hé "},{"type":"text","text":"\"y\""}],"stop_reason":"end_turn","usage":{"input_tokens":5,"cache_read_input_tokens":2,"output_tokens":3}}`,
		`{"type":"message","content":[{"type":"tool_use","id":"c1","name":"f","input":{"a":1}}],"stop_reason":"tool_use"}`,
		[]string{
			`{"type":"message_start","message":{"usage":{"input_tokens":7,"output_tokens":1}}}`, `{"type":"ping"}`,
			`{"type":"content_block_delta","delta":{"type":"text_delta","text":"hé "}}`, `{"type":"content_block_delta","delta":{"type":"text_delta","text":"\"y\""}}`,
			`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":3}}`,
		},
		`{"type":"message_stop"}`,
	},
	{
		"gemini", func(url string) provider.Provider { return provider.NewGemini(provider.Config{BaseURL: url, Key: key}) },
		`/v1beta/models/big:generateContent {"contents":[{"role":"user","parts":[{"text":"hi"}]}]}`, "X-Goog-Api-Key",
		`{"candidates":[{"content":{"role":"model","parts":[{"text":"hm","thought":true},{"text":"hé \"y\""}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":7,"candidatesTokenCount":1,"thoughtsTokenCount":2}}`,
		`{"candidates":[{"content":{"parts":[{"functionCall":{"id":"c1","name":"f","args":{"a":1}}}]},"finishReason":"STOP"}]}`,
		[]string{
			`{"candidates":[{"content":{"parts":[{"text":"hé "}]}}]}`,
			`{"candidates":[{"content":{"parts":[{"text":"\"y\""}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":7,"candidatesTokenCount":3}}`,
		},
		"",
	},
}

// each runs a test for each dialect, against a backend that answers with a handler.
func each(t *testing.T, test func(t *testing.T, d dialect, ask func(r *provider.Request) (*provider.Completion, error), set func(http.HandlerFunc))) {
	for _, d := range dialects {
		t.Run(d.name, func(t *testing.T) {
			var handle http.HandlerFunc
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { handle(w, r) }))
			defer server.Close()
			p := d.make(server.URL)
			ask := func(r *provider.Request) (*provider.Completion, error) {
				r.Model = "big"
				if r.Prompt == nil && r.Body == nil {
					r.Prompt = []byte(`"hi"`)
				}
				var c provider.Completion
				err := p.Complete(t.Context(), r, &c)
				return &c, err
			}
			test(t, d, ask, func(h http.HandlerFunc) { handle = h })
			http.DefaultTransport.(*http.Transport).CloseIdleConnections()
			p.(interface{ CloseIdleConnections() }).CloseIdleConnections()
		})
	}
}

func TestWhole(t *testing.T) {
	each(t, func(t *testing.T, d dialect, ask func(*provider.Request) (*provider.Completion, error), set func(http.HandlerFunc)) {
		set(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			if got := r.URL.Path + " " + string(body); got != d.request {
				t.Errorf("\n got %s\nwant %s", got, d.request)
			}
			if got := r.Header.Get(d.auth); !strings.HasSuffix(got, key) {
				t.Errorf("%s: %q", d.auth, got)
			}
			if got := r.Header.Get("Traceparent"); got != "00-1-2-01" {
				t.Errorf("Traceparent: %q", got)
			}
			_, _ = io.WriteString(w, d.whole)
		})
		c, err := ask(&provider.Request{Traceparent: "00-1-2-01"})
		if err != nil || c.Plain() != `hé "y"` || c.Finish != "stop" || c.Usage.Input != 7 || c.Usage.Output != 3 {
			t.Errorf("got %+v, %v", c, err)
		}
		set(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, d.tools) })
		c, err = ask(&provider.Request{})
		if err != nil || c.Plain() != "" || c.Finish != "tool_calls" || len(c.ToolCalls) != 1 || listed(c.ToolCalls) != `[{c1 f {"a":1}}]` {
			t.Errorf("got %s, %v", listed(c.ToolCalls), err)
		}
	})
}

func TestStream(t *testing.T) {
	each(t, func(t *testing.T, d dialect, ask func(*provider.Request) (*provider.Completion, error), set func(http.HandlerFunc)) {
		events := func(w io.Writer, list []string) {
			for _, e := range list {
				fmt.Fprintf(w, ": a comment\r\nevent: x\r\ndata: %s\r\n\r\n", e)
			}
		}
		set(func(w http.ResponseWriter, _ *http.Request) {
			events(w, d.stream)
			if d.end != "" {
				events(w, []string{d.end})
			}
		})
		var parts []string
		emit := func(p provider.Part) error {
			if p.Text != nil {
				parts = append(parts, provider.Unquote(p.Text))
			}
			return nil
		}
		c, err := ask(&provider.Request{Emit: emit})
		if err != nil || c.Plain() != `hé "y"` || strings.Join(parts, "") != `hé "y"` || c.Finish != "stop" || c.Usage.Input != 7 || c.Usage.Output != 3 {
			t.Errorf("got %+v, %q, %v", c, parts, err)
		}
		// A stream that is cut is not a completion.
		set(func(w http.ResponseWriter, _ *http.Request) {
			events(w, d.stream[:1])
			_, _ = io.WriteString(w, "data: {\"half")
		})
		_, err = ask(&provider.Request{Emit: emit})
		if pe := (*provider.Error)(nil); !errors.As(err, &pe) || pe.Cause != provider.Unreachable {
			t.Errorf("cut: %v", err)
		}
		// A stream with an error event is not a completion either, and the event has the
		// reason.
		set(func(w http.ResponseWriter, _ *http.Request) {
			events(w, []string{d.stream[0], `{"type":"error","error":{"code":429,"status":"rate_limit_x","type":"rate_limit_x","message":"` + key + `"}}`})
		})
		_, err = ask(&provider.Request{Emit: emit})
		if pe := (*provider.Error)(nil); !errors.As(err, &pe) || pe.Cause != provider.RateLimited || pe.Code != "rate_limit_x" || strings.Contains(err.Error(), key) {
			t.Errorf("broken off: %v", err)
		}
		set(func(w http.ResponseWriter, _ *http.Request) {
			events(w, []string{d.stream[0], `{"type":"error","error":{"message":"oops"}}`})
		})
		_, err = ask(&provider.Request{Emit: emit})
		if pe := (*provider.Error)(nil); !errors.As(err, &pe) || pe.Cause != provider.Overloaded || pe.Status != 503 {
			t.Errorf("broken off: %v", err)
		}
		// An error of the callback for parts ends the call.
		set(func(w http.ResponseWriter, _ *http.Request) { events(w, d.stream) })
		enough := errors.New("enough")
		if _, err := ask(&provider.Request{Emit: func(provider.Part) error { return enough }}); err != enough {
			t.Errorf("got %v", err)
		}
	})
}

// A failure is reported by its cause, without the key or the backend's words.
func TestFailures(t *testing.T) {
	each(t, func(t *testing.T, _ dialect, ask func(*provider.Request) (*provider.Completion, error), set func(http.HandlerFunc)) {
		for _, tt := range []struct {
			status int
			body   string
			cause  provider.Cause
		}{
			{400, `{"error":{"message":"bad ` + key + `","code":"bad_thing"}}`, provider.Refused},
			{429, `{"error":{"type":"` + key + `"}}`, provider.RateLimited},
			{500, key, provider.Overloaded},
			{302, "", provider.Internal},
			{200, "{}", provider.Overloaded},
			{200, "<html>" + key, provider.Overloaded},
		} {
			set(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Retry-After", "7")
				w.Header().Set("Location", "http://127.0.0.1:1/"+key)
				w.WriteHeader(tt.status)
				_, _ = io.WriteString(w, tt.body)
			})
			_, err := ask(&provider.Request{})
			var pe *provider.Error
			if !errors.As(err, &pe) || pe.Cause != tt.cause || strings.Contains(err.Error(), key) {
				t.Errorf("%d %s: %v", tt.status, tt.body, err)
			}
			if tt.status == 429 && pe.RetryAfter != 7*time.Second {
				t.Errorf("Retry-After: %v", pe.RetryAfter)
			}
		}
	})
}

// A cancel closes the connection to the backend at once, both before an answer and in the
// middle of one.
func TestCancelReachesTheBackend(t *testing.T) {
	for _, d := range dialects {
		for _, begun := range []bool{false, true} {
			gone := make(chan struct{})
			ctx, cancel := context.WithCancelCause(context.Background())
			why := errors.New("because")
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				if begun {
					fmt.Fprintf(w, "data: %s\n\n", d.stream[0])
					w.(http.Flusher).Flush()
				}
				cancel(why)
				<-r.Context().Done()
				close(gone)
			}))
			p := d.make(server.URL)
			var c provider.Completion
			err := p.Complete(ctx, &provider.Request{Model: "m", Prompt: []byte(`"x"`), Emit: func(provider.Part) error { return nil }}, &c)
			<-gone
			if err != why {
				t.Errorf("%s, begun %t: %v", d.name, begun, err)
			}
			p.(interface{ CloseIdleConnections() }).CloseIdleConnections()
			server.Close()
		}
	}
}

// An OpenAI client's request passes unchanged except for the model. The other dialects get
// their counterparts, and parameters that OpenAI does not know.
func TestChat(t *testing.T) {
	const chat = `{ "model":"alias", "messages":[{"role":"system","content":"be brief"},{"role":"user","content":[{"type":"text","text":"see"},{"type":"image_url","image_url":{"url":"data:image/png;base64,QUJD"}}]},` +
		`{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}}]},{"role":"tool","tool_call_id":"c1","content":"42"}],` +
		`"max_tokens":9,"temperature":0.5,"stop":"END","tools":[{"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object"}}}],"metadata":{"a":"b"},"top_k":3,"generationConfig":{"topP":0.1,"temperature":1},"x-unknown":{"b":1} }`
	want := map[string]string{
		"openai": strings.Replace(chat, `"alias"`, `"big"`, 1),
		"anthropic": `{"generationConfig":{"topP":0.1,"temperature":1},"max_tokens":9,"messages":[{"role":"user","content":[{"type":"text","text":"see"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"QUJD"}}]},` +
			`{"role":"assistant","content":[{"type":"tool_use","id":"c1","name":"f","input":{"a":1}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":"42"}]}],` +
			`"model":"big","stop_sequences":["END"],"system":"be brief","temperature":0.5,"tools":[{"description":"d","input_schema":{"type":"object"},"name":"f"}],"top_k":3,"x-unknown":{"b":1}}`,
		"gemini": `{"contents":[{"role":"user","parts":[{"text":"see"},{"inlineData":{"mimeType":"image/png","data":"QUJD"}}]},{"role":"model","parts":[{"functionCall":{"id":"c1","name":"f","args":{"a":1}}}]},` +
			`{"role":"user","parts":[{"functionResponse":{"id":"c1","name":"f","response":{"result":"42"}}}]}],"generationConfig":{"maxOutputTokens":9,"stopSequences":["END"],"temperature":0.5,"topK":3,"topP":0.1},` +
			`"systemInstruction":{"parts":[{"text":"be brief"}]},"tools":[{"functionDeclarations":[{"name":"f","description":"d","parametersJsonSchema":{"type":"object"}}]}],"x-unknown":{"b":1}}`,
	}
	each(t, func(t *testing.T, d dialect, ask func(*provider.Request) (*provider.Completion, error), set func(http.HandlerFunc)) {
		set(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			if string(body) != want[d.name] {
				t.Errorf("\n got %s\nwant %s", body, want[d.name])
			}
			_, _ = io.WriteString(w, d.whole)
		})
		c, err := ask(&provider.Request{Body: []byte(chat)})
		if err != nil {
			t.Error(err)
		}
		if d.name == "openai" && string(c.Body) != d.whole {
			t.Errorf("the answer came as %s", c.Body)
		}
	})
}

// Text reaches a backend unchanged, without HTML escapes.
func TestTextStays(t *testing.T) {
	each(t, func(t *testing.T, d dialect, ask func(*provider.Request) (*provider.Completion, error), set func(http.HandlerFunc)) {
		set(func(w http.ResponseWriter, r *http.Request) {
			if body, _ := io.ReadAll(r.Body); !strings.Contains(string(body), `"a < b & c > d"`) {
				t.Errorf("sent %s", body)
			}
			_, _ = io.WriteString(w, d.whole)
		})
		for _, more := range []string{"", `,"top_k":3`} {
			if _, err := ask(&provider.Request{Body: []byte(`{"messages":[{"role":"user","content":"a < b & c > d"}]` + more + "}")}); err != nil {
				t.Error(err)
			}
		}
	})
}

// Invalid generation settings of Gemini are passed on unchanged.
func TestGenerationConfig(t *testing.T) {
	for chat, want := range map[string]string{
		`{"messages":[],"generationConfig":null,"temperature":1}`:           `{"contents":[],"generationConfig":{"temperature":1}}`,
		`{"messages":[],"generationConfig":[1]}`:                            `{"contents":[],"generationConfig":[1]}`,
		`{"messages":[],"generationConfig":{"thinkingConfig":{"x":1}}}`:     `{"contents":[],"generationConfig":{"thinkingConfig":{"x":1}}}`,
		`{"messages":[],"top_k":2,"safetySettings":[],"contents":["mine"]}`: `{"contents":[],"generationConfig":{"topK":2},"safetySettings":[]}`,
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if body, _ := io.ReadAll(r.Body); string(body) != want {
				t.Errorf("%s:\n got %s\nwant %s", chat, body, want)
			}
			_, _ = io.WriteString(w, `{"candidates":[{}]}`)
		}))
		p := provider.NewGemini(provider.Config{BaseURL: server.URL})
		if err := p.Complete(t.Context(), &provider.Request{Model: "m", Body: []byte(chat)}, new(provider.Completion)); err != nil {
			t.Errorf("%s: %v", chat, err)
		}
		p.CloseIdleConnections()
		server.Close()
	}
}

// Prompts of all forms become messages.
func TestMessages(t *testing.T) {
	for _, tt := range [][2]string{
		{`"a"`, `[{"role":"user","content":"a"}]`},
		{`[{"role":"system","content":"s"}]`, `[{"role":"system","content":"s"}]`},
		{`{"messages":[{"role":"user"}],"x":1}`, `[{"role":"user"}]`},
		{`{"role":"user","content":"c"}`, `[{"role":"user","content":"c"}]`},
		{`{"prompt":"p"}`, `[{"role":"user","content":"p"}]`},
		{`{"text":"t","content":"c","prompt":"p","messages":[ ]}`, `[{"role":"user","content":"p"}]`},
		{`{"text":"t","content":"c","prompt":""}`, `[{"role":"user","content":"c"}]`},
		{`{"text":"t","content":[],"prompt":null}`, `[{"role":"user","content":"t"}]`},
		{`{"content":[{"type":"text","text":"t"}]}`, `[{"role":"user","content":[{"type":"text","text":"t"}]}]`},
		{`{"prompt":[{"role":"user","content":"c"}],"text":"t"}`, `[{"role":"user","content":"c"}]`},
		{`{"role":"user","content":"c","prompt":"","messages":[]}`, `[{"role":"user","content":"c","prompt":"","messages":[]}]`},
		{`{"prompt":"","text":""}`, `[{"role":"user","content":""}]`},
		{`{"q": 1}`, `[{"role":"user","content":"{\"q\": 1}"}]`},
		{`[]`, `[]`},
	} {
		if got := provider.Messages([]byte(tt[0])); string(got) != tt[1] || !json.Valid(got) {
			t.Errorf("%s became %s, want %s", tt[0], got, tt[1])
		}
	}
}

// FuzzStream checks that reading any stream ends, and that the result is JSON.
func FuzzStream(f *testing.F) {
	for _, d := range dialects {
		var b bytes.Buffer
		for _, e := range append(d.stream, d.end) {
			fmt.Fprintf(&b, "data: %s\n\n", e)
		}
		f.Add(b.Bytes())
	}
	f.Add([]byte("data: {\"usage\":null , \"choices\":[]}\n\ndata: {\"a\":1, \"usage\" : null}\n\ndata: {\"usage\":null,\"usage\":{}}\n\n"))
	f.Add([]byte("data:{\"\":\"\x85\",\"usage\":{\"input_tokens\":7}}\n\n"))
	var body []byte
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(body) }))
	f.Cleanup(server.Close)
	var providers []provider.Provider
	for _, d := range dialects {
		p := d.make(server.URL)
		f.Cleanup(p.(interface{ CloseIdleConnections() }).CloseIdleConnections)
		providers = append(providers, p)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		body = data
		for _, p := range providers {
			var c provider.Completion
			err := p.Complete(t.Context(), &provider.Request{Model: "m", Prompt: []byte(`""`), Emit: func(p provider.Part) error {
				if p.Text != nil && !json.Valid(p.Text) {
					t.Errorf("%q gave the part %q", data, p.Text)
				}
				if p.Event != nil && jsonscan.Valid(p.Event) != nil {
					t.Errorf("%q gave the chunk %q", data, p.Event)
				}
				return nil
			}}, &c)
			if err == nil && !json.Valid(c.Text) {
				t.Errorf("%q gave %q", data, c.Text)
			}
		}
	})
}
