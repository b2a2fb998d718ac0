package httpproxy

import (
	"errors"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/capture/wire"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/frame/carrier"
)

// A tap copies the bytes of a connection and makes records of them in the background.
// Its backlog is bounded: when it is full, the connection waits.
type tap struct {
	pieces chan piece // nil if nobody watches
	// By direction: whether its sender has ended it, and whether its receiver refused more.
	ended, refused [3]bool
	done           sync.WaitGroup
}

// A piece is the result of one read, or the end of a direction.
type piece struct {
	dir  frame.Dir
	data []byte // nil at the end
	read time.Time
}

// maxBehind bounds the backlog of a tap, in pieces of at most 64 KiB.
const maxBehind = 64

// tap begins to watch a connection.
func (p *proxy) tap(number int) *tap {
	t := &tap{}
	sink := p.cfg.Sink
	if sink == nil {
		return t
	}
	for _, r := range p.opened(number) {
		sink.Write(&r)
	}
	t.pieces = make(chan piece, maxBehind)
	w := wire.New(func(r *capture.Record) {
		if r.Kind == capture.Frame && !r.Gap {
			p.traffic[r.Dir].frames.Add(1)
		}
		sink.Write(r)
	}, number, carrier.Options{Kind: carrier.HTTP1, Limit: p.cfg.Limit})
	t.done.Go(func() {
		var ended [3]bool
		for b := range t.pieces {
			switch {
			case ended[b.dir]: // the server has, and the proxy refuses one more request
			case b.data == nil:
				ended[b.dir] = true
				w.End(b.dir, b.read)
			default:
				w.Feed(b.dir, b.data, b.read, time.Time{})
			}
		}
	})
	return t
}

func (t *tap) feed(dir frame.Dir, data []byte) {
	if t.pieces != nil {
		t.pieces <- piece{dir, append(make([]byte, 0, len(data)), data...), time.Now()}
	}
}

func (t *tap) endDirection(dir frame.Dir) {
	t.ended[dir] = true
	if t.pieces != nil {
		t.pieces <- piece{dir: dir, read: time.Now()}
	}
}

// drainAndClose ends the tap and waits until its records are written. A direction that
// its side has not ended was ended by the proxy. The server's direction comes first,
// because clients see the end from there, unless they stopped reading.
func (t *tap) drainAndClose() {
	dirs := []frame.Dir{frame.U2C, frame.C2U}
	if t.refused[frame.U2C] {
		slices.Reverse(dirs)
	}
	for _, dir := range dirs {
		if !t.ended[dir] {
			t.endDirection(dir)
		}
	}
	if t.pieces != nil {
		close(t.pieces)
		t.done.Wait()
	}
}

// ended reports whether a read ended because its side has nothing more to say.
func ended(err error) bool { return errors.Is(err, io.EOF) }
