// Package cmdline reads, explains and completes command lines, where urfave/cli does not do
// that, or not as wanted.
package cmdline

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

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
	// TakeEndpoint have one, and it begins with a word for which BeginsEndpoint is true.
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
		if hasEndpoint && l.BeginsEndpoint(arg) {
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
