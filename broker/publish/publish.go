// Package publish makes the traffic of a broker the records of a capture, so that
// monitor, lint and every other view see its front doors and its providers as
// they see the two sides of a relay: the client of a door is a controller, and so
// is the broker towards a provider.
package publish

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wirectl/wirectl/broker"
	"github.com/wirectl/wirectl/broker/provider"
	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/frame"
)

// A Publisher writes records. A nil Publisher publishes nothing.
type Publisher struct {
	mu    sync.Mutex
	to    capture.Writer
	seq   int64
	conns atomic.Int64
	clock func() time.Time
}

// New returns a publisher to w, which has to be quick: see package capture/tap.
func New(w capture.Writer) *Publisher { return &Publisher{to: w, clock: time.Now} }

// A Conn is a connection as it is published. A nil Conn publishes nothing.
type Conn struct {
	p                 *Publisher
	number            int
	protocol, framing string
	offsets           [3]int64
}

// Open publishes that a connection began. What travels on it is frames of the
// framing, in the protocol.
func (p *Publisher) Open(name, protocol, framing string) *Conn {
	if p == nil {
		return nil
	}
	c := &Conn{p: p, number: int(p.conns.Add(1)), protocol: protocol, framing: framing}
	c.write(capture.Record{Kind: capture.Opened, Text: []byte(name), Frame: frame.Frame{Conn: c.number}})
	return c
}

// Number returns the number of the connection, 0 for a nil Conn.
func (c *Conn) Number() int {
	if c == nil {
		return 0
	}
	return c.number
}

// Frame publishes a frame, of which raw[start:] is the payload.
func (c *Conn) Frame(dir frame.Dir, raw []byte, start int) {
	if c == nil {
		return
	}
	f := frame.Frame{Raw: raw, Start: start, End: len(raw), Conn: c.number, Dir: dir}
	c.write(capture.Record{Kind: capture.Frame, Frame: f})
}

// Close publishes that the connection has ended in both directions.
func (c *Conn) Close() {
	if c == nil {
		return
	}
	for _, dir := range []frame.Dir{frame.C2U, frame.U2C} {
		c.write(capture.Record{Kind: capture.HalfClosed, Frame: frame.Frame{Conn: c.number, Dir: dir}})
	}
}

// Note publishes a remark.
func (c *Conn) Note(format string, args ...any) {
	if c == nil {
		return
	}
	c.write(capture.Record{Kind: capture.Note, Text: fmt.Appendf(nil, format, args...), Frame: frame.Frame{Conn: c.number}})
}

func (c *Conn) write(r capture.Record) {
	p := c.p
	r.Protocol, r.Framing = c.protocol, c.framing
	p.mu.Lock()
	defer p.mu.Unlock()
	r.Time = p.clock()
	if r.Kind == capture.Frame {
		p.seq++
		r.Seq = p.seq
		r.Offset = c.offsets[r.Dir]
		c.offsets[r.Dir] += int64(len(r.Raw))
	}
	// A writer that fails says so itself; the traffic goes on.
	_ = p.to.Write(&r)
}

// Tap returns the tap for a call that came by c.
func (c *Conn) Tap() broker.Tap {
	if c == nil {
		return nil
	}
	return door{c}
}

type door struct{ *Conn }

// Provider opens the connection on which the words to a provider are published.
func (d door) Provider(c *broker.Call, h *broker.Hop) provider.Exchange {
	to := d.p.Open(fmt.Sprintf("%s %s for call %d of %s connection %d", h.Provider, h.Model, c.ID, c.Door, d.number), "json", "line")
	d.Note("call %d %s goes to %s %s on connection %d", c.ID, c.Ref, h.Provider, h.Model, to.number)
	return &exchange{to}
}

type exchange struct{ *Conn }

// Sent publishes the request.
func (e *exchange) Sent(_ string, body []byte) { e.Frame(frame.C2U, body, 0) }

// Received publishes an answer, or a piece of one.
func (e *exchange) Received(body []byte) { e.Frame(frame.U2C, body, 0) }
