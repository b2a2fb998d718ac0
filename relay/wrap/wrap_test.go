package wrap

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

var with = []string{"/opt/wirectl", "relay", "-q"}

// Each configuration is wrapped as listed, and Unwrap restores it.
func TestWrap(t *testing.T) {
	for _, tt := range []struct{ about, config, want string }{
		{
			"on one line", `{"mcpServers":{"s":{"command":"npx","args":["-y","pkg"]}}}`,
			`{"mcpServers":{"s":{"command":"/opt/wirectl","args":["relay", "-q", "exec", "npx","-y","pkg"]}}}`,
		}, {
			"no arguments", `{"mcpServers":{"s":{"command":"run"}}}`,
			`{"mcpServers":{"s":{"command":"/opt/wirectl", "args": [ "relay", "-q", "exec", "run" ]}}}`,
		}, {
			"an empty list of arguments", `{"mcpServers":{"s":{"command":"run", "args": [ ]}}}`,
			`{"mcpServers":{"s":{"command":"/opt/wirectl", "args": ["relay", "-q", "exec", "run" ]}}}`,
		}, {
			"arguments first, escapes as they are", `{"servers":{"s":{"args":["a"],"command":"C:\\x\u0041.exe"}}}`,
			`{"servers":{"s":{"args":["relay", "-q", "exec", "C:\\x\u0041.exe","a"],"command":"/opt/wirectl"}}}`,
		}, {
			"comments, trailing commas, a byte order mark and CRLF",
			"\ufeff{\r\n// \"mcpServers\"\r\n\"servers\": {\r\n\"s\": { /* { */ \"command\": \"x\", \"args\": [ // one\r\n\"a\",\r\n], },\r\n},}",
			"\ufeff{\r\n// \"mcpServers\"\r\n\"servers\": {\r\n\"s\": { /* { */ \"command\": \"/opt/wirectl\", \"args\": [\"relay\", \"-q\", \"exec\", \"x\", // one\r\n\"a\",\r\n], },\r\n},}",
		}, {
			"settings of VS Code", `{"mcp":{"inputs":[],"servers":{"s":{"type":"stdio","command":"x"}}}}`,
			`{"mcp":{"inputs":[],"servers":{"s":{"type":"stdio","command":"/opt/wirectl", "args": [ "relay", "-q", "exec", "x" ]}}}}`,
		}, {
			"older versions of Zed", `{"context_servers":{"s":{"command":{"path":"x","args":["y"]},"settings":{}}}}`,
			`{"context_servers":{"s":{"command":{"path":"/opt/wirectl","args":["relay", "-q", "exec", "x","y"]},"settings":{}}}}`,
		}, {
			"an agent of Zed, which is spoken to by ACP", `{"agent_servers":{"s":{"type":"custom","command":"x","args":["--acp"]}}}`,
			`{"agent_servers":{"s":{"type":"custom","command":"/opt/wirectl","args":["relay", "-q", "exec", "x","--acp"]}}}`,
		}, {
			"an empty list of arguments, and members behind it", `{"servers":{"s":{"command":"run","args":[],"env":{"A":"1"}},"t":{}}}`,
			`{"servers":{"s":{"command":"/opt/wirectl","args":["relay", "-q", "exec", "run"],"env":{"A":"1"}},"t":{}}}`,
		}, {
			"an address beside the command", `{"servers":{"s":{"url":"http://x","command":"run"}}}`,
			`{"servers":{"s":{"url":"http://x","command":"/opt/wirectl", "args": [ "relay", "-q", "exec", "run" ]}}}`,
		}, {
			"a path that is not a command", `{"servers":{"s":{"env":{"path":"/bin"},"command":"run"}}}`,
			`{"servers":{"s":{"env":{"path":"/bin"},"command":"/opt/wirectl", "args": [ "relay", "-q", "exec", "run" ]}}}`,
		}, {
			"a program of wirectl's that is no relay", `{"servers":{"s":{"command":"wirectl","args":["unit","--","run"]}}}`,
			`{"servers":{"s":{"command":"/opt/wirectl","args":["relay", "-q", "exec", "wirectl","unit","--","run"]}}}`,
		}, {
			"wirectl itself", `{"servers":{"s":{"command":"wirectl"}}}`,
			`{"servers":{"s":{"command":"/opt/wirectl", "args": [ "relay", "-q", "exec", "wirectl" ]}}}`,
		}, {
			"quotes in a string, numbers in a list, a tab behind a trailing comma",
			"{\"a\":[1, 2],\"servers\":{\"s\":{\"command\":\"x\",\"args\":[\"\\\"//,]\",\t]}}}",
			"{\"a\":[1, 2],\"servers\":{\"s\":{\"command\":\"/opt/wirectl\",\"args\":[\"relay\", \"-q\", \"exec\", \"x\",\"\\\"//,]\",\t]}}}",
		}, {
			"others stay as they are, however odd", `{"a":1e400,"mcpServers":{"r":{"command":"x"},"s":{"command":"x"},"t":{}}, "a":2}`,
			`{"a":1e400,"mcpServers":{"r":{"command":"x"},"s":{"command":"/opt/wirectl", "args": [ "relay", "-q", "exec", "x" ]},"t":{}}, "a":2}`,
		}, {
			"surrogates without their pairs", `{"servers":{"s":{"command":"x","args":["\ud800"]}}}`,
			`{"servers":{"s":{"command":"/opt/wirectl","args":["relay", "-q", "exec", "x","\ud800"]}}}`,
		},
	} {
		got, err := JSON.Wrap([]byte(tt.config), "s", with)
		if err != nil || string(got) != tt.want {
			t.Errorf("%s:\n got %s, %v\nwant %s", tt.about, got, err, tt.want)
			continue
		}
		back, err := JSON.Unwrap(got, "s")
		if err != nil || string(back) != tt.config {
			t.Errorf("%s: back:\n got %s, %v\nwant %s", tt.about, back, err, tt.config)
		}
		if _, err := JSON.Wrap(got, "s", with); !errors.Is(err, ErrWrapped) {
			t.Errorf("%s: wrapped twice: %v", tt.about, err)
		}
	}
}

