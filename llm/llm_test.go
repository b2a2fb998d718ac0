package llm_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/wirectl/wirectl/llm"
)

var apiNames = map[llm.API]string{llm.Chat: "chat", llm.Responses: "responses", llm.Messages: "messages", llm.Contents: "contents"}

// apis are all, and encoded those whose requests are written.
var (
	apis    = []llm.API{llm.Chat, llm.Responses, llm.Messages, llm.Contents}
	encoded = []llm.API{llm.Chat, llm.Messages, llm.Contents}
)

func text(s string) []llm.Delta {
	var list []llm.Delta
	for word := range strings.SplitAfterSeq(s, " ") {
		list = append(list, llm.Delta{Text: llm.Quote(word)})
	}
	return list
}

func call(i int, id, name string, pieces ...string) []llm.Delta {
	list := []llm.Delta{{Call: &llm.CallDelta{Index: i, ID: id, Name: name}}}
	for _, p := range pieces {
		list = append(list, llm.Delta{Call: &llm.CallDelta{Index: i, Arguments: p}})
	}
	return list
}

// meanings are what an answer may mean. Each is made of deltas, a finish reason and a usage.
var meanings = map[string]struct {
	deltas  []llm.Delta
	finish  string
	refused bool
	want    string
}{
	"text":                     {text("so \"it\" is\né"), "stop", false, `"so \"it\" is\né" stop []`},
	"two parallel tools":       {append(call(0, "a", "f", `{"x"`, `:1}`), call(1, "b", "g", `{"y":"z"}`)...), "tool_calls", false, `"" tool_calls [a f {"x":1} b g {"y":"z"}]`},
	"text and a tool":          {append(text("I look"), call(0, "a", "f", `{}`)...), "tool_calls", false, `"I look" tool_calls [a f {}]`},
	"a tool without arguments": {call(0, "a", "f"), "tool_calls", false, `"" tool_calls [a f {}]`},
	"a refusal":                {text("I will not"), "content_filter", true, `"I will not" content_filter []`},
	"length":                   {text("it goes o"), "length", false, `"it goes o" length []`},
	"reasoning":                {append([]llm.Delta{{Thought: llm.Quote("hm")}}, text("so")...), "stop", false, `"so" stop []`},
}

func meaning(a *llm.Answer) string {
	var calls []string
	for _, c := range a.ToolCalls {
		calls = append(calls, c.ID, c.Name, string(c.Arguments))
	}
	return fmt.Sprintf("%s %s %v", llm.Quote(a.Plain()), a.Finish, calls)
}

// write writes deltas as an answer of an API: whole, or as events.
func write(t *testing.T, api llm.API, deltas []llm.Delta, a *llm.Answer, stream bool) (events []string) {
	t.Helper()
	w := llm.NewWriter(api, &llm.Reply{ID: "id", Model: "m", Usage: true, Thoughts: true, Request: llm.Decode(llm.Responses, []byte(`{"input":"x"}`)), Send: func(_ string, data []byte) {
		if string(data) != "[DONE]" && !json.Valid(data) {
			t.Errorf("%s: %s", apiNames[api], data)
		}
		events = append(events, string(data))
	}})
	if stream {
		for i := range deltas {
			w.Delta(&deltas[i])
		}
		w.Finish(a)
		return events
	}
	body, err := w.Whole(a)
	if err != nil {
		t.Fatal(err)
	}
	return []string{string(body)}
}

// read reads an answer, and returns its deltas.
func read(t *testing.T, api llm.API, events []string, stream bool) (*llm.Answer, []llm.Delta) {
	t.Helper()
	var a llm.Answer
	var all []llm.Delta
	d := llm.Decoder{API: api, Answer: &a, Chunks: stream}
	for _, e := range events {
		deltas, err := d.Read([]byte(e))
		if err != nil {
			t.Fatalf("%s: %v: %s", apiNames[api], err, e)
		}
		all = append(all, deltas...)
	}
	a.Seal()
	return &a, all
}

