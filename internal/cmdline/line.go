// Package cmdline reads, explains and completes command lines, where urfave/cli does not do
// that, or not as wanted.
package cmdline

import (
	"cmp"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/urfave/cli/v2"

	"github.com/wirectl/wirectl/internal/nearest"
)

// An Error says that a command line is wrong.
type Error struct{ err error }

func (e *Error) Error() string { return e.err.Error() }
func (e *Error) Unwrap() error { return e.err }

// Errorf returns an [Error].
func Errorf(format string, args ...any) error { return &Error{fmt.Errorf(format, args...)} }

// A Line has the parts of a command's line that are not flags.
type Line struct {
	Operands []string
	// Endpoint is the words of the ENDPOINT at the end of the line. The commands in
	// TakeEndpoint have one, and it begins with a word for which BeginsEndpoint is true. For a command that
	// takes an AGENT, it is the command line of that, which begins with the first operand or "--".
	Endpoint       []string
	TakeEndpoint   []string
	BeginsEndpoint func(word string) bool
}

// Arrange removes the operands from args, so that flags may be before and after them: for
// the library, everything after the first operand is an operand. After "--", all words are
// operands.
//
// An ENDPOINT is the end of the line. Flags of the command must be before it.
func (l *Line) Arrange(app *cli.App, args []string) ([]string, error) {
	if len(args) < 2 {
		return args, nil
	}
	name := args[1]
	switch {
	case IsHelp(name):
		return args, onlyNames(args[2:])
	case strings.HasPrefix(name, "-") && IsHelp(strings.TrimLeft(name, "-")):
		return args, nil
	case strings.HasPrefix(name, "-"):
		return nil, Errorf("unknown flag %s before the COMMAND%s; wirectl help lists the commands", name, nearest.Question(name, []string{"--version", "--help"}))
	}
	cmd := app.Command(name)
	if cmd == nil {
		return nil, UnknownCommand(app, name)
	}
	flags, err := l.separate(cmd, args[2:])
	if err != nil {
		return nil, err
	}
	return append(slices.Clone(args[:2]), flags...), nil
}

// separate keeps the operands and the ENDPOINT of a command, and returns the flags with
// their values.
func (l *Line) separate(cmd *cli.Command, rest []string) (flags []string, err error) {
	hasEndpoint := slices.Contains(l.TakeEndpoint, cmd.Name)
	for len(rest) > 0 {
		arg := rest[0]
		if hasEndpoint && l.BeginsEndpoint(arg) || takesProgram(cmd) && (arg == "--" || !strings.HasPrefix(arg, "-")) {
			l.Endpoint = rest
			break
		}
		rest = rest[1:]
		switch {
		case arg == "--":
			l.Operands = append(l.Operands, rest...)
			rest = nil
		case arg == "-" || !strings.HasPrefix(arg, "-"):
			l.Operands = append(l.Operands, arg)
		default:
			flag, known := lookup(cmd, arg)
			if !known {
				return nil, l.unknownFlag(cmd, arg, hasEndpoint)
			}
			flags = append(flags, arg)
			if TakesValue(flag) && !strings.Contains(arg, "=") {
				if len(rest) == 0 {
					return nil, Errorf("the flag %s needs a value", arg)
				}
				flags = append(flags, rest[0])
				rest = rest[1:]
			}
		}
	}
	return flags, nil
}

// ListOf returns the names in a flag, which may be repeated, or have several names separated
// by commas.
func ListOf(c *cli.Context, flag string) []string {
	var names []string
	for _, value := range c.StringSlice(flag) {
		names = append(names, strings.Split(value, ",")...)
	}
	return names
}

// IsHelp reports whether a command is the help of the library.
func IsHelp(name string) bool { return name == "help" || name == "h" }

// onlyNames refuses flags after help, which takes the name of a command.
func onlyNames(words []string) error {
	for _, word := range words {
		if strings.HasPrefix(word, "-") && !IsHelp(strings.TrimLeft(word, "-")) {
			return Errorf("unknown command %q: help takes the name of a command", word)
		}
	}
	return nil
}

