package interop

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"
)

// A real shell completes each line, with nothing loaded but our script.
var tabs = []struct {
	line string
	want string // one of the candidates
}{
	{"wirectl dec", "decode"},
	{"wirectl decode --pay", "--payload"},
	{"wirectl lint -o sar", "sarif"},
	{"wirectl decode --framing=hea", "--framing=header"},
	{"wirectl calls --where kind==session/pro", "kind==session/prompt"},
	{"wirectl stats fixture:latis-can", "fixture:latis-cancel"},
	{"wirectl decode known.b", "known.bin"},
	{"wirectl relay -- ls known.b", "known.bin"},
	{"wirectl wrap mcp.json wea", "weather"},
	{"wirectl wrap ~/mcp.json wea", "weather"},
	{`wirectl wrap my\ client/mcp.json wea`, "weather"},
	{`wirectl wrap 'my client/mcp.json' wea`, "weather"},
	{"wirectl wrap mcp.json not", `not\ es`},
	{`wirectl wrap mcp.json not\ e`, `not\ es`},
}

// config is the configuration of an MCP client.
const config = `{"mcpServers":{"weather":{"command":"w"},"not es":{"command":"n"}}}`

// shellHome makes a folder with files in it, and wirectl's script for a shell.
func shellHome(t *testing.T, shell string) (dir, script string) {
	t.Helper()
	dir = t.TempDir()
	check(t, os.WriteFile(filepath.Join(dir, "known.bin"), nil, 0o600))
	check(t, os.Mkdir(filepath.Join(dir, "my client"), 0o700))
	for _, name := range []string{"mcp.json", "my client/mcp.json"} {
		check(t, os.WriteFile(filepath.Join(dir, name), []byte(config), 0o600))
	}
	check(t, os.Mkdir(filepath.Join(dir, "bin"), 0o700))
	check(t, os.Symlink(wirectl, filepath.Join(dir, "bin", "wirectl")))
	text, err := exec.Command(wirectl, "completion", shell).Output()
	check(t, err)
	script = filepath.Join(dir, "script")
	check(t, os.WriteFile(script, text, 0o600))
	return dir, script
}

// shellCommand is a command in dir that finds wirectl.
func shellCommand(t *testing.T, dir, name string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(need(t, name), args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "HOME="+dir, "PATH="+filepath.Join(dir, "bin")+":"+os.Getenv("PATH"))
	return cmd
}

// Bash replaces only the text after a ':' or '=', so a candidate may lack the text before
// it.
func TestBashCompletes(t *testing.T) {
	for _, tab := range tabs {
		dir, script := shellHome(t, "bash")
		const run = `source "$1"; COMP_LINE=$2 COMP_POINT=${#2}
			line=${2//'\ '/$'\1'} COMP_WORDS=()
			for w in ${line//[:=]/ & }; do COMP_WORDS+=("${w//$'\1'/'\ '}"); done
			COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _wirectl; printf '%s\n' "${COMPREPLY[@]}"`
		out, err := shellCommand(t, dir, "bash", "-c", run, "bash", script, tab.line).Output()
		check(t, err)
		want := tab.want[strings.LastIndexAny(tab.want, ":=")+1:]
		if !slices.Contains(strings.Split(string(out), "\n"), want) {
			t.Errorf("%s<Tab>: no %q in %q", tab.line, want, out)
		}
	}
}

func TestFishCompletes(t *testing.T) {
	dir, script := shellHome(t, "fish")
	for _, tab := range tabs {
		const run = `source $argv[1]; complete -C $argv[2]`
		out, err := shellCommand(t, dir, "fish", "--no-config", "-c", run, script, tab.line).Output()
		check(t, err)
		var values []string
		for line := range strings.Lines(string(out)) {
			value, _, _ := strings.Cut(strings.TrimSpace(line), "\t")
			values = append(values, value)
		}
		if want := strings.ReplaceAll(tab.want, `\`, ""); !slices.Contains(values, want) { // fish adds the backslashes itself
			t.Errorf("%s<Tab>: no %q in %q", tab.line, want, values)
		}
	}
}

// Zsh completes only in its line editor. So it gets a terminal, and the completed line is
// printed instead of run.
func TestZshCompletes(t *testing.T) {
	for _, tab := range tabs {
		dir, script := shellHome(t, "zsh")
		cmd := shellCommand(t, dir, "zsh", "-f", "-i")
		tty, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 24, Cols: 200})
		check(t, err)
		seen := make(chan string)
		go func() {
			all, _ := io.ReadAll(tty)
			seen <- string(all)
		}()
		io.WriteString(tty, "PS1= ; autoload -Uz compinit && compinit -u -D && source "+script+"\n")
		// Control-X writes the current line to a file, and ends the shell.
		io.WriteString(tty, "show() { print -r -- \"<$BUFFER>\" > screen; BUFFER=exit; zle accept-line }; zle -N show; bindkey '^X' show\n")
		io.WriteString(tty, tab.line+"\t\x18")
		exited := make(chan error, 1)
		go func() { exited <- cmd.Wait() }()
		select {
		case <-exited:
		case <-time.After(30 * time.Second):
			cmd.Process.Kill()
			<-exited
		}
		tty.Close()
		transcript := <-seen
		line, err := os.ReadFile(filepath.Join(dir, "screen"))
		if err != nil {
			t.Fatalf("%v; the terminal: %q", err, transcript)
		}
		if !strings.Contains(string(line), tab.want) {
			t.Errorf("%s<Tab>: the line is %q, without %q", tab.line, line, tab.want)
		}
	}
}

// Tab never runs the command on the line, not even after "--".
func TestTabRunsNothing(t *testing.T) {
	dir, script := shellHome(t, "bash")
	const run = `source "$1"; COMP_LINE=$2 COMP_POINT=${#2} COMP_WORDS=($2 '') COMP_CWORD=5; _wirectl`
	check(t, shellCommand(t, dir, "bash", "-c", run, "bash", script, "wirectl relay -- touch made ").Run())
	if _, err := os.Stat(filepath.Join(dir, "made")); err == nil {
		t.Error("the command ran")
	}
}