// Whatever the APIs of the provider and the client are, and whether the answer is streamed or
// whole, its text, its tool calls, its end and its usage are the same on both sides.
func TestAnswers(t *testing.T) {
	for name, m := range meanings {
		for _, provider := range apis {
			for _, client := range apis {
				for _, stream := range []bool{false, true} {
					t.Run(fmt.Sprintf("%s of %s for %s, streamed %t", name, apiNames[provider], apiNames[client], stream), func(t *testing.T) {
						var original llm.Answer
						for _, d := range m.deltas {
							switch {
							case d.Text != nil:
								original.AppendText(d.Text)
							case d.Thought != nil:
								original.AppendThought(d.Thought)
							case d.Call.ID != "":
								original.ToolCalls = append(original.ToolCalls, llm.ToolCall{ID: d.Call.ID, Name: d.Call.Name})
							default:
								c := &original.ToolCalls[d.Call.Index]
								c.Arguments = append(c.Arguments, d.Call.Arguments...)
							}
						}
						for i := range original.ToolCalls {
							original.ToolCalls[i].Arguments = llm.Arguments(string(original.ToolCalls[i].Arguments))
						}
						original.Finish, original.Refused = m.finish, m.refused
						original.Usage = llm.Usage{Input: 9, Output: 7, Cached: 4}
						original.Seal()
						said := slices.Clone(m.deltas)
						for i := range said {
							said[i].Refused = m.refused
						}
						got, deltas := read(t, provider, write(t, provider, said, &original, stream), stream)
						if meaning(got) != m.want {
							t.Fatalf("read as %s, want %s", meaning(got), m.want)
						}
						events := write(t, client, deltas, got, stream)
						again, _ := read(t, client, events, stream)
						if meaning(again) != m.want || again.Usage.Input != 9 || again.Usage.Output != 7 || again.Usage.Cached != 4 {
							t.Errorf("the client reads %s %+v, want %s\n%s", meaning(again), again.Usage, m.want, events)
						}
					})
				}
			}
		}
	}
}

// encode writes a request for a provider's API.
func encode(r *llm.Request, api llm.API) ([]byte, error) {
	switch api {
	case llm.Messages:
		return r.EncodeMessages("m", 9)
	case llm.Contents:
		return r.EncodeContents(func(string) string { return "" }, "")
	}
	return r.EncodeChat("m")
}

// A conversation means the same in each API.
func TestRequests(t *testing.T) {
	const image = "data:image/png;base64,QQ=="
	for name, r := range map[string]llm.Request{
		"text":  {Turns: []llm.Turn{{Role: "system", Parts: []llm.Part{{Text: "be kind"}}}, {Role: "user", Parts: []llm.Part{{Text: "hi"}}}, {Role: "assistant", Parts: []llm.Part{{Text: "so"}}}, {Role: "user", Parts: []llm.Part{{Text: "well?"}}}}},
		"image": {Turns: []llm.Turn{{Role: "user", Parts: []llm.Part{{Text: "look"}, {ImageURL: image, At: "x"}}}}},
		"two parallel tools": {
			Turns: []llm.Turn{
				{Role: "user", Parts: []llm.Part{{Text: "hi"}}},
				{Role: "assistant", Calls: []llm.ToolCall{{ID: "a", Name: "f", Arguments: []byte(`{"x":1}`)}, {ID: "b", Name: "g", Arguments: []byte("{}")}}},
				{Role: "tool", Answers: "a", Parts: []llm.Part{{Text: "1"}}},
				{Role: "tool", Answers: "b", Parts: []llm.Part{{Text: "2"}}},
			},
			Tools:  []llm.Tool{{Name: "f", Description: "d", Parameters: []byte(`{"type":"object"}`)}, {Name: "g", Parameters: []byte(`{"type":"object"}`)}},
			Choice: "required",
		},
	} {
		summary := func(r *llm.Request) string {
			s := ""
			for _, turn := range r.Turns {
				s += "\n" + turn.Role + " " + turn.Answers
				for _, p := range turn.Parts {
					s += fmt.Sprintf(" %q%s", p.Text, p.ImageURL)
				}
				for _, c := range turn.Calls {
					s += fmt.Sprintf(" %s %s %s", c.ID, c.Name, c.Arguments)
				}
			}
			for _, tool := range r.Tools {
				s += fmt.Sprintf("\n%s %s %s", tool.Name, tool.Description, tool.Parameters)
			}
			return s + "\n" + r.Choice + r.Tool
		}
		want := summary(&r)
		for _, from := range encoded {
			for _, to := range encoded {
				body, err := encode(&r, from)
				if err != nil {
					t.Fatal(err)
				}
				first := llm.Decode(from, body)
				if body, err = encode(first, to); err != nil {
					t.Fatalf("%s from %s to %s: %v", name, apiNames[from], apiNames[to], err)
				}
				if got := summary(llm.Decode(to, body)); got != want {
					t.Errorf("%s from %s to %s:%s\nwant%s\n%s", name, apiNames[from], apiNames[to], got, want, body)
				}
			}
		}
	}
}

