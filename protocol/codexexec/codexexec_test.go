package codexexec_test

import (
	"testing"

	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/codexexec"
	"github.com/wirectl/wirectl/test/kit/prototest"
)

const (
	item = `{"type":"item.completed","item":{"id":"item_1","type":"agent_message","text":"hi"}}`
	done = `{"type":"turn.completed","usage":{"input_tokens":10,"cached_input_tokens":4,"output_tokens":2}}`
)

func TestParse(t *testing.T) {
	prototest.Vectors(t, codexexec.Spec.Protocol)
	prototest.Cases(t, codexexec.Spec.Protocol, []prototest.Case{
		{`{"type":"thread.started","thread_id":"t"}`, `thread.started note`},
		{`{"type":"turn.started"}`, `turn.started open`},
		{item, `item.completed part ref-space=turn label=agent_message`},
		{`{"type":"error","message":"no"}`, `error note`},
		{done, `turn.completed close ref-space=turn usage={10 4 2}`},
		{`{"type":"turn.failed","error":{"message":"no"}}`, `turn.failed fail ref-space=turn`},
		{`{"type":"news"}`, `unknown note faults=unknown-kind`},
	})
	prototest.AnyOrder(t, codexexec.Spec.Protocol, item, done)
	prototest.NoAllocs(t, codexexec.Spec.Protocol, item, done)
}

// What a message says to people is told rather than how it begins.
func TestSummaries(t *testing.T) {
	for payload, want := range map[string]string{
		item: `agent_message: "hi"`,
		`{"type":"item.completed","item":{"type":"todo_list"}}`: `todo_list: {"type":"todo_list"}`,
		`{"type":"turn.failed","error":{"message":"no"}}`:       `: "no"`,
		`{"type":"error","message":"no"}`:                       `: "no"`,
	} {
		var m protocol.Message
		if err := codexexec.Spec.Protocol.Parse([]byte(payload), &m); err != nil || string(m.Label)+": "+string(m.Text) != want {
			t.Errorf("%s\n says %s: %s\n want %s (%v)", payload, m.Label, m.Text, want, err)
		}
	}
}

func Fuzz(f *testing.F) { prototest.Fuzz(f, codexexec.Spec.Protocol, jsonscan.WellFormed) }
