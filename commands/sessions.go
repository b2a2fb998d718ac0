package commands

import (
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/wirectl/wirectl/capture/history"
	"github.com/wirectl/wirectl/decode/source"
	"github.com/wirectl/wirectl/internal/prices"
	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/session/query"
	"github.com/wirectl/wirectl/store"
	"github.com/wirectl/wirectl/table"
)

func sessionsCommand(inv *invocation) *cli.Command {
	return &cli.Command{
		Name:      "sessions",
		Category:  reading,
		Usage:     "list the sessions on this machine: recorded ones, runs, and transcripts of agents",
		ArgsUsage: "[list | rm [ID…] | off | on | NAME…]",
		Description: "Lists what wirectl wrap --record and wirectl run have recorded, and the transcripts\n" +
			"that agents keep (" + strings.Join(source.Agents(), ", ") + "), newest first.\n" +
			"Commands that read a session accept its id or the beginning of it, and\n" +
			"claude:latest or run:latest. rm removes recorded sessions, or with --all all that\n" +
			"have ended. off stops recording for all servers and runs from their next start,\n" +
			"without editing their configurations; on undoes that. With --hub, lists the\n" +
			"sessions of the hub.\n\n" +
			"   wirectl sessions\n" +
			"   wirectl sessions --cost --since 24h\n" +
			"   wirectl sessions --agent claude --since 24h --where 'failures>0'\n" +
			"   wirectl calls claude:latest\n" +
			"   wirectl sessions --hub live\n" +
			"   wirectl sessions --hub --since 2h --where 'tool==search and failures>0'\n" +
			"   wirectl lint 3f9a1c\n" +
			"   wirectl sessions rm 3f9a1c run:0c54d2",
		Flags: append([]cli.Flag{
			&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Value: "text", Usage: "how to list: text or ndjson"},
			&cli.BoolFlag{Name: "hub", Usage: "list the hub's sessions that match every NAME: a host, tap, protocol, unit, or live"},
			&cli.BoolFlag{Name: "all", Usage: "rm: remove all sessions that have ended"},
			&cli.StringFlag{Name: "agent", Usage: "list only sessions of the agent or client `NAME`, such as claude"},
			&cli.StringFlag{Name: "project", Usage: "list only runs and transcripts of projects whose folder contains `TEXT`"},
			&cli.StringFlag{Name: "search", Usage: "list only sessions that contain `TEXT`"},
			&cli.BoolFlag{Name: "cost", Usage: "list the most expensive first, and say what all of them cost"},
			&cli.BoolFlag{Name: "no-cache", Usage: "count all runs and transcripts again, and keep no counts of transcripts"},
			pricesFlag(),
		}, findFlags()...),
		Action: inv.does(runSessions, excludes("hub", "agent", "project", "search", "no-cache", "prices", "cost")),
	}
}

func runSessions(inv *invocation, c *cli.Context) error {
	if c.Bool("hub") {
		return listHub(inv, c)
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

// listSessions lists the recorded sessions and the transcripts that match the flags.
func listSessions(inv *invocation, c *cli.Context, folder *history.Folder) error {
	out, err := inv.table(c, table.AsText, table.AsNDJSON)
	if err != nil {
		return err
	}
	q := store.KeptQuery{Agent: c.String("agent"), Project: c.String("project"), Search: c.String("search"), Fresh: c.Bool("no-cache")}
	if expr := c.String("where"); expr != "" {
		if q.Where, err = query.Parse(expr, store.KeptFields); err != nil {
			return usagef("--where: %w", err)
		}
	}
	if q.Since, q.Until, err = timesOf(c); err != nil {
		return err
	}
	if q.Prices, err = prices.LoadBook(c.String("prices"), inv.Getenv); err != nil {
		return err
	}
	q.Unread = func(about error) { inv.say("sessions", about.Error()) }
	recorded, err := folder.Sessions()
	if err != nil {
		return err
	}
	found, err := store.ListKept(c.Context, inv.Getenv, recorded, q)
	if err != nil {
		return err
	}
	if len(found) > 0 || out.Form == table.AsNDJSON {
		err = store.WriteKept(out, found, c.Bool("cost"))
	}
	switch {
	case out.Form == table.AsNDJSON:
		return err
	case len(found) > 0 && c.Bool("cost"):
		inv.say("sessions", store.CostOf(found))
	case len(found) > 0:
	case slices.ContainsFunc([]string{"agent", "project", "search", "where", "since", "until"}, c.IsSet):
		inv.say("sessions", "no session matches")
	default:
		inv.say("sessions", "no sessions in "+folder.Dir+"; wirectl run AGENT records an agent, wirectl wrap --record a server")
	}
	if err == nil && folder.IsOff() {
		inv.say("sessions", "recording is off")
	}
	return err
}

// removeSessions removes the sessions with those ids, or all that have ended.
func removeSessions(inv *invocation, c *cli.Context, folder *history.Folder, ids []string) error {
	if (len(ids) == 0) != c.Bool("all") {
		return usagef("sessions rm needs the IDs of sessions, or --all")
	}
	removed, err := folder.RemoveAll(inv.Getenv, ids)
	switch {
	case is[*history.NotFoundError](err):
		return usagef("%w", err)
	case err != nil:
		return err
	}
	what := render.Count(int64(len(removed)), "session")
	inv.say("sessions", strings.TrimSuffix("removed "+what+": "+strings.Join(removed, ", "), ": "))
	return nil
}
