package agents_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"testing"
	"testing/fstest"
	"testing/iotest"
	"time"

	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/agentlog"
	"github.com/wirectl/wirectl/source"
	"github.com/wirectl/wirectl/source/agents"
)

// samples are files of each form.
var samples = map[string]string{
	"gemini-chat": "gemini/tmp/project/chats/*.jsonl", "gemini-document": "", "qwen-chat": "qwen/projects/-home-user-project/chats/*.jsonl",
	"copilot": "copilot/session-state/*/events.jsonl", "opencode": "opencode-export.json", "cline": "cline-messages.json",
}

// Nothing that a file holds, and no cut, makes reading panic, hang or go back in time.
func Fuzz(f *testing.F) {
	files := os.DirFS("../../test/testdata/files")
	for i, form := range agents.Forms {
		pattern, ok := samples[form.Name]
		names, err := fs.Glob(files, pattern)
		if err != nil || !ok || pattern != "" && len(names) == 0 {
			f.Fatalf("%s has no sample: %v", form.Name, err)
		}
		f.Add(uint8(i), []byte(`{"sessionId":"s","messages":[{"id":"1","type":"user","content":"hi"},{"id":"2","type":"gemini","content":"ho"}]}`))
		for _, name := range names {
			text, err := fs.ReadFile(files, name)
			if err != nil {
				f.Fatal(err)
			}
			const few = 6 // lines, so that fuzzing is quick
			lines := bytes.SplitAfter(text, []byte("\n"))
			if text[1] == '\n' {
				lines = [][]byte{text}
			}
			for at := 0; at < len(lines); at += few {
				f.Add(uint8(i), bytes.Join(lines[at:min(at+few, len(lines))], nil))
			}
		}
	}
	f.Fuzz(func(t *testing.T, form uint8, text []byte) {
		opened := agents.Forms[int(form)%len(agents.Forms)]
		if whole, pieces := read(t, opened, bytes.NewReader(text)), read(t, opened, iotest.HalfReader(bytes.NewReader(text))); whole != pieces {
			t.Error("what is read depends on the sizes of reads")
		}
	})
}

// read reads a session to its end, checks each record, and returns the events and the error.
func read(t *testing.T, form *source.Form, in io.Reader) string {
	t.Helper()
	var all strings.Builder
	r, err := form.Open(&source.File{Reader: in, Seen: new(source.Seen)})
	if err != nil {
		return err.Error()
	}
	var now time.Time
	for {
		var rec source.Record
		if err := r.Next(&rec); err != nil {
			if strings.ContainsAny(err.Error(), "\n\r") {
				t.Errorf("an error of several lines: %q", err)
			}
			return all.String() + err.Error()
		}
		if rec.Kind != source.Message {
			continue
		}
		var m protocol.Message
		if err := agentlog.Spec.Parse(rec.Data, &m); err != nil || m.Faults&protocol.UnknownKind != 0 {
			t.Fatalf("%s: %v", rec.Data, err)
		}
		if rec.Time.Before(now) {
			t.Fatalf("%s: the time goes back", rec.Data)
		}
		now = rec.Time
		all.Write(rec.Data)
		all.WriteByte('\n')
	}
}

func form(name string) *source.Form {
	for _, f := range agents.Forms {
		if f.Name == name {
			return f
		}
	}
	return nil
}

