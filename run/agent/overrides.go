package agent

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2"
	"github.com/tailscale/hujson"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/relay/wrap"
)

// overrides are how an agent is told to start its servers through hooks, and to reach local addresses
// through relays, without an edit of its files.
type overrides struct {
	*hooks
	program string // wirectl
	getenv  func(string) string
	here    string
	// through returns the address of a relay to a local one.
	through func(target *url.URL) (string, error)

	// The results.
	args      []string          // before the agent's own
	variables map[string]string // of its environment
	notes     []string          // what is not seen
	// bare are commands that the agent finds on its PATH. It needs stand-ins if that is not nil.
	bare map[string]bool
}

// hookServers changes how an agent is started, so that its MCP servers and shell commands are recorded.
func hookServers(ctx context.Context, s *Setup) error {
	if s.Folder == "" {
		return nil
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	here, err := os.Getwd()
	if err != nil {
		return err
	}
	o := &overrides{program: program, getenv: s.Env.Get, here: here}
	// A run within a run has the private folder of the outer one.
	o.hooks = &hooks{State: State{PID: os.Getpid(), Folder: s.Folder, Level: s.Level, Pin: s.run.Pin, Pins: s.run.pins}, Agent: s.Name, Private: s.Private, dir: filepath.Join(s.Private, hooksPrefix+strconv.Itoa(os.Getpid()))}
	if w := s.run.World; w != nil {
		o.Servers = &w.Servers
	}
	if proxy, err := url.Parse(s.Env.Get("HTTPS_PROXY")); err == nil {
		o.Proxy = proxy.Host
	}
	o.through = func(target *url.URL) (string, error) {
		switch {
		case s.run.joined != nil:
			return "", errors.New("a run within a run")
		case runtime.GOOS != "linux": // where a relay would refuse the agent, see ownListener
			return "", errors.New("the system does not tell whose connections are local")
		}
		return s.Relay(ctx, target)
	}
	if err := os.Mkdir(o.dir, 0o700); err != nil {
		return err
	}
	if err := o.override(s.Args); err != nil {
		return err
	}
	for _, note := range o.notes {
		s.Note(note)
	}
	if since, configs := time.Now(), o.settings(s.Name); transcripts[s.Name].read != nil {
		s.after = func() { o.tellCommands(filepath.Dir(configs[len(configs)-1]), since) }
	}
	if o.Programs != nil {
		s.Program = unshimmed(s.Program, filepath.Base(s.Program), s.Getenv("PATH"))
	}
	if name := s.run.Command[0]; o.Programs[name] != "" { // a Python would find the stand-in by it, and miss its packages
		s.named = s.Program
	}
	s.Args = append(o.args, s.Args...)
	for _, name := range slices.Sorted(maps.Keys(o.variables)) {
		s.Env.Set(name, o.variables[name])
	}
	return nil
}

// interpreters are the programs that start most servers.
var interpreters = []string{"node", "npx", "bun", "bunx", "deno", "python", "python3", "uv", "uvx", "pipx", "docker", "podman", "java", "dotnet", "ruby", "go"}

// override fills the results, for an agent by its name with its arguments.
func (o *overrides) override(args []string) error {
	o.variables = map[string]string{}
	o.baseURLs()
	switch o.Agent {
	case "claude":
		o.claude(args)
	case "codex":
		o.codex(args)
	case "opencode":
		o.opencode()
	default:
		o.bare = map[string]bool{}
		o.Configs = o.settings(o.Agent)
		for _, file := range o.Configs {
			for _, s := range wrap.ServersIn(file) {
				o.rest(s.Short(), s.Argv, s.URL)
			}
		}
	}
	o.Variables = map[string]string{"NO_PROXY": o.getenv("NO_PROXY"), "no_proxy": o.getenv("no_proxy"), "NODE_USE_ENV_PROXY": "1"}
	maps.Copy(o.Variables, o.variables)
	if err := o.standIn(); err != nil {
		o.notes = append(o.notes, "MCP servers over stdio ("+err.Error()+")")
		delete(o.variables, shellPrefix)
		delete(o.variables, "PATH")
	}
	o.notes = slices.Compact(o.notes)
	return o.write()
}

// settings returns the configurations of an agent.
func (o *overrides) settings(agent string) []string {
	home := cmp.Or(o.getenv("HOME"), o.getenv("USERPROFILE"))
	switch agent {
	case "claude":
		return []string{filepath.Join(o.here, ".mcp.json"), filepath.Join(cmp.Or(o.getenv("CLAUDE_CONFIG_DIR"), home), ".claude.json")}
	case "codex":
		return []string{filepath.Join(cmp.Or(o.getenv("CODEX_HOME"), filepath.Join(home, ".codex")), "config.toml")}
	case "gemini", "qwen":
		return []string{filepath.Join(o.here, "."+agent, "settings.json"), filepath.Join(home, "."+agent, "settings.json")}
	case "copilot":
		return []string{filepath.Join(cmp.Or(o.getenv("COPILOT_HOME"), filepath.Join(home, ".copilot")), "mcp-config.json")}
	case "goose":
		return []string{filepath.Join(cmp.Or(o.getenv("XDG_CONFIG_HOME"), filepath.Join(home, ".config")), "goose", "config.yaml")}
	case "opencode": // from the weakest, without those of a company
		dir := filepath.Join(cmp.Or(o.getenv("XDG_CONFIG_HOME"), filepath.Join(home, ".config")), "opencode")
		files := []string{filepath.Join(dir, "config.json"), filepath.Join(dir, "opencode.json"), filepath.Join(dir, "opencode.jsonc"), o.getenv("OPENCODE_CONFIG")}
		var own []string
		for dir := o.here; ; dir = filepath.Dir(dir) {
			own = append(own, filepath.Join(dir, ".opencode", "opencode.jsonc"), filepath.Join(dir, ".opencode", "opencode.json"), filepath.Join(dir, "opencode.jsonc"), filepath.Join(dir, "opencode.json"))
			if _, err := os.Stat(filepath.Join(dir, ".git")); err == nil || dir == filepath.Dir(dir) {
				break
			}
		}
		slices.Reverse(own)
		if dir := o.getenv("OPENCODE_CONFIG_DIR"); dir != "" {
			own = append(own, filepath.Join(dir, "opencode.json"), filepath.Join(dir, "opencode.jsonc"))
		}
		return append(files, own...)
	}
	return nil
}

// rest is about a server for which there is no override.
func (o *overrides) rest(name string, argv []string, address string) {
	switch {
	case len(argv) > 0 && filepath.Base(argv[0]) == argv[0]:
		if o.bare == nil {
			o.bare = map[string]bool{}
		}
		o.bare[argv[0]] = true
	case len(argv) > 0:
		o.notes = append(o.notes, fmt.Sprintf("MCP server %s (its command is a path)", name))
	case local(address) != nil:
		o.notes = append(o.notes, fmt.Sprintf("MCP server %s at %s (the address is local, and cannot be moved)", name, local(address).Host))
	}
}

// local returns the URL of an address on loopback; nil if it is another.
func local(address string) *url.URL {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" || u.User != nil || u.RawQuery != "" {
		return nil
	}
	ip, err := netip.ParseAddr(u.Hostname())
	if u.Hostname() != "localhost" && (err != nil || !ip.IsLoopback()) {
		return nil
	}
	return u
}

