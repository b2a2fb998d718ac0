package commands

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/wirectl/wirectl/broker/config"
	"github.com/wirectl/wirectl/capture/tap"
	"github.com/wirectl/wirectl/completions"
	"github.com/wirectl/wirectl/fixtures"
	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/relay/wrap"
	"github.com/wirectl/wirectl/session"
)

// completeWord is the command by which the scripts of package completions ask.
// It stands ahead of all others, so that no Tab ever runs one.
const completeWord = "__complete"

// A candidate is what could stand where the cursor is.
type candidate struct{ value, about string }

// A completion is what could end a line. What it leaves to the shell is in
// shell: ":files", ":dirs", or ":command N" where the command line of another
// program begins at word N.
type completion struct {
	candidates []candidate
	shell      string
}

// complete writes what could stand in the place of the last of words, which may
// be empty: a candidate a line, behind a tab what it is.
func (inv *invocation) complete(app *cli.App, words []string) error {
	if len(words) == 0 {
		words = []string{""}
	}
	last := words[len(words)-1]
	found := inv.completionOf(app, words)
	for _, c := range found.candidates {
		if !strings.HasPrefix(c.value, last) {
			continue
		}
		line := c.value
		if c.about != "" {
			line += "\t" + c.about
		}
		if _, err := fmt.Fprintln(inv.Stdout, line); err != nil {
			return err
		}
	}
	if found.shell != "" {
		_, err := fmt.Fprintln(inv.Stdout, found.shell)
		return err
	}
	return nil
}

func (inv *invocation) completionOf(app *cli.App, words []string) completion {
	if len(words) == 1 {
		return completion{candidates: commandCandidates(app)}
	}
	if isHelp(words[0]) {
		return inv.operandCompletion(app, "COMMAND", nil)
	}
	cmd := app.Command(words[0])
	if cmd == nil {
		return completion{}
	}
	return inv.lineCompletion(app, cmd, words)
}

// lineCompletion walks the words of a command's line up to the last one.
func (inv *invocation) lineCompletion(app *cli.App, cmd *cli.Command, words []string) completion {
	endpoint := slices.Contains(strings.Fields(cmd.ArgsUsage), "ENDPOINT")
	last := len(words) - 1
	var seen []string // operands
	for i := 1; i < last; i++ {
		word := words[i]
		if begins, ok := otherProgram[word]; ok && endpoint && i+begins <= last {
			return completion{shell: fmt.Sprintf(":command %d", i+begins+1)}
		}
		if word == "--" {
			return inv.operandAfter(app, cmd, append(seen, words[i+1:last]...))
		}
		flag, known := lookup(cmd, word)
		switch {
		case !strings.HasPrefix(word, "-") || word == "-":
			seen = append(seen, word)
		case known && takesValue(flag) && !strings.Contains(word, "="):
			if i++; i == last {
				return valueCompletion(flag, "", words[i])
			}
		}
	}
	word := words[last]
	if name, value, ok := strings.Cut(word, "="); ok {
		if flag, known := lookup(cmd, name); known {
			return valueCompletion(flag, name+"=", value)
		}
	}
	if strings.HasPrefix(word, "-") {
		return completion{candidates: flagCandidates(cmd)}
	}
	found := inv.operandAfter(app, cmd, seen)
	if endpoint && len(seen) > 0 {
		found.candidates = append(found.candidates, endpointCandidates...)
	}
	return found
}

// operandAfter completes the operand behind those that were seen, in each form
// of the command's line that begins so.
func (inv *invocation) operandAfter(app *cli.App, cmd *cli.Command, seen []string) completion {
	var found completion
	for _, form := range operandForms(cmd) {
		if !begins(form, seen) {
			continue
		}
		one := inv.operandCompletion(app, form[min(len(seen), len(form)-1)], seen)
		found.candidates = append(found.candidates, one.candidates...)
		found.shell = cmp.Or(found.shell, one.shell)
	}
	return found
}