// Each event is a line of what is wanted, which is a part of it.
func TestForms(t *testing.T) {
	for _, c := range []struct{ name, form, text, want string }{
		{
			"an older session of Gemini", "gemini-document",
			`{"sessionId":"s","projectHash":"h","startTime":"2026-01-01T00:00:00Z","messages":[
				{"id":"a","timestamp":"2026-01-01T00:00:01Z","type":"user","content":"hi"},
				{"id":"b","timestamp":"2026-01-01T00:00:02Z","type":"gemini","content":"ho","tokens":{"input":10,"tool":2,"output":3,"thoughts":4,"cached":5}}]}`,
			`session"|"prompt"|"input_tokens":12,"cached_tokens":5,"output_tokens":7|"end"|EOF`,
		},
		{
			"the same on one line", "gemini-chat",
			`{"sessionId":"s","projectHash":"h","startTime":"2026-01-01T00:00:00Z","messages":[{"id":"a","type":"user","content":"hi"},{"id":"b","type":"gemini","content":"ho"}]}`,
			`session"|"prompt"|"answer"|"end"|EOF`,
		},
		{
			"an older Copilot, resumed", "copilot",
			`{"type":"user.message","id":"1","data":{"content":"hi"}}
			{"type":"session.shutdown","id":"2","data":{"modelMetrics":{"m":{"usage":{"inputTokens":10,"outputTokens":2,"cacheReadTokens":3}}}}}
			{"type":"user.message","id":"3","data":{"content":"hi"}}
			{"type":"session.usage_record","id":"4","data":{"usage":{"model":"m","inputTokens":20,"outputTokens":2}}}
			{"type":"session.shutdown","id":"5","data":{"modelMetrics":{"m":{"usage":{"inputTokens":20,"outputTokens":2}}}}}`,
			`session"|"prompt"|"input_tokens":10,"cached_tokens":3|"prompt"|"input_tokens":20|EOF`,
		},
		{
			"a failed tool, an MCP tool, a retry", "copilot",
			`{"type":"user.message","id":"1","data":{"content":"hi"}}
			{"type":"session.error","data":{"message":"busy\nnow"}}
			{"type":"tool.execution_start","data":{"toolCallId":"a","toolName":"bash"}}
			{"type":"tool.execution_complete","data":{"toolCallId":"a","success":true,"shellExecution":{"exitCode":2}}}
			{"type":"tool.execution_start","data":{"toolCallId":"b","toolName":"ev-x","mcpServerName":"ev","mcpToolName":"x"}}
			{"type":"tool.execution_complete","data":{"toolCallId":"b","success":false,"error":{"message":"no"}}}
			{"type":"abort"}`,
			`session"|"prompt"|"retry","turn":"1","reason":"busy now"|"call"|"tool-error","reason":"exit code 2"|"name":"ev/x","server":"ev"|"tool-error","reason":"no"|"end","turn":"1","outcome":"cancelled"|EOF`,
		},
		{
			"an older Qwen Code has usage apart", "qwen-chat",
			`{"uuid":"1","type":"user","message":{"parts":[{"text":"hi"}]}}
			{"uuid":"2","type":"system","subtype":"ui_telemetry","systemPayload":{"uiEvent":{"event.name":"qwen-code.api_response","response_id":"r","input_token_count":7,"output_token_count":1}}}
			{"uuid":"3","type":"assistant","message":{"parts":[{"text":"thinking","thought":true},{"text":"ho"}]}}`,
			`session"|"prompt"|"input_tokens":7,"output_tokens":1,"text":"ho"|"end"|EOF`,
		},
		{
			"parallel calls, reasoning, an interrupt", "opencode",
			`{"info":{"id":"s","time":{"created":1795835987994}},"messages":[
				{"info":{"id":"a","role":"user","time":{"created":1795835987995}},"parts":[{"type":"text","text":"hi"}]},
				{"info":{"id":"b","role":"assistant","time":{"created":1795835987996,"completed":1795835988900},"tokens":{"total":20,"input":5,"output":3,"reasoning":2,"cache":{"read":6,"write":4}}},"parts":[
					{"type":"tool","callID":"x","tool":"bash","state":{"status":"error","error":"no","time":{"start":1795835988000,"end":1795835988500}}},
					{"type":"tool","callID":"y","tool":"bash","state":{"status":"running","time":{"start":1795835988100}}}]},
				{"info":{"id":"c","role":"assistant","time":{"created":1795835989000},"error":{"name":"MessageAbortedError"}},"parts":[]}]}`,
			`session"|"prompt"|"call","turn":"a","id":"x"|"call","turn":"a","id":"y"|"id":"x","outcome":"tool-error","reason":"no"|"input_tokens":15,"cached_tokens":6,"output_tokens":5|"id":"y","outcome":"cancelled"|"end","turn":"a","outcome":"cancelled"|EOF`,
		},
		{"a cut document", "opencode", `{"info":{"id":"s"},"messages":[{"info":{"id":"a","role":"user"},"parts":[{"type":"text","text":"hi"}]},{"info":`, `session"|"prompt"|byte 103: the file is cut`},
		{"a cut line", "copilot", `{"type":"user.message","id":"1","data":{"content":"hi"}}` + "\n" + `{"type":"abo`, `session"|"prompt"|byte 57: the file is cut`},
		{"a document without a list", "cline", `{"messages":7}`, `session"|its messages are not a list`},
		{"wrong types", "gemini-chat", `{"sessionId":[],"startTime":{}}` + "\n7\n" + `{"id":{},"type":"user","content":"hi"}` + "\n" + `{"id":"b","type":"gemini","tokens":{"input":-1,"output":1e300},"toolCalls":[7,{"id":"c"},{}]}`, `session"|"call","id":"c"|"result","id":"c"|EOF`},
	} {
		got := read(t, form(c.form), strings.NewReader(c.text))
		lines, want := strings.Split(got, "\n"), strings.Split(c.want, "|")
		if len(lines) != len(want) {
			t.Errorf("%s is\n%s\nwant %s", c.name, got, c.want)
			continue
		}
		for i := range lines {
			if !strings.Contains(lines[i], want[i]) {
				t.Errorf("%s has\n%s\nwant %s", c.name, lines[i], want[i])
			}
		}
	}
}

