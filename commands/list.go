package commands

import (
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/urfave/cli/v2"

	"github.com/wirectl/wirectl/fixtures"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/frame/carrier"
	"github.com/wirectl/wirectl/protocol/all"
)

func listCommand(inv *invocation) *cli.Command {
	return &cli.Command{
		Name:      "list",
		Category:  about,
		Usage:     "list the framings, carriers, protocols and fixtures",
		ArgsUsage: " ",
		Description: "Lists the names that --framing, --carrier and --protocol accept, and the built-in\n" +
			"sessions.\n\n" +
			"   wirectl list",
		Action: inv.does(func(*invocation, *cli.Context) error {
			w := tabwriter.NewWriter(inv.Stdout, 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "Framings:")
			for _, f := range frame.Framings() {
				fmt.Fprintf(w, "  %s\t%s\n", f.Name(), f.About())
			}
			fmt.Fprintln(w, "\nCarriers:")
			for _, k := range carrier.Kinds() {
				fmt.Fprintf(w, "  %s\t%s\n", k, k.About())
			}
			fmt.Fprintln(w, "\nProtocols:")
			for _, p := range all.List() {
				fmt.Fprintf(w, "  %s\t%s\n", p.Name(), all.Of(p).About)
			}
			fmt.Fprintln(w, "\nFixtures, for decode fixture:NAME, or fixture:NAME/FILE for one direction:")
			for _, name := range fixtures.Sessions() {
				fmt.Fprintf(w, "  %s\t%s\n", name, fixtureParts(name))
			}
			return w.Flush()
		}),
	}
}

// fixtureParts lists the files of a session that are plain streams, after its carrier if it has
// one.
func fixtureParts(session string) string {
	var files []string
	if by := fixtures.Carrier(session); by != "" {
		files = append(files, by+", both directions")
	}
	for _, name := range fixtures.Files() {
		if file, ok := strings.CutPrefix(name, session+"/"); ok {
			files = append(files, file)
		}
	}
	return strings.Join(files, ", ")
}
