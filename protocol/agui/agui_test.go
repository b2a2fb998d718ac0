package agui_test

import (
	"strings"
	"testing"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/agui"
	"github.com/wirectl/wirectl/test/kit/prototest"
)

const (
	run       = `{"threadId":"t","runId":"r","state":{},"messages":[{"id":"u","role":"user","content":"hi"}],"tools":[],"context":[],"forwardedProps":{}}`
	resume    = `{"threadId":"t","runId":"s","messages":[],"tools":[],"context":[],"resume":[{"interruptId":"i","status":"resolved"}]}`
	started   = `{"type":"RUN_STARTED","threadId":"t","runId":"r"}`
	content   = `{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"Hi"}`
	finished  = `{"type":"RUN_FINISHED","threadId":"t","runId":"r","outcome":{"type":"success"}}`
	interrupt = `{"type":"RUN_FINISHED","threadId":"t","runId":"r","outcome":{"type":"interrupt","interrupts":[{"id":"i","reason":"tool_call"},{"id":"j","reason":"input"}]}}`
)

func TestParse(t *testing.T) {
	prototest.Vectors(t, agui.Spec.Protocol)
	prototest.Cases(t, agui.Spec.Protocol, []prototest.Case{
		{run, `run open from=c2u`},
		{resume, `run open from=c2u ref="t" ref-space=session continues=true`},
		{started, `RUN_STARTED part from=u2c empty=true`},
		{`{"type":"STEP_STARTED","stepName":"think"}`, `STEP_STARTED part from=u2c label=think empty=true`},
		{content, `TEXT_MESSAGE_CONTENT part from=u2c`},
		{`{"type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"pay"}`, `TOOL_CALL_START part from=u2c label=pay empty=true`},
		{`{"type":"STATE_DELTA","delta":[]}`, `STATE_DELTA part from=u2c`},
		{finished, `RUN_FINISHED close from=u2c label=success`},
		{`{"type":"RUN_FINISHED","threadId":"t","runId":"r"}`, `RUN_FINISHED close from=u2c`},
		{interrupt, `RUN_FINISHED close from=u2c bind="t" bind-space=session label=interrupt goes-on=true stop-reason=interrupt`},
		{`{"type":"RUN_FINISHED","threadId":"t","runId":"r","outcome":{"type":"cancelled"}}`, `RUN_FINISHED cancelled from=u2c label=cancelled stop-reason=cancelled`},
		{`{"type":"RUN_ERROR","message":"no","code":"X"}`, `RUN_ERROR fail from=u2c label=X stop-reason=X`},
		{`{"error":"no such agent"}`, `body close from=u2c`},
		{`{"type":"NEWS"}`, `unknown part from=u2c faults=unknown-kind empty=true`},
		{`[]`, `unknown note faults=unknown-kind`},
	})
	prototest.AnyOrder(t, agui.Spec.Protocol, run, resume, content, interrupt)
	prototest.NoAllocs(t, agui.Spec.Protocol, run, resume, started, content, interrupt)
}

// What a message says to people is told rather than how it begins.
func TestSummaries(t *testing.T) {
	for payload, want := range map[string]string{
		run:     `: hi`,
		content: `: Hi`,
		`{"type":"RUN_ERROR","message":"no","code":"X"}`: `X: no`,
		`{"type":"STATE_SNAPSHOT","snapshot":{"a":1}}`:   `: {"a":1}`,
	} {
		var m protocol.Message
		if err := agui.Spec.Protocol.Parse([]byte(payload), &m); err != nil || string(m.Label)+": "+string(m.Text) != want {
			t.Errorf("%s\n says %s: %s\n want %s (%v)", payload, m.Label, m.Text, want, err)
		}
	}
}

// A run is told by its body, whatever the path, unless its answer is not JSON.
func TestCall(t *testing.T) {
	for _, test := range []struct {
		method, accept, body string
		want                 bool
	}{
		{"POST", "text/event-stream", run, true},
		{"POST", "", resume, true},
		{"POST", "application/vnd.ag-ui.event+proto", run, false},
		{"PUT", "", run, false},
		{"POST", "", `{"threadId":"t","runId":"r","messages":[]}`, false},
		{"POST", "", run[:len(run)-1], false},
		{"POST", "", "", false},
	} {
		head := &frame.Head{Start: test.method + " /agent HTTP/1.1", Fields: []frame.Field{{Name: "Accept", Value: test.accept}}}
		if got := agui.Spec.API.Calls()(head, []byte(test.body)) != nil; got != test.want {
			t.Errorf("%s of %s is a run: %v", test.method, test.body, got)
		}
	}
}

