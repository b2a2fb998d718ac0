package commands

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/wirectl/wirectl/capture/history"
	"github.com/wirectl/wirectl/decode/source"
	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/relay/wrap"
	"github.com/wirectl/wirectl/table"
)

func wrapCommand(inv *invocation) *cli.Command {
	return &cli.Command{
		Name:      "wrap",
		Category:  between,
		Usage:     "run a server of an MCP client through the relay",
		ArgsUsage: "[CONFIG [SERVER]]",
		Description: "Rewrites one server's entry (with --all every entry) in the configuration of a client\n" +
			"(a file, or a word such as codex for that in your home folder):\n" +
			"Claude Desktop, Claude Code, VS Code, Cursor, Windsurf, Zed, Codex, Gemini CLI, Goose\n" +
			"and others. The client then starts the server through wirectl relay. No other byte\n" +
			"changes, and a copy of the file is kept beside it. Restart the client to use it. A\n" +
			"server over HTTP gets a command that bridges to it, unless it requires a login.\n" +
			"Without a CONFIG, lists the configurations found on this machine, and their servers.\n\n" +
			"   wirectl wrap\n" +
			"   wirectl wrap .vscode/mcp.json files\n" +
			"   wirectl wrap --all --record metadata ~/.codex/config.toml\n" +
			"   wirectl decode live\n" +
			"   wirectl unwrap .vscode/mcp.json files",
		Flags: []cli.Flag{
			allFlag(), dryRunFlag(),
			&cli.StringFlag{Name: "capture", Usage: "record to `FILE`"},
			&cli.StringFlag{Name: "record", Usage: "record every session for wirectl sessions (on a terminal, the default is to ask): metadata, full or none"},
			pinFlag(),
			&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Value: "text", Usage: "how to list: text or ndjson"},
		},
		Action: inv.does(runWrap),
	}
}

func unwrapCommand(inv *invocation) *cli.Command {
	return &cli.Command{
		Name:      "unwrap",
		Category:  between,
		Usage:     "undo what wrap did",
		ArgsUsage: "CONFIG [SERVER]",
		Description: "Restores a server's entry (with --all every entry) to what it was before wirectl wrap.\n\n" +
			"   wirectl unwrap .vscode/mcp.json files",
		Flags: []cli.Flag{allFlag(), dryRunFlag()},
		Action: func(c *cli.Context) error {
			r, err := rewriting(inv, c)
			if err != nil {
				return err
			}
			return writeConfig(inv, c, r, r.Unwrap())
		},
	}
}

func allFlag() cli.Flag {
	return &cli.BoolFlag{Name: "all", Usage: "all servers in the configuration"}
}

func dryRunFlag() cli.Flag {
	return &cli.BoolFlag{Name: "dry-run", Usage: "print the changes without making them"}
}

func runWrap(inv *invocation, c *cli.Context) error {
	if len(inv.Operands) == 0 && !c.Bool("all") {
		return listClients(inv, c)
	}
	with, err := wrapping(c)
	if err != nil {
		return err
	}
	r, err := rewriting(inv, c)
	if err != nil {
		return err
	}
	advised := history.Level(c.String("record"))
	if !slices.Contains(history.Levels, advised) {
		advised = ""
	}
	if err = r.Wrap(c.Context, with, string(advised)); err != nil { // before the user is asked
		return refused(err)
	}
	level, err := recordLevel(inv, c)
	if err != nil {
		return err
	}
	if level != "" {
		with = append(with, "--record="+string(level))
		if client := wrap.ClientOf(inv.Getenv, inv.Operands[0]); client != "" {
			with = append(with, "--client="+client)
		}
	}
	if err = writeConfig(inv, c, r, r.Wrap(c.Context, with, string(advised))); err != nil || level == "" || c.Bool("dry-run") {
		return err
	}
	return tellRecording(inv, level)
}

// wrapping returns the command that a server runs through. Clients start servers in other folders
// and with another PATH, so names are absolute.
func wrapping(c *cli.Context) ([]string, error) {
	if err := checkCapture(c); err != nil {
		return nil, err
	}
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	with := []string{program, "relay", "--quiet"}
	if file := c.String("capture"); file != "" {
		if file, err = filepath.Abs(file); err != nil {
			return nil, err
		}
		with = append(with, "--capture", file)
	}
	if mode := pinMode(c); mode != "" {
		with = append(with, "--pin="+string(mode))
	}
	return with, nil
}

