package relay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"sort"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/frame/carrier"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/all"
	"github.com/wirectl/wirectl/transport"
)

// An observer makes records of the bytes that a relay moves, on a goroutine of its own.
// The goroutine that moved a large piece may observe it itself if that is quick: the
// bytes are in its processor's cache, and no other goroutine is woken.
type observer struct {
	queue   *queue
	catches atomic.Bool // the holder of mu is in catchUp
	mu      sync.Mutex  // held while taking from the queue; guards all below
	wholes  bool        // the relay carries whole messages
	slab    *slab       // of the current bytes
	read    int         // the size of the current read
	dense   bool        // it had so many frames that it took long
	run     capture.Run
	sink    *Fan
	conn    int
	grammar grammar
	kind    carrier.Kind     // Auto until it is detected
	carrier *carrier.Carrier // nil if the connection is a plain stream
	lanes   [3]lane          // by direction
	record  capture.Record
	timer   *time.Timer
	stopped chan struct{}
	// unitLeft means that the unit ended the connection, so its direction ends first. It
	// is set before the queue is closed.
	unitLeft bool
}

// A lane is the observer's state of a direction.
type lane struct {
	head   []byte  // bytes pushed before their carrier is known
	framer *framer // of a plain stream
	end    int64   // the position after the pushed bytes
	marks  []mark  // for the bytes that may still be in the framer
	frames int64
	ended  bool
}

// A mark holds the times at which the bytes up to a position were read and written.
type mark struct {
	end           int64
	read, written time.Time
}

// maxMarks bounds the marks of a lane.
const maxMarks = 64

// settleTime is how long the observer waits for the write time of a chunk. A frame that
// takes longer is recorded without one.
const settleTime = 50 * time.Millisecond

func newObserver(q *queue, cfg *Config) *observer {
	o := &observer{
		queue: q, wholes: cfg.wholes(), sink: cfg.Sink, conn: cfg.Conn,
		grammar: newGrammar(cfg.Framing, cfg.Protocol, cfg.Limit),
		timer:   time.NewTimer(time.Hour), stopped: make(chan struct{}),
	}
	if cfg.Framing != nil {
		o.kind = carrier.Plain
	}
	return o
}

// observe observes until the queue is closed.
func (o *observer) observe() {
	defer close(o.stopped)
	defer o.timer.Stop()
	for open := true; open; {
		<-o.queue.wake
		open = o.seeAll()
	}
	first := frame.C2U
	if o.unitLeft {
		first = frame.U2C
	}
	o.endDirection(first, time.Now())
	o.endDirection(first.Opposite(), time.Now())
}

// seeAll records everything in the queue, and reports whether more may come.
func (o *observer) seeAll() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	for {
		c, open := o.queue.takeChunk(false)
		if c == nil {
			return open
		}
		o.see(c, o.written(c))
	}
}

// catchUp records the queued chunks that were written. The goroutine that moves bytes
// calls it. It does nothing if another goroutine is recording. It returns false if
// recording would take long and is better left to the observer's own goroutine.
func (o *observer) catchUp() bool {
	if !o.mu.TryLock() {
		return o.catches.Load()
	}
	o.catches.Store(true)
	defer func() {
		o.catches.Store(false)
		o.mu.Unlock()
	}()
	if o.kind != carrier.Plain || !o.grammar.settled() || o.sink.slow || o.dense {
		return false
	}
	for {
		c, _ := o.queue.takeChunk(true)
		if c == nil {
			return !o.queue.presses(maxBehind / 2)
		}
		o.see(c, c.writtenAt())
	}
}

// sparse is the size of a frame, in bytes, from which scanning takes less time than
// copying.
const sparse = 512

// see records the frames that a chunk completes.
func (o *observer) see(c *chunk, written time.Time) {
	switch {
	case c.event != nil:
		o.sink.Write(c.event)
	case c.ended:
		o.endDirection(c.dir, c.read)
	default:
		l := &o.lanes[c.dir]
		l.end += int64(len(c.data))
		if len(l.marks) == maxMarks {
			l.marks = append(l.marks[:0], l.marks[maxMarks/2:]...)
		}
		l.marks = append(l.marks, mark{l.end, c.read, written})
		o.slab, o.read = c.slab, len(c.data)
		before := l.frames
		o.push(c.dir, c.data)
		o.dense = (l.frames-before)*sparse > int64(o.read)
		c.slab.Release()
	}
	o.queue.seen(c.size())
}

// push consumes bytes of one direction. It holds them back until the carrier has been
// detected in either direction.
func (o *observer) push(dir frame.Dir, data []byte) {
	l := &o.lanes[dir]
	switch {
	case o.wholes:
		f := frame.Frame{Raw: data, End: len(data), Offset: l.end - int64(len(data)), Dir: dir, Meta: &frame.Meta{Framing: frame.WS}}
		o.carried(l, carrier.Split(f, o.grammar.limit))
		return
	case o.kind != carrier.Auto:
		o.cut(dir, data)
		return
	}
	l.head = append(l.head, data...)
	if g := carrier.Detect(l.head, false); !g.More {
		o.settle(g.Kind)
	}
}

