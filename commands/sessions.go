package commands

import (
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/wirectl/wirectl/capture/history"
	"github.com/wirectl/wirectl/hub/command"
	"github.com/wirectl/wirectl/internal/render"
)

func sessionsCommand(inv *invocation) *cli.Command {
	return &cli.Command{
		Name:      "sessions",
		Category:  reading,
		Usage:     "list the recorded sessions of wrapped servers",
		ArgsUsage: "[list | rm [ID…] | off | on | NAME…]",
		Description: "Lists what wirectl wrap --record has recorded, newest first. Commands that read a\n" +
			"session accept its id or the beginning of it. rm removes sessions, or with --all\n" +
			"all that have ended. off stops recording for all servers from their next start,\n" +
			"without editing their configurations; on undoes that. With --hub, lists the sessions\n" +
			"of the hub.\n\n" +
			"   wirectl sessions\n" +
			"   wirectl sessions --hub live\n" +
			"   wirectl sessions --hub --since 2h --where 'tool==search and failures>0'\n" +
			"   wirectl lint 3f9a1c\n" +
			"   wirectl sessions rm 3f9a1c",
		Flags: append([]cli.Flag{
			&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Value: "text", Usage: "how to list: text or ndjson"},
			&cli.BoolFlag{Name: "hub", Usage: "list the hub's sessions that match every NAME: a host, tap, protocol, unit, or live"},
			&cli.BoolFlag{Name: "all", Usage: "rm: remove all sessions that have ended"},
		}, command.FindFlags()...),
		Action: inv.does(runSessions),
	}
}

func runSessions(inv *invocation, c *cli.Context) error {
	if c.Bool("hub") {
		return command.Find(c, inv.Operands, inv.Getenv, inv.output(c), inv.saysHub)
	}
	folder, err := history.Open(inv.Getenv)
	if err != nil {
		return err
	}
	words := append(inv.Operands, "list")
	switch verb := words[0]; {
	case verb == "rm":
		return removeSessions(inv, c, folder, inv.Operands[1:])
	case c.Bool("all"), len(inv.Operands) > 1, verb != "list" && verb != "on" && verb != "off":
		return usagef("write wirectl sessions list, sessions rm ID, sessions rm --all, sessions off or sessions on")
	case verb == "list":
		return listSessions(inv, c, folder)
	default:
		if err := folder.Switch(verb == "on"); err != nil {
			return err
		}
		inv.say("sessions", "recording is "+verb+" for servers started from now on")
		return nil
	}
}

func listSessions(inv *invocation, c *cli.Context, folder *history.Folder) error {
	list, err := folder.Sessions()
	if err != nil {
		return err
	}
	switch output := c.String("output"); {
	case output == "ndjson":
		return history.WriteNDJSON(inv.ndjson(), list)
	case output != "text":
		return usagef("invalid --output %q: want text or ndjson", output)
	case len(list) > 0:
		if err := history.WriteText(inv.Stdout, list, inv.width(inv.Stdout)); err != nil {
			return err
		}
	default:
		inv.say("sessions", "no sessions in "+folder.Dir+"; to record servers, use wirectl wrap --record")
	}
	if folder.IsOff() {
		inv.say("sessions", "recording is off")
	}
	return nil
}

// removeSessions removes the sessions with those ids, or all that have ended.
func removeSessions(inv *invocation, c *cli.Context, folder *history.Folder, ids []string) error {
	if (len(ids) == 0) != c.Bool("all") {
		return usagef("sessions rm needs the IDs of sessions, or --all")
	}
	removed, err := folder.RemoveAll(ids)
	if is[*history.NotFoundError](err) {
		return usagef("%w", err)
	}
	if err != nil {
		return err
	}
	what := render.Count(int64(len(removed)), "session")
	inv.say("sessions", strings.TrimSuffix("removed "+what+": "+strings.Join(removed, ", "), ": "))
	return nil
}