// An error in mid-stream is one for clients of every API, with its status, after all that came before.
func TestErrorsInStreams(t *testing.T) {
	for _, status := range []int{400, 429, 500, 503, 504, 529} {
		for _, provider := range apis {
			for _, client := range apis {
				about := fmt.Sprintf("%d from %s to %s", status, apiNames[provider], apiNames[client])
				first := llm.ReadError(status, llm.EncodeError(provider, &llm.Error{Status: status, Message: "no"}))
				deltas, err := failing(t, provider, append(text("it was"), call(0, "a", "f", `{"x`)...), first)
				again, err := failing(t, client, deltas, err)
				var a llm.Answer
				for _, d := range again {
					if d.Text != nil {
						a.AppendText(d.Text)
					}
				}
				// Responses have words for kinds of errors, and Messages one for 503 and 529.
				like := err.Status == status || status >= 503 && (err.Status == 503 || err.Status == 529) ||
					(provider == llm.Responses || client == llm.Responses) && err.Status/100 == status/100 && (err.Status == 429) == (status == 429)
				if a.Plain() != "it was" || !like || err.Message != "no" {
					t.Errorf("%s: %q and then %+v", about, a.Plain(), err)
				}
			}
		}
	}
}

// failing writes a stream that fails, and returns what a client of the API reads of it.
func failing(t *testing.T, api llm.API, deltas []llm.Delta, with *llm.Error) (all []llm.Delta, failure *llm.Error) {
	t.Helper()
	if with == nil {
		t.Fatalf("%s: no failure is read", apiNames[api])
	}
	d := llm.Decoder{API: api, Answer: new(llm.Answer), Chunks: true}
	w := llm.NewWriter(api, &llm.Reply{ID: "id", Model: "m", Request: llm.Decode(llm.Responses, []byte(`{"input":"x"}`)), Send: func(_ string, data []byte) {
		deltas, err := d.Read(bytes.Clone(data))
		all = append(all, slices.Clone(deltas)...)
		errors.As(err, &failure)
	}})
	for i := range deltas {
		w.Delta(&deltas[i])
	}
	if complete := w.Fail(with); complete != (api == llm.Responses) {
		t.Errorf("%s: a failure is a complete end: %t", apiNames[api], complete)
	}
	return all, failure
}

// An error has the same status in each API, and the words of its own.
func TestErrors(t *testing.T) {
	for _, status := range []int{400, 401, 402, 403, 404, 413, 429, 500, 503, 504, 529} {
		for _, from := range encoded {
			for _, to := range encoded {
				e := llm.ReadError(status, llm.EncodeError(from, &llm.Error{Status: status, Message: "no"}))
				again := llm.ReadError(status, llm.EncodeError(to, e))
				if again.Status != status || again.Message != "no" || again.Type == "" {
					t.Errorf("%d from %s to %s: %+v", status, apiNames[from], apiNames[to], again)
				}
			}
		}
	}
	for event, want := range map[string]int{
		`{"error":{"code":400,"type":"BadRequestError"}}`:                 400,
		`{"type":"error","error":{"type":"overloaded_error"}}`:            529,
		`{"error":{"code":"insufficient_quota"}}`:                         429,
		`{"error":{"code":8,"status":"RESOURCE_EXHAUSTED","details":[]}}`: 429,
		`{"error":"gone"}`: 503,
		`[{"error":{"code":429,"status":"RESOURCE_EXHAUSTED"}}]`:        429,
		`{"object":"error","message":"no","code":404}`:                  404,
		`{"choices":[{"delta":{},"error":{"code":502,"message":"x"}}]}`: 502,
	} {
		if got := llm.ReadError(0, []byte(event)); got.Status != want || !got.Final {
			t.Errorf("%s: %+v, want %d", event, got, want)
		}
	}
}

