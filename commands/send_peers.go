package commands

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/wirectl/wirectl/internal/cmdline"
	"github.com/wirectl/wirectl/internal/nearest"
	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/peer/client"
	runtime "github.com/wirectl/wirectl/peer/theory"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/a2a"
	"github.com/wirectl/wirectl/protocol/jsonrpc"
	"github.com/wirectl/wirectl/protocol/latis"
	"github.com/wirectl/wirectl/protocol/nexus"
	"github.com/wirectl/wirectl/protocol/rlm"
	"github.com/wirectl/wirectl/protocol/theory"
	"github.com/wirectl/wirectl/transport"
	"github.com/wirectl/wirectl/transport/mcphttp"
)

// A dialer reaches the peer when all flags have been read.
type dialer struct {
	protocol protocol.Protocol
	dial     func(ctx context.Context) (*peer, error)
}

// sendProtocols are those that send speaks, and methodProtocols those of which it sends any method.
var (
	sendProtocols   = []string{"latis", "rlm", "theory", "nexus", "mcp", "acp", "codex", "a2a", "lsp", "dap", "jsonrpc"}
	methodProtocols = sendProtocols[3:]
)

// dialer returns how the protocol is spoken that was named.
func (s *sending) dialer() (*dialer, error) {
	if s.params != nil && !json.Valid(s.params) {
		return nil, usagef("invalid PARAMS %q: want JSON", s.params)
	}
	switch s.protocol {
	case rlm.Protocol.Name(), theory.Protocol.Name(), nexus.Protocol.Name(), a2a.Name:
		if s.c.String("listen") != "" {
			return nil, usagef("--listen does not go with %s, which opens a connection for each request: name an ENDPOINT", s.protocol)
		}
	}
	for _, p := range []struct {
		protocol protocol.Protocol
		dialer   func() (*dialer, error)
	}{
		{latis.Protocol, s.latis},
		{rlm.Protocol, s.rlm},
		{theory.Protocol, s.theory},
		{nexus.Protocol, s.nexus},
		{jsonrpc.MCP, s.rpc(client.MCP)},
		{jsonrpc.ACP, s.rpc(client.ACP)},
		{jsonrpc.A2A, s.a2a},
		{jsonrpc.Codex, s.rpc(client.Codex)},
		{jsonrpc.LSP, s.rpc(client.LSP)},
		{jsonrpc.DAP, s.rpc(client.DAP)},
		{jsonrpc.Plain, s.rpc(client.Plain)},
	} {
		if p.protocol.Name() == s.protocol {
			if err := s.flagsFit(); err != nil {
				return nil, err
			}
			return p.dialer()
		}
	}
	return nil, usagef("unknown protocol %q%s: send speaks %s", s.protocol, nearest.Question(s.protocol, sendProtocols), strings.Join(sendProtocols, ", "))
}

// flagsFit refuses the flags that are about other protocols: a cancel that was
// asked for and never sent should not pass for one.
func (s *sending) flagsFit() error {
	for _, f := range s.c.Command.Flags {
		name := f.Names()[0]
		about := protocolsOf(f)
		if len(about) > 0 && s.c.IsSet(name) && !slices.Contains(about, s.protocol) {
			return usagef("--%s goes with %s, not with %s; see wirectl help send", name, strings.Join(about, ", "), s.protocol)
		}
	}
	return nil
}

// protocolsOf are the protocols that a flag is about, which its sentence begins
// with, as in "nexus, mcp over HTTP: …"; none if it is about all.
func protocolsOf(f cli.Flag) []string {
	list, _, _ := strings.Cut(cmdline.UsageOf(f), ": ")
	var about []string
	for item := range strings.SplitSeq(list, ", ") {
		name, _, _ := strings.Cut(item, " ")
		if !slices.Contains(sendProtocols, name) {
			return nil
		}
		about = append(about, name)
	}
	return about
}

func (s *sending) cancelAfter() (client.CancelAfter, error) {
	text := s.c.String("cancel-after")
	if text == "" {
		return client.CancelAfter{}, nil
	}
	after, err := client.ParseCancelAfter(text)
	if err != nil {
		return after, usagef("--cancel-after: %v", err)
	}
	return after, nil
}

