package diff

import (
	"strconv"
	"strings"
	"testing"
)

// A list is compared as a whole after its last page, and separately from other lists.
func TestListings(t *testing.T) {
	const (
		ask   = `> {"jsonrpc":"2.0","id":ID,"method":"tools/list"}` + "\n"
		first = ask + `< {"jsonrpc":"2.0","id":ID,"result":{"tools":[{"name":"a"}],"nextCursor":"2"}}` + "\n"
		next  = `> {"jsonrpc":"2.0","id":ID,"method":"tools/list","params":{"cursor":"2"}}` + "\n" + `< {"jsonrpc":"2.0","id":ID,"result":{"tools":[{"name":"b"}]}}` + "\n"
		whole = ask + `< {"jsonrpc":"2.0","id":ID,"result":{"tools":[{"name":"b"},{"name":"a"}]}}` + "\n"
		less  = ask + `< {"jsonrpc":"2.0","id":ID,"result":{"tools":[{"name":"b"}]}}` + "\n"
		ping  = `> {"jsonrpc":"2.0","id":ID,"method":"ping"}` + "\n" + `< {"jsonrpc":"2.0","id":ID,"result":{}}` + "\n"
		pang  = `> {"jsonrpc":"2.0","id":ID,"method":"ping"}` + "\n" + `< {"jsonrpc":"2.0","id":ID,"result":{"x":1}}` + "\n"
	)
	for _, tt := range []struct {
		about  string
		a, b   []string
		want   string
		differ int64
	}{
		{"the same", []string{first, next}, []string{first, next}, "", 0},
		{"other pages", []string{first, next}, []string{whole}, "payload tools/list result.nextCursor\nexchange tools/list", 1},
		{
			"a tool less, said where the list ends",
			[]string{whole, ping},
			[]string{less, pang},
			"definition tools/list result.tools.a\npayload ping result.x", 2,
		},
		{
			"a list that is not read to its end, and one that is",
			[]string{first, whole},
			[]string{first, less},
			"definition tools/list result.tools.a", 1,
		},
		{
			"a second page that only one has, before what comes then",
			[]string{whole, ping},
			[]string{first, next, pang},
			"payload tools/list result.nextCursor\nexchange tools/list\npayload ping result.x", 2,
		},
		{
			"pages without the tool",
			[]string{first, next, ping},
			[]string{less, pang},
			"payload tools/list result.nextCursor\nexchange tools/list\ndefinition tools/list result.tools.a\npayload ping result.x", 2,
		},
	} {
		if got := compare(t, numbered(tt.a), numbered(tt.b)); got != tt.want {
			t.Errorf("%s:\n%s\nwant\n%s", tt.about, got, tt.want)
		}
		if r := report(t, read(t, numbered(tt.a)), read(t, numbered(tt.b))); r.Differ != tt.differ {
			t.Errorf("%s: %d exchanges differ, want %d", tt.about, r.Differ, tt.differ)
		}
	}
}

// numbered joins exchanges and gives each its own id.
func numbered(exchanges []string) (lines string) {
	for i, e := range exchanges {
		lines += strings.ReplaceAll(e, "ID", strconv.Itoa(i+1))
	}
	return lines
}
