package store

import (
	"context"
	"errors"
	"io"
	"slices"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/capture/tap"
	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/decode/track"
	"github.com/wirectl/wirectl/frame"
)

// A Source is a capture from which any frame can be read again.
type Source interface {
	// ReadAt reads the frame that begins at a place; see [capture.Placed]. Its bytes are valid
	// until the next call.
	ReadAt(place int64, r *capture.Record) error
}

// ReadAgain sets the source of frames, so that their bytes need not be kept. It must be called
// before Begin; the source is used until Close.
func (s *Store) ReadAgain(from Source) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.source = from
}

// Take reads a whole session. It returns the error that ended it early, if any.
func (s *Store) Take(ctx context.Context, in decode.Input, cfg decode.Config) error {
	s.Begin(in)
	err := s.Read(ctx, in, cfg)
	s.End(err, errors.Is(err, capture.ErrCut) || ctx.Err() != nil)
	return err
}

// Begin begins a session. Earlier sessions stay in the store; their connections have other
// numbers.
func (s *Store) Begin(in decode.Input) {
	defer s.lockToChange()()
	if in.Capture != nil {
		altered := s.session.Altered
		s.session = *in.Capture.Session()
		s.session.Altered = s.session.Altered || altered
	}
	s.ended, s.end = false, nil
	s.follower = track.NewFollower(&s.trackers, in, s.opts.Config)
}

// Read reads the frames of the session that has begun.
func (s *Store) Read(ctx context.Context, in decode.Input, cfg decode.Config) error {
	cfg.InOrder, cfg.Around, cfg.Event = true, s.batch, s.among
	cfg.FirstSeq = s.frames.nextSeq() // only this goroutine adds any
	_, err := decode.Run(ctx, in, io.Discard, cfg, func() decode.View { return s.view })
	return err
}

// batch passes the items of one read to the view.
func (s *Store) batch(show func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	show()
	s.version.Add(1)
}

// among handles an event in its place among the frames, with the lock held.
func (s *Store) among(r *capture.Record) {
	if place, ok := capture.ParsePlace(r); ok {
		s.belongs(s.peer(r.Conn), &place)
	} else if _, ok := tap.ParseNote(r); !ok { // notes of taps are for [live.Wire]
		s.peer(r.Conn).addEvent(s, r)
	}
	s.follower.Event(r)
}

// view handles an item, with the lock held; see [decode.View].
func (s *Store) view(dst []byte, it *decode.Item) ([]byte, error) {
	s.indexFrame(it)
	if !it.Frame.Gap && (it.Err == nil || it.Err == it.Frame.Flaw) {
		s.offer.AddMessage(it.Seq, &it.Message, it.Payload)
	}
	s.asking = it.Message.Text
	dst, err := s.follower.View(dst, it)
	s.asking = nil
	s.traffic.flies(int64(len(s.rows.open)))
	return dst, err
}

// indexFrame adds a frame to the index.
func (s *Store) indexFrame(it *decode.Item) {
	f := it.Frame
	e := s.frames.addFrame(it.Seq)
	*e = entry{
		offset: f.Offset, conn: uint32(f.Conn), start: uint32(f.Start), end: uint32(f.End),
		wire: s.wireOf(it), flags: flags(f.Dir),
	}
	if f.Dir == frame.DirUnknown {
		e.flags = flags(it.Message.From)
	}
	e.raw, e.size = uint32(len(f.Raw)), uint32(f.Size())
	if s.source != nil && it.Place >= 0 {
		e.at, e.flags = it.Place, e.flags|placed
	} else {
		e.at = s.bytes.keepBytes(f.Raw)
		s.metas.keepMeta(it.Seq, f, &s.bytes)
	}
	s.when(e, it)
	switch {
	case f.Gap:
		e.flags |= gap | bad
		e.kind = s.kinds.of(kindGap)
	case it.Err != nil && it.Err != f.Flaw:
		e.flags |= bad
		e.kind = s.kinds.of(kindBad)
	default:
		e.kind = s.kinds.of(it.Message.Kind)
	}
	if f.Compressed {
		e.flags |= compressed
	}
	if len(s.bookmarks) > 0 && s.bookmarks[it.Seq] {
		e.flags |= bookmark
	}
	s.peer(f.Conn).frame(e)
	s.traffic.countFrame(e.time, e.dir(), int64(e.raw))
	if s.filter != nil {
		s.hits.offer(s, it, e)
	}
}

var kindGap, kindBad = []byte("skipped"), []byte("malformed")

// when sets the time of a frame. If times are unknown, the number of the frame stands for it.
func (s *Store) when(e *entry, it *decode.Item) {
	e.time = it.Seq
	if !it.Time.IsZero() {
		s.timed = true
		e.time = it.Time.UnixNano()
		if !it.Written.IsZero() {
			e.wrote = uint32(min(max(it.Written.Sub(it.Time).Microseconds(), 0), 1<<32-2)) + 1
		}
	}
	if s.first == 0 {
		s.first = e.time
	}
	s.last = max(s.last, e.time)
}

// wireOf returns the number of an item's wire.
func (s *Store) wireOf(it *decode.Item) uint8 {
	w := wire{it.Framing, it.Protocol}
	if s.lastWire < len(s.wires) && s.wires[s.lastWire] == w {
		return uint8(s.lastWire)
	}
	if s.lastWire = slices.Index(s.wires, w); s.lastWire < 0 {
		if len(s.wires) < 255 {
			s.wires = append(s.wires, w)
		}
		s.lastWire = len(s.wires) - 1
	}
	return uint8(s.lastWire)
}

// Event handles a record that is not a frame.
func (s *Store) Event(r *capture.Record) {
	defer s.lockToChange()()
	s.peer(r.Conn).addEvent(s, r)
}

// Notice stores a message for the user.
func (s *Store) Notice(text string) {
	defer s.lockToChange()()
	s.notices = append(s.notices, text)
	if len(s.notices) > maxNotices {
		s.notices = s.notices[1:]
	}
}

const maxNotices = 100

// Lost sets how many frames the source has dropped so far.
func (s *Store) Lost(n int64) {
	defer s.lockToChange()()
	s.lost = n
}

// End ends the session. Open exchanges count as unanswered, unless the session was cut, as err
// says.
func (s *Store) End(err error, cut bool) {
	defer s.lockToChange()()
	s.ended, s.end, s.held = true, err, nil
	if s.follower == nil {
		return
	}
	if cut {
		s.follower.Release()
	} else {
		s.follower.End()
	}
}