// moved returns the address of a relay to a local one; "" if it is not local, or there is none.
func (o *overrides) moved(name, address string) string {
	u := local(address)
	if u == nil {
		return ""
	}
	there, err := o.through(u)
	if err != nil {
		o.notes = append(o.notes, fmt.Sprintf("%s at %s (%v)", name, u.Host, err))
		return ""
	}
	return there
}

// baseURLVariables are variables with the address of a model API.
var baseURLVariables = []string{
	"ANTHROPIC_BASE_URL", "OPENAI_BASE_URL", "OPENAI_API_BASE", "OPENAI_HOST", "GOOGLE_GEMINI_BASE_URL", "COPILOT_PROVIDER_BASE_URL",
	"CODEX_OSS_BASE_URL", "OLLAMA_API_BASE", "OLLAMA_HOST", "ANTHROPIC_HOST", "ANTHROPIC_API_URL", "LM_STUDIO_API_BASE",
}

// baseURLs moves the addresses of local models in the environment.
func (o *overrides) baseURLs() {
	there := map[string]string{} // one relay for each
	moved := strings.Fields(o.getenv(added))
	for _, name := range baseURLVariables {
		address := o.getenv(name)
		if address == "" || slices.Contains(moved, name) {
			continue
		}
		if there[address] == "" {
			there[address] = o.moved("model", address)
		}
		if there[address] != "" {
			o.variables[name] = there[address]
		}
	}
}