// rewriting reads the operands.
func rewriting(inv *invocation, c *cli.Context) (*wrap.Rewriting, error) {
	n, all := len(inv.Operands), c.Bool("all")
	switch {
	case all && n != 1:
		return nil, usagef("%s --all takes one CONFIG and no SERVER", c.Command.Name)
	case n < 1 || n > 2:
		return nil, usagef("%s needs a CONFIG and the name of a SERVER in it", c.Command.Name)
	}
	if _, err := os.Stat(inv.Operands[0]); err != nil { // it may be the word for a client
		inv.Operands[0] = cmp.Or(wrap.FileOf(inv.Getenv, inv.Operands[0]), inv.Operands[0])
	}
	return wrap.Open(inv.Operands[0], append(inv.Operands[1:], "")[0], all)
}

// refused makes an error a usage error if the command line is to blame.
func refused(err error) error {
	if is[*wrap.NotFoundError](err) {
		return usagef("%w", err)
	}
	return err
}

// writeConfig writes the file, unless the edit of it has failed.
func writeConfig(inv *invocation, c *cli.Context, r *wrap.Rewriting, err error) error {
	if err != nil {
		return refused(err)
	}
	for _, err := range r.Passed {
		fmt.Fprintf(inv.Stderr, "wirectl: %s\n", render.Safe(err.Error()))
	}
	file := inv.Operands[0]
	switch {
	case len(r.Changed) == 0:
		inv.say(file, "nothing to "+c.Command.Name)
		return nil
	case c.Bool("dry-run"):
		return wrap.WriteDiff(inv.Stdout, file, r.Masked(r.Before()), r.Masked(r.Text))
	}
	backups, err := r.Write()
	if err != nil {
		return err
	}
	inv.say(file, fmt.Sprintf("%sped %s; %s", c.Command.Name, strings.Join(r.Changed, ", "), backups))
	return nil
}

// recordLevel returns how much of sessions to record; "" is nothing.
func recordLevel(inv *invocation, c *cli.Context) (history.Level, error) {
	name := c.String("record")
	if !c.IsSet("record") && !c.Bool("dry-run") && inv.IsTerminal(inv.Stdin) && inv.IsTerminal(inv.Stderr) {
		var err error
		if name, err = askUser(inv, c, "Record the sessions? metadata (methods, names, ids, sizes, times), full (what both sides say), or none [none]: "); err != nil {
			return "", err
		}
	}
	switch level := history.Level(name); {
	case name == "" || name == "none":
		return "", nil
	case slices.Contains(history.Levels, level):
		return level, nil
	}
	return "", usagef("invalid --record %q: want metadata, full or none", name)
}

// askUser asks the user, who is at a terminal.
func askUser(inv *invocation, c *cli.Context, question string) (string, error) {
	fmt.Fprint(inv.Stderr, question)
	src := source.Interruptible(c.Context, inv.Stdin)
	defer src.Close()
	line, err := bufio.NewReader(src).ReadString('\n')
	if err == io.EOF {
		err = nil
	}
	return strings.TrimSpace(line), err
}

// tellRecording prints where records are, what they contain, and how to stop recording.
func tellRecording(inv *invocation, level history.Level) error {
	folder, err := history.Open(inv.Getenv)
	if err != nil {
		return err
	}
	file, kept := inv.Operands[0], "methods, names, ids, sizes and times, but not what is said"
	if level == history.Full {
		kept = "what both sides say, without known secrets; redaction misses some"
	}
	inv.say(file, fmt.Sprintf("sessions are recorded in %s: %s", folder.Dir, kept))
	inv.say(file, fmt.Sprintf("at most %d MiB of the last %d days are kept, readable by you alone; wirectl sessions lists them", history.MaxBytes>>20, int(history.MaxAge.Hours()/24)))
	inv.say(file, "to stop it: wirectl sessions off, or wirectl unwrap")
	if folder.IsOff() {
		inv.say(file, "recording is off now; wirectl sessions on turns it on")
	}
	return nil
}

// listClients lists the configurations on this machine.
func listClients(inv *invocation, c *cli.Context) error {
	out, err := inv.table(c, table.AsText, table.AsNDJSON)
	if err != nil {
		return err
	}
	here, err := os.Getwd()
	if err != nil {
		return err
	}
	files, err := wrap.Found(inv.Getenv, here)
	if err != nil {
		return err
	}
	if len(files) == 0 {
		clients := namesOf(wrap.Clients, func(c wrap.Client) string { return c.Name })
		fmt.Fprintf(inv.Stderr, "wirectl: no configuration found of %s: name one, as in wirectl wrap CONFIG SERVER\n", clients)
		return nil
	}
	faulty := func(file wrap.File, err error) { inv.say(file.Name, err.Error()) }
	return wrap.WriteList(out.To, out.Form == table.AsNDJSON, files, faulty)
}
