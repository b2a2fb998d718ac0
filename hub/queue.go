package hub

import (
	"context"
	"io"
)

// A queue holds the segments that the hub does not have yet. One goroutine adds segments
// and closes the queue, another takes them.
type queue interface {
	// add adds a segment. The error says why it is dropped.
	add(segment) error
	// close says that there will be no more.
	close()
	// next waits for the oldest segment and returns it, joined with those that follow: as
	// many as have at most that many bytes together, or, if upTo is not 0, exactly those up
	// to that number. At the end it returns io.EOF.
	next(ctx context.Context, most, upTo int64) (segment, error)
	// sent returns what the hub has, and setSent stores it.
	sent() position
	setSent(position) error
	// done removes the segments up to that number, which the hub has.
	done(number int64) error
}

// maxJoined bounds the segments in a message.
const maxJoined = 64

// A position says what the hub has of a session.
type position struct {
	// Number is that of the last segment of which it has anything.
	Number int64
	// Pieces says how many pieces of it the hub has, and Size how long each is; they are 0
	// if it has the whole segment.
	Pieces, Size int64
	// Last is the number of the last message in the stream.
	Last uint64
	// Frames, Bytes and Lost count up to the segment Number.
	Frames, Bytes, Lost int64
	// Ended is 1 if that was the last segment.
	Ended uint64
	// Tried is the number of the last segment in a message that was sent, and that may have
	// arrived; 0 if there is no such message.
	Tried int64
}

// memory is a queue in memory. While it is full, add waits, and the tap drops frames.
type memory struct {
	segments chan segment
	ahead    *segment // taken from segments, but not returned yet
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
