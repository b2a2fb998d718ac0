package wrap_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/wirectl/wirectl/relay/wrap"
)

// A server is added to configurations as people write them, and every other byte stays. Removing it restores them, where
// no list of servers was added for it.
func TestAdd(t *testing.T) {
	const entry = `"wirectl":{"command":"/bin/wirectl","args":["mcp","--level=full"]}`
	for _, c := range []struct{ file, before, after, removed string }{
		{"a.json", "", `{"mcpServers":{` + entry + "}}\n", `{"mcpServers":{}}` + "\n"},
		{"a.json", "{\n  \"theme\": \"dark\" // mine\n}\n", "", ""},
		{"a.json", "{\"mcpServers\": {\"lab\": {\"command\": \"lab\", \"args\": [\"x\"]}, }, \"n\": 1e3}", "", ""},
		{"a.json", "{\"servers\": {}}\n", `{"servers": {` + entry + "}}\n", "{\"servers\": {}}\n"},
		{"a.json", "[]", "!", ""},
		{"a.json", "{\"mcpServers\": [1]}", "!", ""},
		{"a.json", "{\"mcpServers\": {\"wirectl\": {\"command\": \"other\"}}}", "!", ""},
		{".vscode/mcp.json", "{}\n", `{"servers":{` + entry + "}}\n", `{"servers":{}}` + "\n"},
		{"config.toml", "", "[mcp_servers.wirectl]\ncommand = \"/bin/wirectl\"\nargs = [\"mcp\", \"--level=full\"]\n", ""},
		{"config.toml", "model = \"m\" # mine\r\n[mcp_servers.lab]\r\ncommand = 'lab'\r\n", "model = \"m\" # mine\r\n[mcp_servers.lab]\r\ncommand = 'lab'\r\n\r\n[mcp_servers.wirectl]\r\ncommand = \"/bin/wirectl\"\r\nargs = [\"mcp\", \"--level=full\"]\r\n", "="},
		{"config.toml", "mcp_servers = { lab = { command = \"lab\" } }\n", "!", ""},
		{"config.yaml", "extensions:\n    lab:\n        cmd: lab\n        args: []\nother: 1\n", "extensions:\n    wirectl:\n      name: wirectl\n      type: stdio\n      enabled: true\n      cmd: \"/bin/wirectl\"\n      args: [\"mcp\", \"--level=full\"]\n    lab:\n        cmd: lab\n        args: []\nother: 1\n", "="},
		{"config.yaml", "GOOSE_MODE: auto\n", "", ""},
		{"config.yaml", "extensions: {lab: {cmd: lab}}\n", "!", ""},
	} {
		file := filepath.Join(t.TempDir(), filepath.FromSlash(c.file))
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if c.before != "" {
			if err := os.WriteFile(file, []byte(c.before), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		open := func() *wrap.Rewriting {
			r, err := wrap.OpenFor(func(string) string { return "" }, file)
			if err != nil {
				t.Fatal(err)
			}
			return r
		}
		r := open()
		err := r.AddServer("wirectl", []string{"/bin/wirectl", "mcp", "--level=full"})
		if (err != nil) != (c.after == "!") {
			t.Errorf("%s %q: %v", c.file, c.before, err)
		}
		if err != nil {
			continue
		}
		if c.after != "" && string(r.Text) != c.after {
			t.Errorf("%s %q becomes\n%s", c.file, c.before, r.Text)
		}
		if _, err := r.Write(); err != nil {
			t.Fatal(err)
		}
		if err := open().AddServer("wirectl", []string{"x"}); !errors.Is(err, wrap.ErrThere) {
			t.Errorf("%s: added twice: %v", c.file, err)
		}
		r = open()
		if err := r.RemoveServer("wirectl", "mcp"); err != nil {
			t.Errorf("%s: %v\n%s", c.file, err, r.Before())
			continue
		}
		if want := c.removed; want == "=" && string(r.Text) != c.before || want != "" && want != "=" && string(r.Text) != want {
			t.Errorf("%s %q is in the end\n%q", c.file, c.before, r.Text)
		}
		if _, err := r.Write(); err != nil {
			t.Fatal(err)
		}
		if err := open().RemoveServer("wirectl", "mcp"); !errors.Is(err, wrap.ErrNotThere) {
			t.Errorf("%s: removed twice: %v", c.file, err)
		}
	}
	file := filepath.Join(t.TempDir(), "other.json")
	if err := os.WriteFile(file, []byte(`{"mcpServers": {"wirectl": {"command": "mine", "args": ["mcp"]}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := wrap.OpenFor(os.Getenv, file)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.RemoveServer("wirectl", "mcp"); !errors.Is(err, wrap.ErrOther) {
		t.Errorf("a server of somebody else is removed: %v", err)
	}
}
