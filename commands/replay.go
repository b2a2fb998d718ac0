package commands

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/cmdline"
	"github.com/wirectl/wirectl/peer/replay"
	"github.com/wirectl/wirectl/session/query"
	"github.com/wirectl/wirectl/table"
	"github.com/wirectl/wirectl/transport"
)

func replayCommand(inv *invocation) *cli.Command {
	return inv.withEndpoint(&cli.Command{
		Name:      "replay",
		Category:  speaking,
		Usage:     "play one side of a recorded session and check the other",
		ArgsUsage: "SESSION [ENDPOINT]",
		Description: "Plays one side of a session (a capture, a recording, NDJSON or fixture:NAME) and\n" +
			"compares the peer's messages with the recorded ones. Each frame waits for the\n" +
			"replies that preceded it in the recording, and ids are replaced by those of the live\n" +
			"peer. The status is 3 if the peer behaves differently. Without an ENDPOINT, the\n" +
			"bytes go to standard output.\n\n" +
			"   wirectl replay session.pcapng -- npx some-mcp-server\n" +
			"   wirectl replay --as unit --listen tcp://127.0.0.1:7000 session.pcapng\n" +
			"   wirectl replay --as unit --repeat --listen http://127.0.0.1:7000 x.pcapng\n" +
			"   wirectl replay --cancel-at all session.pcapng tcp://127.0.0.1:7000\n\n" +
			"With a run and an agent, the agent is started as by run, and all that it asks is\n" +
			"answered from the record. docs/replay.md says what runs for real.\n\n" +
			"   wirectl replay run:latest -- claude -p \"fix the test\"",
		Flags: slices.Concat([]cli.Flag{
			&cli.StringFlag{Name: "as", Value: "controller", Usage: "the side to play: controller or unit"},
			&cli.Float64Flag{Name: "speed", Value: 1, Usage: "divide the recorded times by `FACTOR`"},
			&cli.BoolFlag{Name: "fast", Usage: "ignore the recorded times and send at once"},
			&cli.DurationFlag{Name: "timeout", Value: 30 * time.Second, Usage: "wait `TIME`, such as 5s, for a frame from the peer"},
			&cli.StringFlag{Name: "match", Usage: "compare frames by `HOW`: exact (values), kind, or jq:EXPR (the output of a filter) (default: exact; kind with --as unit, unless --repeat)"},
			&cli.StringSliceFlag{Name: "ignore-field", Usage: "ignore the payload field at `PATH`: keys joined by dots, with * for any"},
			&cli.StringSliceFlag{Name: "ignore-kind", Usage: "ignore frames of this `KIND`, whether they arrive or not"},
			&cli.BoolFlag{Name: "ignore-chunks", Usage: "ignore the parts of streamed answers and their number"},
			&cli.StringFlag{Name: "to", Usage: "write the bytes of that side to `stdout`"},
			&cli.IntFlag{Name: "conn", Usage: "play only connection `N` of the session (default: all, in turn)"},
			&cli.IntFlag{Name: "clients", Usage: "with --listen: exit after `N` clients (default: no limit)"},
			&cli.BoolFlag{Name: "allow-redacted", Usage: "allow sessions that were redacted or altered"},
			&cli.StringFlag{Name: "cancel-at", Usage: "cancel a request after part `N` of its answer; all repeats this for every point"},
			&cli.Int64Flag{Name: "request", Usage: "with --cancel-at: cancel the request in frame `N` (default: the first one with a streamed answer)"},
			&cli.DurationFlag{Name: "settle", Value: 500 * time.Millisecond, Usage: "with --cancel-at: keep listening until the peer is silent for `TIME`"},
			&cli.BoolFlag{Name: "keep-going", Usage: "continue after a difference and report all of them"},
			&cli.BoolFlag{Name: "repeat", Usage: "with --as unit: answer recorded requests in any order and any number of times, and unknown ones with an error"},
			&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Value: "text", Usage: "how to report: text, ndjson or junit"},
		}, rerunFlags(), listenFlags(), sessionFlags()),
		Action: inv.does(runReplay, needs("listen repeat", "as unit"),
			excludes("to", "listen").Because("give either --to stdout or a peer, not both"),
			excludes("cancel-at", "as unit").Because("--cancel-at does not go with --as unit: only controllers cancel"),
			excludes("cancel-at", "output junit").Because("--cancel-at reports as text or ndjson, not as junit")),
	})
}

