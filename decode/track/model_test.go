package track_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/http2"

	"github.com/wirectl/wirectl/decode/track"
	"github.com/wirectl/wirectl/session"
)

// event is an event of a stream, and last how the stream ends.
func event(data string) string { return chunk("data: " + data + "\n\n") }

const last = "<0\r\n\r\n"

// models says what is known of each request, and what is wrong.
func models(ts *track.Trackers) string {
	var lines []string
	for _, tr := range ts.List {
		for e := range tr.Exchanges() {
			u := e.Usage
			lines = append(lines, fmt.Sprintf("%s: %s %s %v %q, %d parts, tokens %d %d %d", tr.Protocol.Name(), e.Kind, e.Model, e.Outcome, e.StopReason, e.Parts, u.Input, u.Cached, u.Output))
		}
		for f := range tr.Findings() {
			if f.Severity > session.Note {
				lines = append(lines, f.Name)
			}
		}
	}
	return strings.Join(lines, "\n")
}

// An answer of a model ends once, says why, and what was used is counted once, whichever
// way it comes.
func TestModels(t *testing.T) {
	const (
		claude = `{"model":"c","messages":[]}`
		gpt    = `{"model":"g","messages":[]}`
		start  = `{"type":"message_start","message":{"model":"c-1","usage":{"input_tokens":9,"cache_read_input_tokens":3,"output_tokens":1}}}`
		text   = `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a"}}`
		why    = `{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"input_tokens":9,"output_tokens":5}}`
		stop   = `{"type":"message_stop"}`
		piece  = `{"object":"chat.completion.chunk","model":"g","choices":[{"index":0,"delta":{"content":"a"}}]}`
		finish = `{"object":"chat.completion.chunk","model":"g","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`
		usage  = `{"object":"chat.completion.chunk","model":"g","choices":[],"usage":{"prompt_tokens":4,"completion_tokens":2}}`
		whole  = `{"object":"chat.completion","model":"g","choices":[{"message":{"content":"a"},"finish_reason":"stop"}],"usage":{"prompt_tokens":4,"completion_tokens":2}}`
		thinks = `{"candidates":[{"content":{"parts":[{"text":"a"}]}}],"usageMetadata":{"promptTokenCount":4,"thoughtsTokenCount":2}}`
		says   = `{"candidates":[{"content":{"parts":[{"text":"b"}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":4,"thoughtsTokenCount":2,"candidatesTokenCount":3},"modelVersion":"m-1"}`
		broken = `{"error":{"code":503,"message":"no","status":"UNAVAILABLE"}}`
	)
	messages, chat := post("/v1/messages", claude), post("/v1/chat/completions", gpt)
	generate, stream := post("/v1beta/models/m:generateContent", `{"contents":[]}`), post("/v1beta/models/m:streamGenerateContent?alt=sse", `{"contents":[]}`)
	for _, test := range []struct {
		about string
		wire  []string
		want  string
	}{
		{"Messages", []string{messages, events, event(start), event(text), event(why), event(stop), last}, `anthropic: messages c-1 done "end_turn", 1 parts, tokens 12 3 5`},
		{"Messages without the final event", []string{messages, events, event(start), event(text), event(why), last}, "anthropic: messages c-1 done \"end_turn\", 1 parts, tokens 12 3 5\nno-final"},
		{"Messages that just end", []string{messages, events, event(start), event(text), last}, "anthropic: messages c-1 failed \"\", 1 parts, tokens 12 3 1\nno-final"},
		{"Messages of which the end was not seen", []string{messages, events, event(start), event(text)}, `anthropic: messages c-1 abandoned "", 1 parts, tokens 12 3 1`},
		{"Chat Completions", []string{chat, events, event(piece), event(finish), event(usage), event("[DONE]"), last}, `openai: chat/completions g done "stop", 1 parts, tokens 4 0 2`},
		{"Chat Completions without [DONE]", []string{chat, events, event(piece), event(finish), last}, "openai: chat/completions g done \"stop\", 1 parts, tokens 0 0 0\nno-final"},
		{"Chat Completions that nothing finished", []string{chat, events, event(piece), event("[DONE]"), last}, "openai: chat/completions g failed \"\", 1 parts, tokens 0 0 0\nno-final"},
		{"Chat Completions with an error in the middle", []string{chat, events, event(piece), event(broken), last}, `openai: chat/completions g failed "UNAVAILABLE", 1 parts, tokens 0 0 0`},
		{"Chat Completions, whole", []string{chat, said("200 OK", whole)}, `openai: chat/completions g done "stop", 0 parts, tokens 4 0 2`},
		{"two on a connection", []string{chat, said("200 OK", whole), chat, said("429 Too Many Requests", broken)}, "openai: chat/completions g done \"stop\", 0 parts, tokens 4 0 2\nopenai: chat/completions g failed \"UNAVAILABLE\", 0 parts, tokens 0 0 0"},
		{"an error that is no JSON", []string{chat, "<HTTP/1.1 502 Bad Gateway\r\nContent-Type: text/html\r\nContent-Length: 5\r\n\r\n<p>no"}, `openai: chat/completions g failed "", 0 parts, tokens 0 0 0`},
		{"Gemini", []string{generate, said("200 OK", says)}, `gemini: generateContent m-1 done "STOP", 0 parts, tokens 4 0 5`},
		{"Gemini, streamed", []string{stream, events, event(thinks), event(says), last}, `gemini: streamGenerateContent m-1 done "STOP", 2 parts, tokens 4 0 5`},
		{"Gemini, cut short", []string{stream, events, event(thinks), last}, "gemini: streamGenerateContent m failed \"\", 1 parts, tokens 4 0 2\nno-final"},
		{
			"HTTP/2",
			[]string{h2(":method", "POST", ":path", "/v1/messages", "anthropic-version", "1") + data(claude), "<" + h2(":status", "200", "content-type", "application/json")[1:] + data(`{"type":"message","model":"c-1","stop_reason":"end_turn","usage":{"input_tokens":1,"output_tokens":2}}`)},
			`anthropic: messages c-1 done "end_turn", 0 parts, tokens 1 0 2`,
		},
		{
			"HTTP/2, reset by the client",
			[]string{h2(":method", "POST", ":path", "/v1/chat/completions") + data(gpt), ">" + reset(http2.ErrCodeCancel)},
			`openai: chat/completions g cancelled "", 0 parts, tokens 0 0 0`,
		},
		{
			"HTTP/2, reset by the server",
			[]string{h2(":method", "POST", ":path", "/v1/chat/completions") + data(gpt), "<" + reset(http2.ErrCodeInternal)},
			`openai: chat/completions g failed "", 0 parts, tokens 0 0 0`,
		},
	} {
		if got := models(follow(t, over(test.wire...))); got != test.want {
			t.Errorf("%s:\n%s\nwant\n%s", test.about, got, test.want)
		}
	}
}

// What others ask below the same paths is theirs.
func TestNoModels(t *testing.T) {
	const no = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
	for _, path := range []string{"/v1/messages", "/v1/responses", "/v1/chat/completions", "/v1/models"} {
		ts := follow(t, over(post(path, no), said("200 OK", result)))
		if i := slices.IndexFunc(ts.List, func(tr track.Tracker) bool { return tr.Protocol.Name() != "mcp" }); i >= 0 {
			t.Errorf("%s is judged as %s", path, ts.List[i].Protocol.Name())
		}
	}
}
