package question

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/wirectl/wirectl/broker/config"
	"github.com/wirectl/wirectl/internal/cmdline"
	"github.com/wirectl/wirectl/rlm"
	"github.com/wirectl/wirectl/rlm/env"
	"github.com/wirectl/wirectl/rlm/prompt"
	"github.com/wirectl/wirectl/rlm/tool"
)

// Flags are the settings with a flag. A key of the section rlm has the name of its flag, with _
// for -.
var Flags = []cmdline.Setting{
	{Name: "model", Alias: "m", Usage: "answer with `MODEL` (default: the configuration's)"},
	{Name: "sub-model", Usage: "the default `MODEL` for calls from code (default: that of --model)"},
	{Name: "allow-model", Many: true, Usage: "let code use this `MODEL` besides --model and --sub-model, and no other"},
	{Name: "context", Alias: "c", Many: true, Usage: "the text: a `FILE` (.json and .jsonl are decoded), a folder, or - for stdin; several make a dict"},
	{Name: "mode", Default: "code", Usage: "whether the model writes code or calls the tools of --tools: code or tools"},
	{Name: "tools", Usage: "read tools from the YAML `FILE`: functions of the code, or those that the model calls in --mode tools"},
	{Name: "schema", Usage: "require an answer that matches the JSON Schema in `FILE`"},
	{Name: "env", Default: "auto", Usage: "how to run the code (starlark needs nothing installed; auto uses python if installed): auto, python, starlark or container"},
	{Name: "image", Default: env.DefaultImage, Usage: "the container's `IMAGE`, which has Python"},
	{Name: "unsandboxed", Switch: true, Usage: "run the code even if no sandbox is available"},
	{Name: "setup", Usage: "run the code in `FILE` before the first turn"},
	{Name: "memory", Usage: "limit the interpreter's address space to `SIZE`, such as 8GiB (default: 4 GiB plus 4 times the context)"},
	{Name: "imports", Usage: "allow imports of installed `PACKAGES`, not only of the standard library: site"},
	{Name: "max-iterations", Usage: "stop after `N` turns with the best answer (default: 30, or 10 with --mode tools)"},
	{Name: "max-depth", Default: "1", Usage: "allow child runs up to depth `N`; 0 asks only the model, without code"},
	{Name: "max-calls", Default: "500", Usage: "limit calls from code to `N` in all runs together; 0 is unlimited"},
	{Name: "max-tokens", Usage: "stop after `N` tokens with the best answer"},
	{Name: "max-cost", Usage: "stop after `DOLLARS` with the best answer; needs prices"},
	{Name: "max-errors", Usage: "stop after `N` failed turns in a row with the best answer"},
	{Name: "timeout", Usage: "stop after `TIME`, such as 10m, with the best answer"},
	{Name: "cell-timeout", Default: "5m", Usage: "interrupt a block of code after `TIME`, such as 30s (at most 6h), not counting time spent waiting for models"},
	{Name: "parallel", Default: "16", Usage: "make at most `N` calls at once"},
	{Name: "system", Usage: "read the system prompt from `FILE`"},
	{Name: "log-dir", Alias: "jsonl-log-dir", Usage: "write a log of the run into `DIR`"},
	{Name: "prices", Usage: "read token prices from `FILE` (default: prices.yaml in wirectl's configuration folder)"},
	{Name: "capture", Usage: "record the run's calls to the pcapng `FILE` (overwrites), with known secrets redacted"},
	{Name: "control", Switch: true, Usage: "let viewers of the tap interrupt the run, cells and calls"},
	{Name: "output", Alias: "o", Default: "text", Usage: "what to print: text (the answer), json (one object) or ndjson (events as they happen)"},
}

// A Value is the value of a setting.
type Value struct {
	Texts []string
	From  string // for errors: --max-depth, or c.yaml:3:5: rlm.max_depth
}

// Values are the settings of a configuration and of flags, which take precedence.
func Values(file []config.Setting, flags map[string][]string) map[string]Value {
	values := map[string]Value{}
	for _, s := range file {
		values[strings.ReplaceAll(s.Name, "_", "-")] = Value{s.Values, s.At + ": rlm." + s.Name}
	}
	for name, texts := range flags {
		values[name] = Value{texts, "--" + name}
	}
	return values
}

