package unit

import (
	"context"
	"errors"
	"time"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/wait"
	"github.com/wirectl/wirectl/transport"
)

// The bounds of the delay between two attempts to connect to a controller.
const (
	firstPause = 100 * time.Millisecond
	lastPause  = 5 * time.Second
)

// ServeOne connects to e once and serves that connection.
func (u *Unit) ServeOne(ctx context.Context, e transport.Endpoint) error {
	nc, err := e.Dial(ctx)
	if err != nil {
		return err
	}
	return u.Serve(ctx, nc)
}

// Dial connects to a controller, waiting until it listens, and serves it. If the connection
// ends while a session can be resumed, Dial reconnects. It does so for at most the TTL of the
// session, and then returns the error. Without such a session, it returns.
func (u *Unit) Dial(ctx context.Context, e transport.Endpoint) error {
	nc, err := u.reach(ctx, e)
	for err == nil {
		err = u.Serve(ctx, nc)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case u.sessions.none(), frame.IsFault(err) && !errors.Is(err, frame.ErrTruncated): // a fault would recur
			return err
		}
		attrs := []any{"to", e.String(), "for", u.options.SessionTTL}
		if err != nil {
			attrs = append(attrs, "error", err)
		}
		u.options.Log.Warn("the connection ended, and a session waits; reconnecting", attrs...)
		nc, err = u.reachAgain(ctx, e)
	}
	return err
}

// reachAgain is reach for at most the TTL of sessions.
func (u *Unit) reachAgain(ctx context.Context, e transport.Endpoint) (transport.Conn, error) {
	limited, cancel := context.WithTimeout(ctx, u.options.SessionTTL)
	defer cancel()
	return u.reach(limited, e)
}

// reach connects, retrying until the controller listens.
func (u *Unit) reach(ctx context.Context, e transport.Endpoint) (transport.Conn, error) {
	told := false
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		nc, err := e.Dial(ctx)
		if err == nil {
			u.options.Log.Info("connected", "to", e.String())
			return nc, nil
		}
		if !transport.IsAbsent(err) {
			return nil, err
		}
		if !told {
			u.options.Log.Warn("nothing listens there; waiting", "error", err)
			told = true
		}
		if wait.For(ctx, pause) != nil {
			return nil, err
		}
	}
}
