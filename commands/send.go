package commands

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/decode/convert"
	"github.com/wirectl/wirectl/decode/source"
	"github.com/wirectl/wirectl/internal/cmdline"
	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/peer/client"
	"github.com/wirectl/wirectl/protocol/theory"
	"github.com/wirectl/wirectl/transport"
)

func sendCommand(inv *invocation) *cli.Command {
	return inv.withEndpoint(&cli.Command{
		Name:      "send",
		Category:  speaking,
		Usage:     "send requests to a peer and stream its answers",
		ArgsUsage: "PROTOCOL [METHOD [PARAMS]] ENDPOINT",
		Description: "Sends one request, or many with -n, and prints the answer. PROTOCOL is latis, rlm,\n" +
			"theory, nexus or a2a; or mcp, acp, codex, lsp, dap or jsonrpc, with the handshake\n" +
			"done first. PARAMS is JSON. The status is 1 if the peer answers with an error, 3 if\n" +
			"it breaks its protocol.\n\n" +
			"   wirectl send --prompt hi latis -- wirectl unit\n" +
			"   wirectl send --prompt 'a poem' --cancel-after 3 latis tcp://127.0.0.1:7000\n" +
			"   wirectl send mcp tools/list '{}' -- npx server\n" +
			"   wirectl send -n 10000 -c 64 latis ping tcp://127.0.0.1:7000",
		Flags: append(listenFlags(),
			&cli.StringFlag{Name: "prompt", Aliases: []string{"p"}, Usage: "latis, rlm, acp, codex, a2a, nexus: send the prompt `TEXT`; - reads stdin"},
			&cli.StringFlag{Name: "prompts", Usage: "rlm: send all prompts in `FILE`, a JSON array or one per line, as one batch"},
			&cli.StringFlag{Name: "model", Usage: "rlm: ask the model `NAME`"},
			&cli.StringSliceFlag{Name: "metadata", Usage: "latis: send `KEY=VALUE` with the prompt, or with the session that is created"},
			&cli.StringFlag{Name: "cancel-after", Usage: "latis, theory, a2a, nexus: cancel after `N` parts, or after a duration such as 200ms (nexus send: duration only)"},
			&cli.BoolFlag{Name: "state", Usage: "latis: request the state, also while a prompt is running"},
			&cli.BoolFlag{Name: "subscribe", Usage: "latis: show every state change until the prompt ends or you interrupt"},
			&cli.StringFlag{Name: "session", Usage: "latis: resume or create the session `ID`"},
			&cli.StringSliceFlag{Name: "input", Usage: "theory, mcp with --stateless: set the tool's input `NAME=VALUE`; VALUE is JSON, or else text"},
			&cli.StringFlag{Name: "input-file", Usage: "theory: read the inputs of the tool from `FILE`, a JSON object; - is stdin"},
			&cli.StringSliceFlag{Name: "output-to", Usage: "theory: store the output `NAME=PLACE` at a URL or in /artifacts/"},
			&cli.BoolFlag{Name: "stream", Usage: "theory: print tokens on stderr as they arrive"},
			&cli.StringFlag{Name: "run-id", Usage: "theory: use the run `ID`, or rejoin that run if it exists"},
			&cli.StringFlag{Name: "request", Usage: "theory: send the Request in `FILE`, from theory resolve; other flags override its fields"},
			&cli.StringFlag{Name: "dialect", Value: "D", Usage: "theory: write this dialect: D (documented), C, B or A (oldest)"},
			&cli.StringFlag{Name: "mode", Value: "real", Usage: "theory: how to run: real or mock"},
			&cli.StringFlag{Name: "token", Usage: "nexus, theory, a2a, mcp, acp, jsonrpc over HTTP: send the bearer `TOKEN` (nexus default: the token that the server wrote for its clients)"},
			&cli.BoolFlag{Name: "allow", Usage: "acp, codex: grant the agent's permission requests instead of denying them"},
			&cli.IntFlag{Name: "acp-version", Value: 1, Usage: "acp: speak version `N` of the protocol: 1, or 2 (draft)"},
			&cli.BoolFlag{Name: "notify", Usage: "mcp, acp, codex, lsp, jsonrpc: send METHOD as a notification"},
			&cli.BoolFlag{Name: "stateless", Usage: "mcp: speak version 2026-07-28, without a handshake"},
			&cli.BoolFlag{Name: "no-handshake", Usage: "mcp, acp, codex, lsp, dap: skip the handshake and send METHOD first"},
			&cli.StringFlag{Name: "dir", Usage: "mcp, acp, codex, lsp: name `DIR` as the working folder (default: the current one)"},
			&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Value: "text", Usage: "what to print: text (the answer) or ndjson (every message)"},
			&cli.BoolFlag{Name: "timing", Usage: "print the elapsed time on stderr"},
			&cli.IntFlag{Name: "count", Aliases: []string{"n"}, Value: 1, Usage: "send `N` requests and print their latencies"},
			&cli.IntFlag{Name: "concurrency", Aliases: []string{"c"}, Value: 1, Usage: "with -n: keep `N` requests in flight"},
			&cli.DurationFlag{Name: "timeout", Usage: "give up after `TIME`, such as 30s (default: no limit)"},
			quietFlag(),
		),
		Action: inv.does(runSend),
	})
}

