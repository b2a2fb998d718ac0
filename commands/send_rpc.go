package commands

import (
	"cmp"
	"context"
	"path/filepath"

	"github.com/wirectl/wirectl/peer/client"
	"github.com/wirectl/wirectl/transport"
)

// rpc returns how a dialect of JSON-RPC is spoken.
func (s *sending) rpc(d *client.Dialect) func() (*dialer, error) {
	return func() (*dialer, error) {
		text, hasPrompt, err := s.prompt()
		switch {
		case err != nil:
			return nil, err
		case s.method == "" && !hasPrompt:
			return nil, usagef("name a METHOD: wirectl send %s METHOD PARAMS %v", s.protocol, s.endpoint)
		}
		version := s.c.Int("acp-version")
		if version != 1 && version != 2 {
			return nil, usagef("invalid --acp-version %d: want 1 or 2", version)
		}
		o := client.RPCOptions{ACPVersion: version, Version: buildVersion(), Allow: s.c.Bool("allow"), NoHandshake: s.c.Bool("no-handshake")}
		if o.Dir, err = filepath.Abs(s.c.String("dir")); err != nil { // of none it is the working directory
			return nil, err
		}
		if o.Stateless = s.c.Bool("stateless"); s.c.IsSet("input") {
			if !o.Stateless {
				return nil, usagef("--input answers a server of MCP 2026-07-28: add --stateless")
			}
			if o.Inputs, err = inputsOf(s, nil); err != nil {
				return nil, err
			}
		}
		return &dialer{d.Protocol, func(ctx context.Context) (*peer, error) {
			r, err := dialRPC(s, ctx, d, o)
			if err != nil {
				return nil, err
			}
			call, err := rpcCall(s, ctx, r, text, hasPrompt)
			if err != nil {
				return nil, cmp.Or(err, r.Close())
			}
			return &peer{call, r.Close}, nil
		}}, nil
	}
}

func dialRPC(s *sending, ctx context.Context, d *client.Dialect, o client.RPCOptions) (*client.RPC, error) {
	if e, ok := s.endpoint.(transport.HTTP); ok {
		h, err := s.httpOptions()
		if err != nil {
			return nil, err
		}
		return client.DialHTTP(ctx, e.String(), d, s.watch, o, h)
	}
	conn, err := s.reached().Dial(ctx)
	if err != nil {
		return nil, err
	}
	return client.DialRPC(ctx, conn, d, s.watch, o)
}

func rpcCall(s *sending, ctx context.Context, r *client.RPC, text string, hasPrompt bool) (client.Call, error) {
	switch {
	case hasPrompt:
		_, err := r.NewSession(ctx)
		return r.Prompt(text), err
	case s.c.Bool("notify"):
		return r.Notify(s.method, s.params), nil
	}
	return r.Call(s.method, s.params), nil
}