// Pieces of tool calls are joined by id first, then by index. A name or an id is set once, an empty
// id gets one, and a call without a name is dropped.
func TestCallsAreJoined(t *testing.T) {
	for chunks, want := range map[string]string{
		`{"id":"a","function":{"name":"f","arguments":"{}"}}|{"id":"b","function":{"name":"g","arguments":"{}"}}`:                                                                                            "[a f {} b g {}]",
		`{"index":0,"id":"a","function":{"name":"f","arguments":"{\"x\""}}|{"index":0,"id":"a","function":{"name":"f","arguments":":1}"}}`:                                                                   `[a f {"x":1}]`,
		`{"index":1,"id":"a","function":{"name":"f","arguments":"{}"}}`:                                                                                                                                      "[a f {}]",
		`{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}|{"index":0,"id":"b","function":{"name":"g","arguments":"{"}}|{"index":0,"function":{"arguments":"}"}}`:                                "[a f {} b g {}]",
		`{"index":0,"id":"a","function":{"name":"f"}}|{"index":1,"id":"b","function":{"name":"g"}}|{"index":0,"function":{"arguments":"{}"}}|{"index":1,"function":{"arguments":"7"}}`:                       "[a f {} b g 7]",
		`{"index":0,"id":"a","function":{"arguments":"{"}}|{"index":0,"function":{"name":"f","arguments":"}"}}`:                                                                                              "[a f {}]",
		`{"index":0,"id":"a","function":{"arguments":"{}"}}`:                                                                                                                                                 "[]",
		`{"index":0,"id":"a","function":{"name":"f","arguments":{"x":1}}}`:                                                                                                                                   `[a f {"x":1}]`,
		`{"index":0,"id":"a","function":{"name":"f","arguments":"{\"x\":1}"}}|{"index":1,"id":"a","function":{"name":"f","arguments":"{\"x\":2}"}}`:                                                          `[a f {"x":1} call_N f {"x":2}]`,
		`{"index":0,"id":"a","function":{"name":"f"}}|{"index":0,"function":{"arguments":"{}"}}|{"index":1,"id":"a","function":{"name":"f"}}|{"index":1,"id":"a","function":{"name":"f","arguments":"{ }"}}`: "[a f {} call_N f { }]",
		`{"index":0,"function":{"name":"f","arguments":"{}"}}|{"index":0,"function":{"name":"f","arguments":"{\"x\":2}"}}`:                                                                                   `[call_N f {} call_N f {"x":2}]`,
		`{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}|{"index":0,"id":"a","function":{"name":"f","arguments":"{ }"}}`:                                                                       "[a f {} call_N f { }]",
		`{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}|{"index":0,"id":"a","function":{"name":"f","arguments":" "}}`:                                                                         "[a f {} ]",
		`{"index":0,"function":{"name":"f","arguments":"{"}}|{"index":0,"id":"a","function":{"name":"f","arguments":"}"}}`:                                                                                   "[call_N f {}]",
		`{"id":"a","function":{"name":"f","arguments":"null"}}`:                                                                                                                                              "[a f {}]",
		`{"function":{"name":"f","arguments":"{"}}|{"function":{"arguments":"}"}}`:                                                                                                                           "[call_N f {}]",
	} {
		var events []string
		for piece := range strings.SplitSeq(chunks, "|") {
			events = append(events, `{"choices":[{"delta":{"tool_calls":[`+piece+`]}}]}`)
		}
		a, deltas := read(t, llm.Chat, events, true)
		got := strings.SplitN(meaning(a), " ", 3)[2]
		for _, c := range a.ToolCalls {
			if len(c.ID) > 20 {
				got = strings.Replace(got, c.ID, "call_N", 1)
			}
		}
		if got != want || (a.Dropped > 0) != (want == "[]") {
			t.Errorf("%s: %s, want %s", chunks, got, want)
		}
		again, _ := read(t, llm.Messages, write(t, llm.Messages, deltas, a, true), true)
		if len(again.ToolCalls) != len(a.ToolCalls) {
			t.Errorf("%s: as messages %s", chunks, meaning(again))
		}
	}
}

