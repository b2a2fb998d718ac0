package commands

import (
	"cmp"
	"context"
	"crypto/rand"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/wirectl/wirectl/capture/history"
	"github.com/wirectl/wirectl/decode/source"
	"github.com/wirectl/wirectl/relay/wrap"
	"github.com/wirectl/wirectl/web"
	"github.com/wirectl/wirectl/web/mcp"
)

func mcpCommand(inv *invocation) *cli.Command {
	return &cli.Command{
		Name: "mcp", Category: reading, Usage: "let an agent ask about its own traffic: an MCP server of what was recorded", ArgsUsage: "[install | uninstall CLIENT]",
		Description: "Speaks MCP on standard input and output, or with --listen over HTTP. It reads only what\n" +
			"wirectl run and wrap --record have recorded of the project that it is started in, and\n" +
			"changes nothing. install adds it to the configuration of a client, uninstall undoes\n" +
			"that. It does the same on every system.\n\n" +
			"   wirectl mcp install claude\n   wirectl mcp --level full --transcripts\n   wirectl mcp --listen 127.0.0.1:7070",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "level", Value: string(history.Metadata), Usage: "what to show: metadata (names, outcomes, sizes, times), or full (what was said, too, without known secrets)"},
			&cli.BoolFlag{Name: "transcripts", Usage: "also show transcripts of agents"},
			&cli.StringFlag{Name: "project", Usage: "show sessions of `DIR` (default: the git repository of the current folder, or that folder)"},
			&cli.StringFlag{Name: "listen", Usage: "listen at `HOST:PORT` on loopback, for clients with the token in WIRECTL_MCP_TOKEN, or one that is printed"},
			dryRunFlag(),
			&cli.BoolFlag{Name: "yes", Usage: "install, uninstall: write the configuration without asking"},
		},
		Action: inv.does(runMCP, excludes("yes", "dry-run")),
	}
}

func runMCP(inv *invocation, c *cli.Context) error {
	level := history.Level(c.String("level"))
	if !slices.Contains(history.Levels, level) {
		return usagef("invalid --level %q: want metadata or full", level)
	}
	project, err := mcp.ProjectOf(cmp.Or(c.String("project"), "."), cmp.Or(inv.Getenv("HOME"), inv.Getenv("USERPROFILE")), c.IsSet("project"))
	if err != nil {
		return usagef("--project: %w", err)
	}
	switch words := inv.Operands; {
	case len(words) == 2 && (words[0] == "install" || words[0] == "uninstall") && !c.IsSet("listen"):
		return installMCP(inv, c, project.Folder)
	case len(words) > 0:
		return usagef("write wirectl mcp, mcp install CLIENT or mcp uninstall CLIENT, without --listen; clients are %s", strings.Join(wrap.Words(), ", "))
	}
	o := mcp.Options{Getenv: inv.Getenv, Project: project, Transcripts: c.Bool("transcripts"), Full: level == history.Full, Version: buildVersion()}
	o.Run = func(ctx context.Context, outline bool, args []string, stdout, stderr io.Writer) int {
		env := OSEnv()
		env.Getenv, env.Stdin, env.Stdout, env.Stderr = inv.Getenv, strings.NewReader(""), stdout, stderr
		env.IsTerminal, env.Filter = func(any) bool { return false }, &source.Filter{Outline: outline}
		return inv.runs(ctx, env, args)
	}
	inv.Terminable()
	inv.Linger(web.EndTime)
	s := mcp.New(o)
	if c.String("listen") == "" {
		if inv.IsTerminal(inv.Stdin) {
			fmt.Fprintln(inv.Stderr, "wirectl: waiting for an MCP client on standard input; wirectl mcp install CLIENT adds this to one")
		}
		in := source.Interruptible(c.Context, inv.Stdin)
		defer in.Close()
		return s.Serve(c.Context, in, inv.Stdout)
	}
	host, _, err := net.SplitHostPort(c.String("listen"))
	if token := inv.Getenv("WIRECTL_MCP_TOKEN"); err != nil || !web.IsLocal(net.JoinHostPort(host, "0")) {
		return usagef("invalid --listen %q: want HOST:PORT on loopback, such as 127.0.0.1:7070", c.String("listen"))
	} else if token != "" && len(token) < mcp.LeastToken {
		return usagef("the token in WIRECTL_MCP_TOKEN is shorter than %d bytes", mcp.LeastToken)
	}
	l, err := new(net.ListenConfig).Listen(c.Context, "tcp", c.String("listen"))
	if err != nil {
		return asTyped(c.String("listen"), err)
	}
	token := inv.Getenv("WIRECTL_MCP_TOKEN")
	if token == "" {
		token = rand.Text()
		fmt.Fprintf(inv.Stderr, "wirectl: the token is %s\n", token)
	}
	fmt.Fprintf(inv.Stderr, "wirectl: listening at http://%s/mcp\n", l.Addr())
	return s.ServeHTTP(c.Context, l, token)
}

// installMCP adds the server to the configuration of a client, or removes it, if the user agrees.
func installMCP(inv *invocation, c *cli.Context, project string) error {
	r, err := wrap.OpenFor(inv.Getenv, inv.Operands[1])
	if err != nil {
		return usagef("%w", err)
	}
	program, err := os.Executable()
	argv := []string{program, "mcp"}
	if c.IsSet("level") {
		argv = append(argv, "--level="+c.String("level"))
	}
	if c.IsSet("project") {
		argv = append(argv, "--project="+project)
	}
	if c.Bool("transcripts") {
		argv = append(argv, "--transcripts")
	}
	switch {
	case err != nil:
	case inv.Operands[0] == "install":
		err = r.AddServer("wirectl", argv)
	default:
		err = r.RemoveServer("wirectl", "mcp")
	}
	if err == nil {
		err = wrap.WriteDiff(inv.Stdout, r.File(), r.Before(), r.Text)
	}
	if err != nil || c.Bool("dry-run") {
		return err
	}
	yes := c.Bool("yes")
	if !yes && inv.IsTerminal(inv.Stdin) && inv.IsTerminal(inv.Stderr) {
		answer, err := askUser(inv, c, "Write this? [y/N]: ")
		if yes = strings.HasPrefix(strings.ToLower(answer), "y"); err != nil {
			return err
		}
	}
	if !yes {
		inv.say(r.File(), "nothing was changed: --yes writes it")
		return nil
	}
	backups, err := r.Write()
	if err == nil {
		inv.say(r.File(), backups+"; restart the client to use it")
	}
	return err
}

// The flag --help is one for all commands, and several may run at once. The library writes to a flag
// when it reads a command line.
func init() { cli.HelpFlag = sharedFlag{cli.HelpFlag.(*cli.BoolFlag)} }

type sharedFlag struct{ *cli.BoolFlag }

// Apply leaves the flag itself as it is.
func (f sharedFlag) Apply(set *flag.FlagSet) error {
	own := *f.BoolFlag
	return own.Apply(set)
}
