package session_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/wirectl/wirectl/session"
)

// prompt describes the input of a model in a request.
func prompt(p *session.Prompt) string {
	if p == nil {
		return "nothing"
	}
	text := fmt.Sprintf("system %v, tools %v %v, messages %v, attachments %v", p.System, p.Tools, p.Each, p.Messages, p.Attachments)
	if p.Previous != 0 {
		text += fmt.Sprintf("; since %d: added %v, same %d", p.Previous, p.Added, p.Same)
	}
	return text
}

// The bodies of all APIs are split in the same way. The part that a cache can serve ends at the
// first tool, system prompt or message that differs.
func TestPrompt(t *testing.T) {
	var c session.Conversations
	for i, test := range []struct{ body, want string }{
		{
			`{"model":"m","system":"be brief","tools":[{"name":"f","input_schema":{}},{"name":"g"}],"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"image","source":{"data":"AAAA"}}]}]}`,
			`system {1 10}, tools {2 42} [{f 30} {g 12}], messages {1 55}, attachments {1 41}`,
		},
		{
			`{"model":"m","system":"be brief","tools":[{"name":"f","input_schema":{}},{"name":"g"}],"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"image","source":{"data":"AAAA"}}]},{"role":"assistant","content":"b"}]}`,
			`system {1 10}, tools {2 42} [{f 30} {g 12}], messages {2 89}, attachments {1 41}; since 1: added {1 34}, same 148`,
		},
		{
			`{"model":"m","system":"be long","tools":[{"name":"f","input_schema":{}},{"name":"g"}],"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"image","source":{"data":"AAAA"}}]},{"role":"assistant","content":"b"},{"role":"user","content":"c"}]}`,
			`system {1 9}, tools {2 42} [{f 30} {g 12}], messages {3 118}, attachments {1 41}; since 2: added {1 29}, same 42`,
		},
		{`{"instructions":"x","tools":[{"type":"web_search"}],"input":"hi"}`, `system {1 3}, tools {1 21} [{web_search 21}], messages {1 4}, attachments {0 0}`},
		{
			`{"tools":[{"type":"function","function":{"name":"f"}}],"messages":[{"role":"system","content":"x"},{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:"}}]}]}`,
			`system {1 31}, tools {1 43} [{f 43}], messages {1 28}, attachments {1 48}`,
		},
		{
			`{"systemInstruction":{"parts":[]},"tools":[{"functionDeclarations":[{"name":"f"},{"name":"g"}]}],"contents":[{"parts":[{"inlineData":{"data":"AA"}}]}]}`,
			`system {1 12}, tools {2 24} [{f 12} {g 12}], messages {1 12}, attachments {1 28}`,
		},
		{`{"messages":[{"role":"user","content":[{"type":"tool_result","content":[{"type":"document","x":1}]}]}]}`, `system {0 0}, tools {0 0} [], messages {1 63}, attachments {1 25}`},
		{`{"model":"m"}`, "nothing"},
		{`[]`, "nothing"},
		{`{"messages":7,"tools":{},"system":null,"input":[`, "nothing"},
	} {
		var tools []string
		got := prompt(c.Prompt(int64(i+1), "host", []byte(test.body), func(tool []byte) { tools = append(tools, string(tool)) }))
		if got != test.want {
			t.Errorf("%s\n%s\nwant\n%s", test.body, got, test.want)
		}
		for _, tool := range tools {
			if !strings.Contains(test.body, tool) {
				t.Errorf("%s is offered %s", test.body, tool)
			}
		}
	}
}

// Conversations are per server, and only the newest requests are remembered.
func TestConversations(t *testing.T) {
	body := func(first string, more int) []byte {
		return []byte(`{"messages":["` + first + `"` + strings.Repeat(`,"more"`, more) + `]}`)
	}
	var c session.Conversations
	c.Prompt(1, "a", body("x", 0), nil)
	if p := c.Prompt(2, "b", body("x", 1), nil); p.Previous != 0 {
		t.Errorf("another server goes on from %d", p.Previous)
	}
	c.Prompt(3, "a", body("y", 0), nil)
	if p := c.Prompt(4, "a", body("x", 1), nil); p.Previous != 1 || p.Added != (session.Share{Count: 1, Bytes: 6}) {
		t.Errorf("%s, want it to go on from 1", prompt(p))
	}
	if p := c.Prompt(5, "a", body("x", 2), nil); p.Previous != 4 {
		t.Errorf("%s, want it to go on from 4", prompt(p))
	}
	for i := range 100 {
		c.Prompt(int64(10+i), "a", body(fmt.Sprint(i), 0), nil)
	}
	if p := c.Prompt(200, "a", body("x", 3), nil); p.Previous != 0 {
		t.Errorf("it goes on from %d, which was long ago", p.Previous)
	}
	// Beyond the number of distinguished messages, a new message is still noticed.
	c.Prompt(201, "a", body("z", 5000), nil)
	if p := c.Prompt(202, "a", body("z", 5001), nil); p.Previous != 201 || p.Same == p.Bytes() {
		t.Errorf("%s, want something new", prompt(p))
	}
}
