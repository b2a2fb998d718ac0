package relay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/transport"
)

// A Shared is one unit for any number of controllers. What they say goes to it
// in whole frames, and each of them hears the answers to what it asked; what
// answers nobody goes to all, and what the unit asks goes to the one that came
// first. No byte is changed: where two controllers use the same id, the request
// of the second waits until that of the first is answered or cancelled.
type Shared struct {
	unit    transport.Conn
	writing sync.Mutex // held while a frame goes to the unit

	mu      sync.Mutex
	changed *sync.Cond // an id is free again, or somebody has left
	grammar grammar
	seats   []*seat // in the order in which they came
	asked   map[name]*question
	over    error // not nil when the unit has ended
}

// A name names an exchange that a controller opened.
type name struct {
	space protocol.Space
	text  string
}

func nameOf(t protocol.Token) name { return name{t.Space, string(t.Text)} }

// A question is an exchange that is open, or several of one name.
type question struct {
	seat  *seat
	names []name
	count int
	given bool // up: it was cancelled, and may never be answered
}

// ErrUnitEnded is the error of what is said to a shared unit that has ended.
var ErrUnitEnded = errors.New("the unit has ended")

// Share returns a unit to be shared, which is to be a stream of frames.
func Share(unit transport.Conn, f frame.Framing, p protocol.Protocol, limit int) (*Shared, error) {
	if whole(unit) {
		return nil, errors.New("a WebSocket is no stream of frames: only a unit that is one can be shared")
	}
	s := &Shared{unit: unit, grammar: grammar{framing: f, protocol: p, limit: limit}, asked: make(map[name]*question)}
	s.changed = sync.NewCond(&s.mu)
	return s, nil
}

// Run gives out what the unit says until that ends, and then ends all that Join
// has returned. The error is nil if the unit ended by itself.
func (s *Shared) Run() error {
	framer := newFramer(&s.grammar)
	defer framer.stop()
	buf := make([]byte, 64<<10)
	for {
		n, err := s.unit.Read(buf)
		s.mu.Lock()
		if n > 0 {
			framer.push(buf[:n], s.give)
		}
		if err == nil {
			s.mu.Unlock()
			continue
		}
		framer.end(s.give)
		s.over = ErrUnitEnded
		for _, c := range s.seats {
			c.out.end(nil)
		}
		s.changed.Broadcast()
		s.mu.Unlock()
		if err == io.EOF {
			err = nil
		}
		return err
	}
}

// Join returns the unit as one more controller sees it. To close it is to leave.
func (s *Shared) Join() (transport.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := &seat{shared: s, out: newOutbox()}
	c.framer = newFramer(&s.grammar)
	s.seats = append(s.seats, c)
	return c, s.over
}

// Left waits until every controller has left, or for the end of ctx.
func (s *Shared) Left(ctx context.Context) {
	stop := context.AfterFunc(ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.changed.Broadcast()
	})
	defer stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.seats) > 0 && ctx.Err() == nil {
		s.changed.Wait()
	}
}

// give gives frames of the unit to whom they are for.
func (s *Shared) give(b *frame.Batch) {
	for i := range b.Frames {
		f := &b.Frames[i]
		s.grammar.refine(f)
		m := s.read(f)
		q := s.asked[nameOf(m.ID)]
		if q == nil || m.Phase == protocol.Open {
			q = s.asked[nameOf(m.Ref)]
		}
		switch {
		case q != nil:
			q.seat.hear(f.Raw)
		case m.Phase == protocol.Open || m.Phase == protocol.Cancel:
			if len(s.seats) > 0 {
				s.seats[0].hear(f.Raw)
			}
		default:
			for _, c := range s.seats {
				c.hear(f.Raw)
			}
		}
		if q != nil && (m.Phase == protocol.Close || m.Phase == protocol.Fail || m.Phase == protocol.Cancelled) {
			s.answered(q)
		}
	}
}

// read returns what a frame means; nothing if that cannot be told.
func (s *Shared) read(f *frame.Frame) (m protocol.Message) {
	if f.Gap || s.grammar.protocol.Parse(f.Payload(), &m) != nil {
		m.Reset()
	}
	return m
}

