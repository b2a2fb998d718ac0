package wrap

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// In real configurations, wrapping edits only the command and arguments of a server. Unwrapping
// restores every byte.
func TestRealConfigurations(t *testing.T) {
	for name, want := range map[string]string{
		"claude_desktop.json":  "filesystem weather",
		"claude_code.json":     "/home/zoë/src/app:db /home/zoë/src/other:db github(remote) playwright",
		"vscode_mcp.json":      "perplexity fetch(remote) bare",
		"vscode_settings.json": "time",
		"cursor.json":          "sqlite figma(remote)",
		"windsurf.json":        "github remote(remote)",
		"zed_settings.json":    "postgres older extension(none) My Agent",
		"codex.toml":           "context7 na ïve figma(remote) inline empty none dotted alone",
		"codex_crlf.toml":      "context7 na ïve figma(remote) inline empty none dotted alone",
		"gemini.json":          "pythonTools httpServer(remote) sseServer(remote)",
		"goose.yaml":           "computercontroller(none) fetch mémoire flow bare none empty remote(remote)",
		"goose_crlf.yaml":      "computercontroller(none) fetch mémoire flow bare none empty remote(remote)",
	} {
		config, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		f := FormatOf(name)
		servers, err := f.Servers(config)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var got []string
		all := config
		for _, s := range servers {
			wrapped, err := f.Wrap(config, s.Name, with)
			switch {
			case s.Remote:
				got = append(got, s.Name+"(remote)")
				continue
			case err == ErrNoCommand:
				got = append(got, s.Name+"(none)")
				continue
			case err != nil:
				t.Errorf("%s: %s: %v", name, s.Name, err)
			}
			got = append(got, s.Name)
			isWrapped(t, f, name, s.Name, config, wrapped)
			if all, err = f.Wrap(all, s.Name, with); err != nil {
				t.Errorf("%s: %s: after others: %v", name, s.Name, err)
			}
		}
		if got := strings.Join(got, " "); got != want {
			t.Errorf("%s: the servers are\n%s, want\n%s", name, got, want)
		}
		if servers, _ = f.Servers(all); strings.Count(want, " ")+1-strings.Count(want, "(") > len(servers) {
			t.Errorf("%s: wrapped, it has only %v", name, servers)
		}
		for _, s := range slices.Backward(servers) {
			if !s.Wrapped {
				continue
			}
			if all, err = f.Unwrap(all, s.Name); err != nil {
				t.Errorf("%s: %s: back: %v", name, s.Name, err)
			}
		}
		if !bytes.Equal(all, config) {
			t.Errorf("%s: wrapped and unwrapped, it is\n%s", name, all)
		}
	}
}

// isWrapped checks that wrapping a server changed a few lines and lost no byte.
func isWrapped(t *testing.T, f Format, name, server string, config, wrapped []byte) {
	t.Helper()
	before, _ := f.entry(config, server)
	after, err := f.entry(wrapped, server)
	if err != nil {
		t.Fatalf("%s: %s: wrapped, it is\n%s\n%v", name, server, wrapped, err)
	}
	var words []string
	for _, v := range append([]value{after.command}, after.args...) {
		words = append(words, v.text)
	}
	want := append(slices.Clone(with), "exec", before.command.text)
	for _, v := range before.args {
		want = append(want, v.text)
	}
	if !slices.Equal(words, want) {
		t.Errorf("%s: %s: it runs %q, want %q", name, server, words, want)
	}
	// All original text is still there, in its order.
	rest := wrapped
	for _, line := range bytes.SplitAfter(config, []byte("\n")) {
		if i := bytes.Index(rest, line); i >= 0 {
			rest = rest[i+len(line):]
			continue
		}
		if !bytes.Contains(line, config[before.command.from:before.command.to]) && !bytes.Contains(line, []byte("args")) && !bytes.Contains(line, []byte("- ")) {
			t.Errorf("%s: %s: the line %q has changed", name, server, line)
		}
	}
}