// A member that matters must not be there twice, since readers disagree about which one counts.
func TestDuplicates(t *testing.T) {
	for body, api := range map[string]llm.API{
		`{"model":"a","messages":[],"model":"b"}`:                                       llm.Chat,
		`{"messages":[],"stream_options":{"include_usage":true,"include_usage":false}}`: llm.Chat,
		`{"model":"a","messages":[],"mod\u0065l":"b"}`:                                  llm.Messages,
		`{"input":"a","max_output_tokens":1,"max_output_tokens":9}`:                     llm.Responses,
		`{"contents":[],"generationConfig":{"maxOutputTokens":1,"maxOutputTokens":9}}`:  llm.Contents,
		`{"contents":[],"generationConfig":{},"generation_config":{}}`:                  llm.Contents,
	} {
		if _, fault := llm.ReadHead(api, []byte(body)); fault == nil || fault.Code != "duplicate_parameter" {
			t.Errorf("%s: %+v", body, fault)
		}
	}
	if _, fault := llm.ReadHead(llm.Chat, []byte(`{"messages":[],"x":1,"x":2}`)); fault != nil {
		t.Errorf("a member of no meaning: %+v", fault)
	}
}

// Between equal APIs only what must differ does.
func TestEdits(t *testing.T) {
	for body, want := range map[string]string{
		`{ "a": 1, "stream_options" : null }`:              `{ "a": 1, "stream_options" : {"include_usage":true} }`,
		`{"stream_options":{"x":1,"include_usage":false}}`: `{"stream_options":{"x":1,"include_usage":true}}`,
		`{"stream_options":{}}`:                            `{"stream_options":{"include_usage":true}}`,
		` {"a":1}`:                                         ` {"stream_options":{"include_usage":true},"a":1}`,
		`{"stream_options":{"include_usage":true}}`:        `{"stream_options":{"include_usage":true}}`,
	} {
		if got := string(llm.WithUsage([]byte(body))); got != want {
			t.Errorf("%s: got %s, want %s", body, got, want)
		}
	}
}

// An answer that its model did not complete is an error, not an end.
func TestBrokenAnswers(t *testing.T) {
	for event, api := range map[string]llm.API{
		`{"choices":[{"delta":{},"finish_reason":"network_error"}]}`:               llm.Chat,
		`{"choices":[{"message":{"content":"so"},"finish_reason":"error"}]}`:       llm.Chat,
		`{"choices":[{"delta":{},"error":{"code":502}}]}`:                          llm.Chat,
		`{"choices":[{"message":{"content":""},"error":{"code":502}}]}`:            llm.Chat,
		`{"object":"error","message":"no delta","code":400}`:                       llm.Chat,
		`{"candidates":[{"finishReason":"UNEXPECTED_TOOL_CALL"}]}`:                 llm.Contents,
		`{"candidates":[{"finishReason":"TOO_MANY_TOOL_CALLS"}]}`:                  llm.Contents,
		`{"object":"response","status":"cancelled","output":[]}`:                   llm.Responses,
		`{"object":"response","status":"in_progress","output":[]}`:                 llm.Responses,
		`{"object":"response","status":"failed","error":{"code":"x"},"output":[]}`: llm.Responses,
		`{"type":"message","content":[],"error":{"type":"overloaded_error"}}`:      llm.Messages,
	} {
		d := llm.Decoder{API: api, Answer: new(llm.Answer), Chunks: strings.Contains(event, "delta")}
		var failure *llm.Error
		if _, err := d.Read([]byte(event)); !errors.As(err, &failure) || !failure.Final {
			t.Errorf("%s: %v", event, err)
		}
	}
}

// Providers refuse texts without a text, so that empty ones are left out where there are others. A
// schema that is null is none.
func TestEmptyParts(t *testing.T) {
	for body, from := range map[string]llm.API{
		`{"input":[{"role":"user","content":[{"type":"input_text","text":""},{"type":"input_text","text":"hi"}]},{"role":"assistant","content":[{"type":"output_text","text":""}]}]}`: llm.Responses,
		`{"contents":[{"role":"user","parts":[{"text":""},{"text":"hi"}]}],"generationConfig":{"responseSchema":null,"responseJsonSchema":null}}`:                                     llm.Contents,
	} {
		for _, to := range encoded {
			got, err := encode(llm.Decode(from, []byte(body)), to)
			if err != nil || strings.Contains(string(got), `{"type":"text"}`) || strings.Contains(strings.ToLower(string(got)), "schema") || !strings.Contains(string(got), `"hi"`) {
				t.Errorf("%s: %s, %v", body, got, err)
			}
		}
	}
}