// A sending is one run of send.
type sending struct {
	*invocation
	c        *cli.Context
	endpoint transport.Endpoint
	protocol string
	method   string
	params   []byte
	watch    *client.Watch
	exits    transport.Exits
}

// A peer is who is asked.
type peer struct {
	call  client.Call
	close func() error
}

func runSend(inv *invocation, c *cli.Context) error {
	s, err := newSending(inv, c)
	if err != nil {
		return err
	}
	if l, listens := s.endpoint.(transport.Awaited); listens {
		defer l.Close()
	}
	dial, err := s.dialer()
	if err != nil {
		return err
	}
	inv.Terminable()
	ctx := c.Context
	if d := c.Duration("timeout"); d > 0 {
		limited, cancel := context.WithTimeoutCause(ctx, d, fmt.Errorf("no answer within %v", d))
		defer cancel()
		ctx = limited
	}
	records, finish, err := s.records()
	if err != nil {
		return err
	}
	s.watch = client.NewWatch(dial.protocol, records)
	err = s.run(ctx, dial)
	if finished := finish(); err == nil {
		err = finished
	}
	err = s.watch.Outcome(s.withExit(err), ctx.Err() != nil, c.Context.Err() != nil, s.printFinding)
	if is[*client.FaultError](err) {
		return &faultError{err}
	}
	return err
}

// newSending reads the operands.
func newSending(inv *invocation, c *cli.Context) (*sending, error) {
	s := &sending{invocation: inv, c: c}
	switch o := c.String("output"); {
	case o != "text" && o != "ndjson":
		return nil, usagef("invalid --output %q: want text or ndjson", o)
	case c.Int("count") < 1 || c.Int("concurrency") < 1:
		return nil, usagef("invalid -n or -c: want a number from 1")
	case len(inv.Operands) == 0:
		return nil, usagef("name a PROTOCOL and an ENDPOINT: wirectl send --prompt hi latis -- wirectl unit")
	}
	var err error
	if c.String("listen") != "" {
		s.endpoint, err = awaited(inv, c)
	} else {
		s.endpoint, err = inv.endpoint(c, 3)
	}
	if err != nil {
		return nil, err
	}
	s.protocol = inv.Operands[0]
	if len(inv.Operands) > 1 {
		s.method = inv.Operands[1]
	}
	if len(inv.Operands) > 2 {
		s.params = []byte(inv.Operands[2])
	}
	return s, nil
}

// run makes the calls and prints the answers.
func (s *sending) run(ctx context.Context, d *dialer) error {
	p, err := d.dial(ctx)
	if err != nil {
		return err
	}
	err = s.sendCall(ctx, p.call)
	if closed := p.close(); err == nil && ctx.Err() == nil {
		err = closed
	}
	return err
}

