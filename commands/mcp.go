package commands

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/wirectl/wirectl/capture/history"
	"github.com/wirectl/wirectl/decode/source"
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
		},
		Action: inv.does(runMCP),
	}
}

func runMCP(inv *invocation, c *cli.Context) error {
	level := history.Level(c.String("level"))
	if !slices.Contains(history.Levels, level) {
		return usagef("invalid --level %q: want metadata or full", level)
	}
	if len(inv.Operands) > 0 {
		return usagef("write wirectl mcp")
	}
	project, err := mcp.ProjectOf(cmp.Or(c.String("project"), "."), cmp.Or(inv.Getenv("HOME"), inv.Getenv("USERPROFILE")), c.IsSet("project"))
	if err != nil {
		return usagef("--project: %w", err)
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
		return err
	}
	token := inv.Getenv("WIRECTL_MCP_TOKEN")
	if token == "" {
		token = rand.Text()
		fmt.Fprintf(inv.Stderr, "wirectl: the token is %s\n", token)
	}
	fmt.Fprintf(inv.Stderr, "wirectl: listening at http://%s/mcp\n", l.Addr())
	return s.ServeHTTP(c.Context, l, token)
}