// Providers count alike under many names, some of them in a choice, and reasoning besides the rest.
func TestUsage(t *testing.T) {
	for event, want := range map[string]llm.Usage{
		`{"choices":[{"delta":{},"usage":{"prompt_tokens":9,"completion_tokens":7,"cached_tokens":4}}]}`:                              {Input: 9, Output: 7, Cached: 4},
		`{"usage":{"prompt_tokens":9,"completion_tokens":7,"prompt_cache_hit_tokens":4,"prompt_tokens_details":{"cached_tokens":0}}}`: {Input: 9, Output: 7, Cached: 4},
		`{"usage":{"prompt_tokens":9,"completion_tokens":7,"total_tokens":19,"completion_tokens_details":{"reasoning_tokens":3}}}`:    {Input: 9, Output: 10, Thinking: 3},
		`{"usage":{"prompt_tokens":9,"completion_tokens":7,"total_tokens":16,"completion_tokens_details":{"reasoning_tokens":3}}}`:    {Input: 9, Output: 7, Thinking: 3},
		`{"usage":{"prompt_tokens":9,"completion_tokens":2,"completion_tokens_details":{"reasoning_tokens":3}}}`:                      {Input: 9, Output: 5, Thinking: 3},
		`{"x_groq":{"usage":{"prompt_tokens":9,"completion_tokens":7}}}`:                                                              {Input: 9, Output: 7},
	} {
		if a, _ := read(t, llm.Chat, []string{event}, true); a.Usage != want {
			t.Errorf("%s: %+v, want %+v", event, a.Usage, want)
		}
	}
}

