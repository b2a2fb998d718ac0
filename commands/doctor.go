package commands

import (
	"errors"
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/wirectl/wirectl/capture/tap"
	"github.com/wirectl/wirectl/internal/programs"
	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/run/agent"
)

func doctorCommand(inv *invocation) *cli.Command {
	return &cli.Command{
		Name:      "doctor",
		Category:  about,
		Usage:     "list the programs on this machine that wirectl can use",
		ArgsUsage: " ",
		Description: "Checks which of the programs that some endpoints and views need are installed, and\n" +
			"prints where running relays keep their taps. All programs are optional.\n\n" +
			"   wirectl doctor",
		Action: inv.does(runDoctor),
	}
}

func runDoctor(inv *invocation, c *cli.Context) error {
	if n := agent.RemoveLeftovers(inv.Getenv); n > 0 {
		inv.say("doctor", "removed "+render.Count(int64(n), "folder")+" of runs that were killed")
	}
	return errors.Join(inv.section("Programs", programs.List(c.Context)), inv.section("\nTaps", tapsFound(inv)))
}

func tapsFound(inv *invocation) (rows [][]string) {
	dir, err := tap.Dir(inv.Getenv)
	if err != nil {
		return [][]string{{"none can be opened: " + err.Error()}}
	}
	running, err := tap.List(dir, func(err error) { rows = append(rows, []string{dir, err.Error()}) })
	if err != nil {
		return append(rows, []string{dir, err.Error()})
	}
	return append(rows, []string{dir, fmt.Sprintf("%d running", len(running)), "wirectl taps"})
}
