package commands

import (
	"context"

	"github.com/urfave/cli/v2"

	"github.com/wirectl/wirectl/transport"
)

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
	return caller{l}, nil
}

// A caller is a peer that connects to us.
type caller struct{ transport.Listener }

func (a caller) String() string { return a.Addr() }

// Dial waits for the peer.
func (a caller) Dial(ctx context.Context) (transport.Conn, error) { return a.Accept(ctx) }
