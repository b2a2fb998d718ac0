package transcript_test

import (
	"testing"

	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/transcript"
	"github.com/wirectl/wirectl/test/kit/prototest"
)

func TestVectors(t *testing.T) { prototest.Vectors(t, transcript.Spec.Protocol) }

func Fuzz(f *testing.F) { prototest.Fuzz(f, transcript.Spec.Protocol, jsonscan.WellFormed) }

// What is appended is what is parsed, whatever the texts hold.
func TestAppend(t *testing.T) {
	e := transcript.Event{
		Type: transcript.Result, Turn: `t"1`, ID: "é\n", Outcome: transcript.ToolError, Reason: "no \x00\xff", FullSize: 7,
		Arguments: []byte("{"), Text: []byte(`"a"`), Unanswered: []string{"x", "y"},
	}
	text := e.Append(nil)
	var m protocol.Message
	if err := transcript.Spec.Parse(text, &m); err != nil || string(m.Kind) != transcript.Result || !m.ToolError || m.Phase != protocol.Close || string(m.Text) != `"a"` {
		t.Errorf("%s: %+v %v", text, m, err)
	}
}
