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
// calls waiting, if that is not nil, before it does.
func Await(ctx context.Context, dir, name string, waiting func()) (*Conn, error) {
	tick := time.NewTicker(awaitEvery)
	defer tick.Stop()
	for {
		c, err := Dial(ctx, dir, name)
		if none := (*NotFoundError)(nil); !errors.As(err, &none) {
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

// Next is Await for the tap that follows one that was looked at: it began later
// and, unless any will do, is named alike.
func Next(ctx context.Context, dir string, last Info, any bool) (*Conn, error) {
	tick := time.NewTicker(awaitEvery)
	defer tick.Stop()
	for {
		taps, err := List(dir, nil)
		if err != nil {
			return nil, err
		}
		for _, info := range taps {
			if !info.Started.After(last.Started) || !any && info.base() != last.base() {
				continue
			}
			c, err := Dial(ctx, dir, info.Name)
			if none := (*NotFoundError)(nil); !errors.As(err, &none) {
				return c, err
			}
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-tick.C:
		}
	}
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
