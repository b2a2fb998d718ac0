package commands

import (
	"cmp"
	"slices"
	"strconv"
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
	var where *query.Where
	q := store.KeptQuery{Agent: c.String("agent"), Project: c.String("project"), Search: c.String("search"), Fresh: c.Bool("no-cache")}
	if expr := c.String("where"); expr != "" {
		fields := query.Fields{Names: table.Names(keptColumns), Flags: []string{"live", "lost", "incomplete"}}
		if where, err = query.Parse(expr, fields); err != nil {
			return usagef("--where: %w", err)
		}
	}
	q.Matches = func(k *store.Kept) bool { return where.Match(&kept{*k}) }
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
	if c.Bool("cost") {
		slices.SortStableFunc(found, func(a, b store.Kept) int { return cmp.Compare(b.Usage.Cost, a.Usage.Cost) })
	}
	list := mapped(found, func(k store.Kept) kept { return kept{k} })
	if out.Form == table.AsNDJSON {
		return table.Write(out, columnsOfKept(0, false), list)
	}
	switch {
	case len(list) > 0:
		err = table.Write(out, columnsOfKept(out.Width, c.Bool("cost")), list)
		if c.Bool("cost") {
			inv.say("sessions", store.CostOf(found))
		}
	case slices.ContainsFunc([]string{"agent", "project", "search", "where", "since", "until"}, c.IsSet):
		inv.say("sessions", "no session matches")
	default:
		inv.say("sessions", "no sessions in "+folder.Dir+"; to record servers, use wirectl wrap --record")
	}
	if err == nil && folder.IsOff() {
		inv.say("sessions", "recording is off")
	}
	return err
}

// A kept session is one on this machine.
type kept struct{ store.Kept }

// Field returns the value of a column; see [query.Record].
func (k *kept) Field(name string) ([]byte, bool) {
	token := table.AppendValue(nil, keptColumns, name, k)
	return token, token != nil
}

// keptColumns are the columns of sessions of this machine.
var keptColumns = []table.Column[kept]{
	{Name: "id", Title: "ID", Value: func(k *kept) any { return k.ID }},
	{Title: "WHEN", Drop: 3, Value: func(k *kept) any { return k.Shown().Local().Format("2006-01-02 15:04") }},
	{Name: "started", Value: func(k *kept) any { return k.Started }},
	{Name: "ended", Value: func(k *kept) any { return k.Ended }},
	{Name: "agent", Title: "AGENT", Least: 6, Value: func(k *kept) any { return k.Agent }, Cell: func(k *kept) string { return cmp.Or(k.Agent, "-") }},
	{Name: "client", Value: func(k *kept) any { return k.Client }},
	{Name: "server", Title: "SERVER", Least: 8, Shown: table.IfAny, Value: func(k *kept) any { return k.Server }},
	{Name: "project", Title: "PROJECT", Least: 8, Drop: 7, Shown: table.IfAny, Value: func(k *kept) any { return k.Project }},
	{Name: "prompt", Title: "PROMPT", Least: 12, Shown: table.IfAny, Value: func(k *kept) any { return k.Prompt }},
	{Name: "level", Title: "RECORD", Drop: 1, Shown: table.IfAny, Value: func(k *kept) any { return string(k.Level) }},
	{Name: "protocols", Value: func(k *kept) any {
		if len(k.Protocols) == 0 {
			return nil
		}
		return k.Protocols
	}},
	{Name: "frames", Value: func(k *kept) any { return k.recorded(k.Frames) }},
	{Name: "calls", Title: "CALLS", Right: true, Drop: 4, Value: func(k *kept) any { return k.Calls }, Cell: func(k *kept) string { return k.count(k.Calls, "(live)", "(cut)") }},
	{Name: "failures", Title: "FAILURES", Right: true, Value: func(k *kept) any { return k.Failures }, Cell: func(k *kept) string { return k.count(k.Failures, "-", "-") }},
	{Name: "findings", Title: "FINDINGS", Right: true, Drop: 2, Shown: table.IfAny, Value: func(k *kept) any { return k.recorded(k.Findings) }, Cell: func(k *kept) string {
		if k.Transcript != nil {
			return ""
		}
		return k.count(k.Findings, "-", "-")
	}},
	{Name: "input_tokens", Value: func(k *kept) any { return table.Count(k.Usage.Input) }},
	{Name: "cached_tokens", Value: func(k *kept) any { return table.Count(k.Usage.Cached) }},
	{Name: "output_tokens", Value: func(k *kept) any { return table.Count(k.Usage.Output) }},
	{Title: "TOKENS", Right: true, Drop: 5, Shown: table.IfAny, Value: func(k *kept) any { return table.Count(k.Usage.Input + k.Usage.Output) }},
	{Name: "cost_usd", Title: "COST", Right: true, Drop: 6, Shown: table.IfAny, Value: func(k *kept) any { return table.Dollars(k.Usage.Cost) }},
	{Name: "cost_by", Value: func(k *kept) any { return k.Cost.By }},
	{Name: "incomplete", Value: func(k *kept) any { return table.Flag(k.Incomplete) }},
	{Name: "live", Value: func(k *kept) any { return table.Flag(k.Live) }},
	{Name: "lost", Value: func(k *kept) any { return table.Flag(k.Lost) }},
	{Name: "size", Value: func(k *kept) any { return k.Size }},
	{Name: "capture", Value: func(k *kept) any { return k.file(false) }},
	{Name: "file", Value: func(k *kept) any { return k.file(true) }},
}