// claude sets the prefix of Claude Code, through which it starts servers and shell commands.
func (o *overrides) claude(args []string) {
	if runtime.GOOS != "windows" {
		o.variables[shellPrefix] = filepath.Join(o.dir, prefixDir, prefixName)
	} else {
		o.notes = append(o.notes, "MCP servers over stdio and shell commands (on Windows)")
	}
	o.Configs = o.settings("claude")
	own := o.Configs[1]
	// The values of --mcp-config take the place of servers of the same name, and need no approval: they must
	// not be those of a project. Those of the user replace ours.
	moves := len(args) == 0 || strings.HasPrefix(args[0], "-") || strings.Contains(args[0], " ")
	for i, arg := range args {
		if moves = moves && !strings.HasPrefix(arg, "--mcp-config") && arg != "--strict-mcp-config"; arg == "--mcp-config" {
			for _, value := range args[i+1:] { // several may follow
				if strings.HasPrefix(value, "-") {
					break
				}
				o.Configs = append(o.Configs, value)
			}
		} else if value, ok := strings.CutPrefix(arg, "--mcp-config="); ok {
			o.Configs = append(o.Configs, value)
		}
	}
	for i, file := range o.Configs {
		if !filepath.IsAbs(file) {
			o.Configs[i] = filepath.Join(o.here, file) // where there is none if it is JSON
		}
	}
	type server struct{ Type string }
	type project struct {
		McpServers         map[string]server
		DisabledMcpServers []string
	}
	var config struct {
		project
		Projects map[string]project
	}
	text, _ := os.ReadFile(own)
	_ = json.Unmarshal(text, &config) // Claude Code reports what is wrong
	mine := config.Projects[o.here]
	moved := map[string]any{}
	for _, file := range o.Configs {
		for _, s := range wrap.ServersIn(file) {
			if local(s.URL) == nil || s.Project != "" && s.Project != o.here || slices.Contains(mine.DisabledMcpServers, s.Short()) {
				continue
			}
			there, kind := "", config.McpServers[s.Short()].Type
			if s.Project != "" {
				kind = mine.McpServers[s.Short()].Type
			}
			if moves && file == own && !s.HasHeaders && kind == "http" {
				there = o.moved(s.Short(), s.URL)
			}
			if there != "" {
				moved[s.Short()] = map[string]string{"type": "http", "url": there}
			} else {
				o.rest(s.Short(), nil, s.URL)
			}
		}
	}
	if len(moved) > 0 {
		o.args = append(o.args, "--mcp-config="+string(jsonscan.MustMarshal(map[string]any{"mcpServers": moved})))
	}
	dir := cmp.Or(o.getenv("CLAUDE_CONFIG_DIR"), filepath.Join(o.getenv("HOME"), ".claude"))
	for _, file := range []string{filepath.Join(dir, "settings.json"), filepath.Join(o.here, ".claude", "settings.json"), filepath.Join(o.here, ".claude", "settings.local.json")} {
		var settings struct{ Env map[string]any }
		text, _ := os.ReadFile(file)
		_ = json.Unmarshal(text, &settings) // Claude Code reports what is wrong
		for _, name := range slices.Sorted(maps.Keys(settings.Env)) {
			if name == shellPrefix {
				o.notes = append(o.notes, "MCP servers over stdio and shell commands ("+file+" sets "+name+")")
			} else if address, _ := settings.Env[name].(string); slices.Contains(baseURLVariables, name) && local(address) != nil {
				o.notes = append(o.notes, "model at "+local(address).Host+" ("+file+" sets "+name+")")
			}
		}
	}
}

