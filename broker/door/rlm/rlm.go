// Package rlm is the broker's front door for execution environments: it answers
// WireRequests on TCP, each a frame of length-prefixed JSON. What it says, down
// to the texts of errors, is what the running peers of the protocol say.
package rlm

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/wirectl/wirectl/broker"
	"github.com/wirectl/wirectl/broker/door"
	"github.com/wirectl/wirectl/broker/provider"
	"github.com/wirectl/wirectl/broker/publish"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/protocol/rlm"
)

// Name is the door's name in calls and metrics.
const Name = "rlm"

// New returns a server of the door. The publisher may be nil.
func New(b *broker.Broker, p *publish.Publisher) *door.Server {
	return &door.Server{Handle: func(ctx context.Context, c *door.Conn) {
		s := session{Conn: c, broker: b}
		if p != nil {
			s.tap = p.Open("rlm client "+c.RemoteAddr().String(), "rlm", "len32")
			defer s.tap.Close()
		}
		s.serve(ctx)
	}}
}

// A session is one connection. Requests are answered one after the other; their
// answers are written together when no whole request waits.
type session struct {
	*door.Conn
	*desk  // nil while the client is silent
	broker *broker.Broker
	tap    *publish.Conn
}

// A desk is what it takes to answer requests, one after the other.
type desk struct {
	req   request
	model string
	call  broker.Call
}

var desks = sync.Pool{New: func() any { return new(desk) }}

// maxOut is how much is kept before it is written, though requests wait.
const maxOut = 64 << 10

func (s *session) serve(ctx context.Context) {
	defer s.leave()
	for {
		if len(s.Buffered()) == 0 {
			if s.Flush() != nil {
				return
			}
			s.Rest()
			s.leave()
			if s.Await() != nil {
				return
			}
		}
		payload, ok := s.next()
		if !ok {
			return
		}
		s.answer(ctx, payload)
		s.Consume(prefix + len(payload))
		if !s.waits() && s.Flush() != nil {
			return
		}
		if ctx.Err() != nil {
			_ = s.Flush()
			return
		}
	}
}

// leave lets others have the desk.
func (s *session) leave() {
	if s.desk != nil {
		s.call.Reset()
		desks.Put(s.desk)
		s.desk = nil
	}
}

// waits reports whether a whole request has been read already.
func (s *session) waits() bool {
	head := s.Buffered()
	if len(s.Out()) > maxOut || len(head) < prefix {
		return false
	}
	n := binary.BigEndian.Uint32(head)
	return n <= rlm.Limit && len(head) >= prefix+int(n)
}

// next reads the frame of a request. Where there is none, it has said why.
func (s *session) next() ([]byte, bool) {
	head := s.Buffered()
	if len(head) < prefix {
		s.Begin()
		if err := s.Fill(prefix); err != nil {
			s.stalled(err)
			return nil, false
		}
		head = s.Buffered()
	}
	n := int(binary.BigEndian.Uint32(head))
	if n > rlm.Limit {
		s.refuse(tooLarge(n), fmt.Errorf("%w: length %d is over the limit of %d", frame.ErrTooLarge, n, rlm.Limit))
		s.Drain(2 * rlm.Limit)
		return nil, false
	}
	if len(head) < prefix+n {
		if s.Flush() != nil {
			return nil, false
		}
		s.Begin()
		s.Extend(n)
		if err := s.Fill(prefix + n); err != nil {
			if !s.stalled(err) && errors.Is(err, io.EOF) {
				s.refuse("Connection error", frame.ErrTruncated)
			}
			return nil, false
		}
	}
	return s.Buffered()[prefix : prefix+n], true
}

// stalled tells a peer that took too long for its request.
func (s *session) stalled(err error) bool {
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return false
	}
	s.refuse("Request timed out", frame.ErrTruncated)
	return true
}

// refuse writes an error that answers what could not be read, for that fault.
func (s *session) refuse(message string, fault error) {
	s.tap.Unread(s.Buffered(), fault)
	r := begin(s.Out(), nil)
	r.fail(message)
	s.finish(&r, true)
	_ = s.Flush()
}

func (s *session) finish(r *response, isError bool) {
	out := r.end(isError)
	s.SetOut(out)
	s.tap.Frame(frame.U2C, out[r.start:], prefix)
}

// answer answers one request.
func (s *session) answer(ctx context.Context, payload []byte) {
	if s.tap != nil {
		s.tap.Frame(frame.C2U, s.Buffered()[:prefix+len(payload)], prefix)
	}
	if s.desk == nil {
		s.desk = desks.Get().(*desk)
	}
	err := s.req.parse(payload)
	s.model = provider.UnquoteAs(s.model, s.req.model)
	if err == nil && s.req.prompts != nil {
		s.prepare(&s.call, s.req.prompts)
		err = s.broker.Admit(&s.call)
	}
	if len(payload) > maxOut {
		s.Reserve(2*len(payload) + maxOut) // prompts come back, and an echo doubles them
	}
	r := begin(s.Out(), s.req.id)
	if err != nil {
		r.fail(err.Error())
		s.finish(&r, true)
		return
	}
	// What has been answered must not wait for this, and while the client is
	// watched nothing else is written.
	s.SetOut(r.b[:r.start])
	if s.Flush() != nil {
		return
	}
	r = begin(s.Out(), s.req.id)
	watched, stop := s.Watch(ctx, 0) // the first byte of any length up to the limit
	s.results(watched, &r)
	if errors.Is(watched.Err(), broker.ErrGone) {
		s.tap.Left() // without the byte that may have been written ahead
	}
	stop()
	s.finish(&r, false)
}

func (s *session) results(ctx context.Context, r *response) {
	r.results()
	if s.req.prompts == nil {
		s.prepare(&s.call, s.req.prompt)
		r.result(&s.call, s.broker.Do(ctx, &s.call))
		return
	}
	var calls []*broker.Call
	for prompt := range s.req.each() {
		c := new(broker.Call)
		s.prepare(c, prompt)
		calls = append(calls, c)
	}
	for i, err := range s.batch(ctx, calls) {
		if r.result(calls[i], err); r.isTooLarge() {
			return // the end of the response says so
		}
	}
}

// batch makes the calls. It gives up those that are left when what has come is too
// large for a response.
func (s *session) batch(ctx context.Context, calls []*broker.Call) []error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	size := 0
	return s.broker.Batch(ctx, calls, func(c *broker.Call) {
		if size += len(c.Prompt) + len(c.Completion.Text); size > rlm.Limit {
			cancel()
		}
	})
}

func (s *session) prepare(c *broker.Call, prompt []byte) {
	c.Reset()
	c.Door, c.Client, c.Model, c.Prompt = Name, s.Client, s.model, prompt
	c.Tap = s.tap.Tap()
	if c.Tap != nil {
		c.Ref = provider.Unquote(s.req.id)
	}
}
