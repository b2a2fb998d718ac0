package agent

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/capture/history"
	"github.com/wirectl/wirectl/capture/output"
	"github.com/wirectl/wirectl/decode/pin"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/protocol/jsonrpc"
	"github.com/wirectl/wirectl/relay"
	"github.com/wirectl/wirectl/relay/serve"
	"github.com/wirectl/wirectl/relay/wrap"
	"github.com/wirectl/wirectl/transport"
)

const (
	// HookWord is the hidden command that an agent starts instead of an MCP server:
	//
	//	wirectl run-hook FOLDER NAME COMMAND ARGS…
	HookWord = "run-hook"
	// hooksFile tells the hooks about their run. It is in a folder within the private one, whose name begins with
	// hooksPrefix.
	hooksFile, hooksPrefix = "hooks.json", "hooks-"
	// standInsDir holds the stand-ins, and is on the agent's PATH; prefixDir holds the program
	// that Claude Code starts with every command, and shellDir the shell of opencode.
	standInsDir, prefixDir, shellDir = "bin", "prefix", "shell"
	prefixName                       = "run-shell"
	// shellPrefix is the variable of Claude Code's prefix.
	shellPrefix = "CLAUDE_CODE_SHELL_PREFIX"
)

// hooks is what a run tells its hooks. It holds no secret, because a killed run leaves it behind.
type hooks struct {
	State
	Agent string `json:"agent"`
	// Private is the private folder of the run, and Proxy the HOST:PORT of its proxy. A variable with one
	// of them was changed by the run, as was one with the value in Variables.
	Private   string            `json:"private"`
	Proxy     string            `json:"proxy,omitempty"`
	Variables map[string]string `json:"variables,omitempty"`
	// Programs are the programs that stand-ins stand for, by name.
	Programs map[string]string `json:"programs,omitempty"`
	// Shell is the shell that opencode would use.
	Shell string `json:"shell,omitempty"`
	// Configs are the configurations that name the servers.
	Configs []string `json:"configs,omitempty"`
	// Servers are played, if not nil.
	Servers *Servers `json:"servers,omitempty"`

	dir string // of the file, and of the links to us
}

// write writes the file into the private folder.
func (h *hooks) write() error {
	return output.WriteFile(filepath.Join(h.dir, hooksFile), append(jsonscan.MustMarshal(h), '\n'), 0o600)
}

// readHooks returns what a run told its hooks; what is missing if the run has been cleaned up.
func readHooks(dir string) (*hooks, error) {
	h := &hooks{dir: dir}
	text, err := os.ReadFile(filepath.Join(dir, hooksFile))
	if err == nil {
		err = json.Unmarshal(text, h)
	}
	return h, err
}

// A Hook is this process if an agent started it instead of something else.
type Hook struct {
	hooks *hooks // nil if the run has been cleaned up
	// server is set where the agent's configuration says that it starts a server.
	server bool
	// prefixed means that argv is one command for a shell, of Claude Code, and shell that it is a shell of
	// opencode.
	prefixed, shell bool
	name            string   // of the server or program
	argv            []string // what the agent wanted to start

	stdin, stdout, stderr *os.File
	// Play answers a client with the records of a server, of which n starts came before.
	Play func(ctx context.Context, s *Servers, name string, n int, client transport.Conn, note func(ServerNote)) error
}

// HookOf returns the hook that a command line is of; nil if it is an ordinary one.
func HookOf(args []string) *Hook {
	if len(args) > 4 && args[1] == HookWord {
		h, err := readHooks(args[2])
		if err != nil {
			h = nil
		}
		return &Hook{hooks: h, server: true, name: args[3], argv: args[4:]}
	}
	if len(args) == 0 {
		return nil
	}
	name := filepath.Base(args[0])
	if strings.HasPrefix(name, "wirectl") {
		return nil
	}
	dir := linkOf(args[0])
	if dir == "" {
		return nil
	}
	h, err := readHooks(filepath.Dir(dir))
	switch {
	case err != nil || len(args) < 2 && filepath.Base(dir) == prefixDir:
		return nil
	case filepath.Base(dir) == prefixDir && name == prefixName:
		return &Hook{hooks: h, prefixed: len(args) == 2, argv: args[1:]}
	case filepath.Base(dir) == shellDir && h.Shell != "":
		return &Hook{hooks: h, shell: true, argv: append([]string{h.Shell}, args[1:]...)}
	case filepath.Base(dir) == standInsDir:
		name = strings.TrimSuffix(name, ".exe")
		if program := h.program(name); program != "" {
			return &Hook{hooks: h, name: name, argv: append([]string{program}, args[1:]...)}
		}
	}
	return nil
}

