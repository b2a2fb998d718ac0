package track_test

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/decode/track"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/frame/carrier"
	"github.com/wirectl/wirectl/internal/prices"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/anthropic"
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
		{"Messages that just end", []string{messages, events, event(start), event(text), last}, "anthropic: messages c-1 died \"\", 1 parts, tokens 12 3 1\nno-final"},
		{"Messages of which the end was not seen", []string{messages, events, event(start), event(text)}, `anthropic: messages c-1 abandoned "", 1 parts, tokens 12 3 1`},
		{"Chat Completions", []string{chat, events, event(piece), event(finish), event(usage), event("[DONE]"), last}, `openai: chat/completions g done "stop", 1 parts, tokens 4 0 2`},
		{"Chat Completions without [DONE]", []string{chat, events, event(piece), event(finish), last}, "openai: chat/completions g done \"stop\", 1 parts, tokens 0 0 0\nno-final"},
		{"Chat Completions that nothing finished", []string{chat, events, event(piece), event("[DONE]"), last}, "openai: chat/completions g failed \"\", 1 parts, tokens 0 0 0\nno-final"},
		{"Chat Completions with an error in the middle", []string{chat, events, event(piece), event(broken), last}, `openai: chat/completions g failed "UNAVAILABLE", 1 parts, tokens 0 0 0`},
		{"Chat Completions, whole", []string{chat, said("200 OK", whole)}, `openai: chat/completions g done "stop", 0 parts, tokens 4 0 2`},
		{"embeddings", []string{post("/v1/embeddings", `{"model":"e","input":"x"}`), said("200 OK", `{"object":"list","model":"e-1","data":[{"object":"embedding","embedding":[0.5]}],"usage":{"prompt_tokens":4,"total_tokens":4}}`)}, `openai: embeddings e-1 done "", 0 parts, tokens 4 0 0`},
		{"a count of tokens", []string{post("/v1/messages/count_tokens", claude), said("200 OK", `{"input_tokens":4}`)}, `anthropic: messages/count_tokens c done "", 0 parts, tokens 0 0 0`},
		{"a list of models", []string{">GET /v1/models HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer k\r\n\r\n", said("200 OK", `{"object":"list","data":[{"id":"g","object":"model"}]}`)}, `openai: models  done "", 0 parts, tokens 0 0 0`},
		{"two on a connection", []string{chat, said("200 OK", whole), post("/v1/chat/completions", `{"model":"g","messages":[1]}`), said("429 Too Many Requests", broken)}, "openai: chat/completions g done \"stop\", 0 parts, tokens 4 0 2\nopenai: chat/completions g failed \"UNAVAILABLE\", 0 parts, tokens 0 0 0"},
		{"an error that is not JSON", []string{chat, "<HTTP/1.1 502 Bad Gateway\r\nContent-Type: text/html\r\nContent-Length: 5\r\n\r\n<p>no"}, `openai: chat/completions g failed "", 0 parts, tokens 0 0 0`},
		{"Gemini", []string{generate, said("200 OK", says)}, `gemini: generateContent m-1 done "STOP", 0 parts, tokens 4 0 5`},
		{"Gemini, streamed", []string{stream, events, event(thinks), event(says), last}, `gemini: streamGenerateContent m-1 done "STOP", 2 parts, tokens 4 0 5`},
		{"Gemini, cut short", []string{stream, events, event(thinks), last}, "gemini: streamGenerateContent m died \"\", 1 parts, tokens 4 0 2\nno-final"},
		{"a page", []string{chat, "<HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 5\r\n\r\n<p>no"}, "openai: chat/completions g failed \"\", 0 parts, tokens 0 0 0\nno-final"},
		{"nothing", []string{messages, "<HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"}, "anthropic: messages c failed \"\", 0 parts, tokens 0 0 0\nno-final"},
		{"a stream of no events", []string{messages, events, last}, "anthropic: messages c died \"\", 0 parts, tokens 0 0 0\nno-final"},
		{"events by the name of text", []string{chat, "<HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 8\r\n\r\ndata: {}"}, `openai: chat/completions g done "", 0 parts, tokens 0 0 0`},
		{"a compression that is unknown", []string{chat, "<HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Encoding: lz\r\nContent-Length: 3\r\n\r\nabc"}, `openai: chat/completions g done "", 0 parts, tokens 0 0 0`},
		{"chunks that do not say what they are", []string{chat, events, event(`{"choices":[],"object":"","model":""}`), event(strings.Replace(piece, `"object":"chat.completion.chunk",`, "", 1)), event(strings.Replace(finish, "chat.completion.chunk", "", 1)), event(usage), event("[DONE]"), last}, `openai: chat/completions g done "stop", 1 parts, tokens 4 0 2`},
		{"Completions, streamed", []string{post("/v1/completions", `{"model":"g","prompt":"a"}`), events, event(`{"object":"text_completion","model":"g","choices":[{"text":"a","finish_reason":null}]}`), event(`{"object":"text_completion","model":"g","choices":[{"text":"","finish_reason":"stop"}]}`), event("[DONE]"), last}, `openai: completions g done "stop", 1 parts, tokens 0 0 0`},
		{"a chunk with an error, and a retry", []string{chat, events, event(piece), event(strings.TrimSuffix(piece, "}") + `,"error":{"code":"bad","message":"gone"}}`), event("[DONE]"), last, chat, said("200 OK", whole)}, "openai: chat/completions g failed \"bad\", 1 parts, tokens 0 0 0\nopenai: chat/completions g done \"stop\", 0 parts, tokens 4 0 2"},
		{"usage of Groq", []string{chat, events, event(piece), event(strings.TrimSuffix(finish, "}") + `,"x_groq":{"usage":{"prompt_tokens":4,"completion_tokens":2}}}`), event("[DONE]"), last}, `openai: chat/completions g done "stop", 1 parts, tokens 4 0 2`},
		{"usage of a compaction", []string{messages, events, event(start), event(text), event(strings.Replace(why, `"output_tokens":5`, `"output_tokens":5,"iterations":[{"type":"compaction","input_tokens":1000,"output_tokens":50},{"type":"message","input_tokens":9,"cache_read_input_tokens":3,"output_tokens":5}]`, 1)), event(stop), last}, `anthropic: messages c-1 done "end_turn", 1 parts, tokens 1012 3 55`},
		{"Gemini, with its usage after the last candidate", []string{stream, events, event(`{"candidates":[{"content":{"parts":[{"text":"b"}]},"finishReason":"STOP"}]}`), event(`{"usageMetadata":{"promptTokenCount":4,"candidatesTokenCount":3},"modelVersion":"m-1"}`), last}, `gemini: streamGenerateContent m-1 done "STOP", 1 parts, tokens 4 0 3`},
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
		{
			"HTTP/2, reset by the server in the middle",
			[]string{h2(":method", "POST", ":path", "/v1/chat/completions") + data(gpt), "<" + h2(":status", "200", "content-type", "text/event-stream")[1:] + reset(http2.ErrCodeInternal)},
			`openai: chat/completions g died "", 0 parts, tokens 0 0 0`,
		},
	} {
		if got := models(follow(t, over(test.wire...))); got != test.want {
			t.Errorf("%s:\n%s\nwant\n%s", test.about, got, test.want)
		}
	}
}

