package commands

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/wirectl/wirectl/broker"
	"github.com/wirectl/wirectl/broker/host"
	"github.com/wirectl/wirectl/broker/observe"
	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/capture/history"
	"github.com/wirectl/wirectl/capture/tap"
	"github.com/wirectl/wirectl/hub"
	"github.com/wirectl/wirectl/hub/server"
	"github.com/wirectl/wirectl/hub/share"
	"github.com/wirectl/wirectl/internal/cmdline"
	"github.com/wirectl/wirectl/session/query"
	"github.com/wirectl/wirectl/table"
	"github.com/wirectl/wirectl/web"
)

func hubCommand(inv *invocation) *cli.Command {
	return &cli.Command{
		Name: "hub", Category: between, Usage: "collect the sessions of many machines", ArgsUsage: "[token NAME]",
		Description: "Runs a hub. Relays and brokers send it their sessions (--hub), and commands read\n" +
			"these as hub:SESSION. token prints the credentials for a client on another machine.\n\n" +
			"   wirectl hub\n" +
			"   wirectl hub --nats nats://nats.example:4222 --creds hub.creds\n" +
			"   wirectl hub token --publish build-7 > build-7.token",
		Flags: hubFlags(), Action: inv.does(runHub),
	}
}

func (inv *invocation) saysHub(text string) { inv.say("hub", text) }

// hubFlags returns the flags of the command that runs a hub.
func hubFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "listen", Value: "127.0.0.1:4222", Usage: "listen on `HOST:PORT`; beyond loopback, needs --tls-cert"},
		&cli.StringFlag{Name: "tls-cert", Usage: "read the hub's certificate from `FILE` (PEM)"},
		&cli.StringFlag{Name: "tls-key", Usage: "read the private key of --tls-cert from `FILE` (PEM)"},
		&cli.StringFlag{Name: "nats", Usage: "use the NATS server or cluster at `URL` instead of an embedded server"},
		&cli.StringFlag{Name: "creds", Usage: "with --nats: read credentials from `FILE`"},
		&cli.Int64Flag{Name: "max-bytes", Value: 10 << 30, Usage: "keep the newest `N` bytes of all sessions"},
		&cli.DurationFlag{Name: "max-age", Value: 30 * 24 * time.Hour, Usage: "keep frames for `TIME`"},
		&cli.BoolFlag{Name: "reindex", Usage: "rebuild the index that searches use"},
		&cli.StringFlag{Name: "page", Value: "127.0.0.1:0", Usage: "serve the web page of all sessions at `HOST:PORT` on loopback; if empty, serve none"},
		&cli.StringFlag{Name: "otlp", Usage: "export spans and metrics of incoming sessions to the OpenTelemetry collector at `URL`"},
		&cli.BoolFlag{Name: "publish", Usage: "token: allow sending sessions only"},
		&cli.BoolFlag{Name: "view", Usage: "token: allow viewing sessions only"},
		&cli.BoolFlag{Name: "broker", Usage: "token: allow sharing limits with other brokers, and using workers"},
		&cli.BoolFlag{Name: "worker", Usage: "token: allow working for brokers"},
		&cli.BoolFlag{Name: "control", Usage: "let the page cancel, resend, hold, edit and drop frames of relays with --hub-control; token: allow the same, and viewing sessions"},
	}
}

// runHub makes a token if the operands say so. Without operands, it runs a hub and its page.
func runHub(inv *invocation, c *cli.Context) error {
	inv.Terminable()
	inv.Linger(server.EndTime)
	dir, err := hub.State(inv.Getenv)
	if err != nil {
		return err
	}
	dir = filepath.Join(dir, "hub")
	switch words := inv.Operands; {
	case len(words) == 0 && c.Int64("max-bytes") <= 0:
		return usagef("invalid --max-bytes %d: want more than 0", c.Int64("max-bytes"))
	case len(words) == 0:
		o := server.Options{
			Dir: dir, Listen: c.String("listen"), TLSCert: c.String("tls-cert"), TLSKey: c.String("tls-key"),
			NATS: c.String("nats"), Creds: c.String("creds"), MaxBytes: c.Int64("max-bytes"), MaxAge: c.Duration("max-age"),
			Reindex: c.Bool("reindex"), OTLP: c.String("otlp"), Getenv: inv.Getenv, Warn: inv.saysHub,
		}
		if listen := c.String("page"); listen != "" {
			o.Page = func(ctx context.Context, conn *hub.Conn, metrics http.Handler) error {
				return asTyped(listen, web.Run(ctx, web.Options{Library: hub.Library{Conn: conn}, Listen: listen, Metrics: metrics, Control: c.Bool("control"), Speaks: methodProtocols}, inv.Stdout))
			}
		}
		return server.Run(c.Context, o, inv.Stdout)
	case len(words) == 2 && words[0] == "token":
		var rights []server.Right
		for _, right := range server.Rights {
			if c.Bool(string(right)) {
				rights = append(rights, right)
			}
		}
		if len(rights) == 1 {
			creds, err := server.NewToken(dir, words[1], rights[0])
			if err == nil {
				_, err = inv.Stdout.Write(creds)
			}
			return err
		}
	}
	return usagef("write wirectl hub, or hub token NAME with one of --publish, --view, --control, --broker and --worker")
}