// A value of an unexpected type, or in an unexpected place, is read if it can only mean one thing.
func TestOddValues(t *testing.T) {
	for _, tt := range []struct {
		about  string
		api    llm.API
		stream bool
		events string // separated by bars
		want   string
	}{
		{"members that are null", llm.Chat, true, `{"choices":null}|{"choices":[{"delta":null}]}|{"choices":[{"delta":{"content":null,"tool_calls":null}}]}|{"choices":[{"delta":{"content":"hi"}}]}`, `"hi"  []`},
		{"numbers and texts for each other", llm.Chat, true, `{"choices":[{"index":"0","delta":{"tool_calls":[{"index":"0","id":7,"function":{"name":"f","arguments":5}}]}}],"usage":{"prompt_tokens":"9"}}`, `"" tool_calls [7 f 5] 9`},
		{"one call instead of a list", llm.Chat, true, `{"choices":[{"delta":{"tool_calls":{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}}}]}`, `"" tool_calls [a f {}]`},
		{"a call without its function", llm.Chat, true, `{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","name":"f","arguments":"{}"}]}}]}`, `"" tool_calls [a f {}]`},
		{"the older function_call", llm.Chat, true, `{"choices":[{"delta":{"function_call":{"name":"f","arguments":"{"}}}]}|{"choices":[{"delta":{"function_call":{"arguments":"}"}},"finish_reason":"function_call"}]}`, `"" tool_calls [call_N f {}]`},
		{"a part instead of a list", llm.Chat, false, `{"choices":[{"message":{"content":{"type":"text","text":"hi"}}}]}`, `"hi"  []`},
		{"texts instead of parts", llm.Chat, false, `{"choices":[{"message":{"content":["hi",{"text":" you"}]}}]}`, `"hi you"  []`},
		{"true", llm.Chat, false, `{"choices":[{"message":{"content":true}}]}`, `"true"  []`},
		{"an id for two calls", llm.Chat, false, `{"choices":[{"message":{"tool_calls":[{"id":"a","function":{"name":"f","arguments":null}},{"id":"a","function":{"name":"g","arguments":""}}]}}]}`, `"" tool_calls [a f {} call_N g {}]`},
		{"a call without a name", llm.Chat, false, `{"choices":[{"message":{"tool_calls":[{"id":"a","function":{"arguments":"{}"}}]},"finish_reason":"tool_calls"}]}`, `"" stop []`},
		{"an end mark with a space", llm.Chat, true, `{"choices":[{"delta":{"content":"hi"},"finish_reason":"model_length"}]}|[DONE] `, `"hi" length []`},
		{"a message in a stream", llm.Chat, true, `{"choices":[{"message":{"content":"hi"},"finish_reason":"stop"}]}`, `"hi" stop []`},
		{"a delta before its block", llm.Messages, true, `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"hi"}}`, `"hi"  []`},
		{"input in the start of a block", llm.Messages, true, `{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"a","name":"f","input":{"x":1}}}|{"type":"content_block_stop","index":0}`, `"" tool_calls [a f {"x":1}]`},
		{"input that no stop follows", llm.Messages, true, `{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"a","name":"f","input":{"x":1}}}`, `"" tool_calls [a f {"x":1}]`},
		{"input as a text", llm.Messages, true, `{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"a","name":"f","input":"{\"x\":1}"}}|{"type":"content_block_stop","index":0}`, `"" tool_calls [a f {"x":1}]`},
		{"input as one piece", llm.Messages, true, `{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"a","name":"f","input":{}}}|{"delta":{"partial_json":{"x":1},"type":"input_json_delta"},"index":0,"type":"content_block_delta"}`, `"" tool_calls [a f {"x":1}]`},
		{"blocks that overlap", llm.Messages, true, `{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"a","name":"f"}}|{"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"b","name":"g"}}|{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{}"}}|{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"[]"}}`, `"" tool_calls [a f {} b g []]`},
		{"a tool that the provider runs", llm.Messages, true, `{"type":"content_block_start","index":0,"content_block":{"type":"server_tool_use","id":"a","name":"f","input":{}}}|{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{}"}}|{"type":"content_block_start","index":1,"content_block":{"type":"web_search_tool_result","content":[{"type":"x","text":"no"}]}}`, `""  []`},
		{"a content that is a text", llm.Messages, false, `{"type":"message","content":"hi","stop_reason":"end_turn"}`, `"hi" stop []`},
		{"a part instead of parts", llm.Contents, true, `{"candidates":[{"content":{"parts":{"text":"hi"}},"finishReason":"STOP"}]}`, `"hi" stop []`},
		{"args as a text", llm.Contents, false, `{"candidates":[{"content":{"parts":[{"functionCall":{"id":"a","name":"f","args":"{\"x\":1}"}}]},"finishReason":"STOP"}]}`, `"" tool_calls [a f {"x":1}]`},
		{"a blocked prompt", llm.Contents, false, `{"promptFeedback":{"blockReason":"SAFETY"}}`, `"" content_filter []`},
		{"an item that comes at its end", llm.Responses, true, `{"type":"response.output_item.done","output_index":0,"item":{"type":"function_call","call_id":"a","name":"f","arguments":"{}"}}|{"type":"response.completed","response":{"status":"completed","output":[]}}`, `"" tool_calls [a f {}]`},
		{"all at the end", llm.Responses, true, `{"type":"response.completed","response":{"status":"completed","output":[{"type":"message","content":[{"type":"output_text","text":"hi"}]}]}}`, `"hi" stop []`},
		{"all at the end, too", llm.Responses, true, `{"type":"response.output_text.delta","delta":"hi"}|{"type":"response.incomplete","response":{"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"},"output":[{"type":"message","content":[{"type":"output_text","text":"hi"}]}]}}`, `"hi" length []`},
	} {
		a, _ := read(t, tt.api, strings.Split(tt.events, "|"), tt.stream)
		for i := range a.ToolCalls {
			if len(a.ToolCalls[i].ID) > 20 {
				a.ToolCalls[i].ID = "call_N"
			}
		}
		got := meaning(a)
		if a.Usage.Input > 0 {
			got += fmt.Sprint(" ", a.Usage.Input)
		}
		if got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.about, got, tt.want)
		}
	}
}

// Whatever a provider sends, its answer can be written for clients of every API, and what it has said so
// far as JSON.
func FuzzAnswers(f *testing.F) {
	text, err := os.ReadFile("testdata/upstreams.txtar")
	if err != nil {
		f.Fatal(err)
	}
	for part := range strings.SplitSeq(string(text), "\n-- ") {
		_, answer, _ := strings.Cut(part, " --\n")
		for i := range apis {
			f.Add(strings.ReplaceAll(answer, "data: ", ""), uint8(i), true)
			f.Add(answer, uint8(i), false)
		}
	}
	f.Fuzz(func(t *testing.T, events string, api uint8, stream bool) {
		var a, kept llm.Answer
		kept.MostCalls, kept.MostArguments = 3, 100
		d := llm.Decoder{API: apis[int(api)%len(apis)], Answer: &a, Chunks: stream}
		calls := llm.Decoder{API: d.API, Answer: &kept, Chunks: stream, Calls: true}
		var deltas []llm.Delta
		for event := range strings.SplitSeq(events, "\n") {
			if json.Valid([]byte(event)) {
				_, _ = calls.Read([]byte(event))
			}
			more, _ := d.Read([]byte(event))
			deltas = append(deltas, more...)
		}
		size := 0
		for i := 0; ; i++ {
			_, _, arguments, ok := kept.Begun(i)
			if !ok {
				break
			}
			if size += len(arguments); i >= 3 || size > 100 {
				t.Errorf("%d calls with %d bytes are kept", i+1, size)
			}
		}
		if joined := append(bytes.TrimSuffix(a.AppendJSON([]byte("{")), []byte(",")), '}'); !json.Valid(joined) {
			t.Errorf("%s is not JSON", joined)
		}
		a.Seal()
		for _, client := range apis {
			write(t, client, deltas, &a, true)
			write(t, client, nil, &a, false)
		}
	})
}

