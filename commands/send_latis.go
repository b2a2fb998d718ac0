package commands

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"

	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/peer/client"
	"github.com/wirectl/wirectl/protocol/latis"
)

func (s *sending) latis() (*dialer, error) {
	content, hasPrompt, err := s.prompt()
	if err != nil {
		return nil, err
	}
	metadata, err := pairs(s.c, "metadata")
	if err != nil {
		return nil, err
	}
	if err := checkText("--session", s.c.String("session")); err != nil {
		return nil, err
	}
	after, err := s.cancelAfter()
	if err != nil {
		return nil, err
	}
	prompt := client.LatisPrompt{Content: content, Metadata: metadata, Cancel: after}
	call, err := latisCall(s, prompt, hasPrompt)
	if err != nil {
		return nil, err
	}
	return &dialer{latis.Protocol, func(ctx context.Context) (*peer, error) {
		conn, err := s.reached().Dial(ctx)
		if err != nil {
			return nil, err
		}
		l := client.DialLatis(conn, s.watch)
		if err := enterSession(s, ctx, l, metadata); err != nil {
			return nil, cmp.Or(err, l.Close())
		}
		return &peer{subscribed(s, l, call), l.Close}, nil
	}}, nil
}

// latisCall returns what is to be asked for; nil where the session, or what it tells by
// itself, is all.
func latisCall(s *sending, prompt client.LatisPrompt, hasPrompt bool) (func(*client.Latis) client.Call, error) {
	session, state := s.c.String("session"), s.c.Bool("state")
	switch {
	case s.method == "ping" && !hasPrompt:
		return (*client.Latis).Ping, nil
	case s.method == "destroy" && session != "":
		return func(l *client.Latis) client.Call {
			return func(ctx context.Context, _ func(client.Part)) error { return l.DestroySession(ctx, session) }
		}, nil
	case s.method != "":
		return nil, usagef("latis has the methods ping and, with --session ID, destroy; what else there is to ask for is flags: --prompt, --state, --subscribe")
	case hasPrompt:
		return func(l *client.Latis) client.Call {
			p := prompt // of this connection
			if state {
				p.Beside = l.State()
			}
			return l.Prompt(p)
		}, nil
	case state:
		return (*client.Latis).State, nil
	case !s.c.Bool("subscribe") && session == "":
		return nil, usagef("say what to ask for: --prompt TEXT, --state, --subscribe, --session ID, or ping behind latis")
	}
	return nil, nil
}

// subscribed adds what --subscribe asks for to a call, which is nil where the
// session is all that was to be asked for.
func subscribed(s *sending, l *client.Latis, call func(*client.Latis) client.Call) client.Call {
	switch {
	case call == nil && s.c.Bool("subscribe"):
		return l.Subscribe()
	case call == nil:
		return func(context.Context, func(client.Part)) error { return nil }
	case !s.c.Bool("subscribe"):
		return call(l)
	}
	return client.During(l.Subscribe(), call(l))
}

// enterSession makes or resumes the session that --session names.
func enterSession(s *sending, ctx context.Context, l *client.Latis, metadata map[string]string) error {
	switch id := s.c.String("session"); {
	case id == "" || s.method == "destroy":
		return nil
	case id == "new":
		id, err := l.CreateSession(ctx, metadata)
		if err == nil {
			fmt.Fprintf(s.Stderr, "wirectl: the session is %s\n", render.Safe(id))
		}
		return err
	default:
		state, err := l.ResumeSession(ctx, id)
		if err == nil && !s.c.Bool("quiet") {
			b, _ := json.Marshal(state) // strings always can be
			fmt.Fprintf(s.Stderr, "wirectl: the session is resumed: %s\n", render.Safe(string(b)))
		}
		return err
	}
}
