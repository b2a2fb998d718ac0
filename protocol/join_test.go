package protocol_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/all"
)

// The words of a request are in its headers and its body; JSON may be in a string, and a masked word is
// none.
func TestAppendLinks(t *testing.T) {
	of := func(as protocol.Linked, text string) protocol.Link { return protocol.Link{As: as, Text: text} }
	for _, c := range []struct {
		protocol, body string
		header         frame.Field
		want           []protocol.Link
	}{
		{"anthropic", `{}`, frame.Field{Name: "x-claude-code-agent-id", Value: "a1"}, []protocol.Link{of(protocol.OfAgent, "a1")}},
		{"openai", `{}`, frame.Field{Name: "x-codex-turn-metadata", Value: `{"turn_id":"u"}`}, []protocol.Link{of(protocol.OfTurn, "u")}},
		{"openai-realtime", `{"client_metadata":{"thread_id":"h","x-codex-turn-metadata":"{\"thread_source\":\"thread_title\"}"}}`, frame.Field{}, []protocol.Link{of(protocol.OfAgent, "h"), of(protocol.ForItself, "title")}},
		{"mcp", `{"params":{"_meta":{"claudecode/toolUseId":"t1"},"arguments":{"b":1,"a":[2.0]}}}`, frame.Field{}, []protocol.Link{
			of(protocol.CarriesOut, "t1"), {As: protocol.WithArguments, Arguments: protocol.HashOfArguments([]byte(`{"a": [2], "b": 1}`))},
		}},
		{"mcp", `{"params":{"_meta":{"callId":"***"}}}`, frame.Field{}, []protocol.Link{{As: protocol.WithArguments, Arguments: protocol.HashOfArguments(nil)}}},
	} {
		p, err := all.Named(c.protocol)
		if err != nil {
			t.Fatal(err)
		}
		got := all.Of(p).AppendLinks(nil, &frame.Head{Start: "POST / HTTP/1.1", Fields: []frame.Field{c.header}}, []byte(c.body))
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s %s: -want +got:\n%s", c.protocol, c.body, diff)
		}
	}
}
