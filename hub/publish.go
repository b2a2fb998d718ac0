package hub

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/wirectl/wirectl/internal/wait"
)

// A publisher sends the segments of one session to the stream, one message at a time. All
// segments that wait meanwhile are in the next message, so a slow network gets larger ones.
// Each message names the one before it on its subject, so that none is stored twice, even
// if the answer to it was lost.
type publisher struct {
	nats  *nats.Conn
	js    jetstream.JetStream
	key   string
	queue queue
	// trouble is called once when the hub stores nothing, and relief when it does so again.
	trouble func(error)
	relief  func(time.Duration)

	at    position // what the hub has
	ahead *segment // was taken from the queue, but did not fit into the message
}

const (
	// reserve is the room in a message for its headers.
	reserve = 64 << 10
	// ackTime is how long the hub may take to store a message.
	ackTime = 3 * time.Second
	// maxJoined bounds the segments in a message.
	maxJoined = 64
	// retryFirst and retryMost bound the time between two tries.
	retryFirst = 50 * time.Millisecond
	retryMost  = 2 * time.Second
)

// Codes of JetStream's errors.
const (
	codeWrongLast = 10071 // "wrong last sequence: N"
	codeBusy      = 10164 // another message of the subject is being stored
)

// run sends what is in the queue until its end or that of ctx.
func (p *publisher) run(ctx context.Context) error {
	for {
		size, err := p.messageSize(ctx)
		if err != nil {
			return err
		}
		seg, err := p.next(ctx, size)
		if err != nil {
			return err
		}
		if err := p.sendSegment(ctx, seg, size); err != nil {
			return err
		}
	}
}

// next returns the oldest segment, joined with those that wait, as many as fit into a message
// of that size. But a message that may have arrived is sent again unchanged, even by the next
// process after a crash.
func (p *publisher) next(ctx context.Context, size int64) (seg *segment, err error) {
	if seg, p.ahead = p.ahead, nil; seg == nil {
		if seg, err = p.queue.take(ctx, true); err != nil {
			return nil, err
		}
	}
	tried := p.at.Tried
	for n := 1; n < maxJoined && (tried == 0 || seg.Number < tried); n++ {
		next, err := p.queue.take(ctx, false)
		if err != nil || next == nil {
			return seg, nil //nolint:nilerr // the next call reports it
		}
		if tried == 0 && (seg.Size+next.Size > size || seg.plain+next.plain > maxSection) {
			p.ahead = next
			break
		}
		seg.join(next)
	}
	return seg, nil
}

// sendSegment sends a segment, in pieces if it is too large for a message of that size.
func (p *publisher) sendSegment(ctx context.Context, seg *segment, size int64) (err error) {
	at := &p.at
	if at.Each != size { // or the server has other limits by now
		at.Pieces, at.Each = 0, size
	}
	at.Tried = seg.Number
	pieces := max(1, (seg.Size+size-1)/size)
	for at.Pieces < pieces {
		if err := p.queue.store(p.at); err != nil {
			return err
		}
		m := nats.NewMsg(Segments + p.key)
		m.Header.Set(headerNumber, strconv.FormatInt(seg.Number, 10))
		if seg.first > 0 {
			m.Header.Set(headerFirst, strconv.FormatInt(seg.first, 10))
		}
		m.Header.Set(headerFrames, strconv.FormatInt(seg.Frames, 10))
		if pieces > 1 {
			m.Header.Set(headerPiece, fmt.Sprintf("%d/%d", at.Pieces+1, pieces))
		}
		if seg.End {
			m.Header.Set(headerEnd, "1")
		}
		m.Data = seg.Data[at.Pieces*size : min((at.Pieces+1)*size, seg.Size)]
		if at.Last, err = p.store(ctx, m, at.Last); err != nil {
			return err
		}
		at.Pieces++
	}
	p.at = position{head: seg.head, Last: at.Last}
	return p.queue.store(p.at)
}

// messageSize returns how much of a segment fits into a message. It waits until the server
// has told its limit.
func (p *publisher) messageSize(ctx context.Context) (int64, error) {
	err := p.persist(ctx, func() error {
		if p.nats.MaxPayload() == 0 {
			return cause(p.nats)
		}
		return nil
	})
	most := p.nats.MaxPayload()
	return most - min(reserve, most/2), err
}