func (s *sending) sendCall(ctx context.Context, call client.Call) error {
	if n := s.c.Int("count"); n > 1 {
		load := client.Run(ctx, n, s.c.Int("concurrency"), call)
		w := s.Stdout
		if s.c.String("output") == "ndjson" {
			w = s.Stderr
		}
		if err := load.WriteText(w); err != nil {
			return err
		}
		return load.Err
	}
	var t client.Timing
	print := s.printer()
	err := client.Timed(call, &t)(ctx, print.Part)
	err = cmp.Or(err, print.Finish())
	if s.c.Bool("timing") {
		fmt.Fprintf(s.Stderr, "wirectl: %v\n", t)
	}
	return err
}

// printFinding prints a finding, which may quote the wire.
func (s *sending) printFinding(text string) {
	fmt.Fprintf(s.Stderr, "wirectl: %s\n", render.Safe(text))
}

// prompt returns the text of --prompt, and whether there is any.
func (s *sending) prompt() (string, bool, error) {
	text := s.c.String("prompt")
	if text != "-" {
		return text, s.c.IsSet("prompt"), cmdline.CheckText("--prompt", text)
	}
	src := source.Interruptible(s.c.Context, s.Stdin)
	defer src.Close()
	b, err := io.ReadAll(src)
	return string(b), true, cmp.Or(err, cmdline.CheckText(label("-"), string(b)))
}

// lingers returns a function that prints once that wirectl waits for a program; nil with --quiet
// or a short grace.
func lingers(inv *invocation, c *cli.Context) func() {
	grace := c.Duration("grace")
	if c.Bool("quiet") || grace <= transport.AtOnce {
		return nil
	}
	return sync.OnceFunc(func() {
		fmt.Fprintf(inv.Stderr, "wirectl: waiting for the program to exit after its input ended: it gets a signal after %v (--grace)\n", grace)
	})
}

// reached returns the endpoint of the peer. It records how a program ended.
func (s *sending) reached() transport.Endpoint {
	return transport.Shown{Endpoint: s.endpoint, Stderr: s.Stderr, Ended: s.exits.Add, Lingers: lingers(s.invocation, s.c)}
}

// withExit adds to an error how the peer's program ended. If the program has answered, that is only
// printed.
func (s *sending) withExit(err error) error {
	failed := s.exits.Failed()
	switch {
	case failed == nil:
	case errors.Is(err, client.ErrEnded) && is[*transport.StartError](failed):
		return failed
	case errors.Is(err, client.ErrEnded):
		return fmt.Errorf("%w: %w", err, failed)
	case !s.c.Bool("quiet"):
		s.printFinding(failed.Error())
	}
	return err
}

// records returns what takes the messages of a session and prints them as decode
// does, and what ends that; with -o text there is neither.
func (s *sending) records() (capture.Writer, func() error, error) {
	if s.c.String("output") != "ndjson" {
		return nil, nothing, nil
	}
	return convert.Printing(s.ndjson(), capture.Session{Created: time.Now(), Unit: s.endpoint.String()})
}

// printer returns what prints answers.
func (s *sending) printer() *client.Printer {
	return &client.Printer{
		Stdout: s.Stdout, Stderr: s.Stderr, Terminal: s.IsTerminal(s.Stdout), Beside: s.IsTerminal(s.Stderr),
		Silent: s.c.String("output") == "ndjson", Alone: s.protocol == theory.Protocol.Name(),
		Quiet: s.c.Bool("quiet"), Stream: s.c.Bool("stream"),
	}
}

// readFile reads a whole file; "-" is standard input.
func (inv *invocation) readFile(ctx context.Context, name string) ([]byte, error) {
	src, err := inv.open(ctx, name)
	if err != nil {
		return nil, err
	}
	defer src.Close()
	return io.ReadAll(src)
}

// awaited returns the endpoint that is whoever connects to where --listen says.
func awaited(inv *invocation, c *cli.Context) (transport.Endpoint, error) {
	if len(inv.Endpoint) > 0 || len(inv.Operands) > 3 {
		return nil, usagef("give either --listen or an ENDPOINT, not both")
	}
	l, err := inv.listen(c, false)
	if err != nil {
		return nil, err
	}
	announce(inv, c, l)
	return transport.Awaited{Listener: l}, nil
}
