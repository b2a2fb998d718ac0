// Package publish makes the traffic of a broker the records of a capture, so that
// monitor, lint and every other view see its front doors and its providers as
// they see the two sides of a relay: the client of a door is a controller, and so
// is the broker towards a provider.
package publish

import (
	"fmt"
	"net/http"
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

// HTTP publishes the body of a request or response, or an event of a stream. The
// start is the start line; fields, which may hold keys, are never published.
func (c *Conn) HTTP(dir frame.Dir, start string, body []byte) {
	if c == nil {
		return
	}
	m := &frame.Meta{Framing: frame.HTTP}
	if start != "" {
		m.Head = &frame.Head{Start: start}
	}
	if len(body) == 0 {
		m.Signal = frame.Response
		if dir == frame.C2U {
			m.Signal = frame.Request
		}
	}
	c.write(capture.Record{Kind: capture.Frame, Frame: frame.Frame{Raw: body, End: len(body), Conn: c.number, Dir: dir, Meta: m}})
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

// Provider returns what publishes the words to a provider, on a connection of
// their own.
func (d door) Provider(c *broker.Call, h *broker.Hop) provider.Exchange {
	return &exchange{from: d.Conn, call: c, hop: h}
}

// An exchange is a call to a provider as it is published. One that says nothing
// to anybody outside is not.
type exchange struct {
	from  *Conn
	call  *broker.Call
	hop   *broker.Hop
	to    *Conn
	begun bool
}

// Sent publishes the request.
func (e *exchange) Sent(url string, body []byte) {
	c := e.call
	e.to = e.from.p.Open(fmt.Sprintf("call %d: %s connection %d to provider %s", c.ID, c.Door, e.from.number, e.hop.Provider), "json", frame.HTTP)
	e.from.Note("call %d, id %s: model %s goes to provider %s on connection %d", c.ID, c.Ref, c.Name, e.hop.Provider, e.to.number)
	e.to.HTTP(frame.C2U, "POST "+url+" HTTP/1.1", body)
}

// Received publishes an answer, or an event of one.
func (e *exchange) Received(status int, body []byte) {
	start := ""
	if !e.begun {
		start = fmt.Sprintf("HTTP/1.1 %d %s", status, http.StatusText(status))
	}
	e.begun = true
	e.to.HTTP(frame.U2C, start, body)
}

// Ended publishes how the attempt ended, on both connections if it was
// cancelled: this is where the cancel stopped.
func (e *exchange) Ended(err error) {
	if err != nil && e.to != nil {
		e.to.Note("call %d ended: %v", e.call.ID, err)
		e.from.Note("call %d ended at provider %s, connection %d: %v", e.call.ID, e.hop.Provider, e.to.number, err)
	}
	e.to.Close()
}
