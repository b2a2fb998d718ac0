// Package rlm is the broker's front door for execution environments: it answers WireRequests
// on TCP, each a frame of length-prefixed JSON. Its answers, including the texts of errors, are
// those of the reference implementations.
package rlm

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/wirectl/wirectl/broker"
	"github.com/wirectl/wirectl/broker/door"
	"github.com/wirectl/wirectl/broker/observe"
	"github.com/wirectl/wirectl/broker/provider"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/llm"
	"github.com/wirectl/wirectl/protocol/rlm"
)

// Name is the door's name in calls and metrics.
const Name = "rlm"

// New returns a server of the door. The publisher may be nil.
func New(b *broker.Broker, p *observe.Publisher) *door.Server {
	return &door.Server{Handle: func(ctx context.Context, c *door.Conn) {
		s := session{Conn: c, broker: b}
		if p != nil {
			s.tap = p.Open("rlm client "+c.RemoteAddr().String(), "rlm", "len32")
			defer s.tap.Close()
		}
		s.serve(ctx)
	}}
}

// A session is one connection. Requests are answered in order; the answers are written
// together once no whole request is buffered.
type session struct {
	*door.Conn
	broker *broker.Broker
	tap    *observe.Conn
}

// maxOut is how many bytes of answers may wait while requests are buffered.
const maxOut = 64 << 10

func (s *session) serve(ctx context.Context) {
	for {
		if len(s.Buffered()) == 0 {
			if s.Flush() != nil {
				return
			}
			s.Rest()
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

// waits reports whether another whole request is buffered, and its answer can wait with the
// others.
func (s *session) waits() bool {
	head := s.Buffered()
	if len(s.Out()) > maxOut || len(head) < prefix {
		return false
	}
	n := binary.BigEndian.Uint32(head)
	return n <= rlm.Limit && len(head) >= prefix+int(n)
}

// next reads the frame of a request. If that fails, it has answered with the error.
func (s *session) next() ([]byte, bool) {
	head := s.Buffered()
	if len(head) < prefix {
		s.Begin(0)
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
		s.Begin(n)
		if err := s.Fill(prefix + n); err != nil {
			if !s.stalled(err) && errors.Is(err, io.EOF) {
				s.refuse("Connection error", frame.ErrTruncated)
			}
			return nil, false
		}
	}
	return s.Buffered()[prefix : prefix+n], true
}

// stalled answers a peer that took too long for its request, and reports whether it did.
func (s *session) stalled(err error) bool {
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return false
	}
	s.refuse("Request timed out", frame.ErrTruncated)
	return true
}

// refuse answers a request that could not be read.
func (s *session) refuse(message string, fault error) {
	s.tap.Unread(s.Buffered(), fault)
	r := begin(s.Out(), nil)
	r.fail(message)
	s.finish(&r, true)
	_ = s.Flush()
}

func (s *session) finish(r *response, isError bool) {
	out := r.endResponse(isError)
	s.SetOut(out)
	s.tap.Frame(frame.U2C, out[r.start:], prefix)
}

// answer answers one request.
func (s *session) answer(ctx context.Context, payload []byte) {
	if s.tap != nil {
		s.tap.Frame(frame.C2U, s.Buffered()[:prefix+len(payload)], prefix)
	}
	var req request
	err := req.parse(payload)
	if err == nil && req.prompts != nil {
		err = s.broker.Admit(s.call(&req, req.prompts))
	}
	if len(payload) > maxOut {
		s.SetOut(slices.Grow(s.Out(), 2*len(payload)+maxOut)) // prompts come back, and an echo doubles them
	}
	r := begin(s.Out(), req.id)
	if err != nil {
		r.fail(err.Error())
		s.finish(&r, true)
		return
	}
	// Earlier answers must not wait for this one, and nothing else may be written while the
	// client is watched.
	s.SetOut(r.b[:r.start])
	if s.Flush() != nil {
		return
	}
	r = begin(s.Out(), req.id)
	watched, stop := s.Watch(ctx, 0) // the first byte of any length up to the limit
	s.results(watched, &req, &r)
	if errors.Is(watched.Err(), broker.ErrGone) {
		s.tap.Left() // before the byte that may have been written early is published
	}
	stop()
	s.finish(&r, false)
}

func (s *session) results(ctx context.Context, req *request, r *response) {
	r.results()
	if req.prompts == nil {
		c := s.call(req, req.prompt)
		r.result(c, s.broker.Do(ctx, c))
		return
	}
	var calls []*broker.Call
	for _, prompt := range llm.Elements(req.prompts) {
		calls = append(calls, s.call(req, prompt))
	}
	for i, err := range s.batch(ctx, calls) {
		if r.result(calls[i], err); r.isTooLarge() {
			return // the end of the response says so
		}
	}
}

// batch makes the calls. It cancels the remaining ones once the answers are too large for a
// response.
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

func (s *session) call(req *request, prompt []byte) *broker.Call {
	c := &broker.Call{Door: Name, Client: s.Client, Model: provider.Unquote(req.model), Prompt: prompt, Tap: s.tap.Tap()}
	if c.Tap != nil {
		c.Ref = provider.Unquote(req.id)
	}
	return c
}
