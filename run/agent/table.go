package agent

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// A Kind is what is known of an agent. docs/run.md says what of it was tried.
type Kind struct {
	// Name is that of its program.
	Name string
	// Hosts are its model APIs, besides modelHosts.
	Hosts []string
	// Own are the hosts, with paths, that it calls for itself: to check for updates, and to send telemetry.
	Own []string
	// Config names the clients of relay/wrap whose configurations list its MCP servers.
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
		Name: "claude", Hosts: []string{"mcp-proxy.anthropic.com"}, Config: []string{"Claude Code"}, Driven: []string{"stream-json"},
		Own: []string{
			"api.anthropic.com/api/", "api.anthropic.com/mcp-registry/", "raw.githubusercontent.com", "downloads.claude.ai", "registry.npmjs.org",
			"statsig.anthropic.com", "storage.googleapis.com",
		},
	},
	{
		Name: "codex", Config: []string{"Codex"}, Driven: []string{"app-server", "mcp-server", "proto"}, Prepare: prepareCodex,
		Own: []string{
			"chatgpt.com/backend-api/codex/models", "chatgpt.com/backend-api/plugins/", "api.github.com", "ab.chatgpt.com", "raw.githubusercontent.com",
		},
	},
	{
		Name: "gemini", Config: []string{"Gemini CLI"}, Driven: []string{"--acp", "--experimental-acp"},
		Own: []string{"play.googleapis.com", "registry.npmjs.org"},
	},
	{Name: "opencode", Driven: []string{"acp"}, Own: []string{"models.opencode.ai", "models.dev", "registry.npmjs.org"}},
	{Name: "copilot", Driven: []string{"--acp"}, Own: []string{"api.github.com", "registry.npmjs.org"}},
	{Name: "qwen", Driven: []string{"--acp", "--experimental-acp"}, Own: []string{"*.rum.aliyuncs.com", "registry.npmjs.org"}},
	{Name: "goose", Config: []string{"Goose"}, Driven: []string{"acp"}},
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

// codexCommands are the commands of Codex that do not open its terminal interface.
var codexCommands = []string{
	"exec", "e", "review", "login", "logout", "mcp", "mcp-server", "plugin", "app-server", "remote-control", "completion", "update", "doctor",
	"sandbox", "debug", "apply", "a", "queue", "archive", "delete", "migrate-rollouts", "migrate-nfs-db", "unarchive", "cloud", "exec-server",
	"features", "help", "proto",
}

// prepareCodex keeps the terminal interface from the daemon, which would outlive the run with its proxy.
func prepareCodex(s *Setup) error {
	if slices.ContainsFunc(s.Args, func(arg string) bool {
		return slices.Contains(codexCommands, arg) || slices.Contains([]string{"--no-daemon", "--help", "-h", "--version", "-V"}, arg)
	}) {
		return nil
	}
	s.Args = append([]string{"--no-daemon"}, s.Args...)
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
func ignoresProxy(program string, environ []string) bool {
	name := strings.TrimSuffix(filepath.Base(program), ".exe")
	if name != "node" {
		return false
	}
	cmd := exec.Command(program, "--version")
	cmd.Env = environ
	out, err := cmd.Output()
	major, _, _ := strings.Cut(strings.TrimPrefix(string(out), "v"), ".")
	n, failed := strconv.Atoi(major)
	return err == nil && failed == nil && n < 24
}

// versionOf returns the version of an agent by the files beside its program; "" if they do not say it.
func versionOf(program string) string {
	path, err := filepath.EvalSymlinks(program)
	if err != nil {
		return ""
	}
	if name := filepath.Base(path); isVersion(name) { // as Claude Code installs itself
		return name
	}
	for range 4 {
		path = filepath.Dir(path)
		if text, err := os.ReadFile(filepath.Join(path, "package.json")); err == nil {
			return packageVersion(text)
		}
	}
	return ""
}

func isVersion(text string) bool {
	return strings.Count(text, ".") == 2 && strings.Trim(text, "0123456789.") == ""
}
