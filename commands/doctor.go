package commands

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/wirectl/wirectl/capture/tap"
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
	return errors.Join(inv.section("Programs", mapped(helpers, func(h helper) []string { return []string{h.name, h.found(c.Context), h.use} })), inv.section("\nTaps", tapsFound(inv)))
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

// A helper is a program that wirectl can work with.
type helper struct {
	name    string
	version []string // the arguments for which it prints its version
	use     string
}

var helpers = []helper{
	{"ssh", []string{"-V"}, "wirectl relay ssh HOST CMD"},
	{"docker", []string{"--version"}, "wirectl relay container NAME CMD"},
	{"podman", []string{"--version"}, "wirectl relay container NAME CMD"},
	{"tshark", []string{"--version"}, "tshark -r CAPTURE"},
	{"wireshark", []string{"--version"}, "wirectl relay --capture - … | wireshark -k -i -"},
	{"jq", []string{"--version"}, "wirectl decode -o ndjson FILE | jq"},
}

// found returns the version of a helper that is installed.
func (h helper) found(ctx context.Context) string {
	path, err := exec.LookPath(h.name)
	if err != nil {
		return "not found"
	}
	var stdout, stderr strings.Builder
	cmd := exec.CommandContext(ctx, path, h.version...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "found, but it does not run: " + err.Error()
	}
	line, _, _ := strings.Cut(cmp.Or(stdout.String(), stderr.String()), "\n")
	return strings.TrimSpace(line)
}
