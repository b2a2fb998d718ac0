package provider_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/wirectl/wirectl/broker/provider"
	"github.com/wirectl/wirectl/llm"
)

// listed formats tool calls.
func listed(calls []provider.ToolCall) string {
	list := []string{}
	for _, c := range calls {
		list = append(list, fmt.Sprintf("{%s %s %s}", c.ID, c.Name, c.Arguments))
	}
	return fmt.Sprint(list)
}

// asked calls a backend that answers with the given bytes, and then closes or keeps the
// connection.
func asked(t *testing.T, answer string, closes bool, emit func(provider.Part) error) (*provider.Completion, error) {
	t.Helper()
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		_, _ = conn.Write([]byte(answer))
		if !closes {
			_, _ = rw.ReadByte() // until the peer closes
		}
	}))
	defer backend.Close()
	p := provider.NewOpenAI(provider.Config{BaseURL: backend.URL})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var c provider.Completion
	err := p.Complete(ctx, &provider.Request{Model: "m", Prompt: []byte(`"hi"`), Emit: emit}, &c)
	p.CloseIdleConnections()
	return &c, err
}

// A backend may answer in unusual but valid ways.
func TestOddAnswers(t *testing.T) {
	const whole = `{"choices":[{"message":{"content":"yes"},"finish_reason":"stop"}]}`
	for name, tt := range map[string]struct {
		head, body string
		cause      provider.Cause // Internal means no error
	}{
		"a long line in the head": {"HTTP/1.1 200 OK\r\nPolicy: " + strings.Repeat("p", 40_000) + "\r\nContent-Length: 66\r\n", whole, 0},
		"a head without end":      {"HTTP/1.1 200 OK\r\nPolicy: " + strings.Repeat("p", 100_000) + "\r\n", whole, provider.Unreachable},
		"nothing, and no length":  {"HTTP/1.1 204 No Content\r\n", "", provider.Overloaded},
		"a byte order mark":       {"HTTP/1.1 200 OK\r\nContent-Length: 69\r\n", "\ufeff" + whole, 0},
		"white space":             {"HTTP/1.1 200 OK\r\nContent-Length: 70\r\n", whole + " \r\n\t", 0},
	} {
		c, err := asked(t, tt.head+"\r\n"+tt.body, false, nil)
		var pe *provider.Error
		switch {
		case tt.cause == 0 && (err != nil || c.Plain() != "yes"):
			t.Errorf("%s: got %s, %v", name, c.Text, err)
		case tt.cause != 0 && (!errors.As(err, &pe) || pe.Cause != tt.cause):
			t.Errorf("%s: got %s, %v", name, c.Text, err)
		}
	}
}

// The same holds for streams.
func TestOddStreams(t *testing.T) {
	const (
		head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
		one  = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"y\"}}]}\n\n"
		two  = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"es\"},\"finish_reason\":\"stop\"}]}\n\n"
		done = "data: [DONE]\n\n"
	)
	for name, tt := range map[string]struct {
		stream string
		cut    bool
		cause  provider.Cause // Internal means no error
	}{
		"as most do":                    {one + two + done, false, 0},
		"a byte order mark":             {"\uFEFF" + one + two + done, false, 0},
		"events without data":           {"data:\n\nevent: ping\ndata: \n\n" + one + ": comment\n\n" + two + done, false, 0},
		"without the last mark":         {one + two, false, 0},
		"without the last line's end":   {one + two + "data: [DONE]", false, 0},
		"an error that is none":         {strings.Replace(one, "{", `{"error":null,`, 1) + two + done, false, 0},
		"a second choice":               {one + strings.Replace(one, "0", "1", 1) + two + done, false, 0},
		"an end without anything":       {done, false, provider.Overloaded},
		"usage and no choice":           {`data: {"choices":[],"usage":{"prompt_tokens":7}}` + "\n\n" + done, false, provider.Overloaded},
		"an event error":                {one + "event: error\ndata: {\"message\":\"no\"}\n\n" + done, false, provider.Overloaded},
		"an object error":               {one + `data: {"object":"error","message":"no"}` + "\n\n" + done, false, provider.Overloaded},
		"an end without a reason":       {one, false, provider.Unreachable},
		"a cut behind the last chunk":   {one + two, true, provider.Unreachable},
		"a whole answer":                {`{"choices":[{"message":{"content":"yes"},"finish_reason":"stop"}]}`, false, 0},
		"an object that is no answer":   {`{"choices":[]}`, false, provider.Overloaded},
		"a page":                        {"<html>\n\n</html>\n", false, provider.Overloaded},
		"a cut before the first event":  {": comment\n\n", true, provider.Unreachable},
		"an error, and then the answer": {`data: {"error":{}}` + "\n\n" + one + two + done, false, provider.Overloaded},
	} {
		var parts []string
		answer := head + chunked(tt.stream)
		if tt.cut {
			answer = strings.TrimSuffix(answer, "0\r\n\r\n")
		}
		c, err := asked(t, answer, tt.cut, func(p provider.Part) error {
			parts = append(parts, provider.Unquote(p.Text))
			return nil
		})
		var pe *provider.Error
		switch {
		case tt.cause == 0 && (err != nil || c.Plain() != "yes" || c.Finish != "stop" || strings.Join(parts, "") != "yes"):
			t.Errorf("%s: got %s, %q, %v", name, c.Text, parts, err)
		case tt.cause != 0 && (!errors.As(err, &pe) || pe.Cause != tt.cause):
			t.Errorf("%s: got %s, %v", name, c.Text, err)
		}
	}
}

