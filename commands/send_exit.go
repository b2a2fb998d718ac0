package commands

import (
	"errors"
	"fmt"
	"sync"

	"github.com/urfave/cli/v2"

	"github.com/wirectl/wirectl/peer/client"
	"github.com/wirectl/wirectl/transport"
)

// lingers tells, once, that a program is waited for; nil if nobody wants to know, or
// it is over soon.
func lingers(inv *invocation, c *cli.Context) func() {
	grace := c.Duration("grace")
	if c.Bool("quiet") || grace <= transport.AtOnce {
		return nil
	}
	return sync.OnceFunc(func() {
		fmt.Fprintf(inv.Stderr, "wirectl: waiting for the program to exit after its input ended: it gets a signal after %v (--grace)\n", grace)
	})
}

// reached returns the peer, whose program, if it is one, is minded.
func (s *sending) reached() transport.Endpoint {
	return transport.Shown{Endpoint: s.endpoint, Stderr: s.Stderr, Ended: s.exits.Add, Lingers: lingers(s.invocation, s.c)}
}

// withExit adds to what came of asking how the program ended that was asked. Once
// it has answered, that is only told.
func (s *sending) withExit(err error) error {
	failed := s.exits.Failed()
	var start *transport.StartError
	switch {
	case failed == nil:
	case errors.Is(err, client.ErrEnded) && errors.As(failed, &start):
		return failed
	case errors.Is(err, client.ErrEnded):
		return fmt.Errorf("%w: %w", err, failed)
	case !s.c.Bool("quiet"):
		s.told(failed.Error())
	}
	return err
}