// Odd answers that providers were reported to give are read as their clients read them, streamed and
// whole, and none breaks a rule that only its oddness seems to break.
func TestOddModels(t *testing.T) {
	text, err := os.ReadFile("../../llm/testdata/upstreams.txtar")
	if err != nil {
		t.Fatal(err)
	}
	requests := map[string]string{
		"openai":    post("/v1/chat/completions", `{"model":"g","messages":[]}`),
		"anthropic": post("/v1/messages", `{"model":"g","messages":[]}`),
		"gemini":    post("/v1beta/models/g:streamGenerateContent?alt=sse", `{"contents":[]}`),
	}
	wants := map[string]string{
		"azure-empty-object":         `openai done "stop" [] 11 5`,
		"chunks-without-object":      `openai done "stop" [] 11 5`,
		"tool-calls-without-index":   `openai done "tool_calls" [get_weather get_time] 11 5`,
		"tool-id-name-repeated":      `openai done "tool_calls" [get_weather] 11 5`,
		"arguments-object":           `openai done "tool_calls" [get_weather] 11 5`,
		"content-array":              `openai done "stop" [] 11 5`,
		"text-in-block-start":        `anthropic done "end_turn" [] 9 7`,
		"tool-ids-empty":             `openai done "tool_calls" [get_weather get_weather] 11 5`,
		"stop-with-tool-calls":       `openai done "stop" [get_weather] 11 5`,
		"vllm-error-first":           `openai failed "BadRequestError" [] 0 0`,
		"openai-error-in-200":        `openai failed "insufficient_quota" [] 0 0`,
		"openrouter-midstream-error": `openai failed "502" [] 0 0`,
		"gemini-malformed-call":      `gemini failed "MALFORMED_FUNCTION_CALL" [] 8 0`,
		"gemini-signature":           `gemini done "STOP" [get_weather get_time] 8 17`,
		"compaction-iterations":      `anthropic done "end_turn" [] 1009 57`,
		"error-in-tool-arguments":    `anthropic failed "overloaded_error" [get_weather] 9 1`,
		"cut":                        `openai died "" [] 0 0 no-final`,
		"cut-anthropic":              `anthropic died "" [] 9 1 no-final`,
		"no-message-stop":            `anthropic done "end_turn" [] 9 7 no-final`,
		"tool-arguments-pieces":      `anthropic done "tool_use" [get_weather] 9 12`,
	}
	for _, part := range strings.Split(string(text), "\n-- ")[1:] {
		name, answer, _ := strings.Cut(part, " --\n")
		name, form, _ := strings.Cut(name, ".")
		if form == "http" {
			continue
		}
		kind, _, _ := strings.Cut(wants[name], " ")
		wire := []string{requests[kind]}
		if form == "json" {
			wire = append(wire, said("200 OK", strings.TrimSpace(answer)))
		} else {
			wire = append(wire, events)
			for e := range strings.SplitSeq(strings.TrimSpace(answer), "\n\n") {
				if e != "#CUT" {
					wire = append(wire, chunk(e+"\n\n"))
				}
			}
			if !strings.HasSuffix(strings.TrimSpace(answer), "#CUT") {
				wire = append(wire, last)
			}
		}
		s := &script{}
		s.ends(frame.U2C, wire...)
		got := ""
		for _, tr := range follow(t, s).List {
			for e := range tr.Exchanges() {
				got += fmt.Sprintf("%s %v %q %v %d %d", tr.Protocol.Name(), e.Outcome, e.StopReason, e.ToolCalls, e.Usage.Input, e.Usage.Output)
			}
			for f := range tr.Findings() {
				if f.Severity > session.Note {
					got += " " + f.Name
				}
			}
		}
		if got != wants[name] {
			t.Errorf("%s.%s: got %s, want %s", name, form, got, wants[name])
		}
	}
}