// answered is told that an exchange has ended.
func (s *Shared) answered(q *question) {
	if q.count--; q.count > 0 {
		return
	}
	for _, n := range q.names {
		if s.asked[n] == q {
			delete(s.asked, n)
		}
	}
	s.giveUp(q)
}

// giveUp no longer keeps others waiting for an exchange.
func (s *Shared) giveUp(q *question) {
	if !q.given {
		q.given = true
		q.seat.open--
		q.seat.settle()
		s.changed.Broadcast()
	}
}

// ask sees to it that the answers to a frame find their way back. It waits while
// another controller has an exchange of that name.
func (s *Shared) ask(c *seat, f *frame.Frame) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.read(f)
	if m.Phase == protocol.Cancel {
		if q := s.asked[nameOf(m.Ref)]; q != nil && q.seat == c {
			s.giveUp(q)
		}
	}
	var names []name
	if m.Phase == protocol.Open || m.Phase == protocol.Cancel {
		for _, t := range []protocol.Token{m.ID, m.Bind} {
			if !t.IsZero() {
				names = append(names, nameOf(t))
			}
		}
	}
	taken := func(n name) bool { q := s.asked[n]; return q != nil && q.seat != c && !q.given }
	for s.over == nil && !c.left && slices.ContainsFunc(names, taken) {
		s.changed.Wait()
	}
	switch {
	case s.over != nil:
		return s.over
	case c.left:
		return net.ErrClosed
	case len(names) > 0:
		s.note(c, names)
	}
	return nil
}

// note remembers who opened an exchange.
func (s *Shared) note(c *seat, names []name) {
	q := s.asked[names[0]]
	if q == nil || q.seat != c || q.given {
		q = &question{seat: c}
		c.open++
	}
	q.count++
	for _, n := range names {
		if s.asked[n] != q {
			q.names = append(q.names, n)
			s.asked[n] = q
		}
	}
}

// A seat is a shared unit as one controller sees it.
type seat struct {
	shared *Shared
	framer *framer
	out    *outbox // to the controller

	// The lock of shared guards these.
	open        int // exchanges
	ended, left bool
}

func (c *seat) Read(p []byte) (int, error) { return c.out.Read(p) }

// Write sends the frames on that p makes whole.
func (c *seat) Write(p []byte) (int, error) {
	s := c.shared
	var frames []frame.Frame
	s.mu.Lock()
	c.framer.push(p, func(b *frame.Batch) {
		for i := range b.Frames {
			s.grammar.refine(&b.Frames[i])
			frames = append(frames, b.Frames[i].Clone())
		}
	})
	s.mu.Unlock()
	for i := range frames {
		if err := s.ask(c, &frames[i]); err != nil {
			return 0, err
		}
		s.writing.Lock()
		_, err := s.unit.Write(frames[i].Raw)
		s.writing.Unlock()
		if err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

// CloseWrite says that the controller asks nothing more; it hears the end when it
// has had all its answers. What it left of a frame goes nowhere: it would mix
// with the next controller's.
func (c *seat) CloseWrite() error {
	c.shared.mu.Lock()
	defer c.shared.mu.Unlock()
	c.ended = true
	c.settle()
	return nil
}

// settle ends what the controller hears if nothing more is for it.
func (c *seat) settle() {
	if c.ended && c.open <= 0 {
		c.out.end(nil)
	}
}

// Close leaves. Answers that still come for the controller go nowhere.
func (c *seat) Close() error {
	s := c.shared
	s.mu.Lock()
	defer s.mu.Unlock()
	if !c.left {
		c.left = true
		s.seats = slices.DeleteFunc(s.seats, func(other *seat) bool { return other == c })
		c.framer.stop()
		c.out.end(nil)
		s.changed.Broadcast()
	}
	return nil
}

// maxUnheard is how many bytes a controller may let wait: to wait for it would
// keep all others waiting.
const maxUnheard = 64 << 20

// hear takes a frame for the controller.
func (c *seat) hear(raw []byte) {
	c.out.put(raw, false)
	if c.out.waiting() > maxUnheard {
		c.out.end(fmt.Errorf("a controller of the shared unit let %d bytes wait, and is let go", maxUnheard))
	}
}
