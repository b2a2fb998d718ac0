package commands

import (
	"regexp"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/wirectl/wirectl/internal/nearest"
	"github.com/wirectl/wirectl/transport"
)

// respelled returns a command line that names its command by the name that the
// command has, for two that are written otherwise.
func respelled(args []string) []string {
	switch {
	case len(args) > 1 && args[1] == "--version":
		return slices.Replace(slices.Clone(args), 1, 2, "version")
	case len(args) > 2 && args[1] == "serve" && args[2] == "theory":
		return slices.Replace(slices.Clone(args), 1, 3, "theory", "serve")
	}
	return args
}

// arrange takes the operands out of args, so that flags may stand before and
// after them: the library takes everything behind the first operand for
// operands. What follows "--" is operands, whatever it looks like.
//
// Where a command takes an ENDPOINT, that is the end of the line: flags stand
// before it, and its words are nobody else's.
func (inv *invocation) arrange(app *cli.App, args []string) ([]string, error) {
	if len(args) < 2 {
		return args, nil
	}
	name := args[1]
	switch {
	case isHelp(name):
		return args, onlyNames(args[2:])
	case strings.HasPrefix(name, "-") && isHelp(strings.TrimLeft(name, "-")):
		return args, nil
	case strings.HasPrefix(name, "-"):
		return nil, usagef("no flag %s stands ahead of a COMMAND%s; wirectl help lists the commands", name, nearest.Question(name, []string{"--version", "--help"}))
	}
	cmd := app.Command(name)
	if cmd == nil {
		return nil, unknownCommand(app, name)
	}
	flags, err := inv.separate(cmd, args[2:])
	if err != nil {
		return nil, err
	}
	return append(slices.Clone(args[:2]), flags...), nil
}

// separate keeps the operands among what follows a command, and the words of its
// ENDPOINT, and returns the flags with their values.
func (inv *invocation) separate(cmd *cli.Command, rest []string) (flags []string, err error) {
	hasEndpoint := slices.Contains(inv.takeEndpoint, cmd.Name)
	for len(rest) > 0 {
		arg := rest[0]
		if hasEndpoint && (transport.TakesRest(arg) || transport.IsWord(arg)) {
			inv.endpointWords = rest
			break
		}
		rest = rest[1:]
		switch {
		case arg == "--":
			inv.operands = append(inv.operands, rest...)
			rest = nil
		case arg == "-" || !strings.HasPrefix(arg, "-"):
			inv.operands = append(inv.operands, arg)
		default:
			flag, known := lookup(cmd, arg)
			if !known {
				return nil, inv.unknownFlag(cmd, arg, hasEndpoint)
			}
			flags = append(flags, arg)
			if takesValue(flag) && !strings.Contains(arg, "=") {
				if len(rest) == 0 {
					return nil, usagef("the flag %s needs a value", arg)
				}
				flags = append(flags, rest[0])
				rest = rest[1:]
			}
		}
	}
	return flags, nil
}

// listOf returns the names that a flag gives: with commas between them, or each
// with the flag again.
func listOf(c *cli.Context, flag string) []string {
	var names []string
	for _, value := range c.StringSlice(flag) {
		names = append(names, strings.Split(value, ",")...)
	}
	return names
}

// isHelp reports whether a command is the one that the library brings along.
func isHelp(name string) bool { return name == "help" || name == "h" }

// onlyNames refuses flags where help takes the name of a command.
func onlyNames(words []string) error {
	for _, word := range words {
		if strings.HasPrefix(word, "-") && !isHelp(strings.TrimLeft(word, "-")) {
			return usagef("help takes a COMMAND, and not %q", word)
		}
	}
	return nil
}

func unknownCommand(app *cli.App, name string) error {
	return usagef("unknown command %q%s; wirectl help lists the commands", name, nearest.Question(name, commandNames(app)))
}

func (inv *invocation) unknownFlag(cmd *cli.Command, arg string, hasEndpoint bool) error {
	hint := "wirectl help " + cmd.Name + " lists its flags"
	if hasEndpoint && len(inv.operands) > 0 {
		hint = "a program, with its own flags, is written behind -- or exec"
	}
	return usagef("%s has no flag %s%s; %s", cmd.Name, arg, nearest.Question(arg, flagNames(cmd)), hint)
}

// lookup finds the flag that arg sets. Short flags without values may be
// joined, as in -vv; the last one is found.
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
		if !ok || takesValue(f) {
			return nil, false
		}
	}
	return lookup(cmd, "-"+name[len(name)-1:])
}

func takesValue(f cli.Flag) bool {
	d, ok := f.(cli.DocGenerationFlag)
	return ok && d.TakesValue()
}

func commandNames(app *cli.App) []string {
	var names []string
	for _, c := range app.Commands {
		names = append(names, c.Name)
	}
	return names
}

// wrongValue matches what the library says of a value that it cannot read.
var wrongValue = regexp.MustCompile(`^invalid (?:boolean )?value (".*") for (?:flag )?(-[\w-]+): (.*)$`)

// wrongUsage is told what the library could not read. It says what the flag takes.
func wrongUsage(c *cli.Context, err error, _ bool) error {
	m := wrongValue.FindStringSubmatch(err.Error())
	if m == nil {
		return &usageError{err}
	}
	value, name, reason := m[1], m[2], m[3]
	flag, _ := lookup(c.Command, name)
	if len(name) > len("-n") {
		name = "-" + name
	}
	if kind := kindOf(flag); kind != "" {
		return usagef("%s is %s, and not %s", name, kind, value)
	}
	return usagef("%s: %s", name, reason)
}

// kindOf says what values a flag takes, if that is all there is to say.
func kindOf(flag cli.Flag) string {
	switch flag.(type) {
	case *cli.BoolFlag:
		return "true or false"
	case *cli.DurationFlag:
		return "a time such as 500ms or 10s"
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
