package httpproxy

import (
	"slices"
	"sync"
	"time"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/capture/wire"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/frame/carrier"
)

// A watcher makes records of the bytes of all connections, in the background and in the
// order in which they were read: the cancel that one connection carries is recorded before
// the end that it causes on another.
type watcher struct {
	mu     sync.Mutex
	pieces []piece       // oldest first
	wake   chan struct{} // has a buffer of one
	done   sync.WaitGroup
}

// watch starts the watcher.
func watch() *watcher {
	w := &watcher{wake: make(chan struct{}, 1)}
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
func (w *watcher) queue(p piece) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p.read = time.Now()
	w.pieces = append(w.pieces, p)
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// close ends the watcher once every tap is closed.
func (w *watcher) close() {
	close(w.wake)
	w.done.Wait()
}

// A tap copies the bytes of a connection for the watcher. Its backlog is bounded: when it
// is full, the connection waits.
type tap struct {
	watcher *watcher
	wire    *wire.Wire    // nil without a sink
	behind  chan struct{} // has an element for each queued piece
	// By direction: whether its sender has ended it, and whether its receiver failed.
	ended, refused [3]bool
	recorded       [3]bool // whether its end is recorded
	stopped        bool    // the proxy ends what neither side has ended
}

// A piece is the result of one read, or the end of a direction.
type piece struct {
	tap     *tap
	dir     frame.Dir
	data    []byte // nil at the end
	read    time.Time
	stopped bool // at the end: because the proxy stops
}

// maxBehind bounds the backlog of a tap, in pieces of at most 64 KiB.
const maxBehind = 64

// tap starts recording a connection.
func (p *proxy) tap(number int) *tap {
	t := &tap{watcher: p.watcher}
	sink := p.cfg.Sink
	if sink == nil {
		return t
	}
	for _, r := range p.opened(number) {
		sink.Write(&r)
	}
	t.behind = make(chan struct{}, maxBehind)
	t.wire = wire.New(func(r *capture.Record) {
		if r.Kind == capture.Frame && !r.Gap {
			p.traffic[r.Dir].frames.Add(1)
		}
		sink.Write(r)
	}, number, carrier.Options{Kind: carrier.HTTP1, Limit: p.cfg.Limit})
	return t
}

// record makes records of a piece.
func (t *tap) record(p *piece) {
	switch {
	case t.recorded[p.dir]: // the server has ended, and the proxy refuses one more request
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

// feed is called before the bytes are forwarded, so that their effects are queued later.
func (t *tap) feed(dir frame.Dir, data []byte) {
	if t.wire != nil {
		t.behind <- struct{}{}
		t.watcher.queue(piece{tap: t, dir: dir, data: append(make([]byte, 0, len(data)), data...)})
	}
}

func (t *tap) endDirection(dir frame.Dir) {
	t.ended[dir] = true
	if t.wire != nil {
		t.behind <- struct{}{}
		t.watcher.queue(piece{tap: t, dir: dir, stopped: t.stopped})
	}
}

// drainAndClose ends the tap and waits until its records are written. A direction that
// its side has not ended was ended by the proxy: because the other side has ended, or because
// the proxy stops, which no record calls an end. The server's direction comes first,
// because clients see the end from there, unless they stopped reading.
func (t *tap) drainAndClose(stopped bool) {
	t.stopped = stopped && !t.ended[frame.C2U] && !t.ended[frame.U2C]
	dirs := []frame.Dir{frame.U2C, frame.C2U}
	if t.refused[frame.U2C] {
		slices.Reverse(dirs)
	}
	for _, dir := range dirs {
		if !t.ended[dir] {
			t.endDirection(dir)
		}
	}
	for range cap(t.behind) {
		t.behind <- struct{}{} // when all before are recorded
	}
}
