package commands

import (
	"errors"

	"github.com/urfave/cli/v2"

	"github.com/wirectl/wirectl/decode/source"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/frame/carrier"
	"github.com/wirectl/wirectl/protocol"
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
			return errors.Join(
				inv.section("Framings", mapped(frame.Framings(), func(f frame.Framing) []string { return []string{f.Name(), f.About()} })),
				inv.section("\nCarriers", mapped(carrier.Kinds(), func(k carrier.Kind) []string { return []string{k.String(), k.About()} })),
				inv.section("\nProtocols", mapped(all.List(), func(p protocol.Protocol) []string { return []string{p.Name(), all.Of(p).About} })),
				inv.section("\nFixtures, for decode fixture:NAME, or fixture:NAME/FILE for one direction", mapped(source.Fixtures(), func(name string) []string { return []string{name, source.FixtureParts(name)} })))
		}),
	}
}
