package commands

import (
	"io"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/wirectl/wirectl/completions"
)

func completionCommand(inv *invocation) *cli.Command {
	return &cli.Command{
		Name:      "completion",
		Category:  about,
		Usage:     "print a shell completion script",
		ArgsUsage: "SHELL",
		Description: "Shells: " + strings.Join(completions.Shells, ", ") + ". The top of the script says\n" +
			"where to install it. To try it:\n\n" +
			"   source <(wirectl completion bash)",
		Action: func(*cli.Context) error {
			if len(inv.Operands) != 1 {
				return usagef("name one shell: %s", strings.Join(completions.Shells, ", "))
			}
			script, err := completions.Script(inv.Operands[0])
			if err != nil {
				return usagef("%w", err)
			}
			_, err = io.WriteString(inv.Stdout, script)
			return err
		},
	}
}
