// Package inbox hands connections over from the goroutines that greet them, by a
// handshake or a request, to the one that accepts them.
package inbox

import (
	"context"
	"net"
	"sync"
)

// An Inbox is a place for connections that wait to be accepted. It holds none:
// who brings one waits with it.
type Inbox[C any] struct {
	conns  chan C
	closed chan struct{}
	close  sync.Once
}

// New returns an open Inbox.
func New[C any]() *Inbox[C] {
	return &Inbox[C]{conns: make(chan C), closed: make(chan struct{})}
}

// Put waits until somebody accepts c, and reports whether anybody did: nobody
// does once the inbox is closed, or when ctx ends first.
func (b *Inbox[C]) Put(ctx context.Context, c C) bool {
	select {
	case b.conns <- c:
		return true
	case <-ctx.Done():
	case <-b.closed:
	}
	return false
}

// Accept waits for a connection. The error is that of ctx, or [net.ErrClosed].
func (b *Inbox[C]) Accept(ctx context.Context) (c C, err error) {
	select {
	case c = <-b.conns:
		return c, nil
	case <-ctx.Done():
		return c, ctx.Err()
	case <-b.closed:
		return c, net.ErrClosed
	}
}

// Close ends waiting on both sides. It may be called again.
func (b *Inbox[C]) Close() { b.close.Do(func() { close(b.closed) }) }
