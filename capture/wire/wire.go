// Package wire turns the bytes that pass on a live connection into records of a
// capture, whatever carries them. A relay or a broker feeds it with what it
// read; the frames come out as soon as they are whole.
package wire

import (
	"time"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/frame/carrier"
)

// A Wire is one connection. It has one owner: no two of its methods may run at
// once, since both directions make one sense.
type Wire struct {
	w       capture.Writer
	conn    int
	carrier *carrier.Carrier
	seq     *int64
	record  capture.Record
}

// New returns the Wire of the connection with that number, whose records go to
// w. The frames of several wires can be numbered by one counter, which seq
// points to: the number that was given last.
func New(w capture.Writer, conn int, seq *int64, o carrier.Options) *Wire {
	return &Wire{w: w, conn: conn, seq: seq, carrier: carrier.New(o)}
}

// Carrier returns what carries the frames, Auto as long as that is not known.
func (c *Wire) Carrier() carrier.Kind {
	k, _ := c.carrier.Kind()
	return k
}

// Feed takes in bytes of one direction, which had been read and, if that is
// known, written to the other side at those times. It keeps none of them.
func (c *Wire) Feed(dir frame.Dir, data []byte, read, written time.Time) error {
	return c.write(c.carrier.Feed(dir, data), read, written)
}

// End takes in that one direction has ended.
func (c *Wire) End(dir frame.Dir, at time.Time) error {
	if err := c.write(c.carrier.End(dir), at, time.Time{}); err != nil {
		return err
	}
	c.record = capture.Record{Kind: capture.HalfClosed, Time: at}
	c.record.Conn, c.record.Dir = c.conn, dir
	return c.w.Write(&c.record)
}

// write writes the frames that were whole at that time.
func (c *Wire) write(frames []frame.Frame, read, written time.Time) error {
	for i := range frames {
		c.record = capture.Record{Time: read, Written: written, Frame: frames[i]}
		c.record.Conn = c.conn
		if m := frames[i].Meta; m != nil {
			c.record.Framing = m.Framing
		}
		if !frames[i].Gap {
			*c.seq++
			c.record.Seq = *c.seq
		}
		if err := c.w.Write(&c.record); err != nil {
			return err
		}
	}
	return nil
}
