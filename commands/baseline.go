package commands

import (
	"errors"

	"github.com/urfave/cli/v2"

	"github.com/wirectl/wirectl/decode/track"
	"github.com/wirectl/wirectl/session/contract"
)

func baselineCommand(inv *invocation) *cli.Command {
	return &cli.Command{
		Name:      "baseline",
		Category:  reading,
		Usage:     "write the tools of a session's MCP server, for lint --baseline",
		ArgsUsage: "[SESSION]",
		Description: "Writes names, descriptions, schemas and annotations of the tools listed last, as\n" +
			"sorted JSON, so that changes can be reviewed line by line.\n\n" +
			"   wirectl baseline session.pcapng > tools.json\n" +
			"   wirectl lint --baseline tools.json later.pcapng",
		Flags:  sessionFlags(),
		Action: inv.does(runBaseline),
	}
}

func runBaseline(inv *invocation, c *cli.Context) error {
	names, err := inv.sources()
	if err != nil {
		return err
	}
	if len(names) > 1 {
		return usagef("baseline takes one SESSION; got %d", len(names))
	}
	cfg, err := decodeConfig(c)
	if err != nil {
		return err
	}
	inv.reportsAtEnd = true
	var offer contract.Offer
	if _, _, err := trackSession(inv, c, names[0], cfg, &track.Trackers{Watcher: &offer}, messages(offer.AddMessage)); err != nil {
		return err
	}
	switch {
	case !offer.Any():
		return errNoTools
	case contract.Masked(offer.Tools()):
		return errMasked
	case offer.Cut() && !c.Bool("quiet"):
		inv.say(names[0], "the list of tools is incomplete: its next page is not in the session")
	}
	return contract.WriteBaseline(inv.Stdout, offer.Tools())
}

var errMasked = errors.New("the definitions of the tools are redacted: record a session with --record full or --capture FILE")

var errNoTools = errors.New("no tools were listed: record a session in which the client asks for tools/list, " +
	"as with wirectl send -o ndjson mcp tools/list '{}' -- SERVER")
