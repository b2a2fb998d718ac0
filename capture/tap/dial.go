// Package tap copies the traffic of a relay or a broker to viewers. A [Server] sends the records
// of a journal over a Unix socket as a pcapng capture. [List], [Dial]
// and [Await] find the taps of this user. A tap never delays the traffic.
//
// docs/taps.md is the specification of the protocol.
package tap

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"time"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/capture/journal"
	"github.com/wirectl/wirectl/capture/pcapng"
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

// patience is the timeout for a tap to report its totals.
const patience = 2 * time.Second

// A Past is a [capture.Reader] of the first frames in a tap's history. It ends where it would
// have to wait for more.
type Past struct {
	// Hello is the note that a tap sends first to each viewer.
	Hello Note

	*pcapng.Reader
	conn *Conn
	stop func() bool
	left int64 // frames
}

// Glance reads the totals of the tap with that name, and its history up to the given number
// of frames. The Past must be closed.
func Glance(ctx context.Context, dir, name string, frames int64) (*Past, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	c, err := Dial(ctx, dir, name)
	if err != nil {
		cancel()
		return nil, err
	}
	closed := context.AfterFunc(ctx, func() { c.Close() })
	p := &Past{conn: c, stop: func() bool { defer cancel(); return closed() }}
	if err := p.greet(frames); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

// greet reads the hello note.
func (p *Past) greet(frames int64) (err error) {
	if p.Reader, err = pcapng.NewReader(p.conn, 0); err != nil {
		return err
	}
	var rec capture.Record
	if err := p.Reader.Next(&rec); err != nil {
		return err
	}
	var ok bool
	if p.Hello, ok = ParseNote(&rec); !ok || p.Hello.Tap != Hello {
		return fmt.Errorf("%s does not state how many frames have passed", p.conn.Info.Name)
	}
	p.left = min(frames, p.Hello.Frames-p.Hello.Lost)
	return nil
}

// Next reads the next record of history; see [capture.Reader].
func (p *Past) Next(r *capture.Record) error {
	if p.left <= 0 {
		return io.EOF
	}
	err := p.Reader.Next(r)
	if n, ok := ParseNote(r); ok && n.Tap == Lost {
		p.left -= n.Lost
	}
	if r.Kind == capture.Frame {
		p.left--
	}
	return err
}

// Close disconnects from the tap.
func (p *Past) Close() error {
	p.stop()
	return p.conn.Close()
}

// A Sender sends a running session to another place.
type Sender interface {
	// Obey lets authorized remote viewers command c from now on.
	Obey(c Controller)
	// Close sends the remaining records until ctx ends. The journal must be closed first.
	Close(ctx context.Context) error
}

// A SendFunc begins to send the session of a journal, which has no records yet, under that name.
type SendFunc func(j *journal.Journal, name string) (Sender, error)