// A model whose answer its server cuts has died, however the answer is sent. A client that
// leaves cancels it, even if the server ends the stream then.
func TestModelsThatAreCut(t *testing.T) {
	untilClose := strings.Replace(events, "Transfer-Encoding: chunked\r\n", "", 1)
	messages := []string{post("/v1/messages", `{"model":"m","messages":[]}`), events, event(`{"type":"message_start","message":{"model":"m"}}`)}
	for about, wire := range map[string][]string{
		"Messages":                   messages,
		"Messages, inside an event":  append(slices.Clone(messages), "<10\r\ndata: {"),
		"Messages, inside a chunk":   append(slices.Clone(messages), "<100\r\n: hi\n\n"),
		"Messages, before the head":  messages[:1],
		"Messages, inside the body":  {messages[0], "<HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{"},
		"Messages, up to the close":  {messages[0], untilClose, "<data: {\"type\":\"ping\"}\n\n"},
		"Messages, up to a good end": append(slices.Clone(messages), "leave", last),
		"Messages, up to nothing":    {messages[0], "leave", "<HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"},
		"Chat Completions":           {post("/v1/chat/completions", `{"model":"m","messages":[]}`), events, event(`{"object":"chat.completion.chunk","model":"m","choices":[]}`)},
		"Responses":                  {post("/v1/responses", `{"model":"m","input":"x"}`), events, event(`{"type":"response.created","response":{"model":"m"}}`)},
		"Gemini":                     {post("/v1beta/models/m:streamGenerateContent?alt=sse", `{"contents":[]}`), events, event(`{"candidates":[]}`)},
		"HTTP/2":                     {h2(":method", "POST", ":path", "/v1/chat/completions") + data(`{"model":"m","messages":[]}`), "<" + h2(":status", "200", "content-type", "text/event-stream")[1:]},
	} {
		for first, want := range map[frame.Dir]session.Outcome{frame.C2U: session.Cancelled, frame.U2C: session.Died} {
			if about == "Messages, up to nothing" && want == session.Died {
				want = session.Failed // an answer, but an empty one
			}
			s := &script{}
			s.ends(first, wire...)
			for _, tr := range follow(t, s).List {
				for f := range tr.Findings() {
					if want == session.Cancelled && f.Name == "no-final" && f.Severity > session.Note {
						t.Errorf("%s: the client has left, but no-final is found", about)
					}
				}
				for e := range tr.Exchanges() {
					if e.Outcome != want {
						t.Errorf("%s: ended %v first, %s %s is %v, not %v", about, first, tr.Protocol.Name(), e.Kind, e.Outcome, want)
					}
				}
			}
		}
	}
}