// Settings are the settings of a run.
type Settings struct {
	Context     []string
	Allow       []string // models that code may name besides the root and sub-models; none: any
	Env         string   // the kind of environment
	Image       string   // of a container
	Proxy       string   // how programs in a container reach models: socket, tcp or "" for not at all
	Exec        []string // a command that runs the code; none: see Env
	Unsandboxed bool
	Setup       string // code; "" is none
	Tools       string // the file; "" is none
	Memory      int64  // bytes; 0 is for the context
	Python      env.PythonOptions
	CellTimeout time.Duration
	LogDir      string
	NewPrompts  bool // the log has only the messages that are new
	Prices      string
	Capture     string
	Control     bool
	Output      string
	// Run has the settings that are passed on to the run unchanged.
	Run rlm.Options
}

// leastMemory is what an interpreter needs to start.
const leastMemory = 32 << 20

// maxCell is the largest time limit of a cell.
const maxCell = 6 * time.Hour

// Read reads settings by their names, and the files that they name. A missing setting has its
// default. An error names the setting and its place.
func Read(values map[string]Value) (*Settings, error) {
	r := &reader{values: values}
	s := &Settings{
		Tools: r.text("tools", ""), Context: r.list("context"), Allow: r.list("allow-model"), Env: r.choice("env", "auto", "python", "starlark", "container"),
		Image: r.text("image", env.DefaultImage), Proxy: r.choice("proxy", "", "socket", "tcp"), Exec: r.list("exec"),
		Unsandboxed: r.truth("unsandboxed"), Setup: r.file("setup"), Memory: r.size("memory"), Python: env.PythonOptions{Site: r.choice("imports", "", "site") == "site", Strict: r.choice("policy", "", "strict") == "strict"},
		CellTimeout: r.duration("cell-timeout", 5*time.Minute), LogDir: r.text("log-dir", ""),
		NewPrompts: r.choice("log.prompts", "all", "new") == "new", Prices: r.text("prices", ""), Capture: r.text("capture", ""), Control: r.truth("control"), Output: r.choice("output", "text", "json", "ndjson"),
		Run: rlm.Options{
			Mode: rlm.Mode(r.choice("mode", string(rlm.Code), string(rlm.ToolsMode))), ToolChoice: r.text("tool-choice", ""),
			Schema: r.schema(),
			Root:   r.text("model", ""), Sub: r.text("sub-model", ""),
			Limits: rlm.Limits{
				Iterations: int(r.whole("max-iterations", 0, 1)), Depth: int(r.whole("max-depth", 1, 0)), Calls: int(r.whole("max-calls", 500, 0)),
				Tokens: r.whole("max-tokens", 0, 1), Cost: r.dollars("max-cost"), Errors: int(r.whole("max-errors", 0, 1)), Timeout: r.duration("timeout", 0),
			},
			Parallel: int(r.whole("parallel", 16, 1)), Facts: prompt.Facts{Words: r.list("fences")},
			Stopping: r.stopping(), Compressor: r.compressor(), Nesting: r.nesting(),
		},
	}
	if system := r.file("system"); system != "" {
		s.Run.System = func(prompt.Facts) string { return system }
	}
	s.Run.ToolTimeout = s.CellTimeout
	if s.Run.Mode == rlm.ToolsMode && s.Tools == "" {
		r.fault("mode", "name the tools with --tools FILE")
	}
	if s.Memory > 0 && s.Memory < leastMemory {
		r.fault("memory", "want at least 32MiB")
	}
	if s.CellTimeout > maxCell {
		r.fault("cell-timeout", "want at most 6h")
	}
	return s, r.err
}

// A reader reads values, up to the first fault.
type reader struct {
	values map[string]Value
	err    error
}

func (r *reader) fault(name, format string, args ...any) {
	if v := r.values[name]; r.err == nil {
		r.err = fmt.Errorf("%s: invalid value %q: %s", v.From, strings.Join(v.Texts, ","), fmt.Sprintf(format, args...))
	}
}

func (r *reader) list(name string) []string { return r.values[name].Texts }

// get returns the text of a setting with one value.
func (r *reader) get(name string) (text string, isSet bool) {
	v := r.values[name]
	if len(v.Texts) == 0 {
		return "", false
	}
	return v.Texts[len(v.Texts)-1], true
}

func (r *reader) text(name, usual string) string {
	if text, ok := r.get(name); ok {
		return text
	}
	return usual
}

func (r *reader) truth(name string) bool { return r.text(name, "false") == "true" }

// choice returns one of the words. The first is the default.
func (r *reader) choice(name string, words ...string) string {
	text := r.text(name, words[0])
	if slices.Contains(words, text) {
		return text
	}
	r.fault(name, "want %s", strings.TrimPrefix(strings.Join(words, " or "), " or "))
	return words[0]
}

