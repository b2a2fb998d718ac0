package agent

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/wirectl/wirectl/transport"
)

// A Kind is what is known of an agent. docs/run.md says what of it was tried.
type Kind struct {
	// Name is that of its program.
	Name string
	// Hosts are its model APIs, besides modelHosts.
	Hosts []string
	// Own are other hosts that it calls for itself: to check for updates, and to send telemetry. A star
	// stands for any text.
	Own []string
	// Config are files that may name gateways to models, besides those with its MCP servers. In them, {here} is
	// the project, and {claude} the folder of Claude Code.
	Config []string
	// Driven are arguments with which a program drives it over standard input and output.
	Driven []string
	// Prepare, if not nil, changes how it is started, or says why it cannot be.
	Prepare func(*Setup) error
}

// modelHosts are the model APIs that any agent may use. A run within a run joins the outer one, so these
// do not depend on the agent.
var modelHosts = []string{
	"api.anthropic.com", "api.openai.com", "chatgpt.com", "generativelanguage.googleapis.com", "aiplatform.googleapis.com",
	"*-aiplatform.googleapis.com", "cloudcode-pa.googleapis.com", "bedrock-runtime.*.amazonaws.com", "bedrock.*.amazonaws.com",
	"*.openai.azure.com", "*.services.ai.azure.com", "models.inference.ai.azure.com", "models.github.ai",
	"api.githubcopilot.com", "api.*.githubcopilot.com", "openrouter.ai", "api.mistral.ai", "api.groq.com", "api.deepseek.com", "api.x.ai",
	"api.together.xyz", "api.fireworks.ai", "api.cerebras.ai", "api.cohere.com", "api.perplexity.ai", "router.huggingface.co",
	"api.moonshot.ai", "api.z.ai", "dashscope.aliyuncs.com", "dashscope-intl.aliyuncs.com", "portal.qwen.ai", "opencode.ai",
}

// Kinds are the known agents.
var Kinds = []Kind{
	{
		Name: "claude", Config: []string{
			"{here}/.claude/settings.json", "{here}/.claude/settings.local.json", "{claude}/settings.json",
		},
		Hosts: []string{"mcp-proxy.anthropic.com"}, Driven: []string{"stream-json"},
		Own: []string{"raw.githubusercontent.com", "downloads.claude.ai", "registry.npm*", "statsig.anthropic.com", "storage.googleapis.com"},
	},
	{
		Name: "codex", Config: []string{"{here}/.codex/config.toml"}, Driven: []string{"app-server", "mcp-server", "proto"}, Prepare: prepareCodex,
		Own: []string{"api.github.com", "ab.chatgpt.com", "raw.githubusercontent.com"},
	},
	{
		Name: "gemini", Driven: []string{"--acp", "--experimental-acp"},
		Own: []string{"play.googleapis.com", "registry.npm*"},
	},
	{Name: "opencode", Driven: []string{"acp"}, Own: []string{"models.opencode.ai", "models.dev", "registry.npm*"}},
	{Name: "copilot", Driven: []string{"--acp"}, Own: []string{"api.github.com", "registry.npm*"}},
	{Name: "qwen", Driven: []string{"--acp", "--experimental-acp"}, Own: []string{"*.rum.aliyuncs.com", "registry.npm*"}},
	{Name: "goose", Driven: []string{"acp"}},
	{Name: "aider", Own: []string{"pypi.org", "raw.githubusercontent.com", "us.i.posthog.com"}},
}

// KindOf returns the kind of agent that a program is. An unknown one has only a name.
func KindOf(program string) *Kind {
	name := filepath.Base(program)
	for _, ending := range []string{".exe", ".cmd", ".bat", ".js"} {
		name = strings.TrimSuffix(name, ending)
	}
	if i := slices.IndexFunc(Kinds, func(k Kind) bool { return k.Name == name }); i >= 0 {
		return &Kinds[i]
	}
	return &Kind{Name: name, Driven: []string{"acp", "--acp", "app-server", "stream-json", "--stdio"}}
}

// isDriven reports whether the arguments say that a program drives the agent.
func (k *Kind) isDriven(args []string) bool {
	return slices.ContainsFunc(args, func(arg string) bool {
		_, value, _ := strings.Cut(arg, "=")
		return slices.Contains(k.Driven, arg) || value != "" && slices.Contains(k.Driven, value)
	})
}

// address matches the address of a server in a configuration, whatever its format, or in a list of variables.
var address = regexp.MustCompile(`(?i)(?:\b(?:http|server)?url|base_?url|_host|api_base|api_url)["']?\s*[:=]\s*["']?(https?://[^\s"']+)`)

