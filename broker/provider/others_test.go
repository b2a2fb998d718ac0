package provider_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/wirectl/wirectl/broker/provider"
)

// answers returns the URL of a backend with one fixed answer, and the last request to it.
func answers(t *testing.T, answer string) (url string, asked *string) {
	t.Helper()
	asked = new(string)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		*asked = r.URL.RequestURI() + " " + string(body)
		if strings.HasPrefix(answer, "data: ") {
			w.Header().Set("Content-Type", "text/event-stream")
		}
		_, _ = io.WriteString(w, answer)
	}))
	t.Cleanup(s.Close)
	return s.URL, asked
}

// Each API has its own form for thoughts and cached tokens, and all of them are read.
func TestThoughts(t *testing.T) {
	for _, tt := range []struct {
		kind           string
		answer, stream string
		cached         int64
	}{
		{
			"openai", `{"choices":[{"message":{"content":"so","reasoning_content":"hm"}}],"usage":{"prompt_tokens":9,"prompt_tokens_details":{"cached_tokens":4}}}`,
			`data: {"choices":[{"delta":{"reasoning":"h"}}]}` + "\n\n" + `data: {"choices":[{"delta":{"reasoning":"m"}}]}` + "\n\n" + `data: {"choices":[{"delta":{"content":"so"},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"prompt_tokens_details":{"cached_tokens":4}}}` + "\n\ndata: [DONE]\n\n", 4,
		},
		{
			"anthropic", `{"type":"message","content":[{"type":"thinking","thinking":"hm","signature":"s"},{"type":"text","text":"so"}],"usage":{"input_tokens":5,"cache_read_input_tokens":4}}`,
			`data: {"type":"message_start","message":{"usage":{"input_tokens":5,"cache_read_input_tokens":4}}}` + "\n\n" + `data: {"type":"content_block_delta","delta":{"type":"thinking_delta","thinking":"h"}}` + "\n\n" + `data: {"type":"content_block_delta","delta":{"type":"thinking_delta","thinking":"m"}}` + "\n\n" + `data: {"type":"content_block_delta","delta":{"type":"text_delta","text":"so"}}` + "\n\n" + `data: {"type":"message_stop"}` + "\n\n", 4,
		},
		{
			"gemini", `{"candidates":[{"content":{"parts":[{"text":"hm","thought":true},{"text":"so"}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":9,"cachedContentTokenCount":4}}`,
			`data: {"candidates":[{"content":{"parts":[{"text":"h","thought":true}]}}]}` + "\n\n" + `data: {"candidates":[{"content":{"parts":[{"text":"m","thought":true},{"text":"so"}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":9,"cachedContentTokenCount":4}}` + "\n\n", 4,
		},
	} {
		for _, answer := range []string{tt.answer, tt.stream} {
			url, _ := answers(t, answer)
			p := of(tt.kind, url)
			r := &provider.Request{Model: "m", Prompt: []byte(`"hi"`)}
			thought := ""
			if answer == tt.stream {
				r.Emit = func(p provider.Part) error {
					thought += provider.Unquote(p.Thought)
					return nil
				}
			}
			var c provider.Completion
			err := p.Complete(t.Context(), r, &c)
			if err != nil || c.Plain() != "so" || provider.Unquote(c.Thoughts) != "hm" || c.Usage.Input != 9 || c.Usage.Cached != tt.cached {
				t.Errorf("%s: got %s, %s, %+v, %v", tt.kind, c.Text, c.Thoughts, c.Usage, err)
			}
			if r.Emit != nil && thought != "hm" {
				t.Errorf("%s: streamed %q", tt.kind, thought)
			}
		}
	}
}

func of(kind, url string) provider.Provider {
	cfg := provider.Config{BaseURL: url}
	switch kind {
	case "anthropic":
		return provider.NewAnthropic(cfg)
	case "gemini":
		return provider.NewGemini(cfg)
	}
	return provider.NewOpenAI(cfg)
}

// Tokens are counted for clients of any API.
func TestCount(t *testing.T) {
	const chat = `{"model":"x","max_tokens":7,"messages":[{"role":"system","content":"s"},{"role":"user","content":"hi"}]}`
	for _, tt := range []struct{ kind, answer, want string }{
		{"anthropic", `{"input_tokens":17}`, `/v1/messages/count_tokens {"messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}],"model":"m","system":"s"}`},
		{"gemini", `{"totalTokens":17}`, `/v1beta/models/m:countTokens {"generateContentRequest":{"model":"models/m","contents":[{"role":"user","parts":[{"text":"hi"}]}],"systemInstruction":{"parts":[{"text":"s"}]},"generationConfig":{"maxOutputTokens":7}}}`},
	} {
		url, asked := answers(t, tt.answer)
		var c provider.Completion
		err := of(tt.kind, url).(provider.Counter).CountTokens(t.Context(), &provider.Request{Model: "m", Body: []byte(chat)}, &c)
		if err != nil || c.Usage.Input != 17 || c.Body != nil || *asked != tt.want {
			t.Errorf("%s: %d, %v, asked\n %s\nwant\n %s", tt.kind, c.Usage.Input, err, *asked, tt.want)
		}
		url, _ = answers(t, "{}")
		if err := of(tt.kind, url).(provider.Counter).CountTokens(t.Context(), &provider.Request{Model: "m", Body: []byte(chat)}, &c); err == nil {
			t.Errorf("%s: an answer without a count is taken", tt.kind)
		}
	}
}

// Texts are embedded by the kinds that support it.
func TestEmbed(t *testing.T) {
	const body = `{"model":"x","input":["a","b"],"dimensions":2}`
	for _, tt := range []struct{ kind, answer, asked, want string }{
		{"openai", `{"data":[{"embedding":[1,2]}],"usage":{"prompt_tokens":3}}`, `/embeddings {"model":"m","input":["a","b"],"dimensions":2}`, `{"data":[{"embedding":[1,2]}],"usage":{"prompt_tokens":3}}`},
		{
			"gemini", `{"embeddings":[{"values":[1,2]},{"values":[3,4.5]}]}`,
			`/v1beta/models/m:batchEmbedContents {"requests":[{"model":"models/m","content":{"parts":[{"text":"a"}]},"outputDimensionality":2},{"model":"models/m","content":{"parts":[{"text":"b"}]},"outputDimensionality":2}]}`,
			`{"data":[{"object":"embedding","index":0,"embedding":[1,2]},{"object":"embedding","index":1,"embedding":[3,4.5]}],"model":"m","object":"list","usage":{"prompt_tokens":0,"total_tokens":0}}`,
		},
	} {
		url, asked := answers(t, tt.answer)
		var c provider.Completion
		err := of(tt.kind, url).(provider.Embedder).Embed(t.Context(), &provider.Request{Model: "m", Body: []byte(body)}, &c)
		if err != nil || string(c.Body) != tt.want || *asked != tt.asked {
			t.Errorf("%s: %v\n got %s\nwant %s\nasked %s\n want %s", tt.kind, err, c.Body, tt.want, *asked, tt.asked)
		}
		url, _ = answers(t, "{}")
		if err := of(tt.kind, url).(provider.Embedder).Embed(t.Context(), &provider.Request{Model: "m", Body: []byte(body)}, &c); err == nil {
			t.Errorf("%s: an answer without vectors is taken", tt.kind)
		}
	}
	if _, can := of("anthropic", "").(provider.Embedder); can {
		t.Error("Anthropic has no embeddings")
	}
}