// parsed reads a setting that is not text. A value that parse does not accept is a fault.
func parsed[T any](r *reader, name string, usual T, want string, parse func(text string) (value T, ok bool)) T {
	text, ok := r.get(name)
	if !ok {
		return usual
	}
	value, ok := parse(text)
	if !ok {
		r.fault(name, "want %s", want)
	}
	return value
}

func (r *reader) whole(name string, usual, least int64) int64 {
	most := int64(math.MaxInt32)
	if name == "max-tokens" {
		most = math.MaxInt64
	}
	return parsed(r, name, usual, fmt.Sprintf("a whole number from %d to %d", least, most), func(text string) (int64, bool) {
		n, err := strconv.ParseInt(text, 10, 64)
		return n, err == nil && n >= least && n <= most
	})
}

func (r *reader) dollars(name string) float64 {
	return parsed(r, name, 0, "a number of dollars such as 0.5", func(text string) (float64, bool) {
		n, err := strconv.ParseFloat(text, 64)
		return n, err == nil && n > 0 && n <= 1e9
	})
}

func (r *reader) duration(name string, usual time.Duration) time.Duration {
	return parsed(r, name, usual, "a duration such as 30s or 10m", func(text string) (time.Duration, bool) {
		d, err := time.ParseDuration(text)
		return d, err == nil && d > 0
	})
}

var sizes = regexp.MustCompile(`^(0*[1-9]\d{0,5}) ?([KMGT]?)i?B?$`)

// size returns a number of bytes. K, M, G and T are powers of 1024.
func (r *reader) size(name string) int64 {
	return parsed(r, name, 0, "a size such as 512MiB or 8GiB", func(text string) (int64, bool) {
		parts := sizes.FindStringSubmatch(text)
		if parts == nil {
			return 0, false
		}
		n, err := strconv.ParseInt(parts[1], 10, 64)
		return n << (10 * strings.Index(" KMGT", parts[2]+" "[len(parts[2]):])), err == nil
	})
}

// maxText bounds the files that settings name.
const maxText = 1 << 20

// file returns the content of the file that a setting names.
func (r *reader) file(name string) string {
	path, ok := r.get(name)
	if !ok || r.err != nil {
		return ""
	}
	info, err := os.Stat(path)
	if err == nil && info.Size() > maxText {
		r.fault(name, "the file is larger than %d bytes", maxText)
		return ""
	}
	data, err := os.ReadFile(path)
	if err != nil {
		r.err = fmt.Errorf("%s: %w", r.values[name].From, err)
	}
	return string(data)
}

// schema returns the schema of the answer, nil if there is none.
func (r *reader) schema() rlm.Schema {
	document := r.file("schema")
	if document == "" {
		return nil
	}
	s, err := tool.NewSchema([]byte(document))
	if err != nil {
		r.fault("schema", "%v", err)
		return nil
	}
	return s
}

// only returns the name of the setting that is set, "" if none is. Two are a fault.
func (r *reader) only(names ...string) (found string) {
	for _, name := range names {
		if _, ok := r.get(name); !ok {
			continue
		}
		if found != "" {
			r.fault(name, "%s is set, too: want only one of them", found)
		}
		found = name
	}
	return found
}

func (r *reader) stopping() rlm.StoppingPolicy {
	if len(r.list("stop.exec")) > 0 {
		return r.command("stop.exec")
	}
	return nil
}

// command returns a policy that is a program.
func (r *reader) command(name string) rlm.Command {
	args := r.list(name)
	if _, err := exec.LookPath(args[0]); err != nil {
		r.fault(name, "%v", err)
	}
	return rlm.Command{Args: args}
}

func (r *reader) compressor() rlm.ContextCompressor {
	switch r.only("compress.truncate", "compress.summarize", "compress.exec") {
	case "compress.truncate":
		return rlm.Truncate(r.whole("compress.truncate", 0, 1))
	case "compress.summarize":
		return rlm.Summarize(r.text("compress.summarize", ""))
	case "compress.exec":
		return r.command("compress.exec")
	}
	return nil
}

func (r *reader) nesting() rlm.NestedCallPolicy {
	switch r.only("nest.never", "nest.always", "nest.over", "nest.match", "nest.exec") {
	case "nest.never":
		if r.truth("nest.never") {
			return rlm.Never{}
		}
	case "nest.always":
		if r.truth("nest.always") {
			return rlm.Always{}
		}
	case "nest.over":
		return rlm.Over(r.whole("nest.over", 0, 0))
	case "nest.match":
		expr, err := regexp.Compile(r.text("nest.match", ""))
		if err != nil {
			r.fault("nest.match", "%v", err)
		}
		return rlm.Match{Regexp: expr}
	case "nest.exec":
		return r.command("nest.exec")
	}
	return nil
}