// Additions to TOML and YAML have the style of the surrounding text.
func TestWrapOtherFormats(t *testing.T) {
	for _, tt := range []struct {
		f            Format
		config, want string
	}{
		{TOML, "[mcp_servers.s]\ncommand = \"npx\" # c\nargs = [\"-y\", 'p']\n", "[mcp_servers.s]\ncommand = \"/opt/wirectl\" # c\nargs = [\"relay\", \"-q\", \"exec\", \"npx\",\"-y\", 'p']\n"},
		{TOML, "[mcp_servers.s]\r\n  command = 'npx' # c\r\n", "[mcp_servers.s]\r\n  command = \"/opt/wirectl\"\r\n  args = [ \"relay\", \"-q\", \"exec\", 'npx' ] # c\r\n"},
		{TOML, "mcp_servers.s.command = 'npx'", "mcp_servers.s.command = \"/opt/wirectl\"\nmcp_servers.s.args = [ \"relay\", \"-q\", \"exec\", 'npx' ]"},
		{TOML, "mcp_servers = { s = { command = 'npx' } }", "mcp_servers = { s = { command = \"/opt/wirectl\", args = [ \"relay\", \"-q\", \"exec\", 'npx' ] } }"},
		{YAML, "extensions:\n  s:\n    cmd: npx # c\n    args:\n    - -y\n    - p # d\n", "extensions:\n  s:\n    cmd: \"/opt/wirectl\" # c\n    args:\n    - \"relay\"\n    - \"-q\"\n    - \"exec\"\n    - npx\n    - -y\n    - p # d\n"},
		{YAML, "extensions:\n  s:\n    cmd: npx\n", "extensions:\n  s:\n    cmd: \"/opt/wirectl\"\n    args: [ \"relay\", \"-q\", \"exec\", npx ]\n"},
		{YAML, "extensions: {s: {cmd: npx}}\n", "extensions: {s: {cmd: \"/opt/wirectl\", args: [ \"relay\", \"-q\", \"exec\", npx ]}}\n"},
		{YAML, "extensions:\n  s:\n    args: [p]\n    cmd: npx\n", "extensions:\n  s:\n    args: [\"relay\", \"-q\", \"exec\", npx,p]\n    cmd: \"/opt/wirectl\"\n"},
	} {
		got, err := tt.f.Wrap([]byte(tt.config), "s", with)
		if err != nil || string(got) != tt.want {
			t.Errorf("%s:\n got %s, %v\nwant %s", tt.config, got, err, tt.want)
		}
	}
	// A list that was written by hand becomes empty.
	const byHand = "extensions:\n  s:\n    cmd: wirectl\n    args:\n    - relay\n    - exec\n    - npx\n    type: stdio\n"
	got, err := YAML.Unwrap([]byte(byHand), "s")
	if want := "extensions:\n  s:\n    cmd: npx\n    args: []\n    type: stdio\n"; err != nil || string(got) != want {
		t.Errorf("got %s, %v", got, err)
	}
}