// A player holds the operands and flags of replay.
type player struct {
	*invocation
	c       *cli.Context
	side    frame.Dir
	options replay.Options
	scripts []*replay.Script
	report  replay.Reporter
	exits   transport.Exits
}

func runReplay(inv *invocation, c *cli.Context) error {
	if folder, err := playedRun(inv); err != nil || folder != "" {
		return cmp.Or(err, rerun(inv, c, folder))
	}
	for _, f := range rerunFlags() {
		if name := f.Names()[0]; c.IsSet(name) {
			return usagef("--%s needs a run and an agent: wirectl replay run:ID -- AGENT", name)
		}
	}
	p, err := newPlayer(inv, c)
	if err != nil {
		return err
	}
	if err := p.load(); err != nil {
		return err
	}
	inv.Terminable()
	switch {
	case c.IsSet("cancel-at"):
		return p.sweep()
	case c.IsSet("listen"):
		return p.serve()
	case p.writes():
		return p.write()
	}
	return p.play()
}

// newPlayer reads the flags.
func newPlayer(inv *invocation, c *cli.Context) (*player, error) {
	p := &player{invocation: inv, c: c}
	switch c.String("as") {
	case "controller":
		p.side = frame.C2U
	case "unit":
		p.side = frame.U2C
	default:
		return nil, usagef("invalid --as %q: want controller or unit", c.String("as"))
	}
	switch {
	case len(inv.Operands) == 0:
		return nil, usagef("replay takes a SESSION and, after it, an ENDPOINT")
	case !slices.Contains([]string{"", "stdout", "-"}, c.String("to")):
		return nil, usagef("invalid --to %q: want stdout; name any other peer as ENDPOINT", c.String("to"))
	case !(c.Float64("speed") > 0):
		return nil, usagef("invalid --speed %v: want a factor over 0; to send at once, use --fast", c.Float64("speed"))
	}
	out, err := inv.table(c, replay.Forms...)
	if err != nil {
		return nil, err
	}
	if err := p.agree(); err != nil {
		return nil, err
	}
	p.options = replay.Options{
		Side: p.side, Speed: c.Float64("speed"), Timeout: c.Duration("timeout"), Limit: c.Int("limit-bytes"),
		KeepGoing: c.Bool("keep-going"), Cases: out.Form == table.AsJUnit,
	}
	p.report = replay.Reporter{Output: out, Brief: c.Bool("keep-going") || c.Bool("repeat")}
	if c.Bool("fast") {
		p.options.Speed = 0
	}
	p.options.Match, err = p.matcher()
	return p, err
}

// reportTo sets the writer of the report, on a stream of the environment.
func (p *player) reportTo(w, stream io.Writer) { p.report.To, p.report.Width = w, p.width(stream) }

// agree rejects flags that do not go together.
func (p *player) agree() error {
	c, peer := p.c, p.hasPeer()
	switch {
	case c.IsSet("to") && peer:
		return usagef("give either --to stdout or a peer, not both")
	case c.IsSet("listen") && peer:
		return usagef("give either --listen or an ENDPOINT, not both")
	case c.IsSet("conn") && p.overHTTP():
		return usagef("--conn does not go with HTTP: all its connections are one session")
	case c.IsSet("cancel-at") && !peer:
		return usagef("--cancel-at needs an ENDPOINT")
	}
	return nil
}

func (p *player) hasPeer() bool { return len(p.Endpoint) > 0 || len(p.Operands) > 1 }

// writes reports whether there is no peer.
func (p *player) writes() bool { return p.c.IsSet("to") || !p.hasPeer() && p.side == frame.C2U }