// ends appends what a connection carried, as in [over], and its ends, first that of one
// direction. The word leave stands for the controller's end, if that is the first.
func (s *script) ends(first frame.Dir, wire ...string) {
	c := carrier.New(carrier.Options{})
	now := int64(1000)
	add := func(frames []frame.Frame) {
		for _, f := range frames {
			now++
			f.Raw, f.Meta, f.Conn = bytes.Clone(f.Raw), f.Meta.Clone(), 1
			s.records = append(s.records, capture.Record{Framing: f.Meta.Framing, Frame: f, Time: time.Unix(now, 0)})
		}
	}
	var ended [3]bool
	end := func(dir frame.Dir) {
		if !ended[dir] {
			ended[dir] = true
			add(c.End(dir))
			s.records = append(s.records, capture.Record{Kind: capture.HalfClosed, Frame: frame.Frame{Conn: 1, Dir: dir}, Time: time.Unix(now, 0)})
		}
	}
	for _, w := range wire {
		switch {
		case w[0] == '>':
			add(c.Feed(frame.C2U, []byte(w[1:])))
		case w[0] == '<':
			add(c.Feed(frame.U2C, []byte(w[1:])))
		case first == frame.C2U:
			end(first)
		}
	}
	end(first)
	end(first.Opposite())
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

// What requests to models and their answers break is found, and nothing else.
func TestLintOfModels(t *testing.T) {
	const (
		whole  = `{"object":"chat.completion","model":"g","choices":[{"message":{"content":"a"},"finish_reason":"stop"}],"usage":{"prompt_tokens":4,"completion_tokens":2,"total_tokens":6}}`
		limits = `{"error":{"code":"rate_limit","message":"no"}}`
		start  = `{"type":"message_start","message":{"model":"c","usage":{"input_tokens":9,"output_tokens":1}}}`
		use    = `{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"t","name":"f","input":{}}}`
		stop   = `{"type":"message_stop"}`
	)
	chat := func(body string) string {
		return post("/v1/chat/completions", `{"model":"g","messages":[`+body+`]}`)
	}
	answer := func(message, reason, usage string) string {
		return said("200 OK", `{"object":"chat.completion","model":"g","choices":[{"index":0,"message":`+message+`,"finish_reason":"`+reason+`"}]`+usage+`}`)
	}
	calls := func(arguments, reason string) string {
		return answer(`{"tool_calls":[{"id":"c","function":{"name":"f","arguments":`+arguments+`}}]}`, reason, `,"usage":{"prompt_tokens":1,"completion_tokens":1}`)
	}
	pieces := func(reason string, fragments ...string) []string {
		wire := []string{post("/v1/messages", `{"model":"c","messages":[]}`), events, event(start), event(use)}
		for _, f := range fragments {
			wire = append(wire, event(`{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"`+f+`"}}`))
		}
		return append(wire, event(`{"type":"message_delta","delta":{"stop_reason":"`+reason+`"},"usage":{"output_tokens":2}}`), event(stop), last)
	}
	responses := func(input string) []string {
		return []string{post("/v1/responses", `{"model":"g",`+input+`}`), said("200 OK", `{"object":"response","status":"completed","output":[],"usage":{"input_tokens":1,"output_tokens":1,"total_tokens":2}}`)}
	}
	gemini := func(body, usage string, parts ...string) []string {
		return []string{post("/v1beta/models/m:generateContent", body), said("200 OK", `{"candidates":[{"content":{"parts":[`+strings.Join(parts, ",")+`]},"finishReason":"STOP"}]`+usage+`}`)}
	}
	large := strings.Replace(post("/v1/messages", `{"model":"c","messages":[]}`), "Length: ", "Length: 9999999", 1)
	tooled := post("/v1/chat/completions", `{"model":"g","messages":[],"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{"a":{"type":"string"}}}}}]}`)
	const sums = `,"usageMetadata":{"promptTokenCount":4,"candidatesTokenCount":2,"thoughtsTokenCount":3,"totalTokenCount":9}`
	for _, test := range []struct {
		about string
		wire  []string
		want  string
	}{
		{"no usage", []string{chat(""), answer(`{"content":"a"}`, "stop", "")}, "wrong-usage [1 2]"},
		{"a stream that was not asked for its usage", []string{chat(""), events, event(`{"object":"chat.completion.chunk","choices":[{"delta":{"content":"a"},"finish_reason":"stop"}]}`), event("[DONE]"), last}, ""},
		{"a total that is not the sum", []string{chat(""), answer(`{"content":"a"}`, "stop", `,"usage":{"prompt_tokens":4,"completion_tokens":2,"total_tokens":7}`)}, "wrong-usage [1 2]"},
		{"more cached than given", []string{chat(""), answer(`{"content":"a"}`, "stop", `,"usage":{"prompt_tokens":4,"prompt_tokens_details":{"cached_tokens":5},"completion_tokens":2}`)}, "wrong-usage [1 2]"},
		{"the sum", []string{chat(""), said("200 OK", whole)}, ""},
		{"the sum with thoughts", gemini(`{}`, sums), ""},
		{"no sum of Gemini", gemini(`{}`, strings.Replace(sums, "9", "6", 1)), "wrong-usage [1 2]"},
		{"no usage of Gemini", gemini(`{}`, ""), "wrong-usage [1 2]"},
		{"no usage of Messages", []string{post("/v1/messages", `{"model":"c","messages":[]}`), said("200 OK", `{"type":"message","stop_reason":"end_turn"}`)}, "wrong-usage [1 2]"},

		{"arguments that are no JSON", []string{chat(""), calls(`"{\"a\":"`, "tool_calls")}, "bad-arguments [1 2]"},
		{"arguments that are cut", []string{chat(""), calls(`"{\"a\":"`, "length")}, ""},
		{"arguments", []string{chat(""), calls(`"{\"a\":1}"`, "tool_calls")}, ""},
		{"no arguments", []string{chat(""), calls(`""`, "tool_calls")}, ""},
		{"arguments in pieces", pieces("tool_use", "", `{\"a\"`, `:\"\\`, `n\"}`), ""},
		{"no arguments in pieces", pieces("tool_use"), ""},
		{"arguments that an error cuts", append(pieces("", `{\"a\"`)[:5:5], event(`{"type":"error","error":{"type":"overloaded_error","message":"no"}}`), last), ""},
		{"arguments that are an object", []string{tooled, calls(`{"a":1}`, "tool_calls")}, "bad-arguments [1 2]"},
		{"pieces without an index", []string{chat(""), events, event(`{"choices":[{"delta":{"tool_calls":[{"id":"a","function":{"name":"f","arguments":"{}"}}]}}]}`), event(`{"choices":[{"delta":{"tool_calls":[{"id":"b","function":{"name":"f","arguments":"{}"}}]}}]}`), event(`{"choices":[{"delta":{},"finish_reason":"tool_calls"}]}`), event("[DONE]"), last}, ""},
		{"ids in each piece", []string{chat(""), events, event(`{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{"}}]}}]}`), event(`{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"}"}}]},"finish_reason":"tool_calls"}]}`), event("[DONE]"), last}, ""},
		{"pieces that are no JSON", pieces("tool_use", `{\"a\"`, `:}`), "bad-arguments [1 8]"},
		{"pieces that are cut", pieces("max_tokens", `{\"a\"`), ""},
		{"arguments of a response", []string{post("/v1/responses", `{"model":"g","input":"x"}`), said("200 OK", `{"object":"response","status":"completed","output":[{"type":"function_call","name":"f","arguments":"{"}],"usage":{}}`)}, "bad-arguments [1 2]"},

		{"arguments that do not fit", []string{tooled, calls(`"{\"a\":1}"`, "tool_calls")}, "bad-arguments [1 2]"},
		{"arguments that fit", []string{tooled, calls(`"{\"a\":\"x\"}"`, "tool_calls")}, ""},
		{"input that does not fit", []string{post("/v1/messages", `{"model":"c","messages":[],"tools":[{"name":"f","input_schema":{"type":"object","required":["a"]}}]}`), said("200 OK", `{"type":"message","stop_reason":"tool_use","content":[{"type":"tool_use","name":"f","input":{}}],"usage":{}}`)}, "bad-arguments [1 2]"},
		{"args that do not fit", gemini(`{"tools":[{"functionDeclarations":[{"name":"f","parametersJsonSchema":{"type":"object","required":["a"]}}]}]}`, `,"x":0`+sums, `{"functionCall":{"name":"f","args":{}}}`), "bad-arguments [1 2]"},

		{"a result for no call", []string{chat(`{"role":"tool","tool_call_id":"c","content":"x"}`), said("200 OK", whole)}, "unknown-tool-call [1]"},
		{"a result for a call", []string{chat(`{"role":"assistant","tool_calls":[{"id":"c"}]},{"role":"tool","tool_call_id":"c"}`), said("200 OK", whole)}, ""},
		{"a result for no call of Messages", []string{post("/v1/messages", `{"model":"c","messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"t"}]}]}`), events, event(start), event(`{"type":"message_delta","delta":{"stop_reason":"end_turn"}}`), event(stop), last}, "unknown-tool-call [1]"},
		{"a result for a call of Messages", []string{post("/v1/messages", `{"model":"c","messages":[{"role":"assistant","content":[{"type":"tool_use","id":"t"}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t"}]}]}`), events, event(start), event(`{"type":"message_delta","delta":{"stop_reason":"end_turn"}}`), event(stop), last}, ""},
		{"a result for no call of Responses", responses(`"input":[{"type":"function_call_output","call_id":"c"}]`), "unknown-tool-call [1]"},
		{"a result for a call that the server keeps", responses(`"input":[{"type":"function_call_output","call_id":"c"}],"previous_response_id":"r"`), ""},
		{"a result for an item that the server keeps", responses(`"input":[{"type":"item_reference","id":"i"},{"type":"function_call_output","call_id":"c"}]`), ""},
		{"a result for a call of Responses", responses(`"previous_response_id":null,"input":[{"type":"function_call","call_id":"c"},{"type":"function_call_output","call_id":"c"}]`), ""},
		{"a result for no call of Gemini", gemini(`{"contents":[{"parts":[{"functionResponse":{"name":"f"}}]}]}`, sums), "unknown-tool-call [1]"},
		{"a result for a call of Gemini", gemini(`{"contents":[{"parts":[{"functionCall":{"name":"f"}}]},{"parts":[{"functionResponse":{"name":"f"}}]}]}`, sums), ""},

		{"a request that had succeeded", []string{chat(""), said("200 OK", whole), chat(""), said("200 OK", whole)}, "repeated-request [1 3]"},
		{"a request after a refusal", []string{chat(""), said("429 Too Many Requests", limits), chat(""), said("200 OK", whole)}, ""},
		{"another request", []string{chat(""), said("200 OK", whole), chat("1"), said("200 OK", whole)}, ""},
		{"an answer that is too large", []string{chat(""), strings.Replace(said("200 OK", whole), "Length: ", "Length: 9999999", 1)}, "oversize [2]"},
		{"an answer to a request that is too large", []string{large, said("200 OK", `{"id":"msg_1","type":"message","role":"assistant","content":[],"stop_reason":"end_turn","usage":{"input_tokens":1,"output_tokens":1}}`)}, "oversize [1]"},
		{"a stream for a request that is too large", []string{large, events, event(start), event(`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":2}}`), event(stop), last}, "oversize [1]"},
		{"a count of tokens", []string{post("/v1/messages/count_tokens", `{"model":"c","messages":[]}`), said("200 OK", `{"input_tokens":1}`), post("/v1/messages/count_tokens", `{"model":"c","messages":[]}`), said("200 OK", `{"input_tokens":1}`)}, ""},
	} {
		var got []string
		for _, tr := range follow(t, over(test.wire...)).List {
			for f := range tr.Findings() {
				got = append(got, fmt.Sprint(f.Name, " ", f.Frames))
			}
		}
		if got := strings.Join(got, "; "); got != test.want {
			t.Errorf("%s: found %q, want %q", test.about, got, test.want)
		}
	}
}

// A request that is repeated while it is open, on another connection too, is a repetition
// if it was not given up: an answer shows that.
func TestRepeatedOnConnections(t *testing.T) {
	const (
		ask   = "POST /v1/chat/completions HTTP/1.1"
		body  = `{"model":"g","messages":[]}`
		whole = `{"object":"chat.completion","choices":[],"usage":{}}`
		no    = `{"error":{"code":"rate_limit"}}`
	)
	first, second := http(1, "", ask, body), http(2, "", ask, body)
	for name, test := range map[string]struct {
		records []capture.Record
		want    string
	}{
		"answered":       {[]capture.Record{first, second, http(1, "", "HTTP/1.1 200 OK", whole), http(2, "", "HTTP/1.1 200 OK", whole)}, "[1 2 3]"},
		"refused":        {[]capture.Record{first, second, http(1, "", "HTTP/1.1 429 Too Many Requests", no)}, ""},
		"never answered": {[]capture.Record{first, second, http(2, "", "HTTP/1.1 200 OK", whole)}, ""},
	} {
		got := ""
		for f := range follow(t, &script{records: test.records}).List[0].Findings() {
			if f.Name == "repeated-request" {
				got += fmt.Sprint(f.Frames)
			}
		}
		if got != test.want {
			t.Errorf("%s: found %q, want %q", name, got, test.want)
		}
	}
}

// A call of a model costs what the user says, or else the list, by the model that answers, however often the
// answer tells of its usage. The list does not hold for other tiers of service, nor for audio.
func TestCosts(t *testing.T) {
	list, err := prices.Parse("p.yaml", []byte("m-1: {input: 2, cached: 1, output: 10}\nc-*: {input: 3, output: 15}"))
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		about string
		wire  []string
		want  int64 // millionths of a dollar
	}{
		{"streamed", []string{
			post("/v1beta/models/m:streamGenerateContent?alt=sse", `{"contents":[]}`), events,
			event(`{"candidates":[{"content":{"parts":[{"text":"a"}]}}],"usageMetadata":{"promptTokenCount":100,"cachedContentTokenCount":40,"candidatesTokenCount":1},"modelVersion":"m-1"}`),
			event(`{"candidates":[{"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":100,"cachedContentTokenCount":40,"candidatesTokenCount":7},"modelVersion":"m-1"}`), last,
		}, 60*2 + 40*1 + 7*10},
		{"whole", []string{post("/v1/messages", `{"model":"c","messages":[]}`), said("200 OK", `{"type":"message","model":"c-1","stop_reason":"end_turn","usage":{"input_tokens":10,"cache_read_input_tokens":5,"output_tokens":2}}`)}, 15*3 + 2*15},
		{"listed", []string{post("/v1/chat/completions", `{"model":"gpt-5","messages":[]}`), said("200 OK", `{"object":"chat.completion","model":"gpt-5","service_tier":"default","choices":[],"usage":{"prompt_tokens":100}}`)}, 125},
		{"another tier", []string{post("/v1/chat/completions", `{"model":"gpt-5","messages":[]}`), said("200 OK", `{"object":"chat.completion","model":"gpt-5","service_tier":"flex","choices":[],"usage":{"prompt_tokens":100}}`)}, 0},
		{"another tier, with a price of the user", []string{post("/v1/chat/completions", `{"model":"m-1","messages":[]}`), said("200 OK", `{"object":"chat.completion","model":"m-1","service_tier":"flex","choices":[],"usage":{"prompt_tokens":100}}`)}, 200},
		{"in the stream of Responses", []string{
			post("/v1/responses", `{"model":"gpt-5","input":"a"}`), events,
			event(`{"type":"response.created","response":{"model":"gpt-5","service_tier":"auto"}}`),
			event(`{"type":"response.completed","response":{"model":"gpt-5","status":"completed","service_tier":"priority","usage":{"input_tokens":100,"output_tokens":1}}}`), last,
		}, 0},
		{"fast", []string{post("/v1/messages", `{"model":"claude-opus-5","messages":[]}`), said("200 OK", `{"type":"message","model":"claude-opus-5","stop_reason":"end_turn","usage":{"input_tokens":10,"speed":"fast","output_tokens":2}}`)}, 0},
		{"an hour without a price of it", []string{post("/v1/messages", `{"model":"claude-3-opus","messages":[]}`), said("200 OK", `{"type":"message","model":"claude-3-opus","stop_reason":"end_turn","usage":{"input_tokens":10,"cache_creation_input_tokens":5,"cache_creation":{"ephemeral_1h_input_tokens":5},"output_tokens":2}}`)}, 0},
		{"audio", []string{post("/v1beta/models/m:generateContent", `{"contents":[]}`), said("200 OK", `{"candidates":[{"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":100,"promptTokensDetails":[{"modality":"AUDIO","tokenCount":90}]},"modelVersion":"gemini-2.5-flash"}`)}, 0},
		{"no price", []string{post("/v1/chat/completions", `{"model":"g","messages":[]}`), said("200 OK", `{"object":"chat.completion","model":"g","choices":[],"usage":{"prompt_tokens":10}}`)}, 0},
	} {
		ts := follow(t, over(test.wire...), func(cfg *decode.Config) { cfg.Prices = prices.Book{User: list, Listed: prices.Listed()} })
		for e := range ts.List[0].Exchanges() {
			if e.Usage.Cost != test.want || ts.List[0].Stats().Usage.Cost != test.want {
				t.Errorf("%s: %d, and %d in all, want %d", test.about, e.Usage.Cost, ts.List[0].Stats().Usage.Cost, test.want)
			}
		}
	}
}