// UnknownCommand returns the error for a command that the application does not have.
func UnknownCommand(app *cli.App, name string) error {
	return Errorf("unknown command %q%s; wirectl help lists the commands", name, nearest.Question(name, CommandNames(app)))
}

func (l *Line) unknownFlag(cmd *cli.Command, arg string, hasEndpoint bool) error {
	hint := "wirectl help " + cmd.Name + " lists its flags"
	if hasEndpoint && len(l.Operands) > 0 {
		hint = "write a program, with its own flags, after -- or exec"
	}
	return Errorf("%s has no flag %s%s; %s", cmd.Name, arg, nearest.Question(arg, flagNames(cmd)), hint)
}

// lookup finds the flag that arg sets. Short flags without values may be joined, as in -vv;
// then it finds the last one.
func lookup(cmd *cli.Command, arg string) (cli.Flag, bool) {
	name, _, _ := strings.Cut(strings.TrimLeft(arg, "-"), "=")
	flags := append(slices.Clone(cmd.Flags), cli.HelpFlag)
	for _, f := range flags {
		if slices.Contains(f.Names(), name) {
			return f, true
		}
	}
	if strings.HasPrefix(arg, "--") || len(name) < 2 {
		return nil, false
	}
	for _, letter := range name {
		f, ok := lookup(cmd, "-"+string(letter))
		if !ok || TakesValue(f) {
			return nil, false
		}
	}
	return lookup(cmd, "-"+name[len(name)-1:])
}

// An OptionalFlag has a value only after "=". The value must have the method IsBoolFlag of package flag.
type OptionalFlag struct{ *cli.GenericFlag }

// TakesValue says that the next word is no value.
func (OptionalFlag) TakesValue() bool { return false }

// TakesValue reports whether a flag has a value.
func TakesValue(f cli.Flag) bool {
	d, ok := f.(cli.DocGenerationFlag)
	return ok && d.TakesValue()
}

// CommandNames returns the names of the application's commands.
func CommandNames(app *cli.App) []string {
	var names []string
	for _, c := range app.Commands {
		names = append(names, c.Name)
	}
	return names
}

// wrongValue matches the library's error for a value that it cannot read.
var wrongValue = regexp.MustCompile(`^invalid (?:boolean )?value (".*") for (?:flag )?(-[\w-]+): (.*)$`)

// WrongUsage turns an error of the library into one that says what values the flag takes.
func WrongUsage(c *cli.Context, err error, _ bool) error {
	m := wrongValue.FindStringSubmatch(err.Error())
	if m == nil {
		return &Error{err}
	}
	value, name, reason := m[1], m[2], m[3]
	flag, _ := lookup(c.Command, name)
	if len(name) > len("-n") {
		name = "-" + name
	}
	if kind := kindOf(flag); kind != "" {
		return Errorf("invalid %s %s: want %s", name, value, kind)
	}
	return Errorf("%s: %s", name, reason)
}

// kindOf returns what values a flag takes, if its type says that.
func kindOf(flag cli.Flag) string {
	switch flag.(type) {
	case *cli.BoolFlag:
		return "true or false"
	case *cli.DurationFlag:
		return "a duration such as 500ms or 10s"
	case *cli.Float64Flag:
		return "a number"
	case *cli.IntFlag, *cli.Int64Flag, *cli.Uint64Flag:
		return "a whole number"
	default:
		return ""
	}
}

func flagNames(cmd *cli.Command) []string {
	var names []string
	for _, f := range cmd.Flags {
		for _, n := range f.Names() {
			if len(n) > 1 {
				names = append(names, "--"+n)
			}
		}
	}
	return names
}

// A Setting is a flag whose value another package reads as text.
type Setting struct {
	Name, Alias string
	Default     string // for help
	Usage       string
	Many        bool // may be repeated
	Switch      bool // has no value
}