// Unwrap also reverses relays that were written by hand, if they run a program. The server may
// have a "--" of its own.
func TestUnwrapByHand(t *testing.T) {
	for args, want := range map[string]string{
		`["relay","--","npx","pkg","--","x"]`:            `["pkg","--","x"]`,
		`["relay","exec","npx","exec","pkg"]`:            `["exec","pkg"]`,
		`["relay","--name=exec","-q","exec","npx","--"]`: `["--"]`,
	} {
		got, err := JSON.Unwrap([]byte(`{"servers":{"s":{"command":"wirectl","args":`+args+`}}}`), "s")
		if want = `{"servers":{"s":{"command":"npx","args":` + want + `}}}`; err != nil || string(got) != want {
			t.Errorf("%s:\n got %s, %v\nwant %s", args, got, err, want)
		}
	}
	// An argument was added by hand to the list that Wrap had added.
	const config, want = `{"servers":{"s":{"command":"wirectl", "args": [ "relay", "exec", "npx", "pkg" ]}}}`, `{"servers":{"s":{"command":"npx", "args": [ "pkg" ]}}}`
	if got, err := JSON.Unwrap([]byte(config), "s"); err != nil || string(got) != want {
		t.Errorf("%s:\n got %s, %v\nwant %s", config, got, err, want)
	}
	for _, args := range []string{`["relay"]`, `["relay","exec"]`, `["relay","--",5]`, `[]`, `["unit","--","npx"]`} {
		if _, err := JSON.Unwrap([]byte(`{"mcpServers":{"s":{"command":"wirectl","args":`+args+`}}}`), "s"); !errors.Is(err, ErrNotWrapped) {
			t.Errorf("%s: %v", args, err)
		}
	}
}

// Errors explain why a server cannot be wrapped.
func TestErrors(t *testing.T) {
	for config, want := range map[string]string{
		`{}`:  "it has no servers: none of mcpServers, servers, context_servers, agent_servers, mcp_servers and extensions is there",
		" \n": "it has no servers",
		`{"`:  "invalid JSON: line 1, column ",
		`{"mcpServers":{"everything":{},"files":{}}}`:                                  `there is no server "file" (did you mean files?); there are: everything, files`,
		`{"mcpServers":{"file":{"url":"http://x"}}}`:                                   ErrRemote.Error(),
		`{"mcpServers":{"file":{"httpUrl":"http://x"}}}`:                               ErrRemote.Error(),
		`{"mcpServers":{"file":{"serverUrl":"http://x"}}}`:                             ErrRemote.Error(),
		`{"mcpServers":{"file":{"env":{}}}}`:                                           ErrNoCommand.Error(),
		`{"mcpServers":{"file":{"command":"a","args":["b"],"args":[]}}}`:               ErrTwice.Error(),
		`{"mcpServers":{"file":{"command":"a","command":"b"}}}`:                        ErrTwice.Error(),
		`{"mcpServers":{"file":{"command":"a","args":"b"}}}`:                           ErrOddArgs.Error(),
		`{"mcpServers":{"file":{"command":"a"},"file":{}}}`:                            ErrTwice.Error() + `: "file" occurs 2 times`,
		`{"mcpServers":{"file":{"command":"/opt/wirectl","args":["relay","--","x"]}}}`: ErrWrapped.Error(),
	} {
		_, err := JSON.Wrap([]byte(config), "file", with)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", config, err, want)
		}
	}
	if _, err := JSON.Wrap([]byte(`{"mcpServers":{"s":{"command":"a"}}`), "s", with); err == nil {
		t.Error("it takes a configuration that is cut")
	}
}

