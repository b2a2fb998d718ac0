package commands

import (
	"errors"
	"fmt"
	"sync"

	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/peer/client"
	"github.com/wirectl/wirectl/transport"
)

// exits are how the programs that were asked ended.
type exits struct {
	mu    sync.Mutex
	first error // that failed by itself; nil if none did
}

// add takes one in. The error is that of a program that leads to the peer.
func (e *exits) add(x transport.Exit, err error) {
	if err == nil && !x.Told && x.Code() != 0 {
		err = errors.New("the program " + x.String())
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.first == nil {
		e.first = err
	}
}

// failed returns how the first program ended that failed by itself; nil if none did.
func (e *exits) failed() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.first
}

// reached returns the peer, whose program, if it is one, is minded.
func (s *sending) reached() transport.Endpoint {
	return shown{Endpoint: s.endpoint, stderr: s.Stderr, ended: s.exits.add, lingers: s.lingers(s.c)}
}

// withExit adds to what came of asking how the program ended that was asked. Once
// it has answered, that is only told.
func (s *sending) withExit(err error) error {
	failed := s.exits.failed()
	var start *transport.StartError
	switch {
	case failed == nil:
	case errors.Is(err, client.ErrEnded) && errors.As(failed, &start):
		return failed
	case errors.Is(err, client.ErrEnded):
		return fmt.Errorf("%w: %w", err, failed)
	case !s.c.Bool("quiet"):
		fmt.Fprintf(s.Stderr, "wirectl: %s\n", render.Safe(failed.Error()))
	}
	return err
}
