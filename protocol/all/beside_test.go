package all_test

import (
	"testing"

	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/all"
	"github.com/wirectl/wirectl/protocol/jsonrpc"
	"github.com/wirectl/wirectl/protocol/opaque"
	"github.com/wirectl/wirectl/protocol/rlm"
)

// What is not a message of what is spoken on HTTP is told apart by itself.
func TestBeside(t *testing.T) {
	rpc := protocol.Protocol(jsonrpc.Plain)
	for _, tt := range []struct {
		of      protocol.Protocol
		payload string
		want    protocol.Protocol
	}{
		{jsonrpc.MCP, `{"jsonrpc":"2.0","id":1,"method":"ping"}`, jsonrpc.MCP},
		{jsonrpc.MCP, `{"jsonrpc":"2.0"}`, jsonrpc.MCP},
		{jsonrpc.MCP, `{"id":1,"result":{}}`, jsonrpc.MCP},
		{jsonrpc.MCP, `{"id":1,"error":{"code":1,"message":"no"}}`, jsonrpc.MCP},
		{jsonrpc.MCP, `{"method":"ping","id":1}`, jsonrpc.MCP},
		{jsonrpc.MCP, `[{"jsonrpc":"2.0","id":1,"method":"ping"}]`, jsonrpc.MCP},
		{jsonrpc.MCP, `{"id":`, jsonrpc.MCP},
		{jsonrpc.MCP, `{"error":"invalid_token"}`, opaque.JSON},
		{jsonrpc.MCP, `{"error":{"message":"no"}}`, opaque.JSON},
		{jsonrpc.MCP, `{"id":"resp_1","error":null,"output":[]}`, opaque.JSON},
		{jsonrpc.MCP, `{"model":"m"}`, opaque.JSON},
		{jsonrpc.MCP, `[{"model":"m"}]`, opaque.JSON},
		{jsonrpc.MCP, `[]`, opaque.JSON},
		{opaque.JSON, `{"model":"m"}`, opaque.JSON},
		{opaque.JSON, `{"input":{"jsonrpc":"2.0"}}`, opaque.JSON},
		{opaque.JSON, `{"jsonrpc":"2.0","id":1,"method":"ping"}`, rpc},
		{rlm.Protocol, `{"model":"m"}`, rlm.Protocol},
	} {
		if got := all.Beside(tt.of, []byte(tt.payload)); got != tt.want {
			t.Errorf("beside %s, %s is %s, not %s", tt.of.Name(), tt.payload, got.Name(), tt.want.Name())
		}
	}
}