// An open call takes at most 64 KiB besides what is kept of its text, whatever is asked and
// answered: a request with many tools and messages, and a long answer that calls many tools.
func TestOpenCallsAreSmall(t *testing.T) {
	const calls = 32
	var messages []string
	tools := func(conn int) string {
		var list []string
		for i := range 260 {
			list = append(list, fmt.Sprintf(`{"name":"tool_%d_%d","description":"%s","input_schema":{"type":"object","properties":{"a":{"type":"string"}}}}`, conn, i, strings.Repeat("x", 500)))
		}
		return strings.Join(list, ",")
	}
	for range 40 {
		messages = append(messages, `{"role":"user","content":"`+strings.Repeat("y", 500)+`"}`)
	}
	for name, test := range map[string]struct {
		said  bool
		limit uint64
	}{"without text": {false, 64 << 10}, "with text": {true, 64<<10 + 256<<10}} {
		var before, after runtime.MemStats
		measure := func(m *runtime.MemStats) {
			runtime.GC()
			runtime.GC()
			runtime.ReadMemStats(m)
		}
		ts := &track.Trackers{Said: test.said}
		f := track.NewFollower(ts, decode.Input{Capture: &script{}}, decode.Config{})
		var p protocol.Message
		feed := func(conn int, dir frame.Dir, head *frame.Head, payload string) {
			body := []byte(payload)
			if err := anthropic.Spec.Protocol.Parse(body, &p); err != nil {
				t.Fatal(err)
			}
			fr := &frame.Frame{Raw: body, End: len(body), Dir: dir, Conn: conn, Stream: 1, Meta: &frame.Meta{Framing: frame.HTTP, Head: head}}
			if _, err := f.View(nil, &decode.Item{Frame: fr, Payload: body, Protocol: anthropic.Spec.Protocol, Message: p, Time: time.Unix(1000, 0)}); err != nil {
				t.Fatal(err)
			}
		}
		ask := func(conn int) {
			feed(conn, frame.C2U, &frame.Head{Start: "POST /v1/messages HTTP/1.1", Fields: []frame.Field{{Name: "anthropic-version", Value: "1"}}},
				fmt.Sprintf(`{"model":"c","tools":[%s],"messages":["%d",%s]}`, tools(conn), conn, strings.Join(messages, ",")))
			for i := range 300 {
				feed(conn, frame.U2C, nil, fmt.Sprintf(`{"type":"content_block_start","index":%d,"content_block":{"type":"tool_use","name":"tool_%d","input":{}}}`, i, i))
				feed(conn, frame.U2C, nil, fmt.Sprintf(`{"type":"content_block_delta","index":%d,"delta":{"type":"input_json_delta","partial_json":"%s"}}`, i, strings.Repeat("z", 2000)))
			}
		}
		for conn := range 64 { // what is remembered of requests, which is bounded by itself
			ask(1000 + conn)
		}
		measure(&before)
		for conn := range calls {
			ask(1 + conn)
		}
		measure(&after)
		each := (after.HeapAlloc - before.HeapAlloc) / calls
		t.Logf("%s: %d bytes for each open call", name, each)
		if after.HeapAlloc > before.HeapAlloc && each > test.limit {
			t.Errorf("%s: an open call takes %d bytes, want at most %d", name, each, test.limit)
		}
		open := 0
		for e := range ts.List[0].Exchanges() {
			if e.Outcome == session.Open {
				open++
			}
		}
		if open != calls+64 {
			t.Fatalf("%d calls are open", open)
		}
	}
}
