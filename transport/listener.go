package transport

import (
	"context"
	"errors"
	"net"
	"syscall"
	"time"
)

// A socketListener accepts connections of a TCP or Unix socket.
type socketListener struct {
	net  deadlineListener
	addr string
}

type deadlineListener interface {
	net.Listener
	SetDeadline(time.Time) error
}

func (l *socketListener) Addr() string { return l.addr }

func (l *socketListener) Close() error { return l.net.Close() }

func (l *socketListener) Accept(ctx context.Context) (Conn, error) {
	c, err := accept(ctx, l.net)
	if err != nil {
		return nil, err
	}
	return socket{c.(streamSocket)}, nil
}

// crowded is how long a listener waits when the process has run out of descriptors.
const crowded = 100 * time.Millisecond

// accept waits for a connection, or for the end of ctx. The listener stays usable.
func accept(ctx context.Context, l deadlineListener) (net.Conn, error) {
	woken := make(chan struct{})
	stop := context.AfterFunc(ctx, func() { _ = l.SetDeadline(time.Unix(1, 0)); close(woken) })
	defer func() {
		if !stop() {
			<-woken
			_ = l.SetDeadline(time.Time{})
		}
	}()
	for {
		c, err := l.Accept()
		switch {
		case ctx.Err() != nil:
			if c != nil {
				c.Close()
			}
			return nil, ctx.Err()
		case err == nil:
			return c, nil
		case errors.Is(err, syscall.ECONNABORTED): // the client left while it waited
		case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
			select {
			case <-time.After(crowded):
			case <-ctx.Done():
			}
		default:
			return nil, err
		}
	}
}
