package stats

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/jsonrpc"
	"github.com/wirectl/wirectl/session"
	"github.com/wirectl/wirectl/session/contract"
	"github.com/wirectl/wirectl/table"
)

// define feeds an MCP tracker with lines and returns the tools defined in them. Requests begin
// with ">".
func define(t *testing.T, lines ...string) ([]Tool, *session.Tracker) {
	t.Helper()
	d := new(contract.Offer)
	tr := session.New(jsonrpc.MCP, session.Options{Watcher: d})
	for i, line := range lines {
		text, asks := strings.CutPrefix(line, ">")
		f := session.Frame{Seq: int64(i + 1), Dir: frame.U2C, Size: len(text), Payload: []byte(text)}
		if asks {
			f.Dir = frame.C2U
		}
		var m protocol.Message
		if err := jsonrpc.MCP.Parse(f.Payload, &m); err != nil {
			t.Fatal(err)
		}
		d.AddMessage(f.Seq, &m, f.Payload)
		tr.Feed(f, &m)
	}
	return ToolsOf(d), tr
}

const (
	list = `>{"jsonrpc":"2.0","id":%d,"method":"tools/list"}`
	echo = `{"name":"echo", "inputSchema":{"type":"object"}}` // as written: with its space
	sum  = `{"inputSchema":{},"name":"s\u0075m"}`
)

func tools(id int, definitions ...string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{"tools":[%s]}}`, id, strings.Join(definitions, ","))
}

// Pages are merged, and the last definition of a tool counts. An answer to another request that
// has tools, and a failed one, define none.
func TestDefinitions(t *testing.T) {
	d, _ := define(t,
		fmt.Sprintf(list, 1), tools(1, echo),
		fmt.Sprintf(list, 2), tools(2, sum, `{"name":7}`, `"text"`),
		`>{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"echo"}}`, tools(3, `{"name":"none"}`),
		tools(4, `{"name":"unasked"}`),
		fmt.Sprintf(list, 5), `{"jsonrpc":"2.0","id":5,"error":{"code":1,"message":"\"tools\""}}`,
		`>[`+fmt.Sprintf(list, 6)[1:]+`]`, `[`+tools(6, `{"name":"sum"}`)+`]`,
	)
	want := []Tool{{"mcp", "echo", int64(len(echo))}, {"mcp", "sum", int64(len(`{"name":"sum"}`))}}
	if got := d; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// Names are cut to the same length as a tracker cuts those of calls.
func TestLongNames(t *testing.T) {
	d, _ := define(t, fmt.Sprintf(list, 1), tools(1, fmt.Sprintf(`{"name":"%s"}`, strings.Repeat("x", 2*maxLabel))))
	if len(d) != 1 || len(d[0].Name) != maxLabel {
		t.Errorf("%v", d)
	}
}

// Names have their calls, errors, bytes and definitions. Tools that were never called are
// included.
func TestNames(t *testing.T) {
	failed := `{"jsonrpc":"2.0","id":3,"result":{"content":[],"isError":true}}`
	d, tr := define(t,
		fmt.Sprintf(list, 1), tools(1, echo, sum),
		`>{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"echo"}}`, `{"jsonrpc":"2.0","id":2,"result":{}}`,
		`>{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"echo"}}`, failed,
		`>{"jsonrpc":"2.0","id":4,"method":"prompts/get","params":{"name":"sum"}}`, // not a tool
	)
	r := New()
	r.Add("mcp", tr, false)
	r.AddTools(d)
	answered := int64(len(failed) + len(`{"jsonrpc":"2.0","id":2,"result":{}}`))
	want := []Name{
		{
			Protocol: "mcp", Kind: "tools/call", Name: "echo", Calls: 2, Errors: 1, Exchanges: Counts{"done": 1, "tool-error": 1},
			ResultBytes: answered, ResultTokens: (answered + 2) / 4, DefinitionBytes: int64(len(echo)), DefinitionTokens: 12,
		},
		{Protocol: "mcp", Kind: "prompts/get", Name: "sum", Calls: 1, Exchanges: Counts{"open": 1}},
		{Protocol: "mcp", Kind: "tools/call", Name: "sum", DefinitionBytes: int64(len(sum)), DefinitionTokens: 9},
	}
	if got := fmt.Sprintf("%+v", r.Names); got != fmt.Sprintf("%+v", want) {
		t.Errorf("got  %s\nwant %+v", got, want)
	}
	if total := (Tools{2, int64(len(echo) + len(sum)), 21}); *r.Tools != total {
		t.Errorf("%+v, want %+v", *r.Tools, total)
	}
	var out bytes.Buffer
	if err := r.Text(table.Output{To: &out, Form: table.AsText, Width: 100, Style: &render.Style{}}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "\necho (tools/call)") || !strings.Contains(out.String(), "\nsent with every conversation: 84 bytes, ~21 tokens\n") {
		t.Errorf("%s", &out)
	}
}

func TestTokensAreRounded(t *testing.T) {
	for bytes, want := range map[int64]int64{0: 0, 1: 0, 2: 1, 5: 1, 6: 2, 4096: 1024} {
		if got := Tokens(bytes); got != want {
			t.Errorf("%d bytes: %d, want %d", bytes, got, want)
		}
	}
}