// settle sets the carrier, and consumes the bytes that were held back.
func (o *observer) settle(k carrier.Kind) {
	if o.kind = k; k != carrier.Plain {
		o.carrier = carrier.New(carrier.Options{Kind: k, Limit: o.grammar.limit})
	}
	for _, dir := range []frame.Dir{frame.C2U, frame.U2C} {
		if l := &o.lanes[dir]; len(l.head) > 0 {
			o.cut(dir, l.head)
			l.head = nil
		}
	}
}

// cut extracts the frames from bytes of one direction.
func (o *observer) cut(dir frame.Dir, data []byte) {
	l := &o.lanes[dir]
	if o.carrier != nil {
		o.given(l, o.carrier.Feed(dir, data))
		return
	}
	if l.framer == nil {
		l.framer = newFramer(&o.grammar)
	}
	l.framer.push(data, func(b *frame.Batch) { o.frames(l, dir, b.Frames) })
}

// given records the frames that the carrier has emitted, starting with frames.
func (o *observer) given(l *lane, frames []frame.Frame) {
	for ; len(frames) > 0; frames = o.carrier.More() {
		o.carried(l, frames)
	}
}

// carried records frames from a carrier. The reader determines their protocol, because it
// knows which of them have a message.
func (o *observer) carried(l *lane, frames []frame.Frame) {
	rec := &o.record
	for i := range frames {
		f := &frames[i]
		f.Conn = o.conn
		m := l.mark(f.Offset + int64(len(f.Raw)))
		*rec = capture.Record{Kind: capture.Frame, Time: m.read, Written: m.written, Frame: *f}
		if f.Meta != nil {
			rec.Framing = f.Meta.Framing
		}
		if !f.Gap {
			l.frames++
		}
		o.sink.Write(rec)
	}
}

// written waits briefly to learn when a chunk was written. It does not wait while the
// queue is long, because the writer may be waiting for room in it.
func (o *observer) written(c *chunk) time.Time {
	if c.data == nil {
		return time.Time{}
	}
	for {
		if at := c.writtenAt(); !at.IsZero() {
			return at
		}
		left := settleTime - time.Since(c.read)
		if left <= 0 || o.queue.presses(fullSlab) {
			return time.Time{}
		}
		o.timer.Reset(left)
		select {
		case <-o.queue.wake:
		case <-o.timer.C:
		}
	}
}

// leastHeld is the size of a read from which holding is better than copying: even a small
// piece keeps a whole slab alive.
const leastHeld = 16 << 10

// frames records frames, in runs of those that were complete at the same time. Frames that
// lie within the bytes of one read are not copied.
func (o *observer) frames(l *lane, dir frame.Dir, frames []frame.Frame) {
	var memory capture.Memory
	if l.framer.within && o.read >= leastHeld {
		memory = o.slab
	}
	for len(frames) > 0 {
		n, m := l.sameMark(frames)
		if o.grammar.refiner != nil {
			n = 1
		}
		for i := range frames[:n] {
			f := &frames[i]
			f.Conn, f.Dir = o.conn, dir
			if !f.Gap {
				l.frames++
			}
		}
		o.grammar.refine(&frames[0])
		o.run = capture.Run{
			Shared: capture.Record{
				Kind: capture.Frame, Time: m.read, Written: m.written,
				Protocol: o.grammar.protocol.Name(), Framing: o.grammar.framing.Name(),
			},
			Frames: frames[:n], Memory: memory,
		}
		o.sink.writeRun(&o.run)
		frames = frames[n:]
	}
}

