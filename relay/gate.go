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

// GateConfig says what a Gate may do.
type GateConfig struct {
	// Faults are done on purpose; nil means none.
	Faults *fault.Plan
	// Hold is which frames wait until they are let go; nil means none.
	Hold *query.Where
	// Sink is told what was done.
	Sink *Fan
	// Find returns a frame that has passed, and Altered is called ahead of the
	// first change; it must not call the gate. Either may be nil.
	Find    func(seq int64) (capture.Record, bool)
	Altered func()
}

// A Gate is where a relay changes what passes, as nothing else does: by faults
// that were asked for, and by what viewers of its tap ask for. It moves whole
// frames, so a relay with a gate passes no byte before its frame is whole. One
// gate serves any number of relays; it is the [tap.Controller] of their tap.
type Gate struct {
	cfg     GateConfig
	altered sync.Once

	mu       sync.Mutex
	changed  *sync.Cond // a frame that waited does no more, or a connection closed
	where    *query.Where
	links    map[int]*link // by connection
	held     []*heldFrame  // in the order in which they came
	heldSize int           // their bytes
	number   int64         // of the frame that was held last
	named    int64         // that were made up
}

// NewGate returns a gate.
func NewGate(cfg GateConfig) *Gate {
	g := &Gate{cfg: cfg, where: cfg.Hold, links: make(map[int]*link)}
	g.changed = sync.NewCond(&g.mu)
	return g
}

// between puts the gate between the two ends of a connection.
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

// gated is an end of a connection, read behind the gate. What comes from there
// is a stream, though the end may speak in messages.
type gated struct {
	transport.Conn
	passage *passage
}

func (c gated) Read(p []byte) (int, error) { return c.passage.out.Read(p) }

// alter says that what passes is no longer what was sent, and how.
func (g *Gate) alter(conn int, dir frame.Dir, format string, args ...any) {
	g.altered.Do(func() {
		if g.cfg.Altered != nil {
			g.cfg.Altered()
		}
	})
	g.record(capture.Record{Kind: capture.Note, Text: fmt.Appendf(nil, format, args...)}, conn, dir)
}

// tell tells the viewers of the tap.
func (g *Gate) tell(n tap.Note) {
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

// An outbox is what has passed a gate and was not read yet.
type outbox struct {
	mu      sync.Mutex
	changed *sync.Cond
	runs    [][]byte // each is read by itself
	size    int
	ended   bool
	err     error // why it has ended; nil means io.EOF
}

// maxOutbox bounds what may wait to be read, in bytes.
const maxOutbox = 1 << 20

func newOutbox() *outbox {
	o := &outbox{}
	o.changed = sync.NewCond(&o.mu)
	return o
}

// put adds bytes, which stay the caller's. It waits for room if it is to.
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

// endWith ends the outbox after the frames that are in it.
func (o *outbox) endWith(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.ended {
		o.ended, o.err = true, err
		o.changed.Broadcast()
	}
}

// room waits until something can be put, or stop says to wait no more and rouse
// is called. It reports whether something can be put.
func (o *outbox) room(stop func() bool) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.size > maxOutbox && !o.ended && !stop() {
		o.changed.Wait()
	}
	return !o.ended && !stop()
}

// rouse has everybody who waits look again.
func (o *outbox) rouse() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.changed.Broadcast()
}

// waiting returns how many bytes were not read yet.
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