func (s *sending) rlm() (*dialer, error) {
	q := client.RLMRequest{Model: s.c.String("model")}
	text, hasPrompt, err := s.prompt()
	switch err = cmp.Or(err, cmdline.CheckText("--model", q.Model)); {
	case err != nil:
		return nil, err
	case hasPrompt == s.c.IsSet("prompts"):
		return nil, usagef("rlm takes either --prompt TEXT or --prompts FILE")
	case hasPrompt:
		q.Prompts = []json.RawMessage{quoted(text)}
	default:
		if q.Prompts, err = readPrompts(s, s.c.String("prompts")); err != nil {
			return nil, err
		}
		q.Batch = true
	}
	if len(q.Prompts) == 0 {
		return &dialer{rlm.Protocol, func(context.Context) (*peer, error) {
			fmt.Fprintf(s.Stderr, "wirectl: no prompts in %s: nothing was sent\n", label(s.c.String("prompts")))
			return &peer{func(context.Context, func(client.Part)) error { return nil }, nothing}, nil
		}}, nil
	}
	return &dialer{rlm.Protocol, func(context.Context) (*peer, error) {
		return &peer{client.NewRLM(s.reached(), s.watch).Ask(q), nothing}, nil
	}}, nil
}

func nothing() error { return nil }

// quoted returns text as a JSON string.
func quoted(text string) json.RawMessage {
	b, _ := json.Marshal(text) // strings always can be
	return b
}

// readPrompts reads a file of prompts: a JSON array of them, or a line each.
func readPrompts(s *sending, name string) ([]json.RawMessage, error) {
	data, err := s.readFile(s.c.Context, name)
	if err = cmp.Or(err, cmdline.CheckText(label(name), string(data))); err != nil {
		return nil, err
	}
	prompts := client.ReadPrompts(data)
	if prompts == nil {
		return nil, usagef("no prompts in %s", label(name))
	}
	return prompts, nil
}

func (s *sending) theory() (*dialer, error) {
	q, err := theoryRequest(s)
	if err != nil {
		return nil, err
	}
	if q.Cancel, err = s.cancelAfter(); err != nil {
		return nil, err
	}
	address := s.endpoint.String()
	if !strings.HasPrefix(address, "ws://") && !strings.HasPrefix(address, "wss://") {
		return nil, usagef("theory needs a WebSocket ENDPOINT, ws://HOST:PORT or wss://…; got %s", address)
	}
	h, err := s.httpOptions()
	if err != nil {
		return nil, err
	}
	return &dialer{theory.Protocol, func(context.Context) (*peer, error) {
		return &peer{client.NewTheory(address, s.watch, h).Run(q), nothing}, nil
	}}, nil
}

// theoryRequest is that of --request, with what other flags change in it.
func theoryRequest(s *sending) (q client.RunRequest, err error) {
	if q.Dialect, err = theory.ParseDialect(s.c.String("dialect")); err != nil {
		return q, usagef("invalid --dialect %w", err)
	}
	read := &runtime.Intent{}
	if name := s.c.String("request"); name != "" {
		data, err := s.readFile(s.c.Context, name)
		if err != nil {
			return q, err
		}
		if read, err = parseIntent(name, data); err != nil {
			return q, err
		}
	}
	q.RunID, q.Mode = read.Control.RunID, read.Control.Mode
	if s.c.IsSet("run-id") {
		q.RunID = quoted(s.c.String("run-id"))
	}
	if q.Mode == "" || s.c.IsSet("mode") {
		q.Mode = s.c.String("mode")
	}
	if q.Inputs, err = inputsOf(s, read.Inputs); err != nil {
		return q, err
	}
	places, err := cmdline.PairsOf(s.c, "output-to")
	if err != nil {
		return q, err
	}
	q.Outputs = map[string]json.RawMessage{}
	maps.Copy(q.Outputs, read.Outputs)
	for name, place := range places {
		q.Outputs[name] = quoted(place)
	}
	return q, nil
}

