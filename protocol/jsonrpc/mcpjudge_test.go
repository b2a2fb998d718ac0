package jsonrpc_test

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/jsonrpc"
)

// Whatever a message and its head say, what is found is short text about a rule that there is.
func FuzzJudgeMCP(f *testing.F) {
	const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{"url":{}},"extensions":{}}}`
	for _, seed := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"n",` + meta + `}}`,
		`{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"taskIds":["k"]},` + meta + `}}`,
		`{"jsonrpc":"2.0","id":1,"result":{"resultType":"input_required","inputRequests":{"k":{"method":"elicitation/create","params":{"mode":"url"}}}}}`,
		`{"jsonrpc":"2.0","id":1,"error":{"code":-32042,"message":"m"}}`,
		`{"jsonrpc":"2.0","method":"notifications/tasks","params":{}}`,
		`[{"jsonrpc":"2.0","id":1,"method":"ping"}]`,
	} {
		f.Add([]byte(seed), "tools/call", "2026-07-28", "=?base64?bg==?=")
	}
	named := []string{"wrong-version", "wrong-result", "missing-field", "header-mismatch"}
	f.Fuzz(func(t *testing.T, payload []byte, asked, version, head string) {
		j := protocol.Judged{
			Version: version, Message: new(protocol.Message), Payload: payload, Asked: asked,
			Stated: &protocol.Stated{Verb: "POST", Version: head, Method: head, Name: head},
		}
		if jsonrpc.MCP.Parse(payload, j.Message) != nil {
			return
		}
		jsonrpc.MCPSpec.Rules.Judge(&j)
		for _, b := range j.Broken {
			if !slices.Contains(named, b.Finding) || len(b.How) > 4*512 || !utf8.ValidString(b.How) || strings.TrimSpace(b.How) == "" {
				t.Errorf("%s: %q", b.Finding, b.How)
			}
		}
	})
}