// begins reports whether operands go with a form: its words in lower case stand
// for themselves.
func begins(form, operands []string) bool {
	for i, word := range form[:min(len(form), len(operands))] {
		if isLiteral(word) && word != operands[i] {
			return false
		}
	}
	return true
}

func isLiteral(word string) bool { return word == strings.ToLower(word) }

// operandForms are the words that stand for a command's operands, in each of the
// forms that its line can have.
func operandForms(cmd *cli.Command) [][]string {
	plain := strings.NewReplacer("[", "", "]", "", "…", "", "--", "").Replace(cmd.ArgsUsage)
	var forms [][]string
	for form := range strings.SplitSeq(plain, "|") {
		if words := strings.Fields(form); len(words) > 0 {
			forms = append(forms, words)
		}
	}
	return forms
}

// otherProgram has the words of an ENDPOINT behind which the command line of
// another program stands, and how many words behind. That of ssh is its own.
var otherProgram = map[string]int{"--": 1, "exec": 1, "ssh": 0, "container": 2}

// endpointCandidates are what an ENDPOINT can begin with.
var endpointCandidates = []candidate{
	{"--", "a program, with its arguments"},
	{"exec", "a program, with its arguments"},
	{"ssh", "a program elsewhere: what you would type for ssh"},
	{"container", "a program in a running container"},
	{"stdio", "our own standard input and output"},
	{"tcp://", "HOST:PORT"},
	{"tls://", "HOST:PORT"},
	{"unix://", "PATH of a socket"},
	{"ws://", "a WebSocket"},
	{"wss://", "a WebSocket in TLS"},
	{"http://", "an HTTP server"},
	{"https://", "an HTTP server in TLS"},
	{"quic://", "HOST:PORT"},
	{"grpc://", "HOST:PORT"},
	{"grpcs://", "HOST:PORT, in TLS"},
}

// operandCompletion completes an operand by the word for it in the ArgsUsage of
// its command, behind those that were seen.
func (inv *invocation) operandCompletion(app *cli.App, word string, seen []string) completion {
	switch word {
	case "CONFIG", "OUT", "INTENT", "PROGRAM":
		return completion{shell: ":files"}
	case "FILE", "SESSION", "IN", "A", "B":
		return completion{candidates: append(inv.tapCandidates(), fixtureCandidates()...), shell: ":files"}
	case "SERVER":
		return completion{candidates: inv.serverCandidates(seen)}
	case "ENDPOINT":
		return completion{candidates: endpointCandidates}
	case "PROTOCOL":
		return completion{candidates: plain(sendProtocols)}
	case "COMMAND":
		return completion{candidates: commandCandidates(app)}
	case "SHELL":
		return completion{candidates: plain(completions.Shells)}
	}
	if isLiteral(word) {
		return completion{candidates: plain([]string{word})}
	}
	return completion{}
}

// valueCompletion completes the value of a flag by the flag's sentence, which
// lists the values, or says in backquotes what they are. Of names with commas
// between them it completes the last one. What stands before is prefix.
func valueCompletion(flag cli.Flag, prefix, value string) completion {
	usage := usageOf(flag)
	before := prefix + value[:strings.LastIndexByte(value, ',')+1]
	switch placeholder, ok := placeholderIn(usage); {
	case placeholder == "FILE":
		return completion{shell: ":files"}
	case placeholder == "DIR":
		return completion{shell: ":dirs"}
	case placeholder == "ADDRESS":
		return completion{candidates: addressCandidates(prefix)}
	case placeholder == "FINDING":
		return completion{candidates: findingCandidates(before)}
	case placeholder == "WHAT":
		return completion{candidates: append(severityCandidates(before), findingCandidates(before)...)}
	case placeholder == "DOOR=ADDR":
		return completion{candidates: doorCandidates(before)}
	case ok:
		return completion{}
	}
	var found completion
	for _, value := range choicesIn(usage) {
		found.candidates = append(found.candidates, candidate{value: prefix + value})
	}
	return found
}

func usageOf(flag cli.Flag) string {
	if d, ok := flag.(cli.DocGenerationFlag); ok {
		return d.GetUsage()
	}
	return ""
}

