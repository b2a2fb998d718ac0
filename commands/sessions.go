package commands

import (
	"cmp"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/wirectl/wirectl/capture/history"
	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/table"
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
		}, findFlags()...),
		Action: inv.does(runSessions),
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

func listSessions(inv *invocation, c *cli.Context, folder *history.Folder) error {
	out, err := inv.table(c, table.AsText, table.AsNDJSON)
	if err != nil {
		return err
	}
	list, err := folder.Sessions()
	if err != nil {
		return err
	}
	if out.Form == table.AsNDJSON {
		return table.Write(out, nil, list)
	}
	if len(list) == 0 {
		inv.say("sessions", "no sessions in "+folder.Dir+"; to record servers, use wirectl wrap --record")
	} else if err := table.Write(out, sessionColumns(out.Width), list); err != nil {
		return err
	}
	if folder.IsOff() {
		inv.say("sessions", "recording is off")
	}
	return nil
}

// sessionColumns are the columns of recorded sessions. On a narrow terminal, times have no year.
func sessionColumns(width int) []table.Column[history.Session] {
	layout := "2006-01-02 15:04"
	if width > 0 && width < 100 {
		layout = "01-02 15:04"
	}
	count := func(s *history.Session, n int64, live, cut string) any {
		switch {
		case s.Live:
			return live
		case s.Lost:
			return cut
		}
		return n
	}
	return []table.Column[history.Session]{
		{Title: "ID", Value: func(s *history.Session) any { return s.ID }},
		{Title: "WHEN", Drop: 3, Value: func(s *history.Session) any { return s.Started.Local().Format(layout) }},
		{Title: "CLIENT", Least: 8, Value: func(s *history.Session) any { return cmp.Or(s.Client, "-") }},
		{Title: "SERVER", Least: 8, Value: func(s *history.Session) any { return cmp.Or(s.Server, "-") }},
		{Title: "RECORD", Drop: 1, Value: func(s *history.Session) any { return cmp.Or(string(s.Level), "-") }},
		{Title: "CALLS", Drop: 4, Value: func(s *history.Session) any { return count(s, s.Calls, "(live)", "(cut)") }},
		{Title: "FAILURES", Value: func(s *history.Session) any { return count(s, s.Failures, "-", "-") }},
		{Title: "FINDINGS", Drop: 2, Value: func(s *history.Session) any { return count(s, s.Findings, "-", "-") }},
	}
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
