package client

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/wait"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/all"
	"github.com/wirectl/wirectl/transport"
)

var (
	errClosed = errors.New("the connection is closed")
	// ErrEnded is the error of a call after the peer has closed the connection.
	ErrEnded = errors.New("the peer ended the connection")
)

// A link is a connection on which both sides send messages at any time.
type link struct {
	conn    transport.Conn
	number  int
	framing frame.Framing
	watch   *Watch
	handle  func(payload []byte, m *protocol.Message) error

	writing sync.Mutex
	buf     []byte      // guarded by writing
	closing atomic.Bool // our side is closed
	cut     atomic.Bool // the connection was closed without waiting for the peer

	done chan struct{} // closed when reading has ended
	err  error         // why it ended; valid once done is closed
}

// newLink returns a link that passes incoming messages to handle, from one
// goroutine. An error of handle ends the link.
func newLink(nc transport.Conn, number int, framing frame.Framing, w *Watch, handle func([]byte, *protocol.Message) error) *link {
	return &link{conn: nc, number: number, framing: framing, watch: w, handle: handle, done: make(chan struct{})}
}

func (l *link) start() { go l.read() }

func (l *link) read() {
	defer close(l.done)
	s := frame.NewScanner(l.conn, l.framing)
	s.SetLimit(all.Limit(l.watch.protocol))
	for s.Scan() {
		f := s.Frame()
		m, err := l.watch.see(l.number, frame.U2C, l.framing.Name(), *f)
		if err != nil {
			err = &FaultError{err}
		} else {
			err = l.handle(f.Payload(), &m)
		}
		if err != nil {
			l.err = err
			return
		}
	}
	l.err = l.failure(s.Err())
}

// failure returns the reason for the end of reading.
func (l *link) failure(err error) error {
	switch {
	case l.cut.Load(), err == nil && l.closing.Load():
		return errClosed
	case err == nil:
		return ErrEnded
	case frame.IsFault(err):
		l.watch.fault(l.number, err)
		return &FaultError{err}
	}
	return err
}

// send sends a message. If ctx ends while the peer does not read, the connection is
// closed, because half of the message may have been sent.
func (l *link) send(ctx context.Context, payload []byte) error {
	defer cutAfter(ctx, func() {
		l.cut.Store(true)
		_ = l.conn.Close() // the write returns the error
	})()
	l.writing.Lock()
	defer l.writing.Unlock()
	wire, err := frame.Append(l.buf[:0], l.framing, payload)
	if err != nil {
		return err
	}
	l.buf = wire
	if _, err := l.watch.see(l.number, frame.C2U, l.framing.Name(), frameOf(wire, payload, l.framing)); err != nil {
		return err
	}
	_, err = l.conn.Write(wire)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return l.unsent(err)
}

// cutAfter calls cut once ctx is done, unless stop is called within the grace period. A
// write that completes in time leaves the connection to other calls.
func cutAfter(ctx context.Context, cut func()) (stop func()) {
	over := make(chan struct{})
	unwatch := context.AfterFunc(ctx, func() {
		if !wait.Done(over, parting) {
			cut()
		}
	})
	return func() {
		unwatch()
		close(over)
	}
}

// unsent returns the reason for a failed write. If the peer no longer reads, the reader
// soon learns a better reason.
func (l *link) unsent(err error) error {
	var patience time.Duration
	if errors.Is(err, syscall.EPIPE) || errors.Is(err, io.ErrClosedPipe) {
		patience, err = parting, ErrEnded
	}
	select {
	case <-l.done:
		return l.err
	case <-time.After(patience):
		return err
	}
}

// frameOf returns the frame that Append made of a payload.
func frameOf(wire, payload []byte, framing frame.Framing) frame.Frame {
	var e frame.Extent
	if framing.Next(wire, len(wire), true, &e) != nil || e.Raw != len(wire) {
		return frame.Frame{Raw: payload, End: len(payload)}
	}
	return frame.Frame{Raw: wire, Start: e.Start, End: e.End}
}

// parting is the grace period of a peer: to close its side after ours, and to read a last
// message.
const parting = time.Second

// close closes our side, waits a grace period for the peer to close its own, and closes
// the connection.
func (l *link) close() error {
	l.closing.Store(true)
	if l.conn.CloseWrite() != nil || !wait.Done(l.done, parting) {
		l.cut.Store(true)
	}
	err := l.conn.Close()
	<-l.done
	l.watch.endConn(l.number)
	return err
}