// linkOf returns the folder in which a program was found that was started under a name: that of a
// link to us. It is "" if there is none.
func linkOf(name string) string {
	if runtime.GOOS == "windows" {
		if program, err := os.Executable(); err == nil {
			return filepath.Dir(program)
		}
	}
	if strings.ContainsRune(name, filepath.Separator) {
		return filepath.Dir(name)
	}
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil && filepath.Base(dir) == standInsDir {
			return dir
		}
	}
	return ""
}

// program returns the program that a stand-in stands for: the one that would have been found without
// it.
func (h *hooks) program(name string) string {
	path := h.outsidePath(os.Getenv("PATH"))
	return unshimmed(cmp.Or(lookPath(name, path), h.Programs[name]), name, path)
}

// shim matches the scripts by which managers of versions stand for programs. They put the folder of a version in
// front of PATH, and so of our stand-ins.
var shim = regexp.MustCompile(`(?m)^exec "?([^"\s]*\b(?:pyenv|rbenv|nodenv|goenv|jenv|asdf))"? exec `)

// unshimmed returns the program that a shim would run; the program itself if it is none.
func unshimmed(program, name, path string) string {
	f, err := os.Open(program)
	if err != nil {
		return program
	}
	defer f.Close()
	head := make([]byte, 2<<10)
	n, _ := io.ReadFull(f, head)
	m := shim.FindSubmatch(head[:n])
	if m == nil || !bytes.HasPrefix(head, []byte("#!")) {
		return program
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	which := exec.CommandContext(ctx, cmp.Or(lookPath(string(m[1]), path), string(m[1])), "which", name)
	which.Env = append(os.Environ(), "PATH="+path)
	out, _ := which.Output() // nothing if it fails
	if found := strings.TrimSpace(string(out)); filepath.IsAbs(found) && lookPath(filepath.Base(found), filepath.Dir(found)) != "" {
		return found
	}
	return program
}

// outsidePath returns a PATH without the stand-ins: those of a run and of a run within it would start each
// other for ever.
func (h *hooks) outsidePath(path string) string {
	list := filepath.SplitList(path)
	ours := filepath.Join(h.dir, standInsDir)
	list = slices.DeleteFunc(list, func(dir string) bool {
		of := filepath.Dir(filepath.Clean(dir))
		isOther := filepath.Base(dir) == standInsDir && strings.HasPrefix(filepath.Base(of), hooksPrefix) && strings.HasPrefix(filepath.Base(filepath.Dir(of)), privatePrefix)
		return filepath.Clean(dir) == ours || isOther
	})
	return strings.Join(list, string(filepath.ListSeparator))
}

// A deed is what a hook does.
type deed uint8

const (
	becomes deed = iota // runs the command at once, in our place
	relays              // relays a server
	reports             // runs a shell command, and reports its start and exit
)

// a call is how a hook was started.
type call struct {
	piped  bool // standard input and output are pipes or sockets
	parent kin
	getenv func(string) string
}

// kin says who started a hook.
type kin uint8

const (
	stranger kin = iota // the run itself, or a process that is not below it
	below               // something that the agent started
	theAgent
)

// decide says what the hook does.
func (k *Hook) decide(c call) deed {
	inner := c.getenv("CLAUDE_CODE_CHILD_SESSION") != "" // not set for a server
	switch {
	case k.hooks == nil || c.parent == stranger, c.getenv("NODE_CHANNEL_FD") != "": // a channel that we would not pass on
		return becomes
	case k.prefixed && (!c.piped || shellCommand(k.argv[0]) != k.argv[0]), k.shell && k.script() != "":
		return reports
	case k.shell: // a terminal
		return becomes
	case c.piped && (k.server || c.parent == theAgent && !(k.prefixed && inner)):
		return relays
	}
	return becomes // such as a hook in the user's settings, or a program that a tool of the agent started
}

// script returns the command that the agent has a shell run; "" if there is none.
func (k *Hook) script() string {
	if k.prefixed {
		return shellCommand(k.argv[0])
	}
	at := slices.Index(k.argv, "-c") + 1
	if at == 0 || at == len(k.argv) {
		return ""
	}
	// What the user of opencode types after a "!" is the JSON of the last line.
	_, rest, _ := strings.Cut(k.argv[at], "\n        eval ")
	if typed := ""; json.Unmarshal([]byte(rest), &typed) == nil {
		return typed
	}
	return k.argv[at]
}

// command returns the command that the agent would have started without us.
func (k *Hook) command() []string {
	if !k.prefixed {
		return k.argv
	}
	own := os.Getenv(saved + shellPrefix)
	if words, plain := splitWords(k.argv[0]); own == "" && plain && lookPath(words[0], os.Getenv("PATH")) != "" {
		return words // no shell between us and a server, which must end when we do
	} else if own == "" {
		return []string{"/bin/sh", "-c", k.argv[0]}
	}
	// Options may follow the program: "/bin/bash -c".
	if at := strings.LastIndex(own, " -"); at > 0 {
		return slices.Concat([]string{own[:at]}, strings.Fields(own[at:]), k.argv)
	}
	return []string{own, k.argv[0]}
}

// Run does what the hook is for, and returns the exit status. On Unix it usually does not return if
// the command just runs. Signals are those that a relay passes on.
func (k *Hook) Run(stdin, stdout, stderr *os.File, signals func() (<-chan os.Signal, func())) int {
	k.stdin, k.stdout, k.stderr = stdin, stdout, stderr
	argv := k.command()
	switch k.decide(call{piped: isPipe(stdin) && isPipe(stdout), parent: k.parent(), getenv: os.Getenv}) {
	case relays:
		received, release := signals()
		defer release()
		return k.relay(argv, received)
	case reports:
		return k.report(argv)
	}
	return k.become(argv)
}

// shells are programs that run the commands of others. They are no agents, unless they are what the
// run has started.
var shells = []string{"sh", "bash", "dash", "zsh", "fish", "ksh", "ash", "busybox", "pwsh", "cmd.exe", "powershell.exe", "pwsh.exe"}

// maxDepth bounds how far a hook may be below its run, and an agent, which may be started by a launcher or
// restart itself.
const maxDepth, maxLaunchers = 64, 5

// parent says who started the hook. Between the run and the agent are only launchers: a shell there, or
// another hook, means that the agent has started something that has started us.
func (k *Hook) parent() kin {
	if k.hooks == nil {
		return stranger
	}
	kind := theAgent
	for depth, pid := 0, os.Getppid(); depth < maxDepth && pid > 1 && pid != k.hooks.PID; depth++ {
		parent, name := processOf(pid)
		switch {
		case parent == k.hooks.PID:
			return kind
		case depth == maxLaunchers, slices.Contains(shells, name), name == prefixName, strings.HasPrefix(name, "wirectl"):
			kind = below
		}
		pid = parent
	}
	return stranger
}

// restore gives this process, and what it starts, the user's own environment for what the run has
// changed. Unlike Original it keeps what the agent has removed or set itself.
func (h *hooks) restore() {
	var kept []string
	for _, pair := range os.Environ() {
		name, value, _ := strings.Cut(pair, "=")
		own, had := os.LookupEnv(saved + name)
		switch {
		case strings.HasPrefix(name, saved), name == added:
		case name == "PATH":
			kept = append(kept, name+"="+h.outsidePath(value))
		case name == Variable || !h.changed(name, value): // by the variable the run finds what remains
			kept = append(kept, pair)
		case had:
			kept = append(kept, name+"="+own)
		}
	}
	os.Clearenv()
	for _, pair := range kept {
		name, value, _ := strings.Cut(pair, "=")
		_ = os.Setenv(name, value) // it was set before
	}
}

// changed reports whether the value of a variable is from the run.
func (h *hooks) changed(name, value string) bool {
	set, ok := h.Variables[name]
	return ok && set == value || strings.Contains(value, h.Private) || h.Proxy != "" && strings.Contains(value, h.Proxy)
}

// relay relays a server as wirectl relay does, and records what passes.
func (k *Hook) relay(argv []string, signals <-chan os.Signal) int {
	h := k.hooks
	name := k.serverName()
	h.restore()
	command := append([]string{k.name}, argv[1:]...) // without the path of a stand-in's program
	if k.server || k.prefixed {
		command = k.argv
	}
	begin := k.started("server")
	begin.Name = name
	_, begin.Command = h.shown(strings.Join(command, " "))
	_ = history.AppendEvent(h.Folder, begin) // the server works without a record
	var sink *relay.Fan
	quiet := func(string) {}
	recorder, err := Record(h.Folder, "mcp-"+fileName(name)+"-"+strconv.Itoa(os.Getpid())+".pcapng", capture.Session{Created: time.Now(), Controller: h.Agent, Unit: name, Comment: capture.CommentOn(argv)}, h.Level, quiet, nil)
	if err == nil { // the server works without a record
		sink = recorder.Sink
	}
	cfg := relay.Config{Sink: sink, Stderr: k.stderr, Grace: transport.DefaultGrace, Signals: signals, Warn: quiet, Alarm: quiet}
	unit, err := transport.Parse(append([]string{"exec"}, argv...), transport.Options{Stdin: k.stdin, Stdout: k.stdout, Grace: transport.DefaultGrace})
	if h.Servers.Plays(name) {
		unit, err = &playedUnit{hook: k, name: name, n: h.startsBefore(begin)}, nil
	}
	exit := transport.Exit{Status: 126}
	if err == nil {
		pinned := k.pin(&cfg, command)
		exit = k.relayStdio(unit, name, cfg)
		pinned()
	}
	h.exited(begin.PID, exit)
	_ = recorder.Close() // as above
	return endAs(exit)
}

// pin has a relay compare the tools of a server with their pin, and returns what to do at its end.
func (k *Hook) pin(cfg *relay.Config, command []string) (end func()) {
	h := k.hooks
	if h.Pin == "" {
		return func() {}
	}
	if k.prefixed {
		words, plain := splitWords(command[0])
		if command = []string{"sh", "-c", command[0]}; plain {
			command = words
		}
	}
	dir, _ := os.Getwd()
	server := pin.Command(command, dir)
	w := pin.NewWatch(&pin.Store{Dir: h.Pins}, h.Pin, jsonrpc.MCP, func(text string) {
		if f, err := os.OpenFile(filepath.Join(h.Private, driftsFile), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600); err == nil {
			_, _ = io.WriteString(f, strings.ReplaceAll(text, "\n", " ")+"\n") // the record has it, too
			f.Close()
		}
	})
	if k.server || k.prefixed { // others may speak something else
		cfg.Framing, cfg.Protocol = frame.Line, jsonrpc.MCP
	}
	if h.Pin == pin.Refuse {
		cfg.Gate = relay.NewGate(relay.GateConfig{Sink: cfg.Sink, Answer: w.Answer(server)})
		return w.Close
	}
	to := func(*capture.Record) {}
	if cfg.Sink != nil {
		to = cfg.Sink.Write
	}
	cfg.Sink = relay.NewFan(cfg.Warn, w.Writer(server, to))
	return w.Close
}

// relayStdio relays between our standard input and output and a server, and returns how its command
// ended. It prints only what a relay must print: that the command cannot be started.
func (k *Hook) relayStdio(unit transport.Endpoint, name string, cfg relay.Config) transport.Exit {
	stdio, err := transport.Parse([]string{"stdio"}, transport.Options{Stdin: k.stdin, Stdout: k.stdout})
	if err != nil {
		return transport.Exit{Status: 126}
	}
	server := serve.Server{Unit: named{unit, name}, Relay: cfg}
	result, err := server.Once(context.Background(), stdio)
	start := (*transport.StartError)(nil)
	switch {
	case result.Exit != nil:
		return *result.Exit
	case errors.As(err, &start):
		k.complain(start)
		return transport.Exit{Status: start.Status}
	case result.Signal != nil:
		return transport.Exit{Signal: result.Signal}
	case err != nil:
		return transport.Exit{Status: 1}
	}
	return transport.Exit{}
}

// complain reports that a command cannot be started.
func (k *Hook) complain(err *transport.StartError) {
	_, _ = io.WriteString(k.stderr, "wirectl: "+render.Safe(err.Error())+"\n")
}

// A named endpoint has a name of its own in records.
type named struct {
	transport.Endpoint
	name string
}

func (n named) String() string { return n.name }

// started returns the start of a command.
func (k *Hook) started(what string) history.Event {
	e := history.Event{Event: "start", Time: time.Now(), PID: os.Getpid(), Parent: os.Getppid(), What: what, Keys: map[string]string{}}
	for key, variables := range keyVariables {
		for _, variable := range variables {
			if value := os.Getenv(variable); value != "" && len(value) <= maxKey {
				e.Keys[key] = cmp.Or(e.Keys[key], value)
			}
		}
	}
	// CLAUDE_CODE_CHILD_NOTES_DIR ends in SESSION/started.
	if notes := os.Getenv("CLAUDE_CODE_CHILD_NOTES_DIR"); e.Keys["session"] == "" && notes != "" {
		e.Keys["session"] = filepath.Base(filepath.Dir(notes))
	}
	return e
}

// keyVariables are the variables of agents that hold the keys of an event.
var keyVariables = map[string][]string{
	"session": {"CLAUDE_CODE_SESSION_ID", "CODEX_SESSION_ID"},
	"thread":  {"CODEX_THREAD_ID"},
	"call":    {"CODEX_TOOL_CALL_ID", "CLAUDE_CODE_TOOL_USE_ID"},
}

// exited records the exit of a command.
func (h *hooks) exited(pid int, exit transport.Exit) {
	e := history.Event{Event: "exit", Time: time.Now(), PID: pid, Status: new(exit.Code())}
	if exit.Signal != nil {
		e.Signal = exit.Signal.String()
	}
	_ = history.AppendEvent(h.Folder, e) // the command has ended in any case
}

// hookedIn says which servers and how many shell commands the hooks of a run have seen.
func hookedIn(folder string) (seen string) {
	text, _ := os.ReadFile(filepath.Join(folder, history.EventsFile))
	var servers []string
	commands := int64(0)
	for line := range bytes.Lines(text) {
		var e history.Event
		switch {
		case json.Unmarshal(line, &e) != nil || e.Event != "start":
		case e.What == "shell":
			commands++
		case e.What == "server" && !slices.Contains(servers, e.Name):
			servers = append(servers, e.Name)
		}
	}
	if len(servers) > 0 {
		seen = ", " + render.Count(int64(len(servers)), "server") + " over stdio (" + strings.Join(servers, ", ") + ")"
	}
	if commands > 0 {
		seen += ", " + render.Count(commands, "shell command")
	}
	return seen
}

// fileName returns a name that is safe as a part of that of a file.
func fileName(name string) string {
	safe := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_.", r) {
			return r
		}
		return '_'
	}, name)
	return cmp.Or(render.Clip(strings.TrimLeft(safe, "."), 60), "server")
}