// chunked returns a body in HTTP/1.1 chunks.
func chunked(body string) string { return fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(body), body) }

// A model's refusal is the text for clients of other APIs than OpenAI's.
func TestRefusal(t *testing.T) {
	for answer, stream := range map[string]bool{
		`{"choices":[{"message":{"refusal":"I will not","content":null},"finish_reason":"stop"}]}`: false,
		`{"choices":[{"message":{"content":"I will not","refusal":null},"finish_reason":"stop"}]}`: false,
		`{"choices":[{"message":{"content":"I will not","refusal":""},"finish_reason":"stop"}]}`:   false,
		`data: {"choices":[{"delta":{"content":"","refusal":null}}]}` + "\n\n" +
			`data: {"choices":[{"delta":{"refusal":"I will"}}]}` + "\n\n" +
			`data: {"choices":[{"delta":{"refusal":" not"},"finish_reason":"stop"}]}` + "\n\ndata: [DONE]\n\n": true,
	} {
		var emit func(provider.Part) error
		heard := ""
		if stream {
			emit = func(p provider.Part) error { heard += provider.Unquote(p.Text); return nil }
		}
		c, err := asked(t, fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(answer), answer), false, emit)
		if err != nil || c.Plain() != "I will not" || stream && heard != "I will not" {
			t.Errorf("%s: %+v, heard %q, %v", answer, c, heard, err)
		}
	}
}

// madeID is an id that is made for a call without one.
var madeID = regexp.MustCompile(`call_[a-z0-9]{26}`)

// Gemini's finish reasons are translated into OpenAI's, also without a candidate. A call
// without an id gets one, and one without arguments gets none.
func TestEndsOfGemini(t *testing.T) {
	for _, c := range [][2]string{
		{`{"promptFeedback":{"blockReason":"SAFETY"}}`, `content_filter "" []`},
		{`{"promptFeedback":{"blockReason":"NEW"}}`, `content_filter "" []`},
		{`{"candidates":[{"finishReason":"NO_IMAGE"}]}`, `content_filter "" []`},
		{`{"candidates":[{"finishReason":"OTHER"}]}`, `content_filter "" []`},
		{`{"candidates":[{"content":{"parts":[{"functionCall":{"name":"f"}}]},"finishReason":"FUNCTION_CALL"}]}`, `tool_calls "" [{call_N f {}}]`},
		{`{"candidates":[{"finishReason":"RECITATION"}]}`, `content_filter "" []`},
		{`{"candidates":[{"content":{"parts":[{"text":"hi"}]},"finishReason":"MAX_TOKENS"}]}`, `length "hi" []`},
		{`{"candidates":[{"content":{"parts":[{"text":"so"},{"functionCall":{"name":"f"}}]},"finishReason":"STOP"}]}`, `tool_calls "so" [{call_N f {}}]`},
		{`{"candidates":[{"content":{"parts":[{"text":"hm","thought":true},{"functionCall":{"id":"a","name":"f","args":{"b":1}}}]},"finishReason":"STOP"}]}`, `tool_calls "" [{a f {"b":1}}]`},
	} {
		answer, want := c[0], c[1]
		for _, stream := range []bool{false, true} {
			backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("X-Team") != "red" {
					t.Error("the header of the configuration is missing")
				}
				if stream {
					_, _ = fmt.Fprintf(w, "data: %s\n\n", answer)
					return
				}
				_, _ = io.WriteString(w, answer)
			}))
			p := provider.NewGemini(provider.Config{BaseURL: backend.URL, Header: http.Header{"X-Team": {"red"}}})
			r := &provider.Request{Model: "m", Prompt: []byte(`"hi"`)}
			if stream {
				r.Emit = func(provider.Part) error { return nil }
			}
			var c provider.Completion
			err := p.Complete(t.Context(), r, &c)
			if got := madeID.ReplaceAllString(fmt.Sprintf("%s %s %s", c.Finish, c.Text, listed(c.ToolCalls)), "call_N"); err != nil || got != want {
				t.Errorf("%s, streamed %v: got %s, %v; want %s", answer, stream, got, err, want)
			}
			p.CloseIdleConnections()
			backend.Close()
		}
	}
}

