package agent

import (
	"cmp"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/capture/history"
	"github.com/wirectl/wirectl/internal/jsonscan"
)

// What a hook does depends on who started it, and with what.
func TestDecide(t *testing.T) {
	h := &hooks{}
	server, prefixed, standIn := Hook{hooks: h, server: true}, Hook{hooks: h, prefixed: true, argv: []string{"node x"}}, Hook{hooks: h}
	for _, tt := range []struct {
		about string
		hook  Hook
		piped bool
		by    kin
		inner string
		want  deed
	}{
		{"a server of the configuration", server, true, theAgent, "", relays},
		{"a server of an agent that another program starts", server, true, below, "", relays},
		{"a server with a terminal", server, false, theAgent, "", becomes},
		{"a server after its run", server, true, stranger, "", becomes},
		{"a server of Claude Code", prefixed, true, theAgent, "", relays},
		{"a shell command of Claude Code", prefixed, false, theAgent, "1", reports},
		{"a shell command through a shell", prefixed, false, below, "1", reports},
		{"a hook in the user's settings", prefixed, true, below, "1", becomes},
		{"a hook that a shell has become", prefixed, true, theAgent, "1", becomes},
		{"a shell command after its run", prefixed, false, stranger, "1", becomes},
		{"a shell command with pipes", Hook{hooks: h, prefixed: true, argv: []string{"eval 'ls' && pwd -P"}}, true, theAgent, "", reports},
		{"a server on the PATH", standIn, true, theAgent, "", relays},
		{"the agent itself", standIn, true, stranger, "", becomes},
		{"a program of a tool", standIn, true, below, "", becomes},
		{"a program at a terminal", standIn, false, theAgent, "", becomes},
		{"a hook after the cleaning", Hook{server: true}, true, theAgent, "", becomes},
	} {
		if got := tt.hook.decide(call{piped: tt.piped, parent: tt.by, getenv: func(name string) string { return map[string]string{"CLAUDE_CODE_CHILD_SESSION": tt.inner}[name] }}); got != tt.want {
			t.Errorf("%s: %d, want %d", tt.about, got, tt.want)
		}
	}
}

func TestSplitWords(t *testing.T) {
	for command, want := range map[string]string{
		`node /a/b.js`:               `node|/a/b.js plain`,
		`npx -y 'a b' "c'd" e\ f ''`: `npx|-y|a b|c'd|e f| plain`,
		`x 'it'"'"'s' '$HOME' 'é*'`:  `x|it's|$HOME|é* plain`,
		`x "$HOME"`:                  `x|$HOME`,
		`A=b x`:                      `A=b|x`,
		`x; y`:                       `x;|y`,
		"x\ny":                       `x|y`,
		`"a\b"`:                      `ab`,
		` `:                          ``,
		`cat 'open`:                  `cat|open`,
	} {
		words, plain := splitWords(command)
		got := strings.Join(words, "|")
		if plain {
			got += " plain"
		}
		if got != want {
			t.Errorf("%s: %s, want %s", command, got, want)
		}
	}
}

