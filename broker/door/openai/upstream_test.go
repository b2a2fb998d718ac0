package openai_test

import (
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/wirectl/wirectl/broker"
	"github.com/wirectl/wirectl/broker/door/internal/doortest"
	"github.com/wirectl/wirectl/broker/door/openai"
	"github.com/wirectl/wirectl/broker/door/web"
	"github.com/wirectl/wirectl/broker/provider"
	"github.com/wirectl/wirectl/broker/provider/anthropic"
	"github.com/wirectl/wirectl/broker/provider/gemini"
	backends "github.com/wirectl/wirectl/broker/provider/openai"
)

// behind returns the URL of a door in front of a backend of a kind, which may be asked three times
// for each call, and the bodies that the backend gets.
func behind(t *testing.T, kind string, answer func(w http.ResponseWriter)) (url string, bodies *[]string) {
	t.Helper()
	bodies = new([]string)
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		*bodies = append(*bodies, string(body))
		answer(w)
	}))
	t.Cleanup(backend.Close)
	cfg := provider.Config{BaseURL: backend.URL}
	var p provider.Provider = backends.New(cfg)
	switch kind {
	case "anthropic":
		p = anthropic.New(cfg)
	case "gemini":
		p = gemini.New(cfg)
	}
	t.Cleanup(p.(interface{ CloseIdleConnections() }).CloseIdleConnections)
	b, err := broker.New(broker.Config{Default: "m", Models: []broker.Model{{Name: "m", Routes: []broker.Route{{
		Backend: &broker.Backend{Name: kind, Provider: p, Retries: 2, Backoff: time.Nanosecond}, Model: "gemini-3-up",
	}}}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return "http://" + doortest.Serve(t, openai.New(b, nil, web.Access{})), bodies
}

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
