package protocol_test

import (
	"testing"

	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/jsonrpc"
)

// Other ids stand where the ids were, and nothing else is touched: neither what
// reads alike nor how the rest is written.
func TestAppendRenamed(t *testing.T) {
	for _, tt := range []struct {
		p             protocol.Protocol
		payload, want string
	}{
		{jsonrpc.MCP, `{"id": 1, "jsonrpc":"2.0","method":"ping","params":{"id":1}}`, `{"id": <1>, "jsonrpc":"2.0","method":"ping","params":{"id":1}}`},
		{
			jsonrpc.MCP, `{"jsonrpc":"2.0","method":"tools/call","params":{"name":"1","_meta":{"progressToken":1}},"id":1}`,
			`{"jsonrpc":"2.0","method":"tools/call","params":{"name":"1","_meta":{"progressToken":<1>}},"id":<1>}`,
		},
		{jsonrpc.MCP, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"a\u0062"}}`, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":<"a\u0062">}}`},
		{jsonrpc.DAP, `{"seq":9,"type":"response","request_seq":4,"success":true,"command":"x"}`, `{"seq":<9>,"type":"response","request_seq":<4>,"success":true,"command":"x"}`},
		{jsonrpc.MCP, `{"jsonrpc":"2.0","method":"notifications/initialized"}`, `{"jsonrpc":"2.0","method":"notifications/initialized"}`},
	} {
		var m protocol.Message
		payload := []byte(tt.payload)
		if err := tt.p.Parse(payload, &m); err != nil {
			t.Fatal(err)
		}
		got := protocol.AppendRenamed(nil, tt.p, payload, &m, func(token protocol.Token) []byte {
			return append(append([]byte("<"), token.Text...), '>')
		})
		if string(got) != tt.want {
			t.Errorf("%s\n got %s\nwant %s", tt.payload, got, tt.want)
		}
	}
}
