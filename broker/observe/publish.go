package observe

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
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
}

// NewPublisher returns a publisher to w, which must not block: see package capture/tap. The secrets,
// which may be nil, are masked.
func NewPublisher(w capture.Writer, s *mask.Secrets) *Publisher {
	return &Publisher{to: w, clock: time.Now, hide: s.Hide}
}

// A Conn publishes a connection. A nil Conn publishes nothing.
type Conn struct {
	p                 *Publisher
	number            int
	protocol, framing string
	offsets           [3]int64
	left              atomic.Bool // see Left
}

// Open publishes that a connection was opened, with frames of a framing and a protocol.
func (p *Publisher) Open(name, protocol, framing string) *Conn {
	if p == nil {
		return nil
	}
	c := &Conn{p: p, number: int(p.conns.Add(1)), protocol: protocol, framing: framing}
	c.write(capture.Record{Kind: capture.Opened, Text: []byte(name)})
	return c
}

// Frame publishes a frame with the payload raw[start:].
func (c *Conn) Frame(dir frame.Dir, raw []byte, start int) {
	if c == nil || dir == frame.U2C && c.left.Load() {
		return
	}
	if payload := raw[start:]; len(payload) > 0 {
		if hidden := c.p.hide(payload); &hidden[0] != &payload[0] {
			raw = slices.Concat(raw[:start], hidden)
		}
	}
	c.write(capture.Record{Kind: capture.Frame, Frame: frame.Frame{Raw: raw, Start: start, End: len(raw), Dir: dir}})
}

// maxUnread bounds the published part of a request that could not be read, in bytes.
const maxUnread = 64 << 10

// Unread publishes the bytes of a request that could not be read, up to a limit, and the fault.
func (c *Conn) Unread(raw []byte, fault error) {
	if c == nil {
		return
	}
	raw = c.p.hide(raw[:min(len(raw), maxUnread)])
	c.write(capture.Record{Kind: capture.Frame, Frame: frame.Frame{Raw: raw, Dir: frame.C2U, Gap: true, Flaw: fault}})
}

// HTTP publishes a request or a response. A connection has one of each. Header
// fields, which may hold keys, are never published.
func (c *Conn) HTTP(dir frame.Dir, start string, body []byte) {
	signal := frame.NoSignal
	switch {
	case dir == frame.U2C && !carrier.BeginsJSON(body): // empty, or a page for people
		signal = frame.Response
	case len(body) == 0:
		signal = frame.Request
	}
	c.http(dir, signal, &frame.Head{Start: start}, body)
}

// Response publishes a response with a status.
func (c *Conn) Response(status int, body []byte) {
	if c != nil {
		c.HTTP(frame.U2C, statusLine(status), body)
	}
}

func statusLine(status int) string {
	return fmt.Sprintf("HTTP/1.1 %d %s", status, http.StatusText(status))
}

// Events publishes the start of a stream of events.
func (c *Conn) Events(status int) {
	fields := []frame.Field{{Name: "Content-Type", Value: "text/event-stream"}}
	c.http(frame.U2C, frame.Response, &frame.Head{Start: statusLine(status), Fields: fields}, nil)
}

// Event publishes the data of one event of a stream.
func (c *Conn) Event(data []byte) {
	signal := frame.NoSignal
	if !carrier.BeginsJSON(data) {
		signal = frame.Event
	}
	c.http(frame.U2C, signal, nil, data)
}

// EventsEnd publishes the end of a stream of events.
func (c *Conn) EventsEnd() { c.http(frame.U2C, frame.End, nil, nil) }

// http publishes a frame of HTTP. The head may be nil.
func (c *Conn) http(dir frame.Dir, signal frame.Signal, head *frame.Head, body []byte) {
	if c == nil || dir == frame.U2C && c.left.Load() {
		return
	}
	body = c.p.hide(body)
	if head != nil {
		head.Start = string(c.p.hide([]byte(head.Start)))
	}
	meta := &frame.Meta{Framing: frame.HTTP, Signal: signal, Head: head}
	c.write(capture.Record{Kind: capture.Frame, Frame: frame.Frame{Raw: body, End: len(body), Dir: dir, Stream: 1, Meta: meta}})
}