// SettingFlags returns the flags of settings.
func SettingFlags(settings []Setting) (list []cli.Flag) {
	for _, s := range settings {
		var aliases []string
		if s.Alias != "" {
			aliases = []string{s.Alias}
		}
		switch {
		case s.Switch:
			list = append(list, &cli.BoolFlag{Name: s.Name, Aliases: aliases, Usage: s.Usage})
		case s.Many:
			list = append(list, &cli.StringSliceFlag{Name: s.Name, Aliases: aliases, Usage: s.Usage})
		default:
			list = append(list, &cli.StringFlag{Name: s.Name, Aliases: aliases, Usage: s.Usage, DefaultText: s.Default})
		}
	}
	return list
}

// Given returns the settings on the command line.
func Given(c *cli.Context, settings []Setting) map[string][]string {
	given := map[string][]string{}
	for _, s := range settings {
		switch {
		case !c.IsSet(s.Name):
		case s.Many:
			given[s.Name] = c.StringSlice(s.Name)
		default:
			given[s.Name] = []string{fmt.Sprint(c.Value(s.Name))}
		}
	}
	return given
}

// CheckText returns an error of usage if text is not UTF-8, which no protocol can carry: JSON
// would change it, and peers of protobuf would not read it.
func CheckText(what, text string) error {
	for i, r := range text {
		if _, size := utf8.DecodeRuneInString(text[i:]); r == utf8.RuneError && size == 1 {
			return Errorf("%s must be UTF-8: byte %d is %#02x", what, i, text[i])
		}
	}
	return nil
}

// PairsOf returns the values of a flag of the form KEY=VALUE by their keys; nil if there are
// no values.
func PairsOf(c *cli.Context, flag string) (map[string]string, error) {
	var m map[string]string
	for _, pair := range c.StringSlice(flag) {
		key, value, ok := strings.Cut(pair, "=")
		if !ok || key == "" {
			return nil, Errorf("invalid --%s %q: want KEY=VALUE", flag, pair)
		}
		if err := CheckText("--"+flag, pair); err != nil {
			return nil, err
		}
		if m == nil {
			m = map[string]string{}
		}
		m[key] = value
	}
	return m, nil
}

// WithUnset adds the flags that are not set to err, which may be about them.
func WithUnset(c *cli.Context, err error, flags ...string) error {
	flags = slices.DeleteFunc(flags, c.IsSet)
	if len(flags) == 0 {
		return err
	}
	return fmt.Errorf("%w (not given: --%s)", err, strings.Join(flags, ", --"))
}

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
	// Values are the values of flags, by their placeholder in backquotes. They may depend on what is there.
	Values map[string]func(value string) []Candidate
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
		if begins, ok := otherProgram[word]; ok && (endpoint || takesProgram(cmd) && word == "--") && i+begins <= last {
			return Completion{Shell: fmt.Sprintf(":command %d", i+begins+1)}
		}
		if word == "--" {
			return p.operandAfter(app, cmd, append(seen, words[i+1:last]...))
		}
		flag, known := lookup(cmd, word)
		switch isOperand := !strings.HasPrefix(word, "-") || word == "-"; {
		case isOperand && takesProgram(cmd):
			return Completion{Shell: fmt.Sprintf(":command %d", i+1)}
		case isOperand:
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

// takesProgram reports whether the first operand of a command begins the command line of a program.
func takesProgram(cmd *cli.Command) bool { return cmd.ArgsUsage == "AGENT…" }

// valueCompletion completes the value of a flag. The usage of the flag lists the values, or
// has a placeholder in backquotes. In a list with commas, the last name is completed, and of
// conditions that "and" joins, the last one. The candidates begin with prefix.
func (p *Completer) valueCompletion(flag cli.Flag, prefix, value string) Completion {
	usage := UsageOf(flag)
	before := prefix + value[:strings.LastIndexByte(value, ',')+1]
	if at := strings.LastIndex(value, " and "); at >= 0 {
		before = prefix + value[:at+len(" and ")]
	}
	switch placeholder, ok := Placeholder(usage); {
	case placeholder == "FILE":
		return Completion{Shell: ":files"}
	case placeholder == "DIR":
		return Completion{Shell: ":dirs"}
	case ok:
		var found Completion
		if values := p.Values[placeholder]; values != nil {
			for _, c := range values((prefix + value)[len(before):]) {
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