// inputsOf are those requested, and those of --input-file and --input.
func inputsOf(s *sending, requested map[string]json.RawMessage) (map[string]json.RawMessage, error) {
	inputs := map[string]json.RawMessage{}
	maps.Copy(inputs, requested)
	if name := s.c.String("input-file"); name != "" {
		data, err := s.readFile(s.c.Context, name)
		if err != nil {
			return nil, err
		}
		if err := json.Unmarshal(data, &inputs); err != nil {
			return nil, usagef("%s is not a JSON object: %v", label(name), err)
		}
	}
	given, err := cmdline.PairsOf(s.c, "input")
	for name, value := range given {
		inputs[name] = json.RawMessage(value)
		if !json.Valid(inputs[name]) {
			inputs[name] = quoted(value)
		}
	}
	return inputs, err
}

func (s *sending) nexus() (*dialer, error) {
	e, ok := s.endpoint.(transport.HTTP)
	if !ok {
		return nil, usagef("nexus needs an HTTP ENDPOINT, http://HOST:PORT; got %v", s.endpoint)
	}
	text, hasPrompt, err := s.prompt()
	switch {
	case err != nil:
		return nil, err
	case hasPrompt && s.method == "":
		s.method, s.params = "send", append(append([]byte(`{"content":`), quoted(text)...), '}')
	case s.method == "":
		return nil, usagef("name a METHOD of nexus: send, cancel, get_tokens, get_context, shutdown; newer servers also have compact, get_messages, create_agent, destroy_agent, list_agents, shutdown_server")
	}
	after, err := s.cancelAfter()
	switch {
	case err != nil:
		return nil, err
	case after.Parts > 0:
		return nil, usagef("invalid --cancel-after %d: nexus answers in one piece: want a duration such as 200ms", after.Parts)
	case after.Time > 0 && s.method != "send":
		return nil, usagef("--cancel-after goes with send, not with %s", s.method)
	}
	h, err := s.httpOptions()
	if err != nil {
		return nil, err
	}
	if h.Header.Get("Authorization") == "" {
		token, err := client.NexusToken(e.URL(), s.Getenv)
		if err != nil {
			return nil, err
		}
		if token != "" {
			h.Header.Set("Authorization", "Bearer "+token)
		}
	}
	return &dialer{nexus.Protocol, func(context.Context) (*peer, error) {
		n := client.NewNexus(e.String(), s.watch, h)
		if after.Time > 0 {
			return &peer{n.SendFor(after.Time, s.params), nothing}, nil
		}
		return &peer{n.Call(s.method, s.params), nothing}, nil
	}}, nil
}

func (s *sending) a2a() (*dialer, error) {
	e, ok := s.endpoint.(transport.HTTP)
	if !ok {
		return nil, usagef("a2a needs an HTTP ENDPOINT, the URL of the agent's JSON-RPC interface; got %v", s.endpoint)
	}
	text, hasPrompt, err := s.prompt()
	switch {
	case err != nil:
		return nil, err
	case hasPrompt == (s.method != ""):
		return nil, usagef("a2a takes either --prompt TEXT or a METHOD: wirectl send --prompt hi a2a %v", s.endpoint)
	}
	after, err := s.cancelAfter()
	switch {
	case err != nil:
		return nil, err
	case after != (client.CancelAfter{}) && !hasPrompt:
		return nil, usagef("--cancel-after needs --prompt; to cancel a task by its id, send CancelTask")
	}
	h, err := s.httpOptions()
	if err != nil {
		return nil, err
	}
	return &dialer{jsonrpc.A2A, func(context.Context) (*peer, error) {
		c := client.NewA2A(e.String(), s.watch, h)
		if hasPrompt {
			return &peer{c.Ask(text, after), nothing}, nil
		}
		return &peer{c.Call(s.method, s.params), nothing}, nil
	}}, nil
}

// httpOptions are what requests over HTTP carry, and whom they trust.
func (s *sending) httpOptions() (mcphttp.Options, error) {
	opts, err := s.transportOptions(s.c)
	if err != nil {
		return mcphttp.Options{}, err
	}
	if token := s.c.String("token"); token != "" {
		opts.Header.Set("Authorization", "Bearer "+token)
	}
	client, err := opts.HTTPClient(s.endpoint.String())
	return mcphttp.Options{Header: opts.Header, Client: client}, err
}

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
