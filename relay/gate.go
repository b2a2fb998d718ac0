package relay

import (
	"bytes"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/capture/tap"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/relay/fault"
	"github.com/wirectl/wirectl/session/query"
	"github.com/wirectl/wirectl/transport"
)

// GateConfig configures a Gate.
type GateConfig struct {
	// Faults are injected; nil means none.
	Faults *fault.Plan
	// Hold selects the frames to hold; nil means none.
	Hold *query.Where
	// Answer, if not nil, is asked about each frame. It returns a note for the records, or nil, and another
	// payload for the receiver, or nil.
	Answer func(*frame.Frame) (note *capture.Record, instead []byte)
	// Sink receives notes about changes.
	Sink *Fan
	// Find returns a recorded frame. Altered is called before the first change; it
	// must not call the gate. Either may be nil.
	Find    func(seq int64) (capture.Record, bool)
	Altered func()
	// Bridged means that the records are of other connections, below the relayed one.
	Bridged bool
}

// A Gate is the only place where a relay changes traffic: by configured faults, and by
// commands of the viewers of its tap. It moves whole frames, so a relay with a gate
// forwards no byte before its frame is complete. One gate serves any number of relays; it
// is the [tap.Controller] of their tap.
type Gate struct {
	cfg     GateConfig
	altered sync.Once

	mu       sync.Mutex
	changed  *sync.Cond // a frame is no longer held, or a connection closed
	where    *query.Where
	links    map[int]*link // by connection
	held     []*heldFrame  // in order of arrival
	heldSize int           // their bytes
	number   int64         // of the latest held frame
	named    int64         // generated names
}

// NewGate returns a gate.
func NewGate(cfg GateConfig) *Gate {
	g := &Gate{cfg: cfg, where: cfg.Hold, links: make(map[int]*link)}
	g.changed = sync.NewCond(&g.mu)
	return g
}

// between installs the gate between the two ends of a connection.
func (g *Gate) between(r *relay) *link {
	cfg := &r.cfg
	k := &link{
		gate: g, relay: r, conn: cfg.Conn, closed: make(chan struct{}),
		grammar: newGrammar(cfg.Framing, cfg.Protocol, cfg.Limit),
	}
	for dir, src := range map[frame.Dir]transport.Conn{frame.C2U: cfg.Controller, frame.U2C: cfg.Unit} {
		l := &passage{link: k, dir: dir, src: src, out: newOutbox(), openers: make(map[string]*opener)}
		if g.cfg.Faults != nil {
			l.faults = g.cfg.Faults.Filter(cfg.Conn, dir)
		}
		k.passages[dir] = l
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.links[cfg.Conn] = k
	return k
}

// gated is an end of a connection, read through the gate. It is a stream, even if the end
// is a message transport.
type gated struct {
	transport.Conn
	passage *passage
}

func (c gated) Read(p []byte) (int, error) { return c.passage.out.Read(p) }

// alter records that the gate changes something.
func (g *Gate) alter(conn int, dir frame.Dir, format string, args ...any) {
	g.altered.Do(func() {
		if g.cfg.Altered != nil {
			g.cfg.Altered()
		}
	})
	g.record(capture.Record{Kind: capture.Note, Text: fmt.Appendf(nil, format, args...)}, conn, dir)
}

// tellTap sends a note to the viewers of the tap.
func (g *Gate) tellTap(n tap.Note) {
	dir, _ := frame.ParseDir(n.Dir)
	g.record(n.Record(), n.Conn, dir)
}

func (g *Gate) record(r capture.Record, conn int, dir frame.Dir) {
	if g.cfg.Sink == nil {
		return
	}
	r.Conn, r.Dir = conn, dir
	if r.Time.IsZero() {
		r.Time = time.Now()
	}
	g.cfg.Sink.Write(&r)
}

// An outbox holds bytes that have passed a gate and were not read yet.
type outbox struct {
	mu      sync.Mutex
	changed *sync.Cond
	runs    [][]byte // each is read by itself
	size    int
	ended   bool
	err     error // why it has ended; nil means io.EOF
}

// maxOutbox bounds the unread bytes.
const maxOutbox = 1 << 20

func newOutbox() *outbox {
	o := &outbox{}
	o.changed = sync.NewCond(&o.mu)
	return o
}

// put adds a copy of bytes. If wait is set, it waits for room.
func (o *outbox) put(b []byte, wait bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for wait && o.size > maxOutbox && !o.ended {
		o.changed.Wait()
	}
	if o.ended || len(b) == 0 {
		return
	}
	o.runs = append(o.runs, bytes.Clone(b))
	o.size += len(b)
	o.changed.Broadcast()
}

// endWith ends the outbox after its frames.
func (o *outbox) endWith(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.ended {
		o.ended, o.err = true, err
		o.changed.Broadcast()
	}
}

// room waits until there is room, or until rouse is called and stop is true. It reports
// whether there is room.
func (o *outbox) room(stop func() bool) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.size > maxOutbox && !o.ended && !stop() {
		o.changed.Wait()
	}
	return !o.ended && !stop()
}

// rouse wakes all waiting goroutines.
func (o *outbox) rouse() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.changed.Broadcast()
}

// waiting returns the number of unread bytes.
func (o *outbox) waiting() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.size
}

func (o *outbox) Read(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for len(o.runs) == 0 {
		if o.ended {
			if o.err != nil {
				return 0, o.err
			}
			return 0, io.EOF
		}
		o.changed.Wait()
	}
	n := copy(p, o.runs[0])
	o.size -= n
	if o.runs[0] = o.runs[0][n:]; len(o.runs[0]) == 0 {
		o.runs[0], o.runs = nil, o.runs[1:]
	}
	o.changed.Broadcast()
	return n, nil
}
