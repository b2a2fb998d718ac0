package commands

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/wirectl/wirectl/internal/cmdline"
	"github.com/wirectl/wirectl/transport"
	"github.com/wirectl/wirectl/transport/grpc"
	"github.com/wirectl/wirectl/transport/quic"
)

// withEndpoint declares that a command takes an ENDPOINT after its operands, and adds the common
// flags of endpoints.
func (inv *invocation) withEndpoint(cmd *cli.Command) *cli.Command {
	cmd.Flags = append(cmd.Flags, endpointFlags()...)
	return inv.endingInEndpoint(cmd)
}

// endingInEndpoint declares that a command takes the words of an ENDPOINT after its operands,
// without the flags of endpoints.
func (inv *invocation) endingInEndpoint(cmd *cli.Command) *cli.Command {
	inv.TakeEndpoint = append(inv.TakeEndpoint, cmd.Name)
	return cmd
}

// endpointFlags are the flags of commands that reach endpoints.
func endpointFlags() []cli.Flag {
	const category = "ENDPOINT"
	return []cli.Flag{
		&cli.BoolFlag{Name: "quote", Category: category, Usage: "ssh: quote each argument of the command for the remote shell"},
		&cli.StringFlag{Name: "runtime", Category: category, Usage: "container: use `PROGRAM` to reach containers (default: docker, podman or nerdctl)"},
		&cli.DurationFlag{Name: "grace", Category: category, Value: transport.DefaultGrace, Usage: "when ending a process: wait `TIME` for it to exit by itself, and again after SIGTERM"},
		&cli.StringSliceFlag{Name: "subprotocol", Category: category, Usage: "WebSocket, TLS and QUIC: offer or accept the subprotocol `NAME`"},
		&cli.StringSliceFlag{Name: "header", Category: category, Usage: "WebSocket and HTTP: send the header `NAME: VALUE` with the request"},
		&cli.StringFlag{Name: "tls-ca", Category: category, Usage: "trust the CAs in `FILE` (PEM) instead of the system's; a listener then requires client certificates"},
		&cli.StringFlag{Name: "tls-cert", Category: category, Usage: "present the certificate in `FILE` (PEM)"},
		&cli.StringFlag{Name: "tls-key", Category: category, Usage: "read the private key of --tls-cert from `FILE` (PEM)"},
		&cli.StringFlag{Name: "tls-pin", Category: category, Usage: "trust only a peer certificate with this SHA-256 `FINGERPRINT`, whoever signed it"},
		&cli.BoolFlag{Name: "insecure", Category: category, Usage: "accept any certificate; allows man-in-the-middle attacks"},
	}
}

// listenFlags are the flags of commands that wait for connections.
func listenFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "listen", Usage: "listen on `ADDRESS`, such as tcp://127.0.0.1:7000, unix:///PATH or ws://127.0.0.1:0"},
		&cli.BoolFlag{Name: "remote", Usage: "allow --listen beyond loopback"},
		allowOriginFlag(),
	}
}

func allowOriginFlag() cli.Flag {
	return &cli.StringSliceFlag{Name: "allow-origin", Usage: "HTTP and WebSocket: let web pages of `ORIGIN`, such as https://app.example, connect; pages of this machine may"}
}

// allowedOrigins reads --allow-origin.
func allowedOrigins(c *cli.Context) (origins []string, err error) {
	for _, text := range cmdline.ListOf(c, "allow-origin") {
		origin, err := transport.ParseOrigin(text)
		if err != nil {
			return nil, usagef("invalid --allow-origin %w", err)
		}
		origins = append(origins, origin)
	}
	return origins, nil
}

// endpoint returns the ENDPOINT at the end of the line, after at most that many operands.
func (inv *invocation) endpoint(c *cli.Context, operands int) (transport.Endpoint, error) {
	opts, err := inv.unitOptions(c)
	if err != nil {
		return nil, err
	}
	words := inv.Endpoint
	if len(inv.Operands) > operands {
		words = inv.Operands[operands:] // one of these was meant to be it
	}
	e, err := transport.Parse(words, opts)
	return e, asUsage(err)
}

// listen listens at the address of --listen; unanswered is for callers that use
// [transport.Answer].
func (inv *invocation) listen(c *cli.Context, unanswered bool) (transport.Listener, error) {
	opts, err := inv.transportOptions(c)
	if err != nil {
		return nil, err
	}
	opts.Unanswered = unanswered
	l, err := transport.Listen(c.Context, c.String("listen"), opts)
	if is[*transport.AddressError](err) {
		return nil, usagef("%w", err)
	}
	return l, err
}

// schemes are the endpoints that are not built in. Between a client and a server over gRPC, the
// calls of any service are relayed; otherwise gRPC carries Latis.
func schemes(inv *invocation, c *cli.Context) []transport.Scheme {
	calls := grpc.Schemes
	if isGRPC(c.String("listen")) && slices.ContainsFunc(inv.Endpoint, isGRPC) {
		calls = grpc.Below
	}
	return slices.Concat(inv.schemes, calls, quic.Schemes)
}

func isGRPC(address string) bool {
	return strings.HasPrefix(address, "grpc://") || strings.HasPrefix(address, "grpcs://")
}

// unitOptions are transportOptions with the flags for the unit alone.
func (inv *invocation) unitOptions(c *cli.Context) (transport.Options, error) {
	opts, err := inv.transportOptions(c)
	if cert := c.String("unit-cert"); cert != "" {
		opts.TLS.Cert, opts.TLS.Key = cert, c.String("unit-key")
	}
	if ca := c.String("unit-ca"); ca != "" {
		opts.TLS.CA = ca
	}
	return opts, err
}

// transportOptions reads the common flags of endpoints and listeners.
func (inv *invocation) transportOptions(c *cli.Context) (transport.Options, error) {
	opts := transport.Options{
		Stdin:        inv.Stdin,
		Stdout:       inv.Stdout,
		Quote:        c.Bool("quote"),
		Runtime:      c.String("runtime"),
		Grace:        c.Duration("grace"),
		Subprotocols: cmdline.ListOf(c, "subprotocol"),
		Header:       http.Header{},
		TLS: transport.TLS{
			CA: c.String("tls-ca"), Cert: c.String("tls-cert"), Key: c.String("tls-key"),
			Pin: c.String("tls-pin"), Insecure: c.Bool("insecure"),
		},
		Remote:  c.Bool("remote"),
		Schemes: schemes(inv, c),
		Notice:  func(text string) { fmt.Fprintf(inv.Stderr, "wirectl: %s\n", text) },
	}
	var err error
	if opts.Origins, err = allowedOrigins(c); err != nil {
		return opts, err
	}
	for _, h := range c.StringSlice("header") {
		name, value, ok := strings.Cut(h, ":")
		if !ok || name == "" {
			return opts, usagef("invalid --header %q: want NAME: VALUE", h)
		}
		opts.Header.Add(name, strings.TrimSpace(value))
	}
	if opts.Grace <= 0 {
		return opts, usagef("invalid --grace %v: want a duration such as 2s", opts.Grace)
	}
	return opts, nil
}

// asTyped names an address on which we cannot listen as the user has typed it.
func asTyped(address string, err error) error {
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "listen" {
		return transport.Explain(address, err)
	}
	return err
}