// The options of a request of any API have their names in Chat Completions.
func TestReadOptions(t *testing.T) {
	for body, want := range map[string]string{
		`{"model":"m","max_completion_tokens":5,"stop":"x","messages":[]}`:                 `max_tokens=5 messages=[] model="m" stop="x"`,
		`{"max_output_tokens":5,"input":"i","conversation":"c"}`:                           `conversation="c" input="i" max_tokens=5`,
		`{"max_tokens":5,"stop_sequences":["x"],"top_k":2}`:                                `max_tokens=5 stop=["x"] top_k=2`,
		`{"generationConfig":{"maxOutputTokens":5,"topK":2,"stopSequences":["x"]}}`:        `max_tokens=5 stop=["x"] top_k=2`,
		`{"generation_config":{"candidateCount":2,"thinkingConfig":{}},"contents":[],"x":`: `contents=[] n=2 thinkingConfig={}`,
		`{"generationConfig":7,"seed":1}`:                                                  `seed=1`,
		`[]`:                                                                               ``,
	} {
		var got []string
		for name, value := range llm.ReadOptions([]byte(body)) {
			got = append(got, name+"="+string(value))
		}
		slices.Sort(got)
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %q, want %q", body, got, want)
		}
	}
}

func TestEndsInWords(t *testing.T) {
	for message, want := range map[string]bool{
		`{"role":"user","content":"go on"}`: true,
		`{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1"},{"type":"text","text":"go on"}]}`: true,
		`{"role":"user","content":[{"type":"text","text":"go on"},{"type":"tool_result","tool_use_id":"t1"}]}`: false,
		`{"role":"user","parts":[{"text":"go on"}]}`:                                                           true,
		`{"type":"message","role":"user","content":[{"type":"input_text","text":"go on"}]}`:                    true,
		`{"role":"user","content":[{"type":"text","text":"<system-reminder>be brief</system-reminder>"}]}`:     false,
		`{"role":"user","content":"<current_datetime>now</current_datetime>\n\ngo on"}`:                        true,
		`{"role":"model","parts":[{"text":"go on"}]}`:                                                          false,
		`{"role":"user"}`: false,
		`"go on"`:         false,
	} {
		if got := llm.EndsInWords([]byte(message)); got != want {
			t.Errorf("%s: %t", message, got)
		}
	}
}

func TestToolResults(t *testing.T) {
	for message, want := range map[string][]string{
		`{"role":"tool","tool_call_id":"c1","content":"x"}`:                                                                    {`c1  "x"`},
		`{"type":"function_call_output","call_id":"c2","output":[1]}`:                                                          {`c2  [1]`},
		`{"role":"user","content":[{"type":"text","text":"a"},{"type":"tool_result","tool_use_id":"t1","content":"y"}]}`:       {`t1  "y"`},
		`{"role":"user","parts":[{"functionResponse":{"name":"f","response":{}}},{"functionResponse":{"name":"g","id":"3"}}]}`: {` f {"name":"f","response":{}}`, `3 g {"name":"g","id":"3"}`},
		`{"parts":[{"functionResponse":{"name":"f","response":{"error":"no"}}}]}`:                                              {` f {"name":"f","response":{"error":"no"}} true`},
		`{"role":"user","content":"hello"}`:                                                                                    nil,
	} {
		var got []string
		for r := range llm.ToolResults([]byte(message)) {
			got = append(got, strings.TrimSuffix(fmt.Sprintf("%s %s %s %s", r.ID, r.Name, r.Content, r.Failed), " "))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", message, got, want)
		}
	}
}