// A configuration may have any form of its format: it is wrapped by an exact edit, in which the
// command is moved as it is written, or refused with the reason and its line.
func TestForms(t *testing.T) {
	const relay = `["relay", "-q", "exec", `
	for _, tt := range []struct {
		f      Format
		config string
		want   string // a part of the wrapped configuration, or the reason
	}{
		{JSON, `{"servers":{"s":{"command":"npx"}}} // tail`, `"exec", "npx" ]}}} // tail`},
		{JSON, `{"servers":{"s":{"command":"npx"}}}//`, `]}}}//`},
		{JSON, `{"servers":{"s":{"command":"npx"}}} /* tail */`, `]}}} /* tail */`},
		{JSON, "\ufeff// head\r{\"servers\":{\"s\":{\"command\":\"npx\"},}, // CR\r}\r// tail", "]},}, // CR\r}\r// tail"},
		{JSON, `{"servers":{"s":{"command":"npx"}}} /* tail`, "invalid JSON: line 1, column 37: "},
		{JSON, "// nothing", "it has no servers"},
		{JSON, "\ufeff /* nothing */ //", "it has no servers"},
		{JSON, "\ufeff", "it has no servers"},
		{JSON, "\xff\xfe{\x00}\x00", "it is in UTF-16: save it in UTF-8"},
		{JSON, "{\"servers\":{\"s\":{\n\"command\":[\"npx\"]}}}", "its command is not a string (line 2)"},
		{JSON, `{"servers":{"s":{"command":{"run":"npx"}}}}`, "its command is not a string (line 1)"},
		{JSON, `{"servers":{"s":{"command":null}}}`, "it has no command"},

		{TOML, "[mcp_servers.s]\ncommand = 'npx' # tail", relay[:1] + ` "relay", "-q", "exec", 'npx' ] # tail`},
		{TOML, "[mcp_servers.s]\r\ncommand = 'npx'\r\nargs = ['a']# tail", relay + `'npx','a']# tail`},
		{TOML, "[mcp_servers.s]\ncommand = 'npx'\n#", "'npx' ]\n#"},
		{TOML, "\ufeffmcp_servers.s.command = 'npx'", "\"\nmcp_servers.s.args = ["},
		{TOML, "[mcp_servers.s]\ncommand = \"\"\"\nnpx\"\"\"\nargs = ['a']", relay + "\"\"\"\nnpx\"\"\",'a']"},
		{TOML, "[mcp_servers.s]\ncommand = ['npx']", "its command is not a string (line 2)"},
		{TOML, "[mcp_servers.s]\ncommand = 5", "its command is not a string (line 2)"},

		{YAML, "\ufeffextensions:\r\n  s:\r\n    cmd: npx # tail", "args: [ \"relay\", \"-q\", \"exec\", npx ] # tail"},
		{YAML, "extensions:\n  s:\n    cmd: npx\n    args:\n    - x # tail", "- npx\n    - x # tail"},
		{YAML, "extensions:\n  s:\n    cmd:\n      npx\n    args: [a]", relay + "npx,a]"},
		{YAML, "extensions: # c\n  \"s\": {\"cmd\":\"npx\", # c\n  \"args\":[\"a\",\n  b]}", `"args":` + relay + "\"npx\",\"a\",\n  b]}"},
		{YAML, "extensions:\n  s:\n    ? cmd\n    : npx\n    ? args\n    : [a]", relay + "npx,a]"},
		{YAML, "%YAML 1.2\n---\na: 1\n---\nextensions:\n  s:\n    cmd: npx\n...\n# tail", "npx ]\n...\n# tail"},
		{YAML, "extensions:\n  s:\n    cmd: npx\n    args:\n    - a\n    - >-\n      b\n    - &x c\n    - *x\n", "- npx\n    - a\n    - >-\n"},
		{YAML, "extensions:\n  s:\n    cmd: >-\n      npx\n", "its command is on several lines: write it on one (line 3)"},
		{YAML, "extensions:\n  s:\n    cmd: |\n      npx\n    args: [a]\n", "its command is on several lines: write it on one (line 3)"},
		{YAML, "extensions:\n  s:\n    cmd: npx\n      -y\n", "its command is on several lines: write it on one (line 3)"},
		{YAML, "extensions:\n  s:\n    cmd: \"np\n      x\"\n", "its command is on several lines: write it on one (line 3)"},
		{YAML, "extensions:\n  s:\n    cmd: !!str\n      npx\n", "its command is on several lines: write it on one (line 3)"},
		{YAML, "extensions:\n  s:\n    cmd: [npx]\n", "its command is not a string (line 3)"},
		{YAML, "extensions:\n  s:\n    cmd: 5\n", "its command is not a string (line 3)"},
		{YAML, "extensions:\n  s:\n    cmd: ~\n", "it has no command"},
		{YAML, "extensions:\n  s:\n    cmd:\n    type: builtin\n", "it has no command"},
		{YAML, "extensions:\n  s:\n    cmd: npx\n    args: [{a: b}]\n", "its args are not a list of strings (line 4)"},

		{YAML, "extensions:\n  s:\n    cmd: !!str   npx\n    args: !!seq [!!str 'ä', b]\n", "args: !!seq " + relay + "!!str   npx,!!str 'ä', b]"},
		{YAML, "extensions: !!map {s: !!map {cmd: !!str 5}}\n", relay[:1] + ` "relay", "-q", "exec", !!str 5 ]}}`},
		{YAML, "extensions:\n  s:\n    cmd: !run npx\n", "its command has a tag other than !!str (line 3)"},

		{YAML, "extensions:\n  s: &s\n    cmd: &c npx\n    args: &a [x]\n", "args: &a " + relay + "&c npx,x]"},
		{YAML, "extensions:\n  s:\n    name: &n npx\n    cmd: *n\n    args: [x]\n", relay + "*n,x]"},
		{YAML, "extensions:\n  s:\n    cmd: &c npx\n    name: *c\n", "write them out (line 3)"},
		{YAML, "extensions:\n  s:\n    cmd: *nowhere\n", "write them out (line 3)"},
		{YAML, "extensions:\n  s: &s\n    cmd: npx\n  t: *s\n", "write them out (line 2)"},
		{YAML, "extensions:\n  t: &t\n    cmd: npx\n  s: *t\n", "write them out (line 4)"},
		{YAML, "extensions:\n  s:\n    cmd: npx\n    args: &a\n    - x\n  t:\n    args: *a\n", "write them out (line 4)"},
		{YAML, "e: &e\n  s:\n    cmd: npx\nextensions: *e\n", "write them out (line 2)"},
		{YAML, "extensions: &e\n  s:\n    cmd: npx\nothers: *e\n", "write them out (line 2)"},
		{YAML, "a: &a [*a]\nextensions: *a\n", "it has no servers"},

		{YAML, "base: &b {timeout: 3}\nextensions:\n  s:\n    <<: *b\n    cmd: npx\n", "npx ]\n"},
		{YAML, "base: &b {cmd: uvx, args: []}\nextensions:\n  s:\n    <<: [*b]\n    cmd: npx\n    args: [x]\n", relay + "npx,x]"},
		{YAML, "base: &b {type: stdio, cmd: npx, args: [x]}\nextensions:\n  s:\n    <<: *b\n    enabled: true\n", "it has a command or args from a merge (<<): write them into the entry (line 4)"},
		{YAML, "base: &b {args: [x]}\nmore: &m {<<: *b}\nextensions:\n  s:\n    <<: [*m]\n    cmd: npx\n", "it has a command or args from a merge (<<): write them into the entry (line 5)"},
		{YAML, "base: &b {s: {cmd: npx}}\nextensions:\n  <<: *b\n", "it has a command or args from a merge (<<): write them into the entry (line 3)"},
		{YAML, "base: &b {uri: 'http://x'}\nextensions:\n  s:\n    <<: *b\n", "it is reached over HTTP"},
	} {
		got, err := tt.f.Wrap([]byte(tt.config), "s", with)
		if err != nil {
			got = []byte(err.Error())
		}
		if !strings.Contains(string(got), tt.want) {
			t.Errorf("%q:\n got %q\nwant %q", tt.config, got, tt.want)
		}
		if err != nil {
			continue
		}
		if back, err := tt.f.Unwrap(got, "s"); err != nil || string(back) != tt.config {
			t.Errorf("%q: back: %q, %v", tt.config, back, err)
		}
	}
}

