package tap

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"time"

	"github.com/wirectl/wirectl/protocol/jsonscan"
)

// A Conn looks on at a tap: Read yields a capture in pcapng, history first. The
// capture ends when the owner does.
type Conn struct {
	net.Conn
	// Info is what the tap says about itself.
	Info Info
}

// Dial connects to the tap of that name, or whose name is the only one that
// begins so; with "", to the newest. The error is a [*NotFoundError] if there
// is none.
func Dial(ctx context.Context, dir, name string) (*Conn, error) {
	taps, err := List(dir, nil)
	if err != nil {
		return nil, err
	}
	found, err := find(taps, name)
	if err != nil {
		return nil, err
	}
	for _, info := range found {
		var d net.Dialer
		c, err := d.DialContext(ctx, "unix", filepath.Join(dir, info.Name+listens))
		if err == nil {
			return &Conn{c, info}, nil
		}
		if !refused(err) {
			return nil, err
		}
		remove(dir, info.Name) // another process has the number of the owner
	}
	return nil, &NotFoundError{Name: name}
}

// awaitEvery is how often Await looks.
const awaitEvery = 100 * time.Millisecond

// Await is Dial for a tap that may not be there yet: it waits until it is, and
// calls waiting, if that is not nil, before it does. It does not wait for a name
// with which several begin.
func Await(ctx context.Context, dir, name string, waiting func()) (*Conn, error) {
	return await(ctx, waiting, func() (*Conn, error) { return Dial(ctx, dir, name) })
}

// Next is Await for the tap that follows one that was looked at: it began later
// and, unless any will do, is named alike.
func Next(ctx context.Context, dir string, last Info, any bool) (*Conn, error) {
	return await(ctx, nil, func() (*Conn, error) {
		taps, err := List(dir, nil)
		if err != nil {
			return nil, err
		}
		for _, info := range taps {
			if !info.Started.After(last.Started) || !any && info.base() != last.base() {
				continue
			}
			if c, err := Dial(ctx, dir, info.Name); !isNotFound(err) {
				return c, err
			}
		}
		return nil, &NotFoundError{}
	})
}

// await dials until there is a tap.
func await(ctx context.Context, waiting func(), dial func() (*Conn, error)) (*Conn, error) {
	tick := time.NewTicker(awaitEvery)
	defer tick.Stop()
	for {
		c, err := dial()
		if !isNotFound(err) {
			return c, err
		}
		if waiting != nil {
			waiting()
			waiting = nil
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-tick.C:
		}
	}
}

// isNotFound reports whether there is no such tap yet.
func isNotFound(err error) bool {
	none, ok := errors.AsType[*NotFoundError](err)
	return ok && !none.Ambiguous()
}

// Send sends a command. Its answer comes among the records, as an [Answer] with
// the command's Tag.
func (c *Conn) Send(cmd Command) error {
	text, err := jsonscan.Marshal(cmd)
	if err != nil {
		return err
	}
	_, err = c.Write(append(text, '\n'))
	return err
}