// cause returns why there is no connection.
func cause(nc *nats.Conn) error {
	if err := nc.LastError(); err != nil {
		return err
	}
	return nats.ErrDisconnected
}

// publish stores a message, if there is a connection.
func (p *publisher) publish(ctx context.Context, m *nats.Msg, o ...jetstream.PublishOpt) (*jetstream.PubAck, error) {
	if !p.nats.IsConnected() {
		return nil, cause(p.nats)
	}
	ctx, cancel := context.WithTimeout(ctx, ackTime)
	defer cancel()
	ack, err := p.js.PublishMsg(ctx, m, o...)
	if errors.Is(err, context.DeadlineExceeded) && denied(p.nats, m.Subject) {
		err = errors.New("the token does not allow sending: make one with wirectl hub token --publish")
	}
	return ack, err
}

// store stores a message after the one with the number last, and returns its number.
func (p *publisher) store(ctx context.Context, m *nats.Msg, last uint64) (uint64, error) {
	err := p.persist(ctx, func() error {
		ack, err := p.publish(ctx, m, jetstream.WithExpectLastSequencePerSubject(last))
		if err == nil {
			last = ack.Sequence
			return nil
		}
		wrong, ok := errors.AsType[*jetstream.APIError](err)
		if !ok || wrong.ErrorCode != codeWrongLast {
			return err
		}
		var there uint64
		if _, err := fmt.Sscanf(wrong.Description, "wrong last sequence: %d", &there); err != nil {
			return wrong
		}
		stored := there > last // by an earlier try, whose answer was lost
		last = there
		if stored {
			return nil
		}
		return errAgain // the messages before it were removed, because they were too old
	})
	return last, err
}

// finish stores the summary of a session that the hub has completely, and removes its
// presence.
func (p *publisher) finish(ctx context.Context, i Info) error {
	text, err := json.Marshal(i)
	if err != nil {
		return err
	}
	for _, bucket := range []string{Summaries, Presence} {
		_, subjects := Bucket(bucket)
		m := nats.NewMsg(subjects + p.key)
		if m.Data = text; bucket == Presence {
			m.Data = nil
			m.Header.Set("KV-Operation", "DEL")
		}
		err := p.persist(ctx, func() error {
			_, err := p.publish(ctx, m)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// errAgain makes persist try again, without a report of trouble.
var errAgain = errors.New("once more")

// persist calls f until it succeeds or ctx ends, and reports trouble.
func (p *publisher) persist(ctx context.Context, f func() error) error {
	rest, began := retryFirst, time.Time{}
	for {
		err := f()
		if err == nil {
			if !began.IsZero() {
				p.relief(time.Since(began))
			}
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		busy, ok := errors.AsType[*jetstream.APIError](err)
		switch {
		case errors.Is(err, errAgain), ok && busy.ErrorCode == codeBusy:
		case began.IsZero():
			began = time.Now()
			p.trouble(err)
		}
		if err := wait.For(ctx, rest); err != nil {
			return err
		}
		rest = min(2*rest, retryMost)
	}
}

// A queue holds the segments that the hub does not have yet. One goroutine adds segments
// and closes the queue, another takes them.
type queue interface {
	// enqueue adds a segment. The error says why it is dropped.
	enqueue(segment) error
	// close says that there will be no more.
	close()
	// take removes the oldest segment. If there is none, it waits, or returns nil at once. At
	// the end it returns io.EOF.
	take(ctx context.Context, wait bool) (*segment, error)
	// store remembers what the hub has, and forgets those segments.
	store(position) error
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

// memory is a queue in memory. While it is full, enqueue waits, and the tap drops frames.
type memory struct {
	segments chan segment
	stop     <-chan struct{}
}

func newMemory(stop <-chan struct{}) *memory {
	return &memory{segments: make(chan segment, 4), stop: stop}
}

func (m *memory) enqueue(s segment) error {
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

func (m *memory) store(position) error { return nil }
