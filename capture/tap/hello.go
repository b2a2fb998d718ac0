package tap

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/capture/pcapng"
)

// patience is how long a tap may take to say what has passed.
const patience = 2 * time.Second

// A Past is what has passed a tap: a [capture.Reader] of the first frames of its
// history, which ends where it would have to wait for another.
type Past struct {
	// Hello is what the tap says to whoever comes.
	Hello Note

	*pcapng.Reader
	conn *Conn
	stop func() bool
	left int64 // frames
}

// Glance looks at what has passed the tap of that name, and at the first frames of
// its history, so many at most. The Past has to be closed.
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

// greet reads what the tap says first.
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
		return fmt.Errorf("%s does not say how much has passed", p.conn.Info.Name)
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

// Close leaves the tap.
func (p *Past) Close() error {
	p.stop()
	return p.conn.Close()
}
