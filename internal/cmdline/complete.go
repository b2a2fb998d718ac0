package cmdline

import (
	"cmp"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

// A Candidate is a word that could be at the cursor.
type Candidate struct{ Value, About string }

// A Completion is how a line can be completed. Shell is what the shell has to complete:
// ":files", ":dirs", or ":command N" if the command line of another program begins at
// word N.
type Completion struct {
	Candidates []Candidate
	Shell      string
}

// A Completer knows the values of the placeholders in help.
type Completer struct {
	// Operand completes the operand with that name in ArgsUsage, after the operands that
	// were seen.
	Operand func(word string, seen []string) Completion
	// Values are the values of flags, by their placeholder in backquotes.
	Values map[string]func() []Candidate
	// Endpoints are words with which an ENDPOINT can begin.
	Endpoints []Candidate
}

// Complete writes the candidates for the last word, which may be empty, to to: one per
// line, with a description after a tab.
func (p *Completer) Complete(to io.Writer, app *cli.App, words []string) error {
	if len(words) == 0 {
		words = []string{""}
	}
	found := p.completionOf(app, words)
	last := found.narrow(words[len(words)-1])
	for _, c := range found.Candidates {
		if !strings.HasPrefix(c.Value, last) {
			continue
		}
		line := c.Value
		if c.About != "" {
			line += "\t" + c.About
		}
		if _, err := fmt.Fprintln(to, line); err != nil {
			return err
		}
	}
	if found.Shell != "" {
		_, err := fmt.Fprintln(to, found.Shell)
		return err
	}
	return nil
}

// narrow returns the prefix of the candidates for a word, usually the word itself. A word
// that names a kind of input, such as "fixture:mcp.", is not a file: if no candidate begins
// with it, it is shortened until some do.
func (c *Completion) narrow(word string) string {
	kind := word[:strings.IndexByte(word, ':')+1]
	if c.Shell != ":files" || kind == "" || !c.offers(kind) {
		return word
	}
	c.Shell = ""
	if slices.ContainsFunc(c.Candidates, func(of Candidate) bool { return strings.HasPrefix(word, of.Value) }) {
		return word // it may go on with a name inside of the candidate
	}
	for !c.offers(word) {
		word = word[:len(word)-1]
	}
	return word
}

// offers reports whether a candidate begins with begin.
func (c *Completion) offers(begin string) bool {
	return slices.ContainsFunc(c.Candidates, func(of Candidate) bool { return strings.HasPrefix(of.Value, begin) })
}

func (p *Completer) completionOf(app *cli.App, words []string) Completion {
	if len(words) == 1 {
		return Completion{Candidates: commandCandidates(app)}
	}
	if IsHelp(words[0]) {
		return p.CompleteOperand(app, "COMMAND", nil)
	}
	cmd := app.Command(words[0])
	if cmd == nil {
		return Completion{}
	}
	return p.lineCompletion(app, cmd, words)
}

// lineCompletion walks the words of a command's line up to the last one.
func (p *Completer) lineCompletion(app *cli.App, cmd *cli.Command, words []string) Completion {
	endpoint := slices.Contains(strings.Fields(cmd.ArgsUsage), "ENDPOINT")
	last := len(words) - 1
	var seen []string // operands
	for i := 1; i < last; i++ {
		word := words[i]
		if begins, ok := otherProgram[word]; ok && endpoint && i+begins <= last {
			return Completion{Shell: fmt.Sprintf(":command %d", i+begins+1)}
		}
		if word == "--" {
			return p.operandAfter(app, cmd, append(seen, words[i+1:last]...))
		}
		flag, known := lookup(cmd, word)
		switch {
		case !strings.HasPrefix(word, "-") || word == "-":
			seen = append(seen, word)
		case known && TakesValue(flag) && !strings.Contains(word, "="):
			if i++; i == last {
				return p.valueCompletion(flag, "", words[i])
			}
		}
	}
	word := words[last]
	if name, value, ok := strings.Cut(word, "="); ok {
		if flag, known := lookup(cmd, name); known {
			return p.valueCompletion(flag, name+"=", value)
		}
	}
	if strings.HasPrefix(word, "-") {
		return Completion{Candidates: flagCandidates(cmd)}
	}
	found := p.operandAfter(app, cmd, seen)
	if endpoint && len(seen) > 0 {
		found.Candidates = append(found.Candidates, p.Endpoints...)
	}
	return found
}

// operandAfter completes the operand after those that were seen, in each form of the
// command's line that matches them.
func (p *Completer) operandAfter(app *cli.App, cmd *cli.Command, seen []string) Completion {
	var found Completion
	for _, form := range OperandForms(cmd) {
		if !begins(form, seen) {
			continue
		}
		one := p.CompleteOperand(app, form[min(len(seen), len(form)-1)], seen)
		found.Candidates = append(found.Candidates, one.Candidates...)
		found.Shell = cmp.Or(found.Shell, one.Shell)
	}
	return found
}

// CompleteOperand completes the operand with that name in ArgsUsage.
func (p *Completer) CompleteOperand(app *cli.App, word string, seen []string) Completion {
	switch {
	case word == "ENDPOINT":
		return Completion{Candidates: p.Endpoints}
	case word == "COMMAND":
		return Completion{Candidates: commandCandidates(app)}
	case isLiteral(word):
		return Completion{Candidates: Plain([]string{word})}
	}
	return p.Operand(word, seen)
}

// begins reports whether operands match a form, whose words in lower case are literal.
func begins(form, operands []string) bool {
	for i, word := range form[:min(len(form), len(operands))] {
		if isLiteral(word) && word != operands[i] {
			return false
		}
	}
	return true
}

func isLiteral(word string) bool { return word == strings.ToLower(word) }

// OperandForms returns the names of a command's operands, for each form of its line.
func OperandForms(cmd *cli.Command) [][]string {
	plain := strings.NewReplacer("[", "", "]", "", "…", "", "--", "").Replace(cmd.ArgsUsage)
	var forms [][]string
	for form := range strings.SplitSeq(plain, "|") {
		if words := strings.Fields(form); len(words) > 0 {
			forms = append(forms, words)
		}
	}
	return forms
}

// otherProgram has the words of an ENDPOINT after which the command line of another program
// begins, and after how many words. The command line of ssh begins with ssh.
var otherProgram = map[string]int{"--": 1, "exec": 1, "ssh": 0, "container": 2}

// valueCompletion completes the value of a flag. The usage of the flag lists the values, or
// has a placeholder in backquotes. In a list with commas, the last name is completed. The
// candidates begin with prefix.
func (p *Completer) valueCompletion(flag cli.Flag, prefix, value string) Completion {
	usage := UsageOf(flag)
	before := prefix + value[:strings.LastIndexByte(value, ',')+1]
	switch placeholder, ok := Placeholder(usage); {
	case placeholder == "FILE":
		return Completion{Shell: ":files"}
	case placeholder == "DIR":
		return Completion{Shell: ":dirs"}
	case ok:
		var found Completion
		if values := p.Values[placeholder]; values != nil {
			for _, c := range values() {
				found.Candidates = append(found.Candidates, Candidate{before + c.Value, c.About})
			}
		}
		return found
	}
	var found Completion
	for _, value := range Choices(usage) {
		found.Candidates = append(found.Candidates, Candidate{Value: prefix + value})
	}
	return found
}

// UsageOf returns the usage of a flag.
func UsageOf(flag cli.Flag) string {
	if d, ok := flag.(cli.DocGenerationFlag); ok {
		return d.GetUsage()
	}
	return ""
}

// Placeholder returns the word in backquotes, which is the placeholder for the value.
func Placeholder(usage string) (string, bool) {
	_, rest, _ := strings.Cut(usage, "`")
	word, _, ok := strings.Cut(rest, "`")
	return word, ok
}

var remark = regexp.MustCompile(` ?\([^)]*\)`)

// Choices returns the values that the usage of a flag lists after its colon, as in "what to
// print: text, ndjson (one object a line) or raw".
func Choices(usage string) []string {
	i := strings.LastIndex(usage, ": ")
	if i < 0 {
		return nil
	}
	list := remark.ReplaceAllString(usage[i+2:], "")
	return strings.Split(strings.ReplaceAll(list, " or ", ", "), ", ")
}

func commandCandidates(app *cli.App) []Candidate {
	var list []Candidate
	for _, c := range app.VisibleCommands() {
		list = append(list, Candidate{c.Name, c.Usage})
	}
	return list
}

func flagCandidates(cmd *cli.Command) []Candidate {
	var list []Candidate
	for _, f := range cmd.VisibleFlags() {
		list = append(list, Candidate{"--" + f.Names()[0], strings.ReplaceAll(UsageOf(f), "`", "")})
	}
	return append(list, Candidate{"--help", "show help"})
}

// Plain returns candidates without descriptions.
func Plain(values []string) []Candidate {
	var list []Candidate
	for _, v := range values {
		list = append(list, Candidate{Value: v})
	}
	return list
}