// Left notes that the controller has closed the connection. Later answers are not published,
// since the controller does not get them.
func (c *Conn) Left() {
	if c != nil {
		c.left.Store(true)
	}
}

// Close publishes the end of both directions, beginning with the side that closed first.
func (c *Conn) Close() {
	if c == nil {
		return
	}
	dirs := []frame.Dir{frame.U2C, frame.C2U}
	if c.left.Load() {
		slices.Reverse(dirs)
	}
	for _, dir := range dirs {
		c.write(capture.Record{Kind: capture.HalfClosed, Frame: frame.Frame{Dir: dir}})
	}
}

// Belongs publishes the place of the connection, or of an exchange on it, in a run.
func (c *Conn) Belongs(p capture.Place) {
	if text, err := p.Text(); c != nil && err == nil {
		c.write(capture.Record{Kind: capture.Note, Text: text})
	}
}

// Note publishes a remark.
func (c *Conn) Note(format string, args ...any) {
	if c == nil {
		return
	}
	c.write(capture.Record{Kind: capture.Note, Text: c.p.hide(fmt.Appendf(nil, format, args...))})
}

// Unstarted publishes why the unit of the connection did not start, or could not be reached.
func (c *Conn) Unstarted(err error) {
	if c != nil {
		c.write(capture.Record{Kind: capture.Exited, Status: 1, Text: c.p.hide([]byte(err.Error()))})
	}
}

func (c *Conn) write(r capture.Record) {
	p := c.p
	p.mu.Lock()
	defer p.mu.Unlock()
	r.Protocol, r.Framing, r.Time, r.Conn = c.protocol, c.framing, p.clock(), c.number
	if r.Kind == capture.Frame {
		p.seq++
		r.Seq = p.seq
		r.Offset = c.offsets[r.Dir]
		c.offsets[r.Dir] += int64(len(r.Raw))
	}
	_ = p.to.Write(&r) // the writer reports its own failures; the traffic continues
}

// Tap returns the tap for a call of c.
func (c *Conn) Tap() broker.Tap {
	if c == nil {
		return nil
	}
	return door{c}
}

type door struct{ *Conn }

// Provider returns an exchange, which is published as a connection of its own.
func (d door) Provider(c *broker.Call, h *broker.Hop) provider.Exchange {
	return &exchange{from: d.Conn, call: c, hop: h}
}

// An exchange publishes a call to a provider. It opens a connection only once a request is
// sent.
type exchange struct {
	from   *Conn
	call   *broker.Call
	hop    *broker.Hop
	to     *Conn
	events bool // the answer is a stream of them
}

// Sent publishes the request. After a rejection there may be another one.
func (e *exchange) Sent(url string, body []byte) {
	e.to.Close()
	c := e.call
	name := fmt.Sprintf("call %d: %s connection %d to provider %s", c.ID, c.Door, e.from.number, e.hop.Provider)
	e.to = e.from.p.Open(name, "json", frame.HTTP)
	id := ""
	if c.Ref != "" {
		id = ", id " + c.Ref
		e.to.Belongs(capture.Place{Run: c.Ref})
	}
	e.from.Note("call %d%s: model %s goes to provider %s on connection %d", c.ID, id, c.Name, e.hop.Provider, e.to.number)
	e.to.HTTP(frame.C2U, "POST "+url+" HTTP/1.1", body)
}

// Passed publishes a step of the call.
func (e *exchange) Passed(step string) { e.from.Note("call %d: %s", e.call.ID, step) }

// Received publishes an answer.
func (e *exchange) Received(status int, body []byte) { e.to.Response(status, body) }

// Event publishes an event of an answer.
func (e *exchange) Event(status int, data []byte) {
	if !e.events {
		e.events = true
		e.to.Events(status)
	}
	e.to.Event(data)
}

// Ended publishes how the attempt ended, an error on both connections.
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

// gaveUp reports whether the broker stopped waiting for an answer.
func gaveUp(err error) bool {
	if slices.ContainsFunc([]error{broker.ErrGone, broker.ErrCancelled, broker.ErrShutdown, context.Canceled}, func(why error) bool { return errors.Is(err, why) }) {
		return true
	}
	var failed *provider.Error
	return errors.As(err, &failed) && failed.Cause == provider.TimedOut
}
