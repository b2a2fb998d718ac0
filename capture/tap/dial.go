package tap

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"time"

	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/internal/wait"
)

// A Conn is a connection to a tap. Read returns a pcapng capture that begins with the history
// and ends when the owner does.
type Conn struct {
	net.Conn
	// Info is the description of the tap.
	Info Info
}

// Dial connects to the tap with that name, or with that prefix if it is unique; with "", to
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

// Await is like Dial, but waits for a tap that does not exist yet. Before it waits, it calls
// waiting, if not nil. It does not wait for an ambiguous prefix.
func Await(ctx context.Context, dir, name string, waiting func()) (*Conn, error) {
	return await(ctx, waiting, func() (*Conn, error) { return Dial(ctx, dir, name) })
}

// Next is like Await, for a tap that began later than last and has the same base name, or any
// name if any is set.
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

// await calls dial until it finds a tap.
func await(ctx context.Context, waiting func(), dial func() (*Conn, error)) (*Conn, error) {
	for {
		c, err := dial()
		if !isNotFound(err) {
			return c, err
		}
		if waiting != nil {
			waiting()
			waiting = nil
		}
		if err := wait.For(ctx, awaitEvery); err != nil {
			return nil, err
		}
	}
}

// isNotFound reports whether the error says that no such tap exists yet.
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