// A file keeps its mode and its symbolic link, and the backup has the old content.
func TestWrite(t *testing.T) {
	const config = `{"mcpServers":{"s":{"command":"npx"},"t":{"command":"uvx"}}}`
	dir := t.TempDir()
	real, link := filepath.Join(dir, "real.json"), filepath.Join(dir, "link.json")
	if err := errors.Join(os.WriteFile(real, []byte(config), 0o600), os.Symlink(real, link)); err != nil {
		t.Skip(err)
	}
	if err := os.WriteFile(real+backupExtension, []byte("older, for all to read"), 0o644); err != nil {
		t.Fatal(err)
	}
	write(t, link, "wrap s")
	got, _ := os.ReadFile(real)
	kept, _ := os.ReadFile(real + backupExtension + "-2")
	info, _ := os.Lstat(link)
	if bytes.Equal(got, kept) || string(kept) != config || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("%q, backup %q, link %v", got, kept, info.Mode())
	}
	for _, name := range []string{real, real + backupExtension + "-2"} {
		if info, _ = os.Stat(name); info.Mode().Perm() != 0o600 {
			t.Errorf("the mode of %s is %v", filepath.Base(name), info.Mode())
		}
	}
}

// write wraps or unwraps a server of a file: wrap s, or unwrap s.
func write(t *testing.T, file, edit string) {
	t.Helper()
	what, server, _ := strings.Cut(edit, " ")
	r, err := Open(file, server, false)
	if err != nil {
		t.Fatal(err)
	}
	if what == "wrap" {
		err = r.Wrap(t.Context(), with, "")
	} else {
		err = r.Unwrap()
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Write(); err != nil {
		t.Fatal(err)
	}
}

// Unwrapping removes the backups if the file is again what it was, and else keeps them.
func TestBackups(t *testing.T) {
	const config = `{"mcpServers":{"s":{"command":"npx"},"t":{"command":"uvx"}}}`
	for _, tt := range []struct{ edits, want string }{
		{"wrap s; unwrap s", ""},
		{"wrap s; wrap t", "c.json.before-wirectl c.json.before-wirectl-2"},
		{"wrap s; wrap t; unwrap s", "c.json.before-wirectl c.json.before-wirectl-2 c.json.before-wirectl-3"},
		{"wrap s; wrap t; unwrap t", "c.json.before-wirectl"}, // the second is the file again
		{"wrap s; wrap t; unwrap t; unwrap s", ""},
		{"wrap s; wrap t; unwrap s; unwrap t", ""},
		{"wrap s; change; unwrap s", "c.json.before-wirectl c.json.before-wirectl-2"},
		{"wrap s; change; unwrap s; wrap s; unwrap s", "c.json.before-wirectl"}, // as it was before the change
		{"wrap s; unwrap s; wrap s; wrap t", "c.json.before-wirectl c.json.before-wirectl-2"},
		{"other; wrap s; unwrap s", "c.json.before-wirectl-old c.json.before-wirectl.d"},
	} {
		dir := t.TempDir()
		file := filepath.Join(dir, "c.json")
		if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
			t.Fatal(err)
		}
		for edit := range strings.SplitSeq(tt.edits, "; ") {
			switch edit {
			case "change":
				text, err := os.ReadFile(file)
				if err = errors.Join(err, os.WriteFile(file, append(text, '\n'), 0o600)); err != nil {
					t.Fatal(err)
				}
			case "other":
				if err := errors.Join(os.WriteFile(file+".before-wirectl-old", []byte(config), 0o600), os.Mkdir(file+".before-wirectl.d", 0o700)); err != nil {
					t.Fatal(err)
				}
			default:
				write(t, file, edit)
			}
		}
		var got []string
		entries, _ := os.ReadDir(dir)
		for _, entry := range entries {
			if entry.Name() != "c.json" {
				got = append(got, entry.Name())
			}
		}
		if text := strings.Join(got, " "); text != tt.want {
			t.Errorf("%s: %s, want %s", tt.edits, text, tt.want)
		}
	}
}

