package agentlog_test

import (
	"testing"

	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/agentlog"
	"github.com/wirectl/wirectl/test/kit/prototest"
)

func TestVectors(t *testing.T) { prototest.Vectors(t, agentlog.Spec.Protocol) }

func Fuzz(f *testing.F) { prototest.Fuzz(f, agentlog.Spec.Protocol, jsonscan.WellFormed) }

// What is appended is what is parsed, whatever the texts hold.
func TestAppend(t *testing.T) {
	e := agentlog.Event{
		Type: agentlog.Result, Turn: `t"1`, ID: "é\n", Outcome: agentlog.ToolError, Reason: "no \x00\xff", FullSize: 7,
		Arguments: []byte("{"), Text: []byte(`"a"`), Unanswered: []string{"x", "y"},
	}
	text := e.Append(nil)
	var m protocol.Message
	if err := agentlog.Spec.Parse(text, &m); err != nil || string(m.Kind) != agentlog.Result || !m.ToolError || m.Phase != protocol.Close || string(m.Text) != `"a"` {
		t.Errorf("%s: %+v %v", text, m, err)
	}
}