// placeholderIn returns the word in backquotes, which stands for the value.
func placeholderIn(usage string) (string, bool) {
	_, rest, _ := strings.Cut(usage, "`")
	word, _, ok := strings.Cut(rest, "`")
	return word, ok
}

var remark = regexp.MustCompile(` ?\([^)]*\)`)

// choicesIn returns the values that a flag's sentence lists behind its colon, as
// in "what to print: text, ndjson (one object a line) or raw".
func choicesIn(usage string) []string {
	i := strings.LastIndex(usage, ": ")
	if i < 0 {
		return nil
	}
	list := remark.ReplaceAllString(usage[i+2:], "")
	return strings.Split(strings.ReplaceAll(list, " or ", ", "), ", ")
}

func commandCandidates(app *cli.App) []candidate {
	var list []candidate
	for _, c := range app.VisibleCommands() {
		list = append(list, candidate{c.Name, c.Usage})
	}
	return list
}

func flagCandidates(cmd *cli.Command) []candidate {
	var list []candidate
	for _, f := range cmd.VisibleFlags() {
		list = append(list, candidate{"--" + f.Names()[0], strings.ReplaceAll(usageOf(f), "`", "")})
	}
	return append(list, candidate{"--help", "show help"})
}

// tapCandidates are the taps that are open now.
func (inv *invocation) tapCandidates() []candidate {
	dir, err := tap.Dir(inv.Getenv)
	if err != nil {
		return nil
	}
	running, err := tap.List(dir, nil)
	if err != nil || len(running) == 0 {
		return nil
	}
	list := []candidate{{"live", "the newest tap"}}
	for _, info := range running {
		list = append(list, candidate{"tap:" + info.Name, strings.Join(info.Command, " ")})
	}
	return list
}

// serverCandidates are the servers of the client's configuration that the one
// operand so far names; none if that cannot be read.
func (inv *invocation) serverCandidates(seen []string) []candidate {
	if len(seen) != 1 {
		return nil
	}
	file := seen[0]
	if rest, ok := strings.CutPrefix(file, "~/"); ok { // what a shell does once the line is whole
		file = filepath.Join(inv.Getenv("HOME"), rest)
	}
	if info, err := os.Stat(file); err != nil || !info.Mode().IsRegular() {
		return nil
	}
	config, err := os.ReadFile(file)
	if err != nil {
		return nil
	}
	var list []candidate
	for _, server := range wrap.Servers(config) {
		about := ""
		if server.Wrapped {
			about = "runs through wirectl"
		}
		// What the scripts would take for something else is left out.
		if server.Name == render.Safe(server.Name) && !strings.HasPrefix(server.Name, ":") {
			list = append(list, candidate{server.Name, about})
		}
	}
	return list
}

func fixtureCandidates() []candidate {
	var list []candidate
	for _, name := range fixtures.Sessions() {
		list = append(list, candidate{"fixture:" + name, "a session that is built in"})
	}
	return list
}

func findingCandidates(prefix string) []candidate {
	var list []candidate
	for _, rule := range session.Findings {
		list = append(list, candidate{prefix + rule.Name, rule.Rule})
	}
	return list
}

func severityCandidates(prefix string) []candidate {
	var list []candidate
	for _, s := range []session.Severity{session.Error, session.Warning, session.Note} {
		list = append(list, candidate{value: prefix + s.String()})
	}
	return list
}

// addressCandidates are the schemes of endpoints.
func addressCandidates(prefix string) []candidate {
	var list []candidate
	for _, e := range endpointCandidates {
		if strings.HasSuffix(e.value, "://") {
			list = append(list, candidate{prefix + e.value, e.about})
		}
	}
	return list
}

func doorCandidates(prefix string) []candidate {
	var list []candidate
	for _, d := range config.Doors {
		list = append(list, candidate{value: prefix + d.Name + "="})
	}
	return list
}

func plain(values []string) []candidate {
	var list []candidate
	for _, v := range values {
		list = append(list, candidate{value: v})
	}
	return list
}
