// Package command has the flags of the served page, and runs it.
package command

import (
	"context"
	"io"

	"github.com/urfave/cli/v2"

	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/decode/source"
	"github.com/wirectl/wirectl/internal/cmdline"
	"github.com/wirectl/wirectl/web"
)

// Flags are the flags of the command that serves the page of this machine.
func Flags() []cli.Flag {
	return []cli.Flag{
		&cli.BoolFlag{Name: "web", Usage: "serve the monitor as a web page and print its address"},
		&cli.StringFlag{Name: "listen", Value: "127.0.0.1:0", Usage: "with --web: listen at `HOST:PORT`"},
		&cli.BoolFlag{Name: "remote", Usage: "with --web: allow --listen beyond loopback, without encryption"},
		&cli.BoolFlag{Name: "control", Usage: "with --web: let the page cancel, resend, hold, edit and drop frames of a relay that takes commands"},
	}
}

// Run serves the page of the named session, or of all sessions, until ctx ends.
func Run(ctx context.Context, c *cli.Context, sessions []string, opener *source.Opener, cfg decode.Config, out io.Writer) error {
	if len(sessions) > 1 {
		return cmdline.Errorf("monitor takes one session; got %d", len(sessions))
	}
	l := &web.Local{Opener: opener, Config: cfg, Follow: c.Bool("follow")}
	if len(sessions) == 1 {
		l.Only = sessions[0]
	}
	return web.Run(ctx, web.Options{
		Library: l, Only: l.Only, Listen: c.String("listen"), Remote: c.Bool("remote"), Control: c.Bool("control"), Config: cfg,
	}, out)
}
