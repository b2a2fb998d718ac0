// Package publish makes the traffic of a broker the records of a capture, so that
// monitor, lint and every other view see its front doors and its providers as
// they see the two sides of a relay: the client of a door is a controller, and so
// is the broker towards a provider.
package publish

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wirectl/wirectl/broker"
	"github.com/wirectl/wirectl/broker/mask"
	"github.com/wirectl/wirectl/broker/provider"
	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/frame/carrier"
)

// A Publisher writes records. A nil Publisher publishes nothing.
type Publisher struct {
	mu    sync.Mutex
	to    capture.Writer
	seq   int64
	conns atomic.Int64
	clock func() time.Time
	hide  func([]byte) []byte

	// What is written is made here: a record for each would be garbage at once.
	record capture.Record
	meta   frame.Meta
	text   []byte
	heads  map[head]*frame.Head // by start line: these are kept, so there is one for all
}

// New returns a publisher to w, which has to be quick: see package capture/tap. The
// secrets, which may be nil, are hidden in what is published.
func New(w capture.Writer, s *mask.Secrets) *Publisher {
	return &Publisher{to: w, clock: time.Now, hide: s.Hide}
}

// A Conn is a connection as it is published. A nil Conn publishes nothing.
type Conn struct {
	p                 *Publisher
	number            int
	protocol, framing string
	offsets           [3]int64
	left              atomic.Bool // the controller did; see Left
}

// Open publishes that a connection began. What travels on it is frames of the
// framing, in the protocol.
func (p *Publisher) Open(name, protocol, framing string) *Conn {
	if p == nil {
		return nil
	}
	c := &Conn{p: p, number: int(p.conns.Add(1)), protocol: protocol, framing: framing}
	r := c.begin(capture.Opened)
	p.text = append(p.text[:0], name...)
	r.Text = p.text
	c.write()
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
	if c == nil || dir == frame.U2C && c.left.Load() {
		return
	}
	if payload := raw[start:]; len(payload) > 0 {
		if hidden := c.p.hide(payload); &hidden[0] != &payload[0] {
			raw = slices.Concat(raw[:start], hidden)
		}
	}
	r := c.begin(capture.Frame)
	r.Raw, r.Start, r.End, r.Dir = raw, start, len(raw), dir
	c.write()
}

// maxUnread bounds what is published of a request that could not be read.
const maxUnread = 64 << 10

// Unread publishes that a request could not be read, for that fault. What is published
// of it is raw, or how that begins.
func (c *Conn) Unread(raw []byte, fault error) {
	if c == nil {
		return
	}
	raw = c.p.hide(raw[:min(len(raw), maxUnread)])
	r := c.begin(capture.Frame)
	r.Raw, r.Dir, r.Gap, r.Flaw = raw, frame.C2U, true, fault
	c.write()
}

// HTTP publishes a request or a response. A connection has one of each. Header
// fields, which may hold keys, are never published.
func (c *Conn) HTTP(dir frame.Dir, start string, body []byte) {
	signal := frame.NoSignal
	switch {
	case dir == frame.U2C && !carrier.BeginsJSON(body): // nothing, or a page for people
		signal = frame.Response
	case len(body) == 0:
		signal = frame.Request
	}
	c.http(dir, signal, head{start: start}, body)
}

// Events publishes that a response begins that is a stream of events.
func (c *Conn) Events(start string) {
	c.http(frame.U2C, frame.Response, head{start: start, events: true}, nil)
}

// Event publishes the data of one event of a stream.
func (c *Conn) Event(data []byte) {
	signal := frame.NoSignal
	if !carrier.BeginsJSON(data) {
		signal = frame.Event
	}
	c.http(frame.U2C, signal, head{}, data)
}

// EventsEnd publishes that a stream has no more events.
func (c *Conn) EventsEnd() { c.http(frame.U2C, frame.End, head{}, nil) }

// http publishes a frame of HTTP. One whose head has no start line has none.
func (c *Conn) http(dir frame.Dir, signal frame.Signal, head head, body []byte) {
	if c == nil || dir == frame.U2C && c.left.Load() {
		return
	}
	body = c.p.hide(body)
	r, p := c.begin(capture.Frame), c.p
	p.meta = frame.Meta{Framing: frame.HTTP, Signal: signal}
	if head.start != "" {
		head.start = string(p.hide([]byte(head.start)))
		p.meta.Head = p.headOf(head)
	}
	r.Raw, r.End, r.Dir, r.Stream, r.Meta = body, len(body), dir, 1, &p.meta
	c.write()
}

// A head is what is told of one.
type head struct {
	start  string
	events bool
}

// maxHeads bounds the heads that are there for all; most are of a few kinds.
const maxHeads = 100

