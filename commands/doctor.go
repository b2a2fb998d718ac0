package commands

import (
	"cmp"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"text/tabwriter"

	"github.com/urfave/cli/v2"

	"github.com/wirectl/wirectl/capture/tap"
)

func doctorCommand(inv *invocation) *cli.Command {
	return &cli.Command{
		Name:      "doctor",
		Category:  about,
		Usage:     "say which programs of this machine wirectl can work with",
		ArgsUsage: " ",
		Description: "Looks for the programs that some endpoints and views need, and says where the taps " +
			"of running relays are. Wirectl works without any of the programs.\n\n" +
			"   wirectl doctor",
		Action: inv.does(runDoctor),
	}
}

// A helper is a program that wirectl can work with.
type helper struct {
	name    string
	version []string // the arguments by which it tells its version
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

func runDoctor(inv *invocation, c *cli.Context) error {
	if len(inv.Operands) > 0 {
		return usagef("doctor takes no operands, and %q is one", inv.Operands[0])
	}
	w := tabwriter.NewWriter(inv.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "Programs:")
	for _, h := range helpers {
		fmt.Fprintf(w, "  %s\t%s\t%s\n", h.name, h.found(c), h.use)
	}
	fmt.Fprintln(w, "\nTaps:")
	tellTaps(inv, w)
	return w.Flush()
}

// found says which version of a helper there is.
func (h helper) found(c *cli.Context) string {
	path, err := exec.LookPath(h.name)
	if err != nil {
		return "not found"
	}
	var stdout, stderr strings.Builder
	cmd := exec.CommandContext(c.Context, path, h.version...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "found, but it does not run: " + err.Error()
	}
	line, _, _ := strings.Cut(cmp.Or(stdout.String(), stderr.String()), "\n")
	return strings.TrimSpace(line)
}

func tellTaps(inv *invocation, w io.Writer) {
	dir, err := tap.Dir(inv.Getenv)
	if err != nil {
		fmt.Fprintf(w, "  none can be opened: %v\n", err)
		return
	}
	running, err := tap.List(dir, func(err error) { fmt.Fprintf(w, "  %s\t%v\n", dir, err) })
	if err != nil {
		fmt.Fprintf(w, "  %s\t%v\n", dir, err)
		return
	}
	fmt.Fprintf(w, "  %s\t%d running\twirectl taps\n", dir, len(running))
}
