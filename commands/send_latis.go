package commands

import (
	"cmp"
	"context"
	"fmt"

	"github.com/wirectl/wirectl/internal/cmdline"
	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/peer/client"
	"github.com/wirectl/wirectl/protocol/latis"
)

func (s *sending) latis() (*dialer, error) {
	ask, err := s.latisAsk()
	if err != nil {
		return nil, err
	}
	return &dialer{latis.Protocol, func(ctx context.Context) (*peer, error) {
		conn, err := s.reached().Dial(ctx)
		if err != nil {
			return nil, err
		}
		l := client.DialLatis(conn, s.watch)
		if err := ask.Enter(ctx, l); err != nil {
			return nil, cmp.Or(err, l.Close())
		}
		return &peer{ask.Call(l), l.Close}, nil
	}}, nil
}

// latisAsk reads what is to be asked for.
func (s *sending) latisAsk() (*client.LatisAsk, error) {
	content, hasPrompt, err := s.prompt()
	if err != nil {
		return nil, err
	}
	ask := &client.LatisAsk{
		Session: s.c.String("session"), State: s.c.Bool("state"), Subscribe: s.c.Bool("subscribe"),
		Created: func(id string) { fmt.Fprintf(s.Stderr, "wirectl: the session is %s\n", render.Safe(id)) },
		Resumed: func(state string) { s.unlessQuiet(s.c, "the session is resumed: "+render.Safe(state)) },
	}
	if ask.Metadata, err = cmdline.PairsOf(s.c, "metadata"); err != nil {
		return nil, err
	}
	if err := cmdline.CheckText("--session", ask.Session); err != nil {
		return nil, err
	}
	after, err := s.cancelAfter()
	if err != nil {
		return nil, err
	}
	if hasPrompt {
		ask.Prompt = &client.LatisPrompt{Content: content, Metadata: ask.Metadata, Cancel: after}
	}
	ask.Ping = s.method == "ping" && !hasPrompt
	ask.Destroy = s.method == "destroy" && ask.Session != ""
	switch {
	case s.method != "" && !ask.Ping && !ask.Destroy:
		return nil, usagef("latis has the methods ping and, with --session ID, destroy; for all else use the flags --prompt, --state and --subscribe")
	case ask.IsEmpty():
		return nil, usagef("nothing to send: give --prompt TEXT, --state, --subscribe or --session ID, or write ping after latis")
	}
	return ask, nil
}
