package relay

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/all"
	"github.com/wirectl/wirectl/relay/fault"
	"github.com/wirectl/wirectl/transport"
)

// A link is a connection that passes a gate.
type link struct {
	gate     *Gate
	relay    *relay
	conn     int
	passages [3]*passage // by direction

	mu      sync.Mutex
	grammar grammar
	version string // of the protocol, once negotiated
	told    bool   // the warning of tell was given

	ends    atomic.Int32 // sources that have ended
	closing sync.Once
	closed  chan struct{}
	cut     atomic.Bool // a fault closed it
}

// closeLink ends both directions.
func (k *link) closeLink() {
	k.closing.Do(func() {
		close(k.closed)
		for _, l := range k.passages {
			if l != nil {
				l.out.endWith(nil)
			}
		}
		k.gate.forget(k)
	})
}

// speaks returns the framing and protocol of the connection, as far as known.
func (k *link) speaks() (frame.Framing, protocol.Protocol) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.grammar.framing, k.grammar.protocol
}

// tell warns once that a connection passes unchanged.
func (k *link) tell() {
	k.mu.Lock()
	now := k.grammar.carried && !k.told
	k.told = k.told || now
	k.mu.Unlock()
	if now {
		k.relay.warn(fmt.Sprintf("connection %d speaks HTTP or WebSocket: faults and holds only work on streams of frames, so it passes unchanged", k.conn))
	}
}

// A passage is one direction of a link. It has one goroutine, which ends with its source.
type passage struct {
	link    *link
	dir     frame.Dir
	src     transport.Conn
	out     *outbox
	framer  *framer
	faults  *fault.Filter
	item    fault.Item
	openers map[string]*opener // of exchanges, by their names; the link's lock guards it
}

// passFrames forwards frames until the source ends or the link closes.
func (l *passage) passFrames() {
	l.framer = newFramer(&l.link.grammar)
	defer l.framer.stop()
	buf := make([]byte, 64<<10)
	next := func() ([]byte, error) {
		n, err := l.src.Read(buf)
		return buf[:n], err
	}
	if src, ok := l.src.(transport.Messenger); ok {
		next = func() (_ []byte, err error) {
			buf, err = l.link.relay.cfg.receive(buf[:0], src)
			return buf, err
		}
	}
	for {
		data, err := next()
		frames := l.cut(data, err != nil)
		l.link.tell()
		if !l.pass(frames) {
			return
		}
		if err != nil {
			l.passEnd(err)
			return
		}
	}
}

// cut cuts more of the stream into frames, and copies them.
func (l *passage) cut(data []byte, ended bool) (frames []frame.Frame) {
	k := l.link
	k.mu.Lock()
	defer k.mu.Unlock()
	use := func(b *frame.Batch) {
		for i := range b.Frames {
			f := &b.Frames[i]
			k.grammar.refine(f)
			f.Conn, f.Dir = k.conn, l.dir
			frames = append(frames, f.Clone())
		}
	}
	if len(data) > 0 {
		l.framer.push(data, use)
	}
	if ended {
		l.framer.endInput(use)
	}
	return frames
}

// passEnd forwards the end after the held frames. Once both sources have ended, all frames
// are released, because nobody can act on them any more.
func (l *passage) passEnd(err error) {
	if l.faults != nil {
		l.applySteps(l.faults.End())
	}
	if l.link.ends.Add(1) == 2 {
		l.link.gate.letGo(func(h *heldFrame) bool { return h.passage.link == l.link })
	}
	l.link.gate.drain(l)
	if err == io.EOF {
		err = nil
	}
	l.out.endWith(err)
}

// pass moves frames through the gate. It returns false if the link has closed.
func (l *passage) pass(frames []frame.Frame) bool {
	for i := range frames {
		f := &frames[i]
		framing, p := l.link.speaks()
		l.item.Read(f, framing, p)
		switch {
		case l.follow(&l.item):
			l.keepFrame(&l.item)
		case l.link.gate.hold(l, &l.item):
		case l.faults == nil:
			l.out.put(f.Raw, true)
		default:
			steps, done := l.faults.Apply(&l.item)
			for _, a := range done {
				l.link.gate.alter(l.link.conn, l.dir, "fault: %s: %s", a, describe(&l.item))
			}
			if !l.applySteps(steps) {
				return false
			}
		}
		select {
		case <-l.link.closed:
			return false
		default:
		}
	}
	return true
}

// describe names a frame.
func describe(it *fault.Item) string {
	s := it.Frame.Dir.String() + " " + string(it.Message.Kind)
	if id := it.Message.ID; !id.IsZero() {
		s += " " + string(id.Text)
	}
	return s
}

// applySteps carries out the steps of a fault.
func (l *passage) applySteps(steps []fault.Step) bool {
	for _, s := range steps {
		if s.Wait > 0 {
			select {
			case <-time.After(s.Wait):
			case <-l.link.closed:
				return false
			}
		}
		l.out.put(s.Bytes, true)
		if s.Cancel != nil {
			_ = l.link.cancel(s.Cancel, l.dir.Opposite()) // the exchange may have ended
		}
		if s.Close {
			l.link.cut.Store(true)
			l.link.closeLink()
			return false
		}
	}
	return true
}

// errNoExchange means that there is nothing to cancel.
var errNoExchange = errors.New("no open exchange has that id")

// cancel sends a cancel for an exchange that was opened in a direction.
func (k *link) cancel(id []byte, dir frame.Dir) error {
	l := k.passages[dir]
	k.mu.Lock()
	o := l.openers[string(id)]
	p := k.grammar.protocol
	k.mu.Unlock()
	if o == nil {
		return errNoExchange
	}
	payload, err := all.Of(p).AppendCancel(nil, &protocol.Target{Opened: &o.message}, firstOwn+k.gate.nextName())
	if err != nil {
		return err
	}
	return l.inject(payload, "a cancel of %s", o.message.ID.Text)
}
