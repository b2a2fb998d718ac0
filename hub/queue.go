package hub

import (
	"context"
	"io"
	"sync"
)

// A queue holds the segments that were made and that the hub does not have yet. One
// goroutine adds and closes, another takes.
type queue interface {
	// add adds a segment. Its error says why it is dropped.
	add(segment) error
	// close says that there will be no more.
	close()
	// next returns the oldest, and waits for it; io.EOF is the end. Others that are there
	// join it, as many as have not more than that many bytes together. If the number is not
	// 0, they are all up to that one, and no others.
	next(ctx context.Context, most, upTo int64) (segment, error)
	// sent returns how far the hub has come, and setSent keeps that.
	sent() position
	setSent(position) error
	// done removes all up to that number, which the hub has.
	done(number int64) error
}

// maxJoined is how many segments a message has at most.
const maxJoined = 64

// A position is how far the hub has come with a session.
type position struct {
	// Number is that of the last segment that it has, or has pieces of.
	Number int64
	// Pieces is how many it has of it, and Size how long these are; 0 if it has all.
	Pieces, Size int64
	// Last is the number of the last message in the stream.
	Last uint64
	// Frames, Bytes and Lost are those up to the segment Number.
	Frames, Bytes, Lost int64
	// Ended is 1 if that was the last.
	Ended uint64
	// Tried is the number of the last segment of the message that was sent after those. It
	// may have arrived.
	Tried int64
}

// memory is a queue that makes who adds wait. The tap drops frames meanwhile.
type memory struct {
	segments chan segment
	ahead    *segment // that was taken and not returned
	stop     <-chan struct{}
	at       position
}

func newMemory(stop <-chan struct{}) *memory {
	return &memory{segments: make(chan segment, 4), stop: stop}
}

func (m *memory) add(s segment) error {
	select {
	case m.segments <- s:
		return nil
	case <-m.stop:
		return context.Canceled
	}
}

func (m *memory) close() { close(m.segments) }

func (m *memory) next(ctx context.Context, most, _ int64) (s segment, err error) {
	if s, err = m.wait(ctx); err != nil {
		return s, err
	}
	for n := 1; n < maxJoined; n++ {
		select {
		case next, ok := <-m.segments:
			if !ok {
				return s, nil
			}
			if int64(len(s.Data)+len(next.Data)) > most {
				m.ahead = &next
				return s, nil
			}
			s.join(&next)
		default:
			return s, nil
		}
	}
	return s, nil
}

// wait returns the oldest segment.
func (m *memory) wait(ctx context.Context) (segment, error) {
	if s := m.ahead; s != nil {
		m.ahead = nil
		return *s, nil
	}
	select {
	case s, ok := <-m.segments:
		if !ok {
			return s, io.EOF
		}
		return s, nil
	case <-ctx.Done():
		return segment{}, context.Cause(ctx)
	}
}

func (m *memory) sent() position { return m.at }

func (m *memory) setSent(at position) error {
	m.at = at
	return nil
}

func (m *memory) done(int64) error { return nil }

// A signal wakes one goroutine that waits for a change.
type signal struct {
	once sync.Once
	c    chan struct{}
}

func (s *signal) channel() chan struct{} {
	s.once.Do(func() { s.c = make(chan struct{}, 1) })
	return s.c
}

func (s *signal) send() {
	select {
	case s.channel() <- struct{}{}:
	default:
	}
}