// configured returns the hosts, as HOST:PORT, that the agent's configuration and environment name.
func (k *Kind) configured(getenv func(string) string, environ []string, here string) (hosts []string) {
	texts := []string{strings.Join(environ, "\n")}
	files := (&overrides{getenv: getenv, here: here}).settings(k.Name)
	places := strings.NewReplacer("{here}", here, "{claude}", cmp.Or(getenv("CLAUDE_CONFIG_DIR"), filepath.Join(cmp.Or(getenv("HOME"), getenv("USERPROFILE")), ".claude")))
	for _, file := range k.Config {
		files = append(files, places.Replace(file))
	}
	for _, file := range files {
		const most = 16 << 20
		if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() && info.Size() < most {
			text, _ := os.ReadFile(file)
			texts = append(texts, string(text))
		}
	}
	for _, text := range texts {
		for _, m := range address.FindAllStringSubmatch(text, -1) {
			u, err := url.Parse(m[1])
			if err == nil && u.Hostname() != "" && !strings.HasSuffix(u.Path, ".git") && !transport.IsLoopback(u.Hostname()) {
				hosts = append(hosts, net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), map[string]string{"http": "80", "https": "443"}[strings.ToLower(u.Scheme)])))
			}
		}
	}
	return hosts
}

// codexCommands are the commands of Codex that do not open its terminal interface.
var codexCommands = []string{
	"exec", "e", "review", "login", "logout", "mcp", "mcp-server", "plugin", "app-server", "completion", "update", "doctor", "sandbox", "debug",
	"apply", "a", "archive", "delete", "migrate-rollouts", "migrate-nfs-db", "unarchive", "cloud", "exec-server", "features", "help", "proto",
}

// prepareCodex keeps the terminal interface from the daemon, which would outlive the run with its proxy, or
// may run already without it.
func prepareCodex(s *Setup) error {
	for i, arg := range s.Args {
		name, _, _ := strings.Cut(arg, "=")
		next := append(slices.Clone(s.Args), "")[i+1]
		if slices.Contains([]string{"--remote", "remote-control", "agents", "queue"}, name) || arg == "app-server" && (next == "daemon" || next == "proxy") {
			return fmt.Errorf("codex %s works in a server that is not a part of this run, so nothing of it would be seen: leave it out, or start codex without wirectl run", arg)
		}
	}
	if slices.ContainsFunc(s.Args, func(arg string) bool {
		return slices.Contains(codexCommands, arg) || slices.Contains([]string{"--no-daemon", "--help", "-h", "--version", "-V"}, arg)
	}) {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, s.Program, "--help")
	cmd.Env = Original(s.Env.List())
	if help, err := cmd.Output(); err == nil && bytes.Contains(help, []byte("--no-daemon")) { // older ones have no daemon
		s.Args = append([]string{"--no-daemon"}, s.Args...)
	}
	return nil
}

// A baseURL is a variable with the address of a model API.
type baseURL struct {
	variable, address string
}

// baseURLs are those that SDKs and agents read.
var baseURLs = []baseURL{
	{"ANTHROPIC_BASE_URL", "https://api.anthropic.com"},
	{"OPENAI_BASE_URL", "https://api.openai.com/v1"},
	{"GOOGLE_GEMINI_BASE_URL", "https://generativelanguage.googleapis.com"},
}

// ignoresProxy reports whether a program is a Node that never uses a proxy: one below 24, run directly.
func ignoresProxy(ctx context.Context, program string, environ []string) bool {
	name := strings.TrimSuffix(filepath.Base(program), ".exe")
	if name != "node" {
		return false
	}
	cmd := exec.CommandContext(ctx, program, "--version")
	cmd.Env = environ
	out, err := cmd.Output()
	major, _, _ := strings.Cut(strings.TrimPrefix(string(out), "v"), ".")
	n, failed := strconv.Atoi(major)
	return err == nil && failed == nil && n < 24
}

// versionOf returns the version of an agent by its path, or by the package that it is in; "" if they do not say it.
func (k *Kind) versionOf(program string) string {
	path, err := filepath.EvalSymlinks(program)
	if err != nil {
		return ""
	}
	if name := filepath.Base(path); isVersion(name) { // as Claude Code installs itself
		return name
	}
	for range 4 {
		path = filepath.Dir(path)
		var p struct{ Name, Version string }
		text, err := os.ReadFile(filepath.Join(path, "package.json"))
		if err == nil && json.Unmarshal(text, &p) == nil && strings.Contains(p.Name, k.Name) {
			return p.Version
		}
	}
	return ""
}

func isVersion(text string) bool {
	return strings.Count(text, ".") == 2 && strings.Trim(text, "0123456789.") == ""
}
