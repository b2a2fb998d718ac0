package relay

import (
	"time"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/frame"
)

// An observer makes records of what a relay moves, on a goroutine of its own.
type observer struct {
	queue   *queue
	sink    *Fan
	conn    int
	grammar grammar
	lanes   [3]lane // by direction
	record  capture.Record
	timer   *time.Timer
	stopped chan struct{}
}

// A lane is what the observer knows of a direction.
type lane struct {
	framer *framer
	end    int64  // the position behind what was pushed
	marks  []mark // when what may still be in the framer was read and written
	frames int64
	ended  bool
}

// A mark says when the bytes up to a position were read and written.
type mark struct {
	end           int64
	read, written time.Time
}

// maxMarks bounds the marks of a lane: the chunks of one frame are told apart only
// by when they came.
const maxMarks = 64

// settleTime is how long the observer waits to learn when a chunk was written:
// a frame that takes longer is recorded without.
const settleTime = 50 * time.Millisecond

func newObserver(q *queue, cfg *Config) *observer {
	return &observer{
		queue: q, sink: cfg.Sink, conn: cfg.Conn,
		grammar: grammar{framing: cfg.Framing, protocol: cfg.Protocol, limit: cfg.Limit},
		timer:   time.NewTimer(time.Hour), stopped: make(chan struct{}),
	}
}

// run observes until the queue is closed.
func (o *observer) run() {
	defer close(o.stopped)
	defer o.timer.Stop()
	var chunks []*chunk
	for open := true; open; {
		<-o.queue.wake
		for {
			chunks, open = o.queue.take(chunks[:0])
			if len(chunks) == 0 {
				break
			}
			for _, c := range chunks {
				o.see(c)
			}
			clear(chunks)
		}
	}
	o.end(frame.C2U, time.Now())
	o.end(frame.U2C, time.Now())
}

// see records what a chunk completes.
func (o *observer) see(c *chunk) {
	switch {
	case c.event != nil:
		o.sink.Write(c.event)
	case c.ended:
		o.end(c.dir, c.read)
	default:
		l := &o.lanes[c.dir]
		if l.framer == nil {
			l.framer = newFramer(&o.grammar)
		}
		l.end += int64(len(c.data))
		if len(l.marks) == maxMarks {
			l.marks = append(l.marks[:0], l.marks[maxMarks/2:]...)
		}
		l.marks = append(l.marks, mark{l.end, c.read, o.written(c)})
		l.framer.push(c.data, func(b *frame.Batch) { o.frames(l, c.dir, b) })
		c.slab.release()
		o.queue.seen(len(c.data))
	}
}

// written waits, but not long, to learn when a chunk was written.
func (o *observer) written(c *chunk) time.Time {
	for {
		if at := c.written.Load(); at != 0 {
			return time.Unix(0, at)
		}
		left := settleTime - time.Since(c.read)
		if left <= 0 {
			return time.Time{}
		}
		o.timer.Reset(left)
		select {
		case <-o.queue.wake:
		case <-o.timer.C:
		}
	}
}

// frames records a run of frames.
func (o *observer) frames(l *lane, dir frame.Dir, b *frame.Batch) {
	rec := &o.record
	for i := range b.Frames {
		f := &b.Frames[i]
		f.Conn, f.Dir = o.conn, dir
		o.grammar.refine(f)
		m := l.mark(f.Offset + int64(len(f.Raw)))
		*rec = capture.Record{
			Kind: capture.Frame, Time: m.read, Written: m.written,
			Protocol: o.grammar.protocol.Name(), Framing: o.grammar.framing.Name(), Frame: *f,
		}
		if !f.Gap {
			l.frames++
		}
		o.sink.Write(rec)
	}
}

// mark returns the mark of the byte before a position, and forgets those before.
func (l *lane) mark(end int64) mark {
	i := 0
	for i < len(l.marks)-1 && l.marks[i].end < end {
		i++
	}
	l.marks = append(l.marks[:0], l.marks[i:]...)
	return l.marks[0]
}

// end records the end of a direction.
func (o *observer) end(dir frame.Dir, at time.Time) {
	l := &o.lanes[dir]
	if l.ended {
		return
	}
	l.ended = true
	if l.framer != nil {
		l.framer.end(func(b *frame.Batch) { o.frames(l, dir, b) })
	}
	o.sink.Write(&capture.Record{Kind: capture.HalfClosed, Time: at, Frame: frame.Frame{Conn: o.conn, Dir: dir}})
}
