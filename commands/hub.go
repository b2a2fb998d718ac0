package commands

import (
	"path/filepath"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/wirectl/wirectl/hub"
	"github.com/wirectl/wirectl/hub/server"
)

func hubCommand(inv *invocation) *cli.Command {
	return &cli.Command{
		Name: "hub", Category: between, Usage: "bring the sessions of many machines together", ArgsUsage: "[token NAME]",
		Description: "Runs a hub: relays and brokers send it what passes (--hub), and commands read that as\n" +
			"hub:SESSION. token prints the credentials that a client from beyond this machine needs.\n\n" +
			"   wirectl hub\n" +
			"   wirectl hub --nats nats://nats.example:4222 --creds hub.creds\n" +
			"   wirectl hub token --publish build-7 > build-7.token",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "listen", Value: "127.0.0.1:4222", Usage: "listen at `HOST:PORT`; beyond loopback with --tls-cert"},
			&cli.StringFlag{Name: "tls-cert", Usage: "the certificate of the hub, in `FILE` (PEM)"},
			&cli.StringFlag{Name: "tls-key", Usage: "the key of --tls-cert, in `FILE` (PEM)"},
			&cli.StringFlag{Name: "nats", Usage: "use the server or cluster of NATS at `URL`, rather than one of its own"},
			&cli.StringFlag{Name: "creds", Usage: "with --nats: the credentials in `FILE`"},
			&cli.Int64Flag{Name: "max-bytes", Value: 10 << 30, Usage: "keep the newest `N` bytes of all sessions"},
			&cli.DurationFlag{Name: "max-age", Value: 30 * 24 * time.Hour, Usage: "keep what is not older than `TIME`"},
			&cli.BoolFlag{Name: "publish", Usage: "token: it can send sessions, and see none"},
			&cli.BoolFlag{Name: "view", Usage: "token: it can see sessions, and send none"},
		},
		Action: inv.does(runHub),
	}
}

func runHub(inv *invocation, c *cli.Context) error {
	dir, err := hub.State(inv.Getenv)
	if err != nil {
		return err
	}
	o := server.Options{
		Dir: filepath.Join(dir, "hub"), Listen: c.String("listen"), TLSCert: c.String("tls-cert"), TLSKey: c.String("tls-key"),
		NATS: c.String("nats"), Creds: c.String("creds"), MaxBytes: c.Int64("max-bytes"), MaxAge: c.Duration("max-age"),
		Warn: func(text string) { inv.say("hub", text) },
	}
	switch words := inv.Operands; {
	case len(words) == 0:
		inv.Terminable()
		inv.Linger(server.EndTime)
		return server.Run(c.Context, o, inv.Stdout)
	case len(words) == 2 && words[0] == "token" && c.Bool("publish") != c.Bool("view"):
		return server.PrintToken(inv.Stdout, o.Dir, words[1], c.Bool("view"))
	}
	return usagef("write wirectl hub, hub token --publish NAME or hub token --view NAME")
}

// hubFlags are those of commands whose sessions go to a hub.
func hubFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "hub", Usage: "send what passes to the hub at `URL` as well (default: WIRECTL_HUB)"},
		&cli.StringFlag{Name: "hub-policy", Value: string(hub.Lossy), Usage: "what becomes of frames while the hub is slow or away, dropped and counted or kept on disk: lossy, lossless"},
		&cli.StringFlag{Name: "hub-level", Value: "full", Usage: "what to send, everything but known secrets or an outline: full, metadata"},
	}
}

// sending is how what passes goes to a hub; nil if it does not.
func (inv *invocation) sending(c *cli.Context) (*hub.Sending, error) {
	warn := func(text string) { inv.say("hub", text) }
	s, err := hub.NewSending(inv.Getenv, c.Command.Name, hub.Flags{
		Address: c.String("hub"), Given: c.IsSet("hub"), Policy: c.String("hub-policy"), Level: c.String("hub-level"), Quiet: c.Bool("quiet"),
	}, warn)
	if err != nil {
		return nil, usagef("%w", err)
	}
	return s, nil
}