// In any configuration, Wrap changes only the entry of the server, and Unwrap restores every
// byte.
func FuzzWrap(f *testing.F) {
	for _, config := range []string{
		`{"mcpServers":{"s":{"command":"npx","args":["-y","pkg"]},"t":{"command":"x"}}}`,
		`{"servers":{"s":{"command":"run", "args": [ ]}}}`,
		`{"servers":{"s":{"args":[1,],"command":"C:\\x"}}}`,
		"{ // c\n\"mcp\":{\"servers\":{\"s\":{/* */\"command\":\"x\",},}}}",
		`{"context_servers":{"s":{"command":{"path":"x","args":["y"]}}}}`,
		`{"context_servers":{"s":{"command":`,
	} {
		f.Add([]byte(config))
	}
	f.Fuzz(func(t *testing.T, config []byte) {
		wrapped, err := JSON.Wrap(config, "s", with)
		if err != nil {
			return
		}
		back, err := JSON.Unwrap(wrapped, "s")
		if err != nil || !bytes.Equal(back, config) {
			t.Errorf("%s\nbecame %s\nand then %s, %v", config, wrapped, back, err)
		}
		e, _ := JSON.entry(config, "s")
		first := e.command.from
		last := len(config) - e.command.to
		if e.hasArgs {
			first, last = min(first, e.list.from), min(last, len(config)-e.list.to)
		}
		if !bytes.Equal(wrapped[:first], config[:first]) || !bytes.Equal(wrapped[len(wrapped)-last:], config[len(config)-last:]) {
			t.Errorf("%s\nbecame %s: more has changed than the command", config, wrapped)
		}
	})
}

// Servers are found in the form of every client, each once. An invalid file yields those before
// the error.
func TestServers(t *testing.T) {
	for config, want := range map[string][]Server{
		``:                nil,
		`no JSON`:         nil,
		`{"servers":"x"}`: nil,
		`{"servers":{"files":{"command":"a"},"web":{"url":"http://x"}, /* and */ "files":{},}}`:                   {{Name: "files"}, {Name: "web", Remote: true}},
		`{"mcp":{"servers":{"in":{"command":"/opt/wirectl","args":["relay","--","x"]}}},"mcpServers":{"out":{}}}`: {{Name: "in", Wrapped: true}, {Name: "out", NoCommand: true}},
		`{"mcpServers":{"first":{"command":"a"},"second":`:                                                        {{Name: "first"}, {Name: "second"}},
	} {
		got, _ := JSON.Servers([]byte(config))
		for i := range got {
			got[i].Argv, got[i].URL = nil, ""
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v, want %v", config, got, want)
		}
	}
}

// A server has a command of words, or an address.
func TestWhatServersRun(t *testing.T) {
	config := `{"mcpServers":{"a":{"command":"node","args":["x y",""]},"b":{"url":"http://127.0.0.1:1/mcp","headers":{"X":"y"}},"c":{"command":"node","args":[1]}}}`
	got, _ := JSON.Servers([]byte(config))
	if len(got) != 3 || !slices.Equal(got[0].Argv, []string{"node", "x y", ""}) || got[1].URL != "http://127.0.0.1:1/mcp" || !got[1].HasHeaders || got[2].Argv != nil {
		t.Errorf("got %+v", got)
	}
}

// A copy of wirectl under another name can wrap, and any other copy can unwrap. A program that
// merely has a relay command is not a copy of wirectl.
func TestAnotherName(t *testing.T) {
	for _, f := range []struct {
		Format
		config string
	}{
		{JSON, `{"mcpServers":{"s":{"command":"cat","args":["-u"]}}}`},
		{TOML, "[mcp_servers.s]\ncommand = \"cat\"\nargs = [\"-u\"]\n"},
	} {
		wrapped, err := f.Wrap([]byte(f.config), "s", []string{"/opt/other", "relay", "--quiet", "--name=s"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Wrap(wrapped, "s", []string{"/usr/bin/wirectl", "relay", "--quiet"}); !errors.Is(err, ErrWrapped) {
			t.Errorf("%s: wrapped twice: %v", wrapped, err)
		}
		if back, err := f.Unwrap(wrapped, "s"); err != nil || string(back) != f.config {
			t.Errorf("%s became %s: %v", wrapped, back, err)
		}
	}
	const own = `{"mcpServers":{"s":{"command":"other","args":["relay","exec","cat"]}}}`
	if _, err := JSON.Unwrap([]byte(own), "s"); !errors.Is(err, ErrNotWrapped) {
		t.Errorf("%v", err)
	}
}
