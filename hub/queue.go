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
	// take removes the oldest segment. If there is none, it waits, or returns nil at once. At
	// the end it returns io.EOF.
	take(ctx context.Context, wait bool) (*segment, error)
	// sent returns what the hub has, and setSent stores it.
	sent() position
	setSent(position) error
	// done forgets the segments up to that number, which the hub has.
	done(number int64) error
}

// A position says what the hub has of a session.
type position struct {
	head // of the last segment that it has
	// Last is the number of the last message in the stream.
	Last uint64
	// Tried is the number of the last segment in a message that was sent, and that may have
	// arrived; 0 if there is no such message.
	Tried int64
	// Pieces says how many pieces of that message the hub has, and Each how long they are.
	Pieces, Each int64
}

// memory is a queue in memory. While it is full, add waits, and the tap drops frames.
type memory struct {
	segments chan segment
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

func (m *memory) take(ctx context.Context, wait bool) (*segment, error) {
	if !wait && len(m.segments) == 0 {
		return nil, nil
	}
	select {
	case s, ok := <-m.segments:
		if !ok {
			return nil, io.EOF
		}
		return &s, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (m *memory) sent() position { return m.at }

func (m *memory) setSent(at position) error {
	m.at = at
	return nil
}

func (m *memory) done(int64) error { return nil }