// runners are programs that run the program in a later word.
var runners = []string{"npx", "uvx", "bunx", "pipx", "node", "deno", "bun", "python", "python3", "uv", "go", "run", "env", "sh", "bash", "exec", "tool", "x", "dlx"}

// serverName returns the name of the server in the agent's configuration, or else that of its program.
func (k *Hook) serverName() string {
	if k.server {
		return k.name
	}
	words := append([]string{k.name}, k.argv[1:]...)
	if k.prefixed {
		words, _ = splitWords(k.argv[0])
	}
	for _, file := range k.hooks.Configs {
		for _, s := range wrap.ServersIn(file) {
			if k.prefixed && slices.Equal(words, s.Argv) || !k.prefixed && len(s.Argv) > 0 && filepath.Base(s.Argv[0]) == k.name && slices.Equal(words[1:], s.Argv[1:]) {
				return s.Short()
			}
		}
	}
	name := ""
	for _, word := range words {
		if strings.HasPrefix(word, "-") || strings.Contains(word, "=") {
			continue
		}
		word = strings.TrimRight(word, "/")
		name = word[strings.LastIndexByte(word, '/')+1:]
		if !slices.Contains(runners, name) {
			break
		}
	}
	return cmp.Or(name, "server")
}

// splitWords splits a command as a shell does. The words are plain if a shell would do nothing else with
// them.
func splitWords(command string) (words []string, plain bool) {
	var word []byte
	open, quote := false, byte(0)
	plain = true
	for i := 0; i < len(command); i++ {
		switch c := command[i]; {
		case quote != 0 && c == quote:
			quote = 0
		case quote != '\'' && c == '\\' && i+1 < len(command):
			i++
			plain = plain && quote == 0 && command[i] != '\n'
			open, word = true, append(word, command[i])
		case quote == 0 && (c == '\'' || c == '"'):
			open, quote = true, c
		case quote == 0 && (c == ' ' || c == '\t' || c == '\n'):
			if open {
				words = append(words, string(word))
			}
			open, word = false, word[:0]
			plain = plain && c != '\n'
		default:
			special := "$`"
			if quote == 0 {
				special = "$`;&|<>()*?[]#~{}!="
			}
			plain = plain && (quote == '\'' || !strings.Contains(special, string(rune(c))))
			open, word = true, append(word, c)
		}
	}
	if open {
		words = append(words, string(word))
	}
	return words, plain && quote == 0 && len(words) > 0
}

// shellCommand returns the command within what Claude Code has a shell run: a source of its snapshot, the
// command in an eval, and a note of the last folder.
func shellCommand(text string) string {
	_, rest, found := strings.Cut(text, "eval ")
	if !found || !strings.HasPrefix(text, "source ") && !strings.Contains(text, "pwd -P") {
		return text
	}
	if words, _ := splitWords(rest); len(words) > 0 {
		return words[0]
	}
	return text
}