// An image in an answer is only for clients of the same API; others learn that there is one.
func TestImagesInAnswers(t *testing.T) {
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		before := ""
		if strings.Contains(r.URL.Path, "stream") {
			before = "data: "
		}
		_, _ = io.WriteString(w, before+`{"candidates":[{"content":{"parts":[{"text":"so"},{"inlineData":{"mimeType":"image/png","data":"QQ=="}}]},"finishReason":"STOP"}]}`+"\n\n")
	}))
	defer backend.Close()
	p := provider.NewGemini(provider.Config{BaseURL: backend.URL})
	defer p.CloseIdleConnections()
	for _, api := range []llm.API{llm.Chat, llm.Contents} {
		for _, emit := range []func(provider.Part) error{nil, func(provider.Part) error { return nil }} {
			r := &provider.Request{Model: "m", API: api, Body: []byte(`{"messages":[{"role":"user","content":"hi"}],"contents":[]}`), Emit: emit}
			var pe *provider.Error
			if err := p.Complete(t.Context(), r, new(provider.Completion)); errors.As(err, &pe) != (api == llm.Chat) || pe != nil && (pe.Shown == "" || !pe.Paid) {
				t.Errorf("API %d, streamed %t: %v", api, emit != nil, err)
			}
		}
	}
}

// The arguments of a model's calls are kept, even if its tokens ran out. Calls of the
// backend's own tools do not affect them.
func TestCallsOfAnthropic(t *testing.T) {
	streamed := func(kind string, pieces ...string) string {
		s := `data: {"type":"content_block_start","content_block":{"type":"` + kind + `","id":"i","name":"f","input":{}}}` + "\n\n"
		for _, p := range pieces {
			s += `data: {"type":"content_block_delta","delta":{"type":"input_json_delta","partial_json":` + string(provider.Quote(p)) + "}}\n\n"
		}
		return s + `data: {"type":"content_block_stop"}` + "\n\n"
	}
	for answer, want := range map[string]string{
		streamed("tool_use", `{"a":`, `1}`): `[{i f {"a":1}}]`,
		streamed("tool_use"):                `[{i f {}}]`,
		streamed("tool_use", `{"a":"b`):     `[{i f "{\"a\":\"b"}]`,
		streamed("tool_use", `{"a":1}`) + streamed("server_tool_use", `{"b":2}`): `[{i f {"a":1}}]`,
		streamed("mcp_tool_use", `{"b":2}`):                                      `[]`,
		`{"type":"message","content":[{"type":"tool_use","id":"i","name":"f"}]}`: `[{i f {}}]`,
	} {
		r := &provider.Request{Model: "m", Prompt: []byte(`"hi"`)}
		if strings.HasPrefix(answer, "data:") {
			r.Emit = func(provider.Part) error { return nil }
		}
		backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, answer)
			if r.Emit != nil {
				_, _ = io.WriteString(w, `data: {"type":"message_stop"}`+"\n\n")
			}
		}))
		p := provider.NewAnthropic(provider.Config{BaseURL: backend.URL})
		var c provider.Completion
		if err := p.Complete(t.Context(), r, &c); err != nil || listed(c.ToolCalls) != want {
			t.Errorf("%s: got %s, %v; want %s", answer, listed(c.ToolCalls), err, want)
		}
		p.CloseIdleConnections()
		backend.Close()
	}
}