// A shell command is shown as the model wrote it.
func TestShellCommand(t *testing.T) {
	for text, want := range map[string]string{
		`source /tmp/s.sh 2>/dev/null || true && { x; } >/dev/null 2>&1 || true && eval 'echo '"'"'a b'"'"' $((40+2))' < /dev/null && pwd -P >| /tmp/cwd`: `echo 'a b' $((40+2))`,
		`eval 'ls' < /dev/null && pwd -P >| /tmp/cwd`: `ls`,
		`eval "$(x)"`: `eval "$(x)"`,
		`make test`:   `make test`,
	} {
		if got := shellCommand(text); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

// A server has the name of its entry, or else that of its program.
func TestServerName(t *testing.T) {
	config := filepath.Join(t.TempDir(), "mcp.json")
	write(t, config, `{"mcpServers":{"lab":{"command":"node","args":["/a/b c.js","it's"]}}}`)
	h := &hooks{Configs: []string{config}}
	for _, tt := range []struct {
		hook Hook
		want string
	}{
		{Hook{server: true, name: "x"}, "x"},
		{Hook{prefixed: true, argv: []string{`node '/a/b c.js' 'it'"'"'s'`}}, "lab"},
		{Hook{prefixed: true, argv: []string{`npx -y @scope/server-files /tmp`}}, "server-files"},
		{Hook{prefixed: true, argv: []string{`A=b -x`}}, "server"},
		{Hook{name: "node", argv: []string{"/usr/bin/node", "/a/b c.js", "it's"}}, "lab"},
		{Hook{name: "uvx", argv: []string{"/usr/bin/uvx", "mcp-server-time"}}, "mcp-server-time"},
	} {
		tt.hook.hooks = h
		if got := tt.hook.serverName(); got != tt.want {
			t.Errorf("%q: %s, want %s", tt.hook.argv, got, tt.want)
		}
	}
	for name, want := range map[string]string{"a/b": "a_b", "..": "server", "ü x": "__x", "@s/p-1.2": "_s_p-1.2"} {
		if got := fileName(name); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

// A relayed server gets the user's own environment for what the run has changed, and keeps what the
// agent has set or removed.
func TestRestore(t *testing.T) {
	h := &hooks{Private: "/run/x", dir: "/run/x/hooks-1", Proxy: "127.0.0.1:9", Variables: map[string]string{"NO_PROXY": "127.0.0.1,own"}}
	want := map[string]string{
		"HTTPS_PROXY": "http://own:1", "HTTP_PROXY": "", "ALL_PROXY": "http://set.by.agent", "SSL_CERT_FILE": "/own.pem", "NODE_EXTRA_CA_CERTS": "",
		"CODEX_CA_CERTIFICATE": "", "NO_PROXY": "own", "PATH": "/a" + string(os.PathListSeparator) + "/b", Variable: "/run/x", "WIRECTL_RUN_SET": "",
		"WIRECTL_RUN_WAS_HTTPS_PROXY": "", "FOO": "bar",
	}
	for name, value := range map[string]string{
		"HTTPS_PROXY": "http://wirectl:t@127.0.0.1:9", "HTTP_PROXY": "http://wirectl:t@127.0.0.1:9", "ALL_PROXY": "http://set.by.agent",
		"SSL_CERT_FILE": "/run/x/all.pem", "CODEX_CA_CERTIFICATE": "/run/x/all.pem", "NO_PROXY": "127.0.0.1,own",
		"PATH": strings.Join([]string{"/run/x/hooks-1/bin", "/a", "/b"}, string(os.PathListSeparator)), Variable: "/run/x", "WIRECTL_RUN_SET": "HTTPS_PROXY",
		"WIRECTL_RUN_WAS_HTTPS_PROXY": "http://own:1", "WIRECTL_RUN_WAS_SSL_CERT_FILE": "/own.pem", "WIRECTL_RUN_WAS_NO_PROXY": "own",
		"WIRECTL_RUN_WAS_NODE_EXTRA_CA_CERTS": "/own.pem", "FOO": "bar",
	} {
		t.Setenv(name, value)
	}
	t.Setenv("NODE_EXTRA_CA_CERTS", "") // the agent has removed it
	if err := os.Unsetenv("NODE_EXTRA_CA_CERTS"); err != nil {
		t.Fatal(err)
	}
	if filepath.Separator != '/' {
		t.Skip("PATH has other separators")
	}
	h.restore()
	for name, want := range want {
		if got := os.Getenv(name); got != want {
			t.Errorf("%s=%s, want %s", name, got, want)
		}
	}
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// overridden returns the overrides of an agent with files below HOME, which is also its project.
func overridden(t *testing.T, agent string, env, files map[string]string, args ...string) *overrides {
	t.Helper()
	home := t.TempDir()
	for name, text := range files {
		write(t, filepath.Join(home, name), text)
	}
	bin := filepath.Join(home, "path")
	for _, name := range []string{"node", "srv", "bash"} {
		if runtime.GOOS == "windows" {
			name += ".exe"
		}
		write(t, filepath.Join(bin, name), "#!/bin/sh\n")
		if err := os.Chmod(filepath.Join(bin, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	private := filepath.Join(home, "private")
	if err := os.Mkdir(private, 0o700); err != nil {
		t.Fatal(err)
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	o := &overrides{
		hooks: &hooks{Agent: agent, Private: private, dir: private}, program: program, here: home,
		getenv: func(name string) string {
			if value, ok := env[name]; ok {
				return value
			}
			return map[string]string{"HOME": home, "PATH": bin}[name]
		},
		through: func(target *url.URL) (string, error) { return "http://relay" + target.Path + "?" + target.Port(), nil },
	}
	if err := o.override(args); err != nil {
		t.Fatal(err)
	}
	for i := range o.args {
		o.args[i] = strings.NewReplacer(string(jsonscan.MustMarshal(private)), `"PRIVATE"`, string(jsonscan.MustMarshal(program)), `"WIRECTL"`).Replace(o.args[i])
	}
	for name, value := range o.variables {
		value = strings.NewReplacer(string(jsonscan.MustMarshal(private)), `"PRIVATE"`, string(jsonscan.MustMarshal(program)), `"WIRECTL"`, private, "PRIVATE", bin, "BIN").Replace(value)
		o.variables[name] = filepath.ToSlash(value)
	}
	return o
}

func same(t *testing.T, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// Codex is given overrides for the servers and models of its configuration. What they would show in a list
// of processes, or what the user overrides, is left alone.
func TestOverridesOfCodex(t *testing.T) {
	o := overridden(t, "codex", nil, map[string]string{".codex/config.toml": `
model_provider = "here"
[model_providers.here]
base_url = "http://localhost:11434/v1"
[model_providers.there]
base_url = "https://api.example.com/v1"
[mcp_servers.lab]
command = "node"
args = ["/a b.js", "é"]
[mcp_servers.off]
command = "node"
enabled = false
[mcp_servers.mine]
command = "/opt/srv"
[mcp_servers.secret]
command = "srv"
args = ["--key", "sk-abcdefghijklmnopqrstuvwxyz"]
[mcp_servers."odd name"]
url = "http://127.0.0.1:7/mcp"
[mcp_servers.web]
url = "http://127.0.0.1:8/mcp"
[mcp_servers.far]
url = "https://mcp.example.com/mcp"
`}, "exec", "-c", "mcp_servers.mine.args=[]", "hi")
	same(t, o.args, []string{
		"-c", `mcp_servers.lab.command="WIRECTL"`,
		"-c", `mcp_servers.lab.args=["run-hook","PRIVATE","lab","node","/a b.js","é"]`,
		"-c", `mcp_servers.web.url="http://relay/mcp?8"`,
		"-c", `model_providers.here.base_url="http://relay/v1?11434"`,
	})
	same(t, o.notes, []string{
		"MCP server mine (its command is a path)",
		"MCP server odd name at 127.0.0.1:7 (the address is local, and cannot be moved)",
	})
	if _, ok := o.Programs["srv"]; !ok || o.variables["PATH"] != "PRIVATE/bin"+string(os.PathListSeparator)+"BIN" {
		t.Errorf("the stand-ins are %v, and PATH is %s", o.Programs, o.variables["PATH"])
	}
}

// What opencode gets is the user's own content with the overrides. Fields of files that it merges are
// not repeated: they may be secrets.
func TestOverridesOfOpencode(t *testing.T) {
	o := overridden(t, "opencode", map[string]string{"OPENCODE_CONFIG_CONTENT": `{"theme":"x","mcp":{"lab":{"type":"local","environment":{"A":"b"}}}}`}, map[string]string{
		".config/opencode/opencode.jsonc": `{ // mine
			"provider":{"here":{"options":{"baseURL":"http://127.0.0.1:1/v1","apiKey":"k"}},"there":{"options":{"baseURL":"https://x/v1"}}},
			"mcp":{"lab":{"type":"local","command":["old"],"environment":{"KEY":"secret"}},"off":{"type":"local","command":["x"],"enabled":false},},
		}`,
		"opencode.json": `{"mcp":{"lab":{"type":"local","command":["node","a"]},"file":{"type":"local","command":["srv","{file:x}"]},"web":{"type":"remote","url":"http://localhost:2/mcp","headers":{"X":"y"}}}}`,
	})
	want := `{"mcp":{"lab":{"command":["WIRECTL","run-hook","PRIVATE","lab","node","a"],"environment":{"A":"b"},"type":"local"},"web":{"type":"remote","url":"http://relay/mcp?2"}},` +
		`"provider":{"here":{"options":{"baseURL":"http://relay/v1?1"}}},"shell":"PRIVATE/shell/bash","theme":"x"}`
	if runtime.GOOS == "windows" {
		want = strings.Replace(want, `"shell":"PRIVATE/shell/bash",`, "", 1)
	}
	if got := o.variables["OPENCODE_CONFIG_CONTENT"]; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if o.Programs["srv"] == "" {
		t.Error("the server that cannot be overridden has no stand-in")
	}
	o = overridden(t, "opencode", map[string]string{"OPENCODE_CONFIG_CONTENT": `{`}, nil)
	same(t, o.notes, []string{"MCP servers over stdio (OPENCODE_CONFIG_CONTENT is not JSON)"})
}

// The shell of opencode is that of its configuration, or else of the environment. It keeps its name, by which
// opencode chooses its arguments.
func TestShellOfOpencode(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("it is not overridden")
	}
	for name, c := range map[string]struct {
		shell, configured, login, want string
	}{
		"neither":             {"", "", "", "BIN/bash"},
		"the environment":     {"/bin/sh", "", "", "/bin/sh"},
		"the configuration":   {"/bin/sh", "bash", "", "BIN/bash"},
		"one that is missing": {"/nowhere/zsh", "", "", "BIN/bash"},
		"one that opencode does not use for the model": {"/usr/bin/fish", "", "", ""},
		"a variable":             {"", "{env:MINE}", "", ""},
		"that of an outer run":   {"", "/tmp/wirectl-run-1-x/hooks-1/shell/bash", "", ""},
		"settings of a company":  {"/bin/sh", "", `{"https://x":{"type":"wellknown"}}`, ""},
		"a login for a provider": {"/bin/sh", "", `{"x":{"type":"api"}}`, "/bin/sh"},
	} {
		o := overridden(t, "opencode", map[string]string{"SHELL": c.shell}, map[string]string{
			"opencode.json": `{"shell":"` + c.configured + `"}`, ".local/share/opencode/auth.json": c.login,
		})
		if got := strings.Replace(o.Shell, filepath.Join(o.here, "path"), "BIN", 1); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		if given := o.variables["OPENCODE_CONFIG_CONTENT"]; strings.Contains(given, "/shell/"+filepath.Base(c.want)) != (c.want != "") {
			t.Errorf("%s: the content is %s", name, given)
		}
	}
}

// The script of a shell is the command that the model or the user gave; "" if it reads its input.
func TestScript(t *testing.T) {
	for want, argv := range map[string][]string{
		"ls -l": {"/bin/bash", "-c", "ls -l"},
		"":      {"/bin/bash", "-l"},
		"a\"b":  {"/bin/bash", "-l", "-c", "\n        cd -- \"$1\"\n        eval \"a\\\"b\"\n      ", "opencode", "/"},
	} {
		if got := (&Hook{shell: true, argv: argv}).script(); got != want {
			t.Errorf("%q: %q, want %q", argv, got, want)
		}
	}
}

// Claude Code gets a prefix, and local addresses of models are moved, unless its settings win.
func TestOverridesOfClaude(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there is no prefix")
	}
	o := overridden(t, "claude", map[string]string{"ANTHROPIC_BASE_URL": "http://127.0.0.1:5"}, map[string]string{
		".claude/settings.json": `{"env":{"ANTHROPIC_BASE_URL":"http://127.0.0.1:6"}}`,
		".mcp.json":             `{"mcpServers":{"web":{"type":"http","url":"http://127.0.0.1:8/mcp"},"lab":{"command":"/opt/x"}}}`,
		".claude.json":          `{"mcpServers":{"mine":{"type":"http","url":"http://127.0.0.1:9/mcp"},"key":{"type":"http","url":"http://127.0.0.1:9/mcp","headers":{"X":"y"}}}}`,
	}, "-p", "--model", "x")
	same(t, o.args, []string{`--mcp-config={"mcpServers":{"mine":{"type":"http","url":"http://relay/mcp?9"}}}`})
	if o.variables[shellPrefix] != "PRIVATE/prefix/run-shell" || o.variables["ANTHROPIC_BASE_URL"] != "http://relay?5" || o.variables["PATH"] != "" {
		t.Errorf("the variables are %v", o.variables)
	}
	same(t, o.notes, []string{
		"MCP server web at 127.0.0.1:8 (the address is local, and cannot be moved)",
		"MCP server key at 127.0.0.1:9 (the address is local, and cannot be moved)",
		"model at 127.0.0.1:6 (" + filepath.Join(o.here, ".claude/settings.json") + " sets ANTHROPIC_BASE_URL)",
	})
	// What the user gives himself stays, and names servers, too.
	o = overridden(t, "claude", nil, map[string]string{".claude.json": `{"mcpServers":{"mine":{"type":"http","url":"http://127.0.0.1:9/mcp"}}}`}, "-p", "--mcp-config", "a.json", `{"mcpServers":{}}`, "--model", "x")
	if len(o.args) > 0 || len(o.Configs) != 4 || o.Configs[2] != filepath.Join(o.here, "a.json") {
		t.Errorf("the arguments are %q, and the configurations %q", o.args, o.Configs)
	}
}

// Other agents get stand-ins for programs that exist, and never for shells.
func TestStandIns(t *testing.T) {
	o := overridden(t, "gemini", nil, map[string]string{
		".gemini/settings.json": `{"mcpServers":{"a":{"command":"srv"},"b":{"command":"bash"},"c":{"command":"none"},"d":{"command":"/opt/x"}}}`,
	})
	entries, err := os.ReadDir(filepath.Join(o.dir, standInsDir))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), ".exe"))
	}
	same(t, names, []string{"node", "srv"})
	same(t, o.notes, []string{"MCP server d (its command is a path)"})
	h, err := readHooks(o.dir)
	if err != nil || len(h.Programs) != 2 || h.Agent != "gemini" {
		t.Errorf("the hooks read %+v (%v)", h, err)
	}
}

// The shell commands of Codex are those in the transcripts of threads that are on the wires of the run.
func TestCodexCommands(t *testing.T) {
	const ours, other = "01a22435-5edd-7743-a1f3-fdbf5cd44eff", "01a22435-0000-7743-a1f3-fdbf5cd44eff"
	sessions, record := filepath.Join(t.TempDir(), "sessions"), t.TempDir()
	since := time.UnixMilli(1795903800000)
	item := func(at int64, id, command, exit string) string {
		return `{"type":"event_msg","payload":{"type":"item_completed","item":{"type":"CommandExecution","id":"` + id + `","process_id":"7","command":["/bin/bash","-lc",` +
			command + `],"exit_code":` + exit + `},"started_at_ms":` + strconv.FormatInt(at, 10) + `,"completed_at_ms":` + strconv.FormatInt(at+5, 10) + "}}\n"
	}
	write(t, filepath.Join(sessions, "2026/11/28/rollout-2026-11-28T21-29-41-"+ours+".jsonl"), "{}\n"+item(1795903799999, "old", `"ls"`, "0")+
		item(1795903800001, "call_1", `"go test --token sk-abcdefghijklmnopqrstuvwxyz"`, "2")+item(1795903800002, "call_2", `"x"`, "null")+"no JSON \"CommandExecution\"\n")
	write(t, filepath.Join(sessions, "2026/11/28/rollout-2026-11-28T21-29-41-"+other+".jsonl"), item(1795903800001, "call_3", `"ls"`, "0"))
	write(t, filepath.Join(sessions, "notes.jsonl"), "")
	write(t, filepath.Join(record, "model.pcapng"), strings.Repeat("x", 1<<16-20)+ours+strings.Repeat("y", 100))
	write(t, filepath.Join(record, history.EventsFile), "")
	h := &hooks{State: State{PID: 9, Folder: record, Level: history.Full}, Agent: "codex"}
	h.tellCommands(filepath.Dir(sessions), since)
	text, err := os.ReadFile(filepath.Join(record, history.EventsFile))
	want := `{"event":"start","time":"AT.001","pid":4196609,"parent":9,"what":"shell","name":"go","command":"go test --token [redacted]","keys":{"call":"call_1","thread":"` + ours + `"}}
{"event":"exit","time":"AT.006","pid":4196609,"status":2}
`
	if got := regexp.MustCompile(`"time":"[^"]*(\.\d+)[^"]*"`).ReplaceAllString(string(text), `"time":"AT$1"`); err != nil || got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	h.Level = history.Metadata
	if name, text := h.shown(`rm -rf "$HOME/secret"`); name != "rm" || text != "rm" {
		t.Errorf("metadata has %s: %s", name, text)
	}
}

// Commands that were not approved, or blocked, have not run. One whose end is not told goes on.
func TestTranscripts(t *testing.T) {
	const gemini = `{"timestamp":"2026-11-29T00:00:01Z","toolCalls":[{"id":"%s","name":"run_shell_command","args":{"command":"x"},"timestamp":"2026-11-29T00:00:02Z","resultDisplay":%q,"result":[{"functionResponse":{"response":{"output":%q}}}]}]}`
	told := func(id, shown, output string) string { return fmt.Sprintf(gemini, id, shown, output) }
	qwen := func(display string) string {
		return `{"systemPayload":{"uiEvent":{"event.timestamp":"2026-11-29T00:00:02Z","call_id":"a","function_name":"run_shell_command","function_args":{"command":"x"},"duration_ms":1000}}}
{"message":"run_shell_command","toolCallResult":{"callId":"a","resultDisplay":` + display + "}}"
	}
	copilot := func(shell string) string {
		return `{"type":"tool.execution_start","data":{"toolCallId":"a","arguments":{"command":"x"}},"timestamp":"2026-11-29T00:00:01Z"}
{"type":"tool.execution_complete","data":{"toolCallId":"a"` + shell + `},"timestamp":"2026-11-29T00:00:02Z"}`
	}
	for _, c := range []struct{ agent, lines, want string }{
		{"gemini", told("run_shell_command__a", "ok", "<untrusted_context>\nOutput: ok\nProcess Group PGID: 7\n</untrusted_context>"), "a x 1s 0"},
		{"gemini", told("run_shell_command_1795_0", "Exit Code: 9", "Output: Exit Code: 9\nExit Code: 3\nProcess Group PGID: 7"), " x 1s 3"},
		{"gemini", told("run_shell_command__a", "", "Output: (empty)\nSignal: 15"), "a x 1s 1 terminated"},
		{"gemini", told("run_shell_command__a", "cut…", "Output: long\nExit Code: 3"), "a x"},
		{"gemini", told("run_shell_command__a", "", "Command was cancelled by user before it could complete."), "a x"},
		{"gemini", told("run_shell_command__a", "Blocked", "Command injection detected"), ""},
		{"gemini", told("run_shell_command__a", "ok", "Output: ok\n") + "\n" + told("run_shell_command__a", "ok", "Output: ok\n"), "a x 1s 0"},
		{"qwen", qwen(`{"type":"shell_result","exitCode":3,"signal":null}`), "a x 1s 3"},
		{"qwen", qwen(`{"type":"shell_result","exitCode":null,"signal":15}`), "a x 1s 1 terminated"},
		{"qwen", qwen(`{"type":"shell_result","exitCode":null,"signal":null}`), "a x"},
		{"qwen", qwen(`"declined"`), ""},
		{"copilot", copilot(`,"shellExecution":{"exitCode":3}`), "a x 1s 3"},
		{"copilot", copilot(`,"success":false`), ""},
	} {
		var got []string
		open := map[string]*ranCommand{}
		for line := range strings.SplitSeq(c.lines, "\n") {
			if strings.Contains(line, transcripts[c.agent].mark) {
				transcripts[c.agent].read([]byte(line), open, func(r ranCommand) {
					text := r.id + " " + r.command
					if r.status != nil {
						text += fmt.Sprint(" ", r.end.Sub(r.start), " ", *r.status)
					}
					got = append(got, strings.TrimSuffix(text+" "+r.signal, " "))
				})
			}
		}
		if strings.Join(got, "; ") != c.want {
			t.Errorf("%s tells %q, want %q of\n%s", c.agent, got, c.want, c.lines)
		}
	}
}

// Secrets are masked in commands, also in a word after a flag. Metadata has no prompt.
func TestShownCommands(t *testing.T) {
	for command, want := range map[string]string{
		`srv --api-key abc --port 7 --token=x`:       `srv --api-key [redacted] --port 7 --token=[redacted]`,
		`curl -H "Authorization: Bearer abcdefghij"`: `curl -H "Authorization: [redacted]"`,
		`go test --count 1`:                          `go test --count 1`,
		`curl -su me:pass https://a.test`:            `curl -su [redacted] https://a.test`,
		`curl --user "me:a pass" -ume:pass x`:        `curl --user [redacted] -ume:[redacted] x`,
		`curl --proxy-user=me:pass -U 'me:pass' x`:   `curl --proxy-user=me:[redacted] -U [redacted] x`,
		`sudo -u postgres psql -Uapp`:                `sudo -u postgres psql -Uapp`,
		`srv --password "a b" -u https://a.test`:     `srv --password "[redacted]" -u https://a.test`,
	} {
		if got := capture.MaskCommand(command); got != want {
			t.Errorf("%s: %s, want %s", command, got, want)
		}
	}
	r := &running{Options: Options{Command: []string{"claude", "--api-key", "abc", "--model=x", "-p", "the prompt"}}, setup: &Setup{Level: history.Full}, mask: capture.MaskCommand}
	same(t, r.shown(), []string{"claude", "--api-key", "[redacted]", "--model=x", "-p", "the prompt"})
	r.setup.Level = history.Metadata
	same(t, r.shown(), []string{"claude", "--api-key", "…", "--model", "-p", "…"})
}

// A command line is that of a hook by its word, or by the link that it was started through.
func TestHookOf(t *testing.T) {
	dir := t.TempDir()
	h := &hooks{State: State{PID: 1}, dir: dir, Programs: map[string]string{"node": "/opt/node"}, Shell: "/opt/bash"}
	if err := h.write(); err != nil {
		t.Fatal(err)
	}
	prefix, node := filepath.Join(dir, prefixDir, prefixName), filepath.Join(dir, standInsDir, "node")
	t.Setenv("PATH", filepath.Join(dir, standInsDir))
	if runtime.GOOS == "windows" {
		t.Skip("a link is found by the path of the program")
	}
	for _, tt := range []struct {
		args []string
		want []string // nil is an ordinary command line
	}{
		{[]string{"wirectl", "run"}, nil},
		{[]string{"wirectl", HookWord, dir, "lab"}, nil},
		{[]string{"wirectl", HookWord, dir, "lab", "srv", "x"}, []string{"srv", "x"}},
		{[]string{"wirectl", HookWord, "/nowhere", "lab", "srv"}, []string{"srv"}},
		{[]string{prefix, "node x"}, []string{"node x"}},
		{[]string{prefix}, nil},
		{[]string{node, "a"}, []string{"/opt/node", "a"}},
		{[]string{filepath.Join(dir, shellDir, "bash"), "-c", "a"}, []string{"/opt/bash", "-c", "a"}},
		{[]string{filepath.Join(dir, standInsDir, "other"), "a"}, nil},
		{[]string{"other"}, nil},
		{nil, nil},
	} {
		var got []string
		if k := HookOf(tt.args); k != nil {
			got = k.argv
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%q: %q, want %q", tt.args, got, tt.want)
		}
	}
}

// A run and a run within it have stand-ins for the same program.
func TestStandInWithinAnother(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("a link is found by the path of the program")
	}
	private := filepath.Join(t.TempDir(), privatePrefix+"1-x")
	bin := filepath.Join(t.TempDir(), "bin")
	path := []string{bin}
	write(t, filepath.Join(bin, "node"), "#!/bin/sh\n")
	for _, run := range []string{"1", "2"} {
		dir := filepath.Join(private, hooksPrefix+run, standInsDir)
		write(t, filepath.Join(dir, "node"), "#!/bin/sh\n")
		path = append([]string{dir}, path...)
	}
	for _, dir := range path {
		if err := os.Chmod(filepath.Join(dir, "node"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", strings.Join(path, string(filepath.ListSeparator)))
	for _, run := range []string{"1", "2"} {
		if got := (&hooks{dir: filepath.Join(private, hooksPrefix+run)}).program("node"); got != filepath.Join(bin, "node") {
			t.Errorf("the node of run %s is %s", run, got)
		}
	}
}

// What a manager of versions stands for is started without it, or its folder would be in front of the stand-ins.
func TestUnshimmed(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the shims are scripts")
	}
	dir := t.TempDir()
	script := func(name, text string) string {
		file := filepath.Join(dir, name)
		write(t, file, "#!/bin/sh\n"+text+"\n")
		if err := os.Chmod(file, 0o755); err != nil {
			t.Fatal(err)
		}
		return file
	}
	node := script("node-22", "exit 0")
	script("asdf", `test "$1 $2" = "which node" && echo `+node)
	script("pyenv", "echo pyenv: no such command >&2; exit 127")
	for text, want := range map[string]string{
		`exec "` + dir + `/asdf" exec "$program" "$@"`: node,
		`exec asdf exec "node" "$@"`:                   node,
		`exec "` + dir + `/pyenv" exec "$program"`:     "",
		"echo exec asdf exec":                          "",
	} {
		program := script("node", text)
		if got := unshimmed(program, "node", dir); got != cmp.Or(want, program) {
			t.Errorf("%s: %s", text, got)
		}
	}
}