// A copy of a session counts once: a fork of opencode has other ids, and the same times.
func TestCopies(t *testing.T) {
	const export = `{"info":{"id":"s"},"messages":[{"info":{"id":"%sa","role":"user","time":{"created":1795835987995}},"parts":[{"type":"text","text":"hi"}]},` +
		`{"info":{"id":"%[1]sb","role":"assistant","time":{"created":1795835987996},"tokens":{"input":5}},"parts":[{"type":"text","text":"ho"}]}]}`
	seen := &source.Seen{}
	var prompts, tokens int
	for _, copied := range []string{"x", "y"} {
		r, err := form("opencode").Open(&source.File{Reader: strings.NewReader(fmt.Sprintf(export, copied)), Seen: seen})
		for err == nil {
			var rec source.Record
			err = r.Next(&rec)
			prompts += bytes.Count(rec.Data, []byte(`"prompt"`))
			tokens += bytes.Count(rec.Data, []byte(`"input_tokens":5`))
		}
		if !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
	}
	if prompts != 1 || tokens != 1 {
		t.Errorf("%d prompts and %d answers: want one of each", prompts, tokens)
	}
}

// A value without an end is refused before it fills the memory.
func TestHuge(t *testing.T) {
	endless := io.MultiReader(strings.NewReader(`{"info":"`), io.LimitReader(zeros{}, 1<<30))
	if got := read(t, form("opencode"), endless); !strings.Contains(got, "a value is over 32 MiB") {
		t.Errorf("it says %.200s", got)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = '0'
	}
	return len(p), nil
}

// The sessions of sub-agents are read from the folder of their parent alone, once each, and no deeper.
func TestSubAgents(t *testing.T) {
	session := func(id, kind, calls string) []byte {
		return fmt.Appendf(nil, `{"sessionId":%q,"projectHash":"h","startTime":"2026-11-29T01:00:00Z","kind":%q}
{"id":"p-%[1]s","timestamp":"2026-11-29T01:00:01Z","type":"user","content":"hi"}
{"id":"a-%[1]s","timestamp":"2026-11-29T01:00:02Z","type":"gemini","content":"ho","tokens":{"input":1},"model":"m","toolCalls":[%[3]s]}
`, id, kind, calls)
	}
	call := func(id, agent string) string {
		return fmt.Sprintf(`{"id":%q,"name":"invoke_agent","agentId":%q,"status":"success","timestamp":"2026-11-29T01:00:03Z"}`, id, agent)
	}
	folder := fstest.MapFS{
		"s/one.jsonl":  {Data: session("one", "subagent", call("inner", "two")+","+call("itself", "one"))},
		"s/two.jsonl":  {Data: session("two", "subagent", "")},
		"s/link.jsonl": {Mode: fs.ModeSymlink, Data: []byte("two.jsonl")},
		"s/odd.jsonl":  {Data: []byte("{\n\x00")},
		"out.jsonl":    {Data: session("out", "subagent", "")},
	}
	calls := []string{call("1", "one"), call("2", "one"), call("3", "../out"), call("4", "link"), call("5", "gone"), call("6", "odd")}
	r, err := agents.Forms[0].Open(&source.File{
		Reader: bytes.NewReader(session("s", "main", strings.Join(calls, ","))), Folder: folder, Seen: &source.Seen{}, Notice: func(string) {},
	})
	if err != nil {
		t.Fatal(err)
	}
	tally := &source.Tally{}
	if err := tally.Take(r); err != nil {
		t.Fatal(err)
	}
	input := tally.Usage[source.Of{Model: "m"}].Input
	if want := int64(3 + len(calls) + 2); tally.Calls != want || input != 3 {
		t.Errorf("there are %d turns and calls, and %d tokens: want %d, and 3", tally.Calls, input, want)
	}
}