// Each rule of a run is found where it is broken, and nowhere else.
func TestRun(t *testing.T) {
	event := func(words string) string {
		kind, id, _ := strings.Cut(words, " ")
		member := map[byte]string{'T': "messageId", 'R': "messageId", 'S': "stepName"}[kind[0]]
		if strings.HasPrefix(kind, "TOOL") {
			member = "toolCallId"
		}
		return `{"type":"` + kind + `","` + member + `":"` + id + `"}`
	}
	for _, test := range []struct{ about, events, want string }{
		{"a run", "RUN_STARTED; STEP_STARTED s; TEXT_MESSAGE_START m; TEXT_MESSAGE_CONTENT m; TEXT_MESSAGE_END m; STEP_FINISHED s; RUN_FINISHED", ""},
		{"calls at the same time", "RUN_STARTED; TOOL_CALL_START a; TOOL_CALL_START b; TOOL_CALL_ARGS a; TOOL_CALL_END b; TOOL_CALL_END a; TOOL_CALL_RESULT a; RUN_FINISHED", ""},
		{"a message of reasoning has the id of its span", "RUN_STARTED; REASONING_START r; REASONING_MESSAGE_START r; REASONING_MESSAGE_CONTENT r; REASONING_MESSAGE_END r; REASONING_END r; RUN_FINISHED", ""},
		{"chunks have no start", "RUN_STARTED; TEXT_MESSAGE_CHUNK m; TOOL_CALL_CHUNK c; RUN_FINISHED", ""},
		{"an error ends everything", "RUN_STARTED; TEXT_MESSAGE_START m; RUN_ERROR", ""},
		{"an error comes first", "RUN_ERROR", ""},
		{"a second run", "RUN_STARTED; RUN_FINISHED; RUN_STARTED; TEXT_MESSAGE_START m; TEXT_MESSAGE_END m; RUN_FINISHED", "apart"},
		{"no start", "TEXT_MESSAGE_START m; TEXT_MESSAGE_END m; RUN_FINISHED", "missing-ack"},
		{"content without a start", "RUN_STARTED; TEXT_MESSAGE_CONTENT m; RUN_FINISHED", "unknown-step"},
		{"arguments after the end", "RUN_STARTED; TOOL_CALL_START c; TOOL_CALL_END c; TOOL_CALL_ARGS c; RUN_FINISHED", "unknown-step"},
		{"an end without a start", "RUN_STARTED; STEP_FINISHED s; RUN_FINISHED", "unknown-step"},
		{"a second start", "RUN_STARTED; TEXT_MESSAGE_START m; TEXT_MESSAGE_START m; TEXT_MESSAGE_END m; RUN_FINISHED", "duplicate-id"},
		{"the run ends first", "RUN_STARTED; TOOL_CALL_START c; RUN_FINISHED", "open-step"},
	} {
		judge, found := agui.Spec.API.Runs().Begin(), ""
		for _, words := range strings.Split(test.events, "; ") {
			payload := []byte(event(words))
			var m protocol.Message
			if err := agui.Spec.Protocol.Parse(payload, &m); err != nil {
				t.Fatal(err)
			}
			broken, apart := judge(payload, &m)
			for _, b := range broken {
				found += b.Finding
			}
			if apart {
				found = "apart"
			}
		}
		if found != test.want {
			t.Errorf("%s: %s: found %q, want %q", test.about, test.events, found, test.want)
		}
	}
}

// A resume has an entry for each interrupt. A run without one begins anew.
func TestThreads(t *testing.T) {
	resumes := func(ids ...string) string {
		for i, id := range ids {
			ids[i] = `{"interruptId":"` + id + `","status":"cancelled"}`
		}
		return `{"threadId":"t","resume":[` + strings.Join(ids, ",") + `]}`
	}
	for body, want := range map[string]string{
		resumes("i", "j"):      "",
		resumes("j", "i"):      "",
		resumes("i"):           `there is no entry for the interrupt "j"`,
		resumes("i", "j", "k"): `there is no interrupt "k"`,
		run:                    "",
		`{"threadId":"u","resume":[{"interruptId":"k"}]}`: "", // of another thread, which was not seen
	} {
		runs, got := agui.Spec.API.Runs(), ""
		runs.Begin()([]byte(interrupt), &protocol.Message{Kind: []byte("RUN_FINISHED"), Phase: protocol.Close})
		for _, b := range runs.JudgeRequest([]byte(body)) {
			got += b.How
		}
		if got != want {
			t.Errorf("%s: %q, want %q", body, got, want)
		}
	}
}

func Fuzz(f *testing.F) { prototest.Fuzz(f, agui.Spec.Protocol, jsonscan.WellFormed) }

// No event makes a judge panic, or grow without bound.
func FuzzRun(f *testing.F) {
	f.Add([]byte(started), []byte(content), []byte(finished))
	f.Fuzz(func(t *testing.T, a, b, c []byte) {
		runs := agui.Spec.API.Runs()
		judge := runs.Begin()
		for _, payload := range [][]byte{a, b, c, a} {
			var m protocol.Message
			if agui.Spec.Protocol.Parse(payload, &m) == nil {
				judge(payload, &m)
				runs.JudgeRequest(payload)
			}
		}
	})
}