func (p *Publisher) headOf(of head) *frame.Head {
	h := p.heads[of]
	if h == nil {
		h = &frame.Head{Start: of.start}
		if of.events {
			h.Fields = []frame.Field{{Name: "Content-Type", Value: "text/event-stream"}}
		}
		if p.heads == nil || len(p.heads) >= maxHeads {
			p.heads = map[head]*frame.Head{}
		}
		p.heads[of] = h
	}
	return h
}

// Left notes that it is the controller who ends the connection. An answer that it
// would still get is not published any more: it is not there to take it.
func (c *Conn) Left() {
	if c != nil {
		c.left.Store(true)
	}
}

// Close publishes that the connection has ended in both directions, first in that
// of the side which ended it.
func (c *Conn) Close() {
	if c == nil {
		return
	}
	c.end(true)
	c.end(false)
}

// end publishes that the direction of the side which ends the connection has ended,
// or that of the other.
func (c *Conn) end(first bool) {
	r := c.begin(capture.HalfClosed)
	r.Dir = frame.U2C
	if c.left.Load() == first {
		r.Dir = frame.C2U
	}
	c.write()
}

// Note publishes a remark.
func (c *Conn) Note(format string, args ...any) {
	if c == nil {
		return
	}
	r, p := c.begin(capture.Note), c.p
	p.text = fmt.Appendf(p.text[:0], format, args...)
	r.Text = p.hide(p.text)
	c.write()
}

// begin locks the publisher and begins a record, which write writes.
func (c *Conn) begin(kind capture.Kind) *capture.Record {
	p := c.p
	p.mu.Lock()
	p.record = capture.Record{Kind: kind, Protocol: c.protocol, Framing: c.framing, Time: p.clock(), Frame: frame.Frame{Conn: c.number}}
	return &p.record
}

func (c *Conn) write() {
	p := c.p
	defer p.mu.Unlock()
	r := &p.record
	if r.Kind == capture.Frame {
		p.seq++
		r.Seq = p.seq
		r.Offset = c.offsets[r.Dir]
		c.offsets[r.Dir] += int64(len(r.Raw))
	}
	// A writer that fails says so itself; the traffic goes on.
	_ = p.to.Write(r)
	p.record.Raw = nil // it is another's
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
	from   *Conn
	call   *broker.Call
	hop    *broker.Hop
	to     *Conn
	events bool // the answer is a stream of them
}

// Sent publishes the request. One that was refused may be followed by another.
func (e *exchange) Sent(url string, body []byte) {
	e.to.Close()
	c := e.call
	name := strconv.AppendInt(append(make([]byte, 0, 128), "call "...), c.ID, 10)
	name = append(append(append(name, ": "...), c.Door...), " connection "...)
	name = append(strconv.AppendInt(name, int64(e.from.number), 10), " to provider "...)
	e.to = e.from.p.Open(string(append(name, e.hop.Provider...)), "json", frame.HTTP)
	id := ""
	if c.Ref != "" {
		id = ", id " + c.Ref
	}
	e.from.Note("call %d%s: model %s goes to provider %s on connection %d", c.ID, id, c.Name, e.hop.Provider, e.to.number)
	e.to.HTTP(frame.C2U, "POST "+url+" HTTP/1.1", body)
}

// Received publishes an answer.
func (e *exchange) Received(status int, body []byte) {
	e.to.HTTP(frame.U2C, statusLine(status), body)
}

// Event publishes an event of an answer.
func (e *exchange) Event(status int, data []byte) {
	if !e.events {
		e.events = true
		e.to.Events(statusLine(status))
	}
	e.to.Event(data)
}

func statusLine(status int) string {
	return fmt.Sprintf("HTTP/1.1 %d %s", status, http.StatusText(status))
}

// Ended publishes how the attempt ended, on both connections if it was
// cancelled: this is where the cancel stopped.
func (e *exchange) Ended(err error) {
	if err == nil && e.events {
		e.to.EventsEnd()
	}
	if errors.Is(err, broker.ErrGone) {
		e.from.Left()
	}
	if gaveUp(err) {
		e.to.Left()
	}
	if err != nil && e.to != nil {
		e.to.Note("call %d ended: %v", e.call.ID, err)
		e.from.Note("call %d ended at provider %s, connection %d: %v", e.call.ID, e.hop.Provider, e.to.number, err)
	}
	e.to.Close()
}

// gaveUp reports whether an attempt ended because the broker did not wait for its
// answer any more.
func gaveUp(err error) bool {
	for _, why := range []error{broker.ErrGone, broker.ErrCancelled, broker.ErrShutdown, context.Canceled} {
		if errors.Is(err, why) {
			return true
		}
	}
	var failed *provider.Error
	return errors.As(err, &failed) && failed.Cause == provider.TimedOut
}