// Values that cannot be moved unchanged are refused.
func TestOtherFormatsRefuse(t *testing.T) {
	for config, want := range map[string]error{
		"extensions:\n  s:\n    cmd: a, b\n":             ErrUnquoted,
		"extensions:\n  s:\n    cmd: |\n      run\n":     ErrLines,
		"extensions:\n  s:\n    cmd: run\n    args: x\n": ErrOddArgs,
		"extensions:\n  s:\n    cmd: run\n    args:\n":   ErrOddArgs,
		"extensions:\n  s:\n    uri: http://x\n":         ErrRemote,
	} {
		if _, err := YAML.Wrap([]byte(config), "s", with); !errors.Is(err, want) {
			t.Errorf("%q: %v, want %v", config, err, want)
		}
	}
	for config, want := range map[string]error{
		"[mcp_servers.s]\ncommand = 'x'\nargs = 'y'":                            ErrOddArgs,
		"[mcp_servers.s]\ncommand = 'x'\nargs = ['y', 1]":                       ErrOddArgs,
		"[mcp_servers.s]\nurl = 'x'":                                            ErrRemote,
		"[mcp_servers.s]\ncommand = 'x'\ncommand = 'y'":                         ErrTwice,
		"[mcp_servers.s]\nenabled = true":                                       ErrNoCommand,
		"[mcp_servers.s]\ncommand = 'wirectl'\nargs = [ 'relay', 'exec', 'x' ]": ErrWrapped,
	} {
		if _, err := TOML.Wrap([]byte(config), "s", with); !errors.Is(err, want) {
			t.Errorf("%q: %v, want %v", config, err, want)
		}
	}
}