// bareKey matches the keys of TOML that need no quotes: Codex does not understand those in -c.
var bareKey = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// codex overrides the configuration of Codex. Its own -c come later, and win.
func (o *overrides) codex(args []string) {
	o.Configs = o.settings("codex")
	file := o.Configs[0]
	given := strings.Join(args, "\n")
	set := func(key string, value any) {
		o.args = append(o.args, "-c", key+"="+string(jsonscan.MustMarshal(value)))
	}
	text, _ := os.ReadFile(file)
	var config struct {
		BaseURL   string                               `toml:"openai_base_url"`
		Providers map[string]struct{ Base_url string } `toml:"model_providers"`
		Servers   map[string]struct{ Enabled *bool }   `toml:"mcp_servers"`
	}
	_ = toml.Unmarshal(text, &config) // Codex reports what is wrong
	for _, s := range wrap.ServersIn(file) {
		key := "mcp_servers." + s.Name
		if enabled := config.Servers[s.Name].Enabled; enabled != nil && !*enabled {
			continue
		}
		movable := bareKey.MatchString(s.Name) && !strings.Contains(given, key+".") && !strings.Contains(given, key+"=")
		switch there := ""; {
		case movable && s.Argv != nil && !hasSecret(s.Argv):
			set(key+".command", o.program)
			set(key+".args", append([]string{HookWord, o.dir, s.Name}, s.Argv...))
		case movable && s.URL != "":
			if there = o.moved(s.Name, s.URL); there != "" {
				set(key+".url", there)
			}
		default:
			o.rest(s.Name, s.Argv, s.URL)
		}
	}
	// Whether Codex trusts the project, it knows itself: an override would start servers in any case.
	for _, s := range wrap.ServersIn(filepath.Join(o.here, ".codex", "config.toml")) {
		if filepath.Join(o.here, ".codex", "config.toml") != file {
			o.rest(s.Name, s.Argv, s.URL)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(config.Providers)) {
		key := "model_providers." + name + ".base_url"
		if there := o.moved("model", config.Providers[name].Base_url); there != "" && bareKey.MatchString(name) && !strings.Contains(given, key) {
			set(key, there)
		}
	}
	if there := o.moved("model", config.BaseURL); there != "" && !strings.Contains(given, "openai_base_url") {
		set("openai_base_url", there)
	}
}

// hasSecret reports whether one of some words holds a known secret, which is not to be shown by one more
// list of processes.
func hasSecret(words []string) bool {
	text := strings.Join(words, " ")
	return capture.MaskCommand(text) != text
}

// opencode overrides the configuration of opencode.
func (o *overrides) opencode() {
	type member = map[string]any
	own, servers, providers := member{}, map[string]member{}, map[string]member{}
	content, shell := o.getenv("OPENCODE_CONFIG_CONTENT"), ""
	texts := make([][]byte, 0, 8)
	for _, file := range o.settings("opencode") {
		if text, err := os.ReadFile(file); err == nil && file != "" {
			texts = append(texts, text)
		}
	}
	for i, text := range append(texts, []byte(content)) {
		standard, err := hujson.Standardize(bytes.Clone(text))
		var config member
		if err != nil || json.Unmarshal(standard, &config) != nil {
			if i == len(texts) && content != "" {
				o.notes = append(o.notes, "MCP servers over stdio (OPENCODE_CONFIG_CONTENT is not JSON)")
				return
			}
			continue
		}
		for key, into := range map[string]map[string]member{"mcp": servers, "provider": providers} {
			entries, _ := config[key].(member)
			for name, entry := range entries {
				if into[name] == nil {
					into[name] = member{}
				}
				fields, _ := entry.(member)
				maps.Copy(into[name], fields)
			}
		}
		if s, ok := config["shell"].(string); ok {
			shell = s
		}
		if i == len(texts) {
			own = config
		}
	}
	// change sets values in an entry of the user's own content.
	changed := false
	change := func(values member, path ...string) {
		at := own
		for _, key := range path {
			next, ok := at[key].(member)
			if !ok {
				next = member{}
				at[key] = next
			}
			at = next
		}
		maps.Copy(at, values)
		changed = true
	}
	for _, name := range slices.Sorted(maps.Keys(servers)) {
		s := servers[name]
		var argv []string
		words, _ := s["command"].([]any)
		for _, word := range words {
			text, _ := word.(string)
			argv = append(argv, text)
		}
		address, _ := s["url"].(string)
		switch {
		case s["enabled"] == false:
		case len(argv) > 0 && !strings.Contains(strings.Join(argv, " "), "{file:"): // which is relative to its file
			change(member{"type": "local", "command": append([]string{o.program, HookWord, o.dir, name}, argv...)}, "mcp", name)
		case len(argv) > 0:
			o.rest(name, argv, "")
		default:
			if there := o.moved(name, address); there != "" {
				change(member{"type": "remote", "url": there}, "mcp", name)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(providers)) {
		options, _ := providers[name]["options"].(member)
		address, _ := options["baseURL"].(string)
		if there := o.moved("model", address); there != "" {
			change(member{"baseURL": there}, "provider", name, "options")
		}
	}
	if o.Shell = o.shellOf(shell); o.Shell != "" {
		change(member{"shell": filepath.Join(o.dir, shellDir, filepath.Base(o.Shell))})
	}
	if changed {
		o.variables["OPENCODE_CONFIG_CONTENT"] = string(jsonscan.MustMarshal(own))
	}
}

// shellOf returns the shell that opencode 1.18 uses with a configuration; "" if that is not sure, if it is that of
// an outer run, or if commands of the model and of the user have different ones.
func (o *overrides) shellOf(configured string) string {
	data := cmp.Or(o.getenv("XDG_DATA_HOME"), filepath.Join(o.getenv("HOME"), ".local", "share"))
	logins, _ := os.ReadFile(filepath.Join(data, "opencode", "auth.json"))
	name := cmp.Or(configured, o.getenv("SHELL"))
	if runtime.GOOS == "windows" || bytes.Contains(logins, []byte(`"wellknown"`)) || strings.Contains(name, "{") || strings.Contains(name, privatePrefix) || slices.Contains([]string{"fish", "nu"}, strings.ToLower(filepath.Base(name))) {
		return ""
	}
	for _, name := range []string{name, "bash", "/bin/sh"} {
		program := lookPath(name, o.getenv("PATH"))
		if info, err := os.Stat(program); err == nil && info.Mode().IsRegular() && filepath.IsAbs(program) {
			return program
		}
	}
	return ""
}

// standIn makes the links to us: the program of Claude Code's prefix, and the stand-ins for programs that
// the agent finds on its PATH. Shells have none, because agents choose their own by what is there.
func (o *overrides) standIn() error {
	if o.variables[shellPrefix] != "" {
		dir := filepath.Join(o.dir, prefixDir)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
		if err := link(o.program, filepath.Join(dir, prefixName)); err != nil {
			return err
		}
	}
	if o.Shell != "" {
		dir := filepath.Join(o.dir, shellDir)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
		if err := link(o.program, filepath.Join(dir, filepath.Base(o.Shell))); err != nil {
			return err
		}
	}
	if o.bare == nil {
		return nil
	}
	for _, name := range interpreters {
		o.bare[name] = true
	}
	dir, path := filepath.Join(o.dir, standInsDir), o.getenv("PATH")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	o.Programs = map[string]string{}
	for name := range o.bare {
		program := lookPath(name, o.outsidePath(path))
		if program == "" || slices.Contains(shells, name) || strings.HasPrefix(name, "wirectl") {
			continue
		}
		if err := link(o.program, filepath.Join(dir, name)); err != nil {
			return err
		}
		o.Programs[name] = program
	}
	if len(o.Programs) > 0 {
		o.variables["PATH"] = dir + string(filepath.ListSeparator) + path
	}
	return nil
}
