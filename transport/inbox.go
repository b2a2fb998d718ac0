package transport

import (
	"context"
	"net"
	"sync"
)

// An Inbox passes on connections. It has no buffer: Put waits for Accept.
type Inbox[C any] struct {
	conns  chan C
	closed chan struct{}
	close  sync.Once
}

// NewInbox returns an open Inbox.
func NewInbox[C any]() *Inbox[C] {
	return &Inbox[C]{conns: make(chan C), closed: make(chan struct{})}
}

// Put waits until c is accepted. It returns false if the inbox is closed or ctx ends first.
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
