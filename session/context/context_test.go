package context_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/agentlog"
	"github.com/wirectl/wirectl/session/context"
	"github.com/wirectl/wirectl/table"
)

// A session is a session with models, written as a script.
type session struct {
	context.Log
	frame int64
	at    time.Time
}

func newSession() *session {
	s := &session{at: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	s.Keep = true
	return s
}

// ask sends a request after a pause. The answer, which may be "", tells the usage: input tokens, and those
// that were cached, in the words of its API.
func (s *session) ask(after time.Duration, body, usage string) *context.Call {
	s.frame, s.at = s.frame+1, s.at.Add(after)
	c := s.Request(&context.Request{Frame: s.frame, Time: s.at, To: "host", Body: []byte(body), IsTitle: func([]byte) bool { return false }})
	if usage == "" {
		return c
	}
	var u struct {
		Usage struct {
			Input   int64 `json:"input_tokens"`
			Read    int64 `json:"cache_read_input_tokens"`
			Written int64 `json:"cache_creation_input_tokens"`
			Details struct {
				Cached int64 `json:"cached_tokens"`
			} `json:"input_tokens_details"`
		} `json:"usage"`
	}
	_ = json.Unmarshal([]byte(usage), &u)
	used := protocol.Usage{Input: u.Usage.Input + u.Usage.Read + u.Usage.Written, Cached: u.Usage.Read + u.Usage.Details.Cached, Written: u.Usage.Written}
	s.at = s.at.Add(time.Second)
	s.Answered(c, s.at, []byte(usage), used)
	s.Ended(c, s.at)
	return c
}

// items lists the items of a call.
func items(c *context.Call) string {
	if c == nil {
		return "nothing"
	}
	var list []string
	for _, i := range c.Items {
		list = append(list, strings.TrimSpace(fmt.Sprintf("%s %s %s %d", i.Kind, i.Name, i.Path, i.Bytes)))
	}
	return strings.Join(strings.Fields(strings.Join(list, ", ")), " ")
}

// The bodies of all APIs are split in the same way: in the order in which providers read them, with the
// results of tools under the names of their calls.
func TestItems(t *testing.T) {
	for _, test := range []struct{ about, body, want string }{
		{
			"Messages",
			`{"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"image","source":{"media_type":"image/png","data":"AAAA"}}]},` +
				`{"role":"assistant","content":[{"type":"thinking","thinking":"t"},{"type":"tool_use","id":"t1","name":"Read","input":{"file_path":"/etc/hosts"}}]},` +
				`{"role":"user","content":[{"tool_use_id":"t1","type":"tool_result","content":[{"type":"text","text":"x"},{"type":"image","source":{"data":"BB"}}]}]}],` +
				`"system":[{"type":"text","text":"be brief","cache_control":{"type":"ephemeral"}}],"tools":[{"name":"Read","input_schema":{}}],"model":"m"}`,
			`tool Read 33, system 10, user 3, attachment image/png 66, thought 34, call Read /etc/hosts 78, attachment image 39, result Read /etc/hosts 81`,
		},
		{
			"Chat Completions",
			`{"tools":[{"type":"function","function":{"name":"f"}}],"messages":[{"role":"system","content":"x"},{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:"}}]},` +
				`{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{\"path\":\"p\"}"}}]},{"role":"tool","tool_call_id":"c1","content":"done"}]}`,
			`tool f 43, system 3, attachment image_url 48, call f p 84, result f p 52`,
		},
		{
			"Responses",
			`{"instructions":"x","tools":[{"type":"web_search"}],"input":[{"role":"user","content":[{"type":"input_text","text":"hi"}]},{"type":"reasoning","encrypted_content":"e"},` +
				`{"type":"function_call","call_id":"k","name":"shell","arguments":"{\"command\":[\"sh\",\"-c\",\"ls\"]}"},{"type":"function_call_output","call_id":"k","output":"a.txt"}]}`,
			`tool web_search 21, system 3, user 4, thought 44, call shell ls 104, result shell ls 62`,
		},
		{"Responses of a text", `{"instructions":"x","input":"hi"}`, `system 3, user 4`},
		{
			"Gemini",
			`{"systemInstruction":{"parts":[{"text":"s"}]},"tools":[{"functionDeclarations":[{"name":"f"},{"name":"g"}]}],"contents":[{"role":"user","parts":[{"text":"q"},{"inlineData":{"mimeType":"image/png","data":"AA"}}]},` +
				`{"role":"model","parts":[{"functionCall":{"id":"1","name":"f","args":{"path":"p"}}}]},{"role":"user","parts":[{"functionResponse":{"id":"1","name":"f","response":{}}}]}]}`,
			`tool f 12, tool g 12, system 3, user 3, attachment image/png 51, call f p 58, result f p 56`,
		},
		{"Responses that goes on from one that is not here", `{"previous_response_id":"r","input":"hi"}`, `history 0, user 4`},
		{"an empty message", `{"messages":[{"role":"user","content":[]},{"role":"user","content":""}]}`, `user 28, user 2`},
		{"blocks without a known type", `{"messages":[{"role":"user","content":[{"type":"hologram","x":1},7,null,"text"]}]}`, `other hologram 25, user 6`},
		{"no prompt", `{"model":"m"}`, "nothing"},
		{"no object", `[]`, "nothing"},
		{"wrong types", `{"messages":7,"tools":{},"system":null,"input":[`, "nothing"},
		{"a body that is cut", `{"messages":[{"role":"user","content":"a"},{"role":"us`, "user 3"},
	} {
		if got := items(newSession().ask(0, test.body, "")); got != test.want {
			t.Errorf("%s: %s\nwant %s", test.about, got, test.want)
		}
	}
}

// Filler makes texts large enough for a cache.
var filler = strings.Repeat("All ships report to the harbour master. ", 250)

// claude is a request of Messages. The cache is to be written up to the last message.
func claude(system string, messages ...string) string {
	return cached("", system, messages...)
}

func cached(ttl, system string, messages ...string) string {
	var list []string
	for i, m := range messages {
		role, mark := "user", ""
		if i%2 == 1 {
			role = "assistant"
		}
		if i == len(messages)-1 {
			mark = `,"cache_control":{"type":"ephemeral"` + ttl + `}`
		}
		list = append(list, fmt.Sprintf(`{"role":%q,"content":[{"type":"text","text":%q%s}]}`, role, m, mark))
	}
	return `{"model":"m","tools":[{"name":"f"},{"name":"g"}],"system":` + fmt.Sprintf("%q", filler+system) + `,"messages":[` + strings.Join(list, ",") + `]}`
}

// gpt is a request of Responses.
func gpt(system string, messages ...string) string {
	var list []string
	for _, m := range messages {
		list = append(list, fmt.Sprintf(`{"role":"user","content":%q}`, m))
	}
	return `{"model":"g","instructions":` + fmt.Sprintf("%q", filler+system) + `,"input":[` + strings.Join(list, ",") + `]}`
}

// chat is a request of Chat Completions.
func chat(system string, messages ...string) string {
	list := []string{fmt.Sprintf(`{"role":"system","content":%q}`, filler+system)}
	for _, m := range messages {
		list = append(list, fmt.Sprintf(`{"role":"user","content":%q}`, m))
	}
	return `{"model":"g","messages":[` + strings.Join(list, ",") + `]}`
}

func usage(input, read, written int) string {
	return fmt.Sprintf(`{"usage":{"input_tokens":%d,"cache_read_input_tokens":%d,"cache_creation_input_tokens":%d}}`, input, read, written)
}

func used(input, cached int) string {
	return fmt.Sprintf(`{"usage":{"input_tokens":%d,"input_tokens_details":{"cached_tokens":%d}}}`, input, cached)
}

// A cache that serves less than before has a reason, or none that anybody can see. Whatever is not sure is
// not said.
func TestVerdicts(t *testing.T) {
	type step struct {
		after       time.Duration
		body, usage string
	}
	for _, test := range []struct {
		about string
		steps []step
		want  string // the verdict on the last step; "" for none
	}{
		{"a cache that serves all", []step{
			{0, claude("a", "x"), usage(5, 0, 3000)},
			{time.Second, claude("a", "x", "y", "z"), usage(5, 3000, 20)},
		}, ""},
		{"a system prompt with the date", []step{
			{0, claude("It is Monday.", "x"), usage(5, 0, 3000)},
			{time.Second, claude("It is Tuesday.", "x", "y", "z"), usage(5, 0, 3020)},
		}, `changed: your prefix changed here: system 1: …master. It is Monday." → …master. It is Tuesday." at byte 10007`},
		{"tools in another order", []step{
			{0, claude("a", "x"), usage(5, 0, 3000)},
			{time.Second, strings.Replace(claude("a", "x", "y", "z"), `{"name":"f"},{"name":"g"}`, `{"name":"g"},{"name":"f"}`, 1), usage(5, 0, 3020)},
		}, `changed: your prefix changed here: tool f: moved: tool g is in its place`},
		{"a tool that is added in front", []step{
			{0, claude("a", "x"), usage(5, 0, 3000)},
			{time.Second, strings.Replace(claude("a", "x", "y", "z"), `{"name":"f"}`, `{"name":"e"},{"name":"f"}`, 1), usage(5, 0, 3020)},
		}, `changed: your prefix changed here: tool e: new, before tool f`},
		{"another model", []step{
			{0, claude("a", "x"), usage(5, 0, 3000)},
			{time.Second, strings.Replace(claude("a", "x", "y", "z"), `"m"`, `"n"`, 1), usage(5, 0, 3020)},
		}, `changed: your prefix changed here: setting model: "m" → "n"`},
		{"a pause of more than five minutes", []step{
			{0, claude("a", "x"), usage(5, 0, 3000)},
			{6 * time.Minute, claude("a", "x", "y", "z"), usage(5, 0, 3020)},
		}, `expired: expired: idle for 6m, and the cache is kept for 5m`},
		{"the same pause in a cache of an hour", []step{
			{0, cached(`,"ttl":"1h"`, "a", "x"), usage(5, 0, 3000)},
			{6 * time.Minute, cached(`,"ttl":"1h"`, "a", "x", "y", "z"), usage(5, 0, 3020)},
		}, `provider: the provider's side, cause unknown`},
		{"a pause, and another system prompt", []step{
			{0, claude("a", "x"), usage(5, 0, 3000)},
			{6 * time.Minute, claude("b", "x", "y", "z"), usage(5, 0, 3020)},
		}, `expired: expired: idle for 6m, and the cache is kept for 5m; your prefix changed, too: system 1: …master. a" → …master. b" at byte 10001`},
		{"no reason that anybody can see", []step{
			{0, claude("a", "x"), usage(5, 0, 3000)},
			{time.Second, claude("a", "x", "y", "z"), usage(5, 0, 3020)},
		}, `provider: the provider's side, cause unknown`},
		{"a compaction", []step{
			{0, claude("a", "x"), usage(5, 0, 2600)},
			{time.Second, claude("a", "x", "y", filler, "z", filler), usage(5, 2600, 5200)},
			{time.Second, claude("a", "x", "ok", "In short: ships."), usage(5, 0, 2700)},
		}, `changed: your prefix changed here: compacted: 4 items gone, 20010 B; 2 new, 22 B`},
		{"a result that was cleared", []step{
			{0, claude("a", "x", "y", filler), usage(5, 0, 5500)},
			{time.Second, claude("a", "x", "y", "cleared", "z", "go on"), usage(5, 2600, 30)},
		}, `changed: your prefix changed here: user 3: 10002 B → 9 B, "All ships report to the harbour master. All shi… → "cleared"`},
		{"two equal requests", []step{
			{0, claude("a", "x"), usage(5, 0, 3000)},
			{time.Second, claude("a", "x"), usage(5, 0, 3000)},
		}, ""},
		{"two equal requests after a long pause", []step{
			{0, claude("a", "x"), usage(5, 0, 3000)},
			{time.Hour, claude("a", "x"), usage(5, 0, 3000)},
		}, ""},
		{"a retry between", []step{
			{0, claude("a", "x"), usage(5, 0, 3000)},
			{time.Second, claude("b", "x", "y", "z"), ""},
			{time.Second, claude("b", "x", "y", "z"), usage(5, 0, 3020)},
		}, ""},
		{"nothing is said about a cache", []step{
			{0, claude("a", "x"), `{"usage":{"input_tokens":3000}}`},
			{time.Second, claude("b", "x", "y", "z"), `{"usage":{"input_tokens":3000}}`},
		}, ""},
		{"a client that does not use the cache", []step{
			{0, strings.ReplaceAll(claude("a", "x"), "cache_control", "z"), usage(3000, 0, 0)},
			{time.Second, strings.ReplaceAll(claude("b", "x", "y", "z"), "cache_control", "z"), usage(3000, 0, 0)},
		}, ""},
		{"a mark that has moved, and a text that is wrapped in another way", []step{
			{0, claude("a", "x"), usage(5, 0, 3000)},
			{time.Second, strings.Replace(claude("a", "x", "y", "z"), `[{"type":"text","text":"x"}]`, `"x"`, 1), usage(5, 0, 3020)},
		}, `provider: the provider's side, cause unknown`},
		{"a header that changes all the time, and an expiry", []step{
			{0, claude("1", "x"), usage(5, 0, 3000)},
			{time.Second, claude("2", "x", "y", "z"), usage(5, 3000, 20)},
			{6 * time.Minute, claude("3", "x", "y", "z", "z", "z"), usage(5, 0, 3040)},
		}, `expired: expired: idle for 6m, and the cache is kept for 5m`},
		{"what the provider says", []step{
			{0, claude("a", "x"), usage(5, 0, 3000)},
			{time.Second, claude("b", "x", "y", "z"), `{"message":{"diagnostics":{"cache_miss_reason":{"type":"system_changed"}},"usage":{"input_tokens":5,"cache_creation_input_tokens":3020,"cache_read_input_tokens":0}},"usage":{"input_tokens":5,"cache_creation_input_tokens":3020}}`},
		}, `changed: the provider says: system_changed; your prefix changed at system 1: …master. a" → …master. b" at byte 10001`},
		{"OpenAI: a prefix that changed", []step{
			{0, gpt("a", "x"), used(3000, 0)},
			{time.Second, gpt("b", "x", "z"), used(3020, 0)},
		}, `changed: your prefix changed here: system 1: …master. a" → …master. b" at byte 10001`},
		{"Chat: a system message that changed", []step{
			{0, chat("a", "x"), used(3000, 0)},
			{time.Second, chat("b", "x", "z"), used(3020, 0)},
		}, `changed: your prefix changed here: system 1: …master. a" → …master. b" at byte 10001`},
		{"OpenAI: the end of the messages changed", []step{
			{0, gpt("a", "x", "tail"), used(3000, 0)},
			{time.Second, gpt("a", "x", "z", "tail"), used(3020, 2944)},
		}, ""},
		{"OpenAI: a pause that may be too long", []step{
			{0, gpt("a", "x"), used(3000, 2900)},
			{7 * time.Minute, gpt("a", "x", "z"), used(3020, 0)},
		}, `provider: the provider's side, cause unknown; it may have expired: idle for 7m1s`},
		{"OpenAI: a pause that is too long", []step{
			{0, strings.Replace(gpt("a", "x"), `{`, `{"prompt_cache_retention":"in_memory",`, 1), used(3000, 2900)},
			{2 * time.Hour, gpt("a", "x", "z"), used(3020, 0)},
		}, `expired: expired: idle for 2h, and the cache is kept for 1h`},
		{"OpenAI: too short for a cache", []step{
			{0, gpt("a", "x"), used(900, 0)},
			{time.Second, gpt("b", "x", "z"), used(920, 0)},
		}, ""},
		{"a server that never serves anything from a cache", []step{
			{0, gpt("a", "x"), used(3000, 0)},
			{time.Second, gpt("a", "x", "z"), used(3020, 0)},
		}, ""},
	} {
		s := newSession()
		var last *context.Call
		for _, step := range test.steps {
			last = s.ask(step.after, step.body, step.usage)
		}
		v := s.View(time.Time{})
		got := ""
		if found := v.Verdict(v.Find(fmt.Sprint(last.Number))); found != nil {
			got = found.Cause + ": " + found.Text
		}
		if got != test.want {
			t.Errorf("%s:\n%s\nwant\n%s", test.about, got, test.want)
		}
	}
}

// Conversations are kept apart: those of other messages, and those that leave another one. What a provider
// holds is part of the context.
func TestConversations(t *testing.T) {
	s := newSession()
	list := func(calls ...string) string {
		var got []string
		for _, c := range calls {
			call := s.ask(time.Second, c, usage(1, 0, 0))
			got = append(got, fmt.Sprintf("%d.%d", call.Conversation, call.Turn))
		}
		return strings.Join(got, " ")
	}
	if got, want := list(claude("", "a"), claude("", "b"), claude("", "a", "x", "y"), claude("", "b", "x", "y"), claude("", "a", "x", "y", "z", "0")), "1.1 2.1 1.2 2.2 1.3"; got != want {
		t.Errorf("two at once: %s, want %s", got, want)
	}
	if got, want := list(claude("", "a", "x", "y", "w", "1")), "1.4"; got != want {
		t.Errorf("the last message is another: %s, want %s", got, want)
	}
	s = newSession()
	a := s.ask(0, claude("", "a"), usage(1, 0, 0))
	b := s.ask(0, claude("", "a", "x", "1"), "")
	c := s.ask(0, claude("", "a", "x", "2"), "")
	if b.Previous != a.Number || c.Previous != a.Number || !c.Branch || c.Conversation == a.Conversation {
		t.Errorf("two that go on from one at once: %d, %d in %d", b.Previous, c.Previous, c.Conversation)
	}

	s = newSession()
	s.ask(0, claude("", "a"), usage(1, 0, 0))
	refused := s.ask(0, claude("", "a", "x", "1"), "")
	s.Ended(refused, s.at)
	if again := s.ask(0, claude("", "a", "x", "2"), usage(1, 0, 0)); again.Branch || again.Turn != 3 {
		t.Errorf("another question after one that was refused is turn %d of conversation %d", again.Turn, again.Conversation)
	}

	s = newSession()
	s.ask(0, `{"model":"g","instructions":"i","input":"one"}`, `{"id":"r1","output":[{"type":"message"}],"usage":{"input_tokens":10}}`)
	held := s.ask(0, `{"model":"g","instructions":"i","previous_response_id":"r1","input":"two"}`, `{"id":"r2","usage":{"input_tokens":20}}`)
	if got, want := items(held), "system 3, user 5, assistant 18, user 5"; got != want || held.Held != 2 || held.Turn != 2 {
		t.Errorf("a conversation at the provider: %s, %d held, want %s", got, held.Held, want)
	}
}

// Secrets are masked where a text is cut, also if the cut goes through one.
func TestSecrets(t *testing.T) {
	s := newSession()
	key := strings.Repeat("k", 90)
	s.Mask = func(text string) string { return strings.ReplaceAll(text, key, "[redacted]") }
	s.ask(0, claude("The key is "+key+" on Monday.", "x "+key), usage(5, 0, 3000))
	s.ask(time.Second, claude("The key is "+key+" on Tuesday.", "x "+key), usage(5, 0, 3000))
	var out strings.Builder
	if err := s.View(time.Time{}).Write(table.Output{To: &out, Form: table.AsJSON}); err != nil || strings.Contains(out.String(), "kkk") || !strings.Contains(out.String(), "[redacted] on Tuesday.") {
		t.Errorf("%v\n%s", err, out.String())
	}
}

// A transcript has what the programs tells: an answer is a call of the model with all that came before it. A
// cache that has lost something without a pause is not explained.
func TestTold(t *testing.T) {
	s := newSession()
	conn := 0
	tell := func(after time.Duration, event string) {
		var m protocol.Message
		if err := agentlog.Spec.Parse([]byte(event), &m); err != nil {
			t.Fatal(err)
		}
		s.frame, s.at = s.frame+1, s.at.Add(after)
		s.Told(s.frame, s.at, conn, &m)
	}
	answer := func(id string, input, cached, written int) string {
		return fmt.Sprintf(`{"type":"answer","turn":"t","id":%q,"model":"m","begins":true,"input_tokens":%d,"cached_tokens":%d,"written_tokens":%d,"text":"ok"}`, id, input, cached, written)
	}
	tell(0, `{"type":"prompt","turn":"t","text":"A command, whose model is on a wire"}`)
	conn = 1
	tell(0, `{"type":"prompt","turn":"t","text":"Which harbour?"}`)
	tell(time.Second, answer("1", 5000, 0, 4900))
	tell(time.Second, `{"type":"call","turn":"t","id":"c","name":"Read","arguments":{"file_path":"/ports"}}`)
	tell(time.Second, `{"type":"result","turn":"t","id":"c","text":"Sydney"}`)
	tell(time.Second, answer("2", 5100, 4900, 200))
	tell(time.Second, answer("3", 5200, 0, 5200))
	tell(time.Hour, answer("4", 5300, 0, 5300))
	tell(time.Second, `{"type":"compaction","reason":"manual"}`)
	tell(time.Second, answer("5", 3000, 100, 2900))
	v := s.View(time.Time{})
	if n := v.Calls[0].Conversation; n != 1 {
		t.Errorf("the first call is of conversation %d: another had no call", n)
	}
	if got, want := items(v.Calls[1]), "history 0, user 16, assistant 4, call Read /ports 22, result Read /ports 8"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	for i, want := range []string{"", "", "cause unknown: a transcript shows neither the system prompt nor the tools", "expired: idle for 1h, and the cache is kept for 5m", "your prefix changed here: the context was compacted (manual)"} {
		got := ""
		if found := v.Verdict(v.Calls[i]); found != nil {
			got = found.Text
		}
		if got != want {
			t.Errorf("call %d: %q, want %q", i+1, got, want)
		}
	}
}

// The shares of the tokens add up to what the provider says, whatever the items are.
func FuzzRequest(f *testing.F) {
	f.Add(claude("a", "x", "y"), claude("b", "x", "z"), int64(12345))
	f.Add(gpt("a", "x", "y"), `{"previous_response_id":"r","input":[{"type":"message","role":"user","content":[{"type":"input_image"}]}]}`, int64(3))
	f.Add(`{"tools":[{"functionDeclarations":[{"name":"f","cache_control":{}}]}],"contents":[{"parts":[{"thought":true,"text":"t"}]}]}`, `{"messages":[{"cache_control":{"ttl":"1h"},"content":[{"cache_control":`, int64(1))
	f.Fuzz(func(t *testing.T, first, second string, input int64) {
		s := newSession()
		for _, body := range []string{first, second, first, second} {
			c := s.ask(time.Second, body, fmt.Sprintf(`{"id":"r","output":[{}],"usage":{"input_tokens":%d,"cache_read_input_tokens":1}}`, max(input, 0)))
			if c == nil {
				continue
			}
			var sum int64
			for _, n := range c.Tokens() {
				if sum += n; n < 0 {
					t.Fatalf("%d tokens", n)
				}
			}
			if c.Tokens() != nil && sum != c.Input {
				t.Fatalf("%d tokens, want %d", sum, c.Input)
			}
		}
		v := s.View(time.Time{})
		for _, c := range v.Calls {
			if err := v.WriteCall(table.Output{To: new(strings.Builder), Form: table.AsJSON}, c); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// Beyond its bounds, a session still has its calls and their sums.
func TestBounds(t *testing.T) {
	body := func(n, seed int) string {
		return `{"messages":[` + strings.TrimSuffix(strings.Repeat(fmt.Sprintf(`{"role":"user","content":"%d"},`, seed), n), ",") + `]}`
	}
	s := newSession()
	if c := s.ask(0, body(40_000, 1), usage(100, 0, 0)); len(c.Items) > 1<<14 || c.Bytes() < 100_000 {
		t.Errorf("%d items, %d B", len(c.Items), c.Bytes())
	}
	for i := range 20 {
		s.ask(0, body(10_000, i+2), usage(100, 0, 0))
	}
	last := s.ask(0, body(10, 99), usage(100, 0, 0))
	if !last.Omitted || last.Bytes() != 40 {
		t.Errorf("it has %d items, %d B", len(last.Items), last.Bytes())
	}
	v := s.View(time.Time{})
	for _, form := range []string{table.AsText, table.AsNDJSON} {
		if err := v.Write(table.Output{To: new(strings.Builder), Form: form, Style: &render.Style{}}); err != nil {
			t.Error(err)
		}
	}
}