// matcher reads the flags that say how frames are compared.
func (p *player) matcher() (m replay.Matcher, err error) {
	c := p.c
	m.IgnoreChunks, m.Skip = c.Bool("ignore-chunks"), cmdline.ListOf(c, "ignore-kind")
	if m.Ignore, err = ignoredFields(c); err != nil {
		return m, err
	}
	kind := "exact"
	if p.side == frame.U2C && !c.Bool("repeat") {
		kind = "kind"
	}
	kind = cmp.Or(c.String("match"), kind)
	expr, isFilter := strings.CutPrefix(kind, "jq:")
	switch {
	case isFilter:
		program, err := query.CompileJQ(expr, p.printLine)
		if err != nil {
			return m, usagef("--match: %w", err)
		}
		m.Form = func(ctx context.Context, object []byte) ([]byte, error) {
			return program.Append(ctx, nil, object)
		}
	case kind == "exact":
		m.Exact = true
	case kind != "kind":
		return m, usagef("invalid --match %q: want exact, kind or jq:EXPR", kind)
	}
	return m, nil
}

// refuse rejects a frame whose bytes may differ from those on the wire.
func (p *player) refuse(it *decode.Item) error {
	switch name := label(p.Operands[0]); {
	case p.c.Bool("allow-redacted"):
		return nil
	case it.Redacted:
		return usagef("%s is redacted, so the peer may answer differently: use --allow-redacted to play it anyway", name)
	case it.Altered:
		return usagef("%s was altered while it was recorded: use --allow-redacted to play it anyway", name)
	}
	return nil
}

// load reads the session.
func (p *player) load() error {
	cfg, err := decodeConfig(p.c)
	if err != nil {
		return err
	}
	cfg.Wire = true
	name, session := p.Operands[0], new(replay.Session)
	if err := oneWire(p.invocation, name); err != nil {
		return err
	}
	cfg.Event = session.Event
	p.reportsAtEnd = true
	var refused error
	_, _, err = readThrough(p.invocation, p.c, name, cfg, func(decode.Input, decode.Config) decode.View {
		return func(dst []byte, it *decode.Item) ([]byte, error) {
			if refused = p.refuse(it); refused != nil {
				return dst, refused
			}
			session.Add(replay.Record{Seq: it.Seq, Time: it.Time, Frame: it.Frame, Framing: it.Framing, Protocol: it.Protocol})
			return dst, nil
		}
	})
	if err = cmp.Or(refused, err); err != nil {
		return err
	}
	scripts := session.Scripts
	switch {
	case p.overHTTP():
		scripts = session.WebScripts
	case p.over("grpc", "grpcs"):
		scripts = session.GRPCScripts
	}
	p.scripts = scripts(p.side)
	where := ""
	if p.c.IsSet("conn") {
		where = fmt.Sprintf(" in connection %d", p.c.Int("conn"))
		p.scripts = slices.DeleteFunc(p.scripts, func(s *replay.Script) bool { return s.Conn != p.c.Int("conn") })
	}
	p.scripts = slices.DeleteFunc(p.scripts, func(s *replay.Script) bool { return !s.Has(p.side) })
	if len(p.scripts) > 0 {
		p.schemes = p.scripts[0].Schemes()
	}
	p.report.Named = len(p.scripts) > 1 && !p.c.Bool("repeat")
	if len(p.scripts) == 0 {
		return fmt.Errorf("%s: no frames from the %s%s", label(name), cmp.Or(p.c.String("as"), "client"), where)
	}
	return nil
}

// overHTTP reports whether the peer speaks HTTP.
func (p *player) overHTTP() bool { return p.over("http", "https") }

// over reports whether the address of the peer has one of the schemes.
func (p *player) over(schemes ...string) bool {
	words := slices.Concat([]string{p.c.String("listen")}, p.Operands[1:], p.Endpoint)
	i := slices.IndexFunc(words, func(w string) bool { return w != "" })
	if i < 0 {
		return false
	}
	scheme, _, _ := strings.Cut(words[i], "://")
	return slices.Contains(schemes, scheme)
}

// write writes the bytes of the side to standard output.
func (p *player) write() error {
	for _, s := range p.scripts {
		if err := s.Write(p.c.Context, p.Stdout, p.side, p.options.Speed); err != nil {
			return err
		}
	}
	return nil
}

