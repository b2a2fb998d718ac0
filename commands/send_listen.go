package commands

import (
	"context"

	"github.com/urfave/cli/v2"

	"github.com/wirectl/wirectl/transport"
)

// awaited returns the endpoint that is whoever connects to where --listen says.
func (inv *invocation) awaited(c *cli.Context) (transport.Endpoint, error) {
	if len(inv.endpointWords) > 0 || len(inv.operands) > 3 {
		return nil, usagef("--listen waits for the peer, and an ENDPOINT is where it waits: give one of them")
	}
	return caller{inv, c}, nil
}

// A caller is a peer that connects to us.
type caller struct {
	inv *invocation
	c   *cli.Context
}

func (a caller) String() string { return a.c.String("listen") }

// Dial waits for the peer; another one is not taken.
func (a caller) Dial(ctx context.Context) (transport.Conn, error) {
	l, err := a.inv.listen(a.c)
	if err != nil {
		return nil, err
	}
	a.inv.announce(a.c, l)
	defer l.Close() // the connection that was accepted stays
	return l.Accept(ctx)
}
