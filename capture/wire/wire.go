// Package wire turns the bytes of a live connection into records of a capture, whatever
// the carrier. Frames come out as soon as they are complete.
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
	sink    func(*capture.Record)
	conn    int
	carrier *carrier.Carrier
	record  capture.Record
}

// New returns the Wire of the connection with that number, whose records go to
// sink, which keeps none of their bytes. To number the frames is left to sink.
func New(sink func(*capture.Record), conn int, o carrier.Options) *Wire {
	return &Wire{sink: sink, conn: conn, carrier: carrier.New(o)}
}

// Feed takes in bytes of one direction, which had been read and, if that is
// known, written to the other side at those times. It keeps none of them.
func (c *Wire) Feed(dir frame.Dir, data []byte, read, written time.Time) {
	c.hand(c.carrier.Feed(dir, data), read, written)
}

// Stop takes in that the recording of one direction ends, although the direction may go on.
func (c *Wire) Stop(dir frame.Dir, at time.Time) { c.hand(c.carrier.End(dir), at, time.Time{}) }

// End takes in that one direction has ended.
func (c *Wire) End(dir frame.Dir, at time.Time) {
	c.Stop(dir, at)
	c.record = capture.Record{Kind: capture.HalfClosed, Time: at}
	c.record.Conn, c.record.Dir = c.conn, dir
	c.sink(&c.record)
}

// hand hands on the frames that were whole at that time, of which these are the first.
func (c *Wire) hand(frames []frame.Frame, read, written time.Time) {
	for ; len(frames) > 0; frames = c.carrier.More() {
		for i := range frames {
			c.record = capture.Record{Time: read, Written: written, Frame: frames[i]}
			c.record.Conn = c.conn
			if m := frames[i].Meta; m != nil {
				c.record.Framing = m.Framing
			}
			c.sink(&c.record)
		}
	}
}