// sameMark returns how many frames were complete at the time of the first, and its mark.
func (l *lane) sameMark(frames []frame.Frame) (n int, m mark) {
	endOf := func(f *frame.Frame) int64 { return f.Offset + int64(len(f.Raw)) }
	m = l.mark(endOf(&frames[0]))
	if len(l.marks) == 1 {
		return len(frames), m
	}
	n = sort.Search(len(frames), func(i int) bool { return endOf(&frames[i]) > m.end })
	return max(n, 1), m
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

// endDirection records the end of a direction.
func (o *observer) endDirection(dir frame.Dir, at time.Time) {
	l := &o.lanes[dir]
	if l.ended {
		return
	}
	l.ended = true
	if len(l.head) > 0 {
		o.settle(carrier.Detect(l.head, true).Kind)
	}
	switch {
	case l.framer != nil:
		l.framer.endInput(func(b *frame.Batch) { o.frames(l, dir, b.Frames) })
	case o.carrier != nil && l.end > 0:
		o.given(l, o.carrier.End(dir))
	}
	o.sink.Write(&capture.Record{Kind: capture.HalfClosed, Time: at, Frame: frame.Frame{Conn: o.conn, Dir: dir}})
}

// ErrNoFraming is the error of a relay between a message transport and a stream whose
// framing is not configured.
var ErrNoFraming = errors.New("one end carries messages and the other a byte stream: name its framing with --framing")

// ErrNoFramingToGate is the error of a gate between two message transports.
var ErrNoFramingToGate = errors.New("both ends carry messages, and changing them needs a framing: name it with --framing, such as line")

// check reports missing configuration.
func (cfg *Config) check() error {
	switch {
	case cfg.Framing != nil:
	case whole(cfg.Controller) != whole(cfg.Unit):
		return ErrNoFraming
	case whole(cfg.Unit) && cfg.Gate != nil:
		return ErrNoFramingToGate
	}
	return nil
}

// keepsFrames reports whether messages hold whole frames, wrapper included,
// rather than payloads.
func keepsFrames(f frame.Framing, p protocol.Protocol) bool {
	return f == frame.Len32 && (p == nil || all.Of(p).Rewrapped)
}

// wholes reports whether the relay carries messages of a WebSocket. Each of them is a
// frame by itself.
func (cfg *Config) wholes() bool {
	return whole(cfg.Controller) && whole(cfg.Unit) && cfg.Gate == nil && !keepsFrames(cfg.Framing, cfg.Protocol)
}

// receive appends the next message in its form in a stream.
func (cfg *Config) receive(dst []byte, from transport.Messenger) ([]byte, error) {
	m, err := from.ReadMessage(context.Background()) // closing the end interrupts it
	switch {
	case err != nil:
		return dst, err
	case keepsFrames(cfg.Framing, cfg.Protocol):
		return append(dst, m.Data...), nil
	}
	framed, err := frame.Append(dst, cfg.Framing, m.Data)
	if err != nil {
		err = fmt.Errorf("%w: %w", transport.ErrNotFramed, err)
	}
	return framed, err
}

// mover returns the function that moves the bytes of a way.
func (w *way) mover() func() {
	from, isFrom := w.src.(transport.Messenger)
	to, isTo := w.dst.(transport.Messenger)
	switch {
	case isFrom:
		return func() { w.forward(from, to) }
	case isTo:
		return func() { w.wrap(to) }
	}
	return w.copy
}

// forward moves messages unchanged to another Messenger, or each as a frame to a stream if
// to is nil.
func (w *way) forward(from, to transport.Messenger) {
	ctx := context.Background() // closing the ends interrupts reads and writes
	var framed []byte
	for {
		var m transport.Message
		var err error
		write := func() error { return to.WriteMessage(ctx, m) }
		if to != nil {
			m, err = from.ReadMessage(ctx)
		} else {
			framed, err = w.relay.cfg.receive(framed[:0], from)
			m.Data = framed
			write = func() error { _, err := w.dst.Write(framed); return err }
		}
		if err != nil {
			w.recordGoodbye(from)
			w.finishWay(err)
			return
		}
		if err := w.sendMessage(m.Data, write); err != nil {
			w.reportEnd(&sideError{w.dir, err})
			return
		}
	}
}

// recordGoodbye records the close frame of a peer that reports an error: it explains why
// requests have no answer.
func (w *way) recordGoodbye(from transport.Conn) {
	code, reason, said := transport.Goodbye(from)
	if said && carrier.RefusesBy(int(code)) {
		m := &frame.Meta{Framing: frame.WS, Signal: frame.Close, Code: code, Text: reason}
		w.relay.record(capture.Record{Framing: frame.WS, Frame: frame.Frame{Dir: w.dir, Offset: w.bytes.Load(), Meta: m}})
	}
}

// wrap sends the payload of each frame as a message. Gaps become messages, too; a stream
// that ends with one has failed.
func (w *way) wrap(to transport.Messenger) {
	cfg := &w.relay.cfg
	g := newGrammar(cfg.Framing, cfg.Protocol, cfg.Limit)
	s := frame.NewScanner(w.src, cfg.Framing)
	s.ResyncAtOnce()
	s.SetLimit(g.most())
	var fault error // of the latest frame
	for s.Scan() {
		f := s.Frame()
		if fault = nil; f.Gap && cfg.Framing != frame.Line { // a last line may lack its end
			fault = f.Flaw
		}
		m := transport.Message{Data: f.Payload()}
		if f.Gap || keepsFrames(cfg.Framing, cfg.Protocol) {
			m.Data = f.Raw
		}
		m.Text = cfg.Framing != frame.Len32 && utf8.Valid(m.Data)
		if err := w.sendMessage(f.Raw, func() error { return to.WriteMessage(context.Background(), m) }); err != nil {
			w.reportEnd(&sideError{w.dir, err})
			return
		}
	}
	w.finishWay(cmp.Or(s.Err(), fault, io.EOF))
}

// sendMessage passes data to the observer and calls write, which writes it.
func (w *way) sendMessage(data []byte, write func() error) error {
	room := w.well.atLeast(len(data))
	copy(room, data)
	c := w.noteRead(w.well.took(len(data)))
	w.wait.startWrite(len(data))
	err := write()
	w.wait.endWrite()
	w.wrote(c)
	return err
}
