package commands

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/urfave/cli/v2"

	"github.com/wirectl/wirectl/capture/tap"
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
	w := tabwriter.NewWriter(inv.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "Programs:")
	Write(c.Context, w)
	fmt.Fprintln(w, "\nTaps:")
	tellTaps(inv, w)
	return w.Flush()
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
