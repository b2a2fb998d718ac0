package tap

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"time"

	"github.com/wirectl/wirectl/protocol/jsonscan"
)

// A Conn is a connection to a tap: Read returns a pcapng capture, history first. The
// capture ends with its owner.
type Conn struct {
	net.Conn
	// Info is the description of the tap.
	Info Info
}

// Dial connects to the tap of that name, or to the only one with that prefix; with "", to
// the newest. The error is a [*NotFoundError] if there is none.
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
		remove(dir, info.Name) // another process has reused the owner's id
	}
	return nil, &NotFoundError{Name: name}
}

// awaitEvery is the polling interval of Await.
const awaitEvery = 100 * time.Millisecond

// Await is Dial for a tap that may not exist yet: it calls waiting, if not nil, and waits
// for it. It does not wait for an ambiguous prefix.
func Await(ctx context.Context, dir, name string, waiting func()) (*Conn, error) {
	return await(ctx, waiting, func() (*Conn, error) { return Dial(ctx, dir, name) })
}

// Next is Await for a tap that began later than last and, unless any is set, has the same
// base name.
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

// Send sends a command. The answer is an [Answer] note among the records, with the
// command's Tag.
func (c *Conn) Send(cmd Command) error {
	text, err := jsonscan.Marshal(cmd)
	if err != nil {
		return err
	}
	_, err = c.Write(append(text, '\n'))
	return err
}