// play plays each connection against the peer, one after the other.
func (p *player) play() error {
	dial, err := p.dialer()
	if err != nil {
		return err
	}
	p.options.Trace = p.report.Trace(time.Now())
	var failed error
	for _, s := range p.players() {
		conn, err := dial(p.c.Context)
		if err != nil {
			return err
		}
		result, err := s.Run(p.c.Context, conn, p.options)
		if err != nil {
			return err
		}
		err = p.tellResult(p.Operands[0], &result)
		failed = cmp.Or(failed, err)
		if err != nil && !(is[*faultError](err) && p.options.KeepGoing) {
			break
		}
	}
	return cmp.Or(p.report.Close(), failed)
}

// players returns the players, one for each connection unless they repeat.
func (p *player) players() []replay.Player {
	if p.c.Bool("repeat") {
		return []replay.Player{replay.NewRepeater(p.scripts, p.options.Match.Ignore)}
	}
	return mapped(p.scripts, func(s *replay.Script) replay.Player { return s })
}

// serve plays the unit for all clients.
func (p *player) serve() error {
	l, err := p.listen(p.c, false)
	if err != nil {
		return err
	}
	defer l.Close()
	announce(p.invocation, p.c, l)
	p.options.Trace = p.report.Trace(time.Now())
	var failed error
	err = replay.Serve(p.c.Context, l, p.players(), p.options, p.c.Int("clients"), func(client int, r replay.Result, err error) {
		who := fmt.Sprintf("client %d", client)
		if err == nil {
			err = p.tellResult(who, &r)
		}
		if err != nil && p.c.Context.Err() == nil {
			p.say(who, err.Error())
			failed = err
		}
	})
	return cmp.Or(p.report.Close(), err, failed)
}

// sweep cancels a request at one point of its answer, or at all points.
func (p *player) sweep() error {
	at, err := replay.ParseCancelAt(p.c.String("cancel-at"))
	if err != nil {
		return usagef("invalid --cancel-at %w", err)
	}
	dial, err := p.dialer()
	if err != nil {
		return err
	}
	var points []*replay.Point
	sweep := replay.Sweep{Request: p.c.Int64("request"), At: at, Settle: p.c.Duration("settle"), Dial: dial}
	for _, s := range p.scripts {
		err = s.Sweep(p.c.Context, p.options, sweep, func(point *replay.Point) error {
			points = append(points, point)
			return p.report.AddPoint(point)
		})
		if !errors.Is(err, replay.ErrNoRequest) {
			break
		}
	}
	if errors.Is(err, replay.ErrNoRequest) {
		return fmt.Errorf("%s: %w: name one with --request", label(p.Operands[0]), err)
	}
	if err != nil {
		return err
	}
	if slices.ContainsFunc(points, (*replay.Point).Breaks) {
		return &faultError{errors.New(replay.Summary(points))}
	}
	p.unlessQuiet(p.c, replay.Summary(points))
	return nil
}

// dialer returns the function that connects to the peer. A unit without a peer uses standard input
// and output, and reports on standard error.
func (p *player) dialer() (func(context.Context) (transport.Conn, error), error) {
	if !p.hasPeer() {
		p.Endpoint = []string{"stdio"}
	}
	e, err := p.endpoint(p.c, 1)
	if err != nil {
		return nil, err
	}
	if e.String() == "stdio" {
		p.reportTo(p.Stderr, p.Stderr)
	}
	return transport.Shown{Endpoint: e, Stderr: p.Stderr, Ended: p.exits.Add, Lingers: lingers(p.invocation, p.c)}.Dial, nil
}

// tellResult reports a run, and fails if the peer differed from the recording.
func (p *player) tellResult(who string, r *replay.Result) error {
	if err := p.report.AddResult(who, r); err != nil {
		return err
	}
	if r.Differences > 0 {
		return p.fault(r)
	}
	if !p.c.Bool("quiet") {
		p.say(who, r.Summary())
	}
	return nil
}

// fault returns the error of a divergence. If the peer has gone, it says how its program ended. A
// program that did not start is not the fault of a peer.
func (p *player) fault(r *replay.Result) error {
	d, err := r.Divergence(), errors.New(r.DifferenceText())
	failed := p.exits.Failed()
	switch {
	case d.What != replay.Gone || failed == nil:
	case is[*transport.StartError](failed):
		return failed
	default:
		err = fmt.Errorf("%w: %w", err, failed)
	}
	return &faultError{err}
}