// A name that several projects have must include the project.
func TestServersOfProjects(t *testing.T) {
	config, err := os.ReadFile("testdata/claude_code.json")
	if err != nil {
		t.Fatal(err)
	}
	if _, err = JSON.Wrap(config, "db", with); err == nil || err.Error() != `several servers have the name "db": choose one of /home/zoë/src/app:db, /home/zoë/src/other:db` {
		t.Error(err)
	}
	one := bytes.Replace(config, []byte(`"db": { "type"`), []byte(`"d2": { "type"`), 1)
	if _, err = JSON.Wrap(one, "db", with); err != nil {
		t.Error(err)
	}
}

// Configurations are found in the folders of their clients.
func TestFound(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the folders are those of Linux")
	}
	dir := t.TempDir()
	home, here := filepath.Join(dir, "home"), filepath.Join(dir, "here")
	want := map[string]string{
		".config/Claude/claude_desktop_config.json": "Claude Desktop", ".claude.json": "Claude Code", ".config/Code/User/mcp.json": "VS Code",
		".cursor/mcp.json": "Cursor", ".codeium/windsurf/mcp_config.json": "Windsurf", ".config/zed/settings.json": "Zed",
		".codex/config.toml": "Codex", ".gemini/settings.json": "Gemini CLI", ".config/goose/config.yaml": "Goose",
	}
	files := map[string]string{filepath.Join(here, ".mcp.json"): "Claude Code"}
	for file, client := range want {
		files[filepath.Join(home, file)] = client
	}
	for file := range files {
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte("{}"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	getenv := func(name string) string { return map[string]string{"HOME": home}[name] }
	found, err := Found(getenv, here)
	if err != nil || len(found) != len(files) {
		t.Errorf("%v, %v", found, err)
	}
	for _, f := range found {
		if files[f.Name] != f.Client || ClientOf(getenv, f.Name) != f.Client {
			t.Errorf("%s is of %s, and told to be of %s", f.Name, f.Client, ClientOf(getenv, f.Name))
		}
	}
	if client := ClientOf(getenv, filepath.Join(dir, "other.json")); client != "" {
		t.Errorf("other.json is of %s", client)
	}
}

// Aliases of long lists take no time.
func TestAliasesMultiply(t *testing.T) {
	const n = 1000
	config := "a: &a [" + strings.Repeat("x,", n) + "x]\nb: &b [" + strings.Repeat("*a,", n) + "*a]\nextensions:\n  s:\n    cmd: npx\n"
	for i := range n {
		config += fmt.Sprintf("    k%d: *b\n", i)
	}
	for i := range 9 {
		config = fmt.Sprintf("m%d: &m%d\n  <<: [%s{}]\n", i, i, strings.Repeat(fmt.Sprintf("*m%d,", i-1), 50*min(i, 1))) + config
	}
	config += "    <<: *m8\n"
	if _, err := YAML.Servers([]byte(config)); err != nil {
		t.Error(err)
	}
	const shared = "extensions:\n  s:\n    uri: http://h\n    headers: &h {A: b}\nother: *h\n"
	if got, err := YAML.Bridge([]byte(shared), "s", with); !errors.Is(err, ErrRemote) {
		t.Errorf("shared headers: %v\n%s", err, got)
	}
}

// For any configuration in TOML or YAML, unwrapping restores every byte.
func FuzzOtherFormats(f *testing.F) {
	for _, name := range []string{"codex.toml", "codex_crlf.toml", "goose.yaml", "goose_crlf.yaml"} {
		config, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(config)
	}
	f.Fuzz(func(t *testing.T, config []byte) {
		for _, f := range []Format{TOML, YAML} {
			servers, _ := f.Servers(config)
			if n := len(servers); n > 0 { // one per input is enough, and all would be slow
				s := servers[len(config)%n]
				wrapped, err := f.Wrap(config, s.Name, with)
				if errors.Is(err, ErrRemote) {
					wrapped, err = f.Bridge(config, s.Name, with)
				}
				if err != nil {
					continue
				}
				if back, err := f.Unwrap(wrapped, s.Name); err != nil || !bytes.Equal(back, config) {
					t.Errorf("%s\nbecame %s\nand then %s, %v", config, wrapped, back, err)
				}
			}
		}
	})
}
