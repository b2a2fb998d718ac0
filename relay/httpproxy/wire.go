package httpproxy

import (
	"slices"
	"sync"
	"time"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/frame/carrier"
)

// Taps make records of the bytes of connections, in the background and in the order in which
// they were read: the cancel that one connection carries is recorded before the end that it
// causes on another. Nil Taps record nothing.
type Taps struct {
	sink   func(*capture.Record)
	limit  int
	mu     sync.Mutex
	pieces []piece       // oldest first
	wake   chan struct{} // has a buffer of one
	done   sync.WaitGroup
}

// NewTaps returns Taps that have to be closed. The limit is the largest payload, in bytes, of a
// frame; 0 is the default.
func NewTaps(sink func(*capture.Record), limit int) *Taps {
	w := &Taps{sink: sink, limit: limit, wake: make(chan struct{}, 1)}
	w.done.Go(func() {
		var pieces []piece
		for range w.wake {
			w.mu.Lock()
			pieces, w.pieces = w.pieces, pieces[:0]
			w.mu.Unlock()
			for i := range pieces {
				pieces[i].tap.record(&pieces[i])
			}
			clear(pieces)
		}
	})
	return w
}

// queue adds a piece with the current time.
func (w *Taps) queue(p piece) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p.read = time.Now()
	w.pieces = append(w.pieces, p)
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// Close ends the Taps once every Tap is closed.
func (w *Taps) Close() {
	if w != nil {
		close(w.wake)
		w.done.Wait()
	}
}

// A Tap copies the bytes of a connection over HTTP for the records. Its backlog is bounded:
// when it is full, the connection waits. A nil Tap copies nothing.
type Tap struct {
	taps     *Taps
	wire     *Wire
	behind   chan struct{} // has an element for each queued piece
	ended    [3]bool       // by direction: whether its sender has ended it
	recorded [3]bool       // whether its end is recorded
	stopped  bool          // what its sender has not ended goes on without us
}

// A piece is the result of one read, or the end of a direction.
type piece struct {
	tap  *Tap
	dir  frame.Dir
	data []byte // nil at the end
	read time.Time

	stopped bool // at the end: only the recording ends
}

const (
	// maxBehind bounds the backlog of a Tap, in pieces.
	maxBehind = 64
	// pieceSize bounds a piece, in bytes.
	pieceSize = 64 << 10
)

// Connect starts recording a connection with a number, after its first records.
func (w *Taps) Connect(number int, first ...capture.Record) *Tap {
	return w.ConnectOver(carrier.HTTP1, number, first...)
}

// ConnectOver is Connect for a connection over a carrier.
func (w *Taps) ConnectOver(kind carrier.Kind, number int, first ...capture.Record) *Tap {
	if w == nil {
		return nil
	}
	for i := range first {
		first[i].Conn = number
		w.sink(&first[i])
	}
	return &Tap{taps: w, wire: New(w.sink, number, carrier.Options{Kind: kind, Limit: w.limit}), behind: make(chan struct{}, maxBehind)}
}

// record makes records of a piece.
func (t *Tap) record(p *piece) {
	switch {
	case t.recorded[p.dir]: // its side has ended, and somebody else answers for it
	case p.data == nil:
		t.recorded[p.dir] = true
		if p.stopped {
			t.wire.Stop(p.dir, p.read)
		} else {
			t.wire.End(p.dir, p.read)
		}
	default:
		t.wire.Feed(p.dir, p.data, p.read, time.Time{})
	}
	<-t.behind
}

// Feed copies bytes of a direction, before they are forwarded, so that their effects are
// recorded later.
func (t *Tap) Feed(dir frame.Dir, data []byte) {
	if t != nil {
		for data := range slices.Chunk(data, pieceSize) {
			t.queue(piece{tap: t, dir: dir, data: append(make([]byte, 0, len(data)), data...)})
		}
	}
}

// HalfClose records that the sender of a direction has ended it.
func (t *Tap) HalfClose(dir frame.Dir) {
	if t != nil {
		t.ended[dir] = true
		t.queue(piece{tap: t, dir: dir, stopped: t.stopped})
	}
}

func (t *Tap) queue(p piece) {
	t.behind <- struct{}{}
	t.taps.queue(p)
}

// Stop has Close record no end, unless a side has ended already.
func (t *Tap) Stop() {
	if t != nil {
		t.stopped = !t.ended[frame.C2U] && !t.ended[frame.U2C]
	}
}

// Close ends the directions that their sides have not ended, beginning with first, and waits
// until everything is recorded.
func (t *Tap) Close(first frame.Dir) {
	if t == nil {
		return
	}
	for _, dir := range []frame.Dir{first, first.Opposite()} {
		if !t.ended[dir] {
			t.HalfClose(dir)
		}
	}
	for range cap(t.behind) {
		t.behind <- struct{}{} // when all before are recorded
	}
}

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
