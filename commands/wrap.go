package commands

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/urfave/cli/v2"

	"github.com/wirectl/wirectl/relay/wrap"
)

func wrapCommand(inv *invocation) *cli.Command {
	return &cli.Command{
		Name:      "wrap",
		Category:  between,
		Usage:     "run a server of an MCP client through the relay",
		ArgsUsage: "CONFIG SERVER",
		Description: "Rewrites one server's entry in the JSON configuration of a client (Claude Desktop,\n" +
			"Cursor, VS Code, Zed and others), so that it starts the server through wirectl relay.\n" +
			"Every other byte stays; a copy of the file is left beside it. Start the client again,\n" +
			"and look on.\n\n" +
			"   wirectl wrap .vscode/mcp.json files\n" +
			"   wirectl decode live\n" +
			"   wirectl unwrap .vscode/mcp.json files",
		Flags: []cli.Flag{
			dryRunFlag(),
			&cli.StringFlag{Name: "capture", Usage: "have the relay record into `FILE`"},
		},
		Action: func(c *cli.Context) error {
			with, err := wrapping(c)
			if err != nil {
				return err
			}
			return rewrite(inv, c, func(config []byte, server string) ([]byte, error) {
				return wrap.Wrap(config, server, append(with, "--name="+server))
			})
		},
	}
}

func unwrapCommand(inv *invocation) *cli.Command {
	return &cli.Command{
		Name:      "unwrap",
		Category:  between,
		Usage:     "undo what wrap did",
		ArgsUsage: "CONFIG SERVER",
		Description: "Gives a server's entry back as it was before wirectl wrap.\n\n" +
			"   wirectl unwrap .vscode/mcp.json files",
		Flags:  []cli.Flag{dryRunFlag()},
		Action: func(c *cli.Context) error { return rewrite(inv, c, wrap.Unwrap) },
	}
}

func dryRunFlag() cli.Flag {
	return &cli.BoolFlag{Name: "dry-run", Usage: "only print which lines would change"}
}

// wrapping is what a server is to run through. Clients start servers in folders
// and with a PATH of their own, so all names are whole.
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
	return with, nil
}

// rewrite edits the entry of a server in a configuration.
func rewrite(inv *invocation, c *cli.Context, edit func(config []byte, server string) ([]byte, error)) error {
	if n := len(inv.Operands); n < 1 || n > 2 {
		return usagef("%s takes a CONFIG and a SERVER in it", c.Command.Name)
	}
	file, server := inv.Operands[0], ""
	if len(inv.Operands) > 1 {
		server = inv.Operands[1]
	}
	before, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	after, err := edit(before, server)
	if err != nil {
		return notRewritten(file, server, err)
	}
	if c.Bool("dry-run") {
		return wrap.WriteDiff(inv.Stdout, file, before, after)
	}
	backup, err := wrap.Replace(file, before, after)
	if err != nil {
		return err
	}
	inv.say(file, fmt.Sprintf("%sped %s; what was there is in %s", c.Command.Name, server, backup))
	return nil
}

// notRewritten says where it failed, and what to try.
func notRewritten(file, server string, err error) error {
	if none := (*wrap.NotFoundError)(nil); errors.As(err, &none) {
		return usagef("%s: %w", file, err)
	}
	err = fmt.Errorf("%s: %s: %w", file, server, err)
	if errors.Is(err, wrap.ErrRemote) {
		err = fmt.Errorf("%w: run wirectl relay --listen http://127.0.0.1:7000 URL with its url, and put that address in its place", err)
	}
	return err
}