// findFlags returns the flags of the command that finds sessions at a hub.
func findFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "where", Usage: "only sessions that match `QUERY`, such as 'failures>0' or, with --hub, 'tool==search and text~timeout'"},
		&cli.StringFlag{Name: "since", Usage: "only sessions active at `TIME` or later, such as 2h, 2026-01-31 or 2026-01-31T18:00"},
		&cli.StringFlag{Name: "until", Usage: "only sessions that began by `TIME`"},
	}
}

// listHub lists the sessions at the hub that match the flags and the operands.
func listHub(inv *invocation, c *cli.Context) error {
	out, err := inv.table(c, table.AsText, table.AsNDJSON)
	if err != nil {
		return err
	}
	q := hub.Query{Words: inv.Operands, Where: c.String("where")}
	if q.Where != "" {
		if _, err := query.Parse(q.Where, hub.Fields); err != nil {
			return usagef("--where: %w", err)
		}
	}
	if q.Since, q.Until, err = timesOf(c); err != nil {
		return err
	}
	return hub.WriteSessions(c.Context, inv.Getenv, q, out, inv.saysHub)
}

// timesOf returns the times of --since and --until; zero for one that is not given.
func timesOf(c *cli.Context) (since, until time.Time, err error) {
	since, err = cmdline.TimeOf(c, "since")
	until, wrong := cmdline.TimeOf(c, "until")
	return since, until, cmp.Or(err, wrong)
}

// sendFlags returns the flags of commands that send sessions to a hub.
func sendFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "hub", Usage: "also send the session to the hub at `URL` (default: WIRECTL_HUB)"},
		&cli.StringFlag{Name: "hub-policy", Value: string(hub.Lossy), Usage: "drop and count frames, or keep them on disk, while the hub is slow or unreachable: lossy, lossless"},
		&cli.StringFlag{Name: "hub-level", Value: "full", Usage: "send everything except known secrets, or only metadata: full, metadata"},
	}
}

// sendingOf returns how sessions are sent to a hub; nil if they are not.
func sendingOf(inv *invocation, c *cli.Context) (*hub.Sending, error) {
	address := c.String("hub")
	if !c.IsSet("hub") {
		address = inv.Getenv(hub.Variable)
	}
	if address == "" {
		return nil, nil
	}
	s := &hub.Sending{Kind: c.Command.Name, Policy: hub.Policy(c.String("hub-policy")), Level: history.Level(c.String("hub-level")), Control: c.Bool("hub-control"), Say: inv.saysHub, Warn: inv.saysHub}
	if c.Bool("quiet") {
		s.Say = func(string) {}
	}
	var err error
	s.Address, err = hub.ParseAddress(address)
	switch {
	case !slices.Contains(hub.Policies, s.Policy):
		err = fmt.Errorf("invalid --hub-policy %q: want lossy or lossless", s.Policy)
	case !slices.Contains(history.Levels, s.Level):
		err = fmt.Errorf("invalid --hub-level %q: want full or metadata", s.Level)
	}
	if err != nil {
		return nil, usagef("%w", err)
	}
	s.State, err = hub.State(inv.Getenv)
	return s, err
}

// senderOf returns the function that opens a session for sending; nil if nothing is sent.
func senderOf(inv *invocation, c *cli.Context) (tap.SendFunc, error) {
	s, err := sendingOf(inv, c)
	if s == nil {
		return nil, err
	}
	return s.Open, err
}

// withSender calls work with a writer whose records are sent to a hub; it is nil if nothing is
// sent.
func withSender(inv *invocation, c *cli.Context, unit string, work func(see capture.Writer) error) error {
	s, err := sendingOf(inv, c)
	switch {
	case err != nil:
		return err
	case s == nil:
		return work(nil)
	}
	return s.During(unit, work)
}

// joinFlag returns the flag of commands whose broker may join others.
func joinFlag() cli.Flag {
	return &cli.StringFlag{Name: "join", Usage: "share limits with the brokers at the hub at `URL`, and use its workers"}
}

// workFlags returns the flags of a broker that may work for others.
func workFlags() []cli.Flag {
	return []cli.Flag{
		joinFlag(),
		&cli.BoolFlag{Name: "worker", Usage: "with --join: take calls from the brokers at the hub instead of opening doors"},
		&cli.StringSliceFlag{Name: "models", Usage: "with --worker: offer the models that match `PATTERN`, such as 'llama-*' (default: all in the configuration)"},
		&cli.IntFlag{Name: "parallel", Value: 4, Usage: "with --worker: take at most `N` calls at once"},
	}
}

// joinHub makes a broker join others, or work for them, if the flags say so.
func joinHub(c *cli.Context, o *host.Options) error {
	o.JoinURL, o.Join = c.String("join"), func(ctx context.Context, url string, open bool, warn func(string)) (host.Joined, error) {
		return share.Join(ctx, share.Options{URL: url, Open: open, Warn: warn})
	}
	switch {
	case c.Command.Name != "serve":
		return nil // --parallel is another flag there
	case !c.Bool("worker"):
		return nil
	case c.Int("parallel") < 1:
		return usagef("invalid --parallel %d: want a number from 1", c.Int("parallel"))
	}
	o.Work = func(url string, b *broker.Broker, p *observe.Publisher, warn func(string)) (host.Worker, error) {
		models, err := share.Offers(b, cmdline.ListOf(c, "models"))
		if err != nil {
			return nil, usagef("%w", err)
		}
		return share.Work(share.WorkOptions{URL: url, Broker: b, Publisher: p, Models: models, Parallel: c.Int("parallel"), Warn: warn})
	}
	return nil
}