// columnsOfKept are the columns of sessions of this machine. On a narrow terminal, times have no year.
// The cost may be what matters.
func columnsOfKept(width int, cost bool) []table.Column[kept] {
	list := slices.Clone(keptColumns)
	if at := slices.IndexFunc(list, func(c table.Column[kept]) bool { return c.Title == "COST" }); cost {
		list[at].Drop = 0
	}
	if width > 0 && width < 100 {
		list[1].Value = func(k *kept) any { return k.Shown().Local().Format("01-02 15:04") }
	}
	return list
}

// file returns the name of a capture, or of a transcript.
func (k *kept) file(transcript bool) any {
	if transcript != (k.Transcript != nil) {
		return nil
	}
	return k.Capture
}

// recorded returns a number that only recordings have.
func (k *kept) recorded(n int64) any {
	if k.Transcript != nil {
		return nil
	}
	return n
}

// count returns a number for people, or what stands for it.
func (k *kept) count(n int64, live, cut string) string {
	switch {
	case k.Live:
		return live
	case k.Lost && (k.Run == nil || k.Run.Counts == nil):
		return cut
	}
	return strconv.FormatInt(n, 10)
}

// removeSessions removes the sessions with those ids, or all that have ended.
func removeSessions(inv *invocation, c *cli.Context, folder *history.Folder, ids []string) error {
	if (len(ids) == 0) != c.Bool("all") {
		return usagef("sessions rm needs the IDs of sessions, or --all")
	}
	var runs []history.Run
	var others []string
	for _, id := range ids {
		if !source.IsRun(id) {
			others = append(others, id)
			continue
		}
		r, err := history.FindRun(inv.Getenv, strings.TrimPrefix(id, "run:"))
		if err != nil {
			return usagef("%w", err)
		}
		runs = append(runs, r)
	}
	if len(ids) == 0 {
		all, err := history.Runs(inv.Getenv)
		if err != nil {
			return err
		}
		runs = slices.DeleteFunc(all, func(r history.Run) bool { return r.Live })
	}
	var removed []string
	if len(others) > 0 || len(ids) == 0 {
		var err error
		if removed, err = folder.RemoveAll(others); is[*history.NotFoundError](err) {
			return usagef("%w", err)
		} else if err != nil {
			return err
		}
	}
	for _, r := range runs {
		if err := r.Remove(); err != nil {
			return err
		}
		removed = append(removed, "run:"+r.ID)
	}
	what := render.Count(int64(len(removed)), "session")
	inv.say("sessions", strings.TrimSuffix("removed "+what+": "+strings.Join(removed, ", "), ": "))
	return nil
}
