package tap

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/capture/pcapng"
)

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
