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
	"strconv"
	"strings"
	"sync"

	"github.com/wirectl/wirectl/broker"
	"github.com/wirectl/wirectl/broker/door"
	"github.com/wirectl/wirectl/broker/observe"
	"github.com/wirectl/wirectl/broker/provider"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/jsonscan"
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

// Do makes a call that did not come through a door. It is published on the connection, which
// may be nil, like a client's request and its response.
func Do(ctx context.Context, b *broker.Broker, c *broker.Call, on *observe.Conn) error {
	c.Door = Name
	// Whatever ends ctx, the broker sees a call that its client cancelled.
	call, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	defer context.AfterFunc(ctx, func() { cancel(broker.ErrCancelled) })()
	if on == nil {
		return b.Do(call, c)
	}
	c.Tap = on.Tap()
	prompt := c.Prompt
	if c.Body != nil {
		prompt, _ = jsonscan.Get(c.Body, "messages") // the rest is in the request to the provider
	}
	published := buffers.Get().(*[]byte)
	defer buffers.Put(published)
	*published = appendRequest(append((*published)[:0], 0, 0, 0, 0), c, prompt)
	on.Frame(frame.C2U, *published, prefix)
	err := b.Do(call, c)
	c.Prompt = prompt
	r := begin((*published)[:0], jsonscan.AppendQuote(nil, []byte(c.Ref)))
	if err != nil {
		r.fail(broker.Message(err)) // the whole response: an error in a result is not a failed exchange
	} else {
		r.results()
		r.result(c, nil)
	}
	*published = r.endResponse(err != nil)
	on.Frame(frame.U2C, *published, prefix)
	return err
}

// buffers are for what is published: fresh memory costs more than the call.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// appendRequest appends a call as a request, after the space for its length.
func appendRequest(b []byte, c *broker.Call, prompt []byte) []byte {
	b = append(b, `{"correlation_id":`...)
	b = jsonscan.AppendQuote(b, []byte(c.Ref))
	if c.Model != "" {
		b = append(b, `,"model":`...)
		b = jsonscan.AppendQuote(b, []byte(c.Model))
	}
	b = append(append(append(b, `,"prompt":`...), prompt...), '}')
	binary.BigEndian.PutUint32(b, uint32(len(b)-prefix))
	return b
}

// A request is a WireRequest. Its values point into the payload; they are nil if missing or
// null.
type request struct {
	id      []byte // the correlation id, as JSON
	model   []byte
	prompt  []byte
	prompts []byte
	unknown []string
}

// A wireError is an error in a request, with the text that peers expect.
type wireError string

func (e wireError) Error() string { return string(e) }

const (
	errNotObject wireError = "Frame JSON must be an object"
	errID        wireError = "WireRequest.correlation_id must be a string when present"
	errModel     wireError = "WireRequest.model must be a string when present"
	errPrompt    wireError = "WireRequest.prompt must be a valid Prompt (str | dict | list[dict])"
	errPrompts   wireError = "WireRequest.prompts must be a list"
	errEmpty     wireError = "WireRequest.prompts must not be empty"
	errItem      wireError = "WireRequest.prompts each item must be a valid Prompt"
	errBoth      wireError = "WireRequest must include only one of 'prompt' or 'prompts'"
	errNeither   wireError = "WireRequest missing 'prompt' or 'prompts'"
)

// parse reads a payload. If a key is repeated, the last one counts, as in Python.
func (r *request) parse(payload []byte) error {
	var s jsonscan.Scanner
	s.Init(payload)
	object := s.Object()
	for object && s.Next() {
		switch string(s.Key()) {
		case "correlation_id":
			r.id = s.NotNull()
		case "model":
			r.model = s.NotNull()
		case "prompt":
			r.prompt = s.NotNull()
		case "prompts":
			r.prompts = s.NotNull()
		default:
			r.unknown = append(r.unknown, string(s.Key()))
		}
	}
	err := s.End()
	if _, unpaired := s.Unpaired(); unpaired {
		err = jsonscan.Valid(payload)
	}
	switch {
	case err != nil:
		*r = request{}
		return wireError(door.InvalidJSON(payload, err))
	case !object:
		return errNotObject
	}
	return r.check()
}

// check checks the request in the order of other implementations. An id that is not a string
// is dropped: it cannot be echoed.
func (r *request) check() error {
	badID := r.id != nil && jsonscan.KindOf(r.id) != jsonscan.String
	if badID {
		r.id = nil
	}
	switch {
	case len(r.unknown) > 0:
		return r.unknownKeys()
	case badID:
		return errID
	case r.model != nil && jsonscan.KindOf(r.model) != jsonscan.String:
		return errModel
	case r.prompt != nil && !provider.ValidPrompt(r.prompt):
		return errPrompt
	case r.prompts != nil:
		if err := r.checkPrompts(); err != nil {
			return err
		}
	case r.prompt == nil:
		return errNeither
	}
	if r.prompt != nil && r.prompts != nil {
		return errBoth
	}
	return nil
}

func (r *request) checkPrompts() error {
	if jsonscan.KindOf(r.prompts) != jsonscan.Array {
		return errPrompts
	}
	count := 0
	for _, prompt := range llm.Elements(r.prompts) {
		if !provider.ValidPrompt(prompt) {
			return errItem
		}
		if count++; count > broker.MaxBatch {
			return wireError(fmt.Sprintf("WireRequest.prompts must not be more than %d", broker.MaxBatch))
		}
	}
	if count == 0 {
		return errEmpty
	}
	return nil
}

func (r *request) unknownKeys() error {
	slices.Sort(r.unknown)
	keys := slices.Compact(r.unknown)
	quoted := make([]string, len(keys))
	for i, key := range keys {
		quoted[i] = broker.PyQuote(key)
	}
	return wireError(fmt.Sprintf("Unknown keys in WireRequest: [%s]", strings.Join(quoted, ", ")))
}

// A response is built in order: begin with the correlation id, then an error or results, then
// end, which fills in the length.
type response struct {
	b     []byte
	start int    // of the frame in b
	id    []byte // the correlation id as JSON, nil for null
}

const prefix = 4

func begin(b, id []byte) response {
	r := response{b: append(b, 0, 0, 0, 0), start: len(b), id: id}
	r.head()
	return r
}

func (r *response) head() {
	r.b = append(r.b[:r.start+prefix], `{"correlation_id":`...)
	if r.id == nil {
		r.b = append(r.b, "null"...)
	} else {
		r.b = append(r.b, r.id...)
	}
}

// fail turns the response into an error.
func (r *response) fail(message string) {
	r.head()
	r.b = append(r.b, `,"error":`...)
	r.b = jsonscan.AppendQuote(r.b, []byte(message))
	r.b = append(r.b, `,"results":null}`...)
}

func (r *response) results() { r.b = append(r.b, `,"error":null,"results":[`...) }

// result appends the outcome of one call.
func (r *response) result(c *broker.Call, err error) {
	if last := r.b[len(r.b)-1]; last != '[' {
		r.b = append(r.b, ',')
	}
	if err != nil {
		r.b = append(r.b, `{"error":`...)
		r.b = jsonscan.AppendQuote(r.b, []byte(broker.Message(err)))
		r.b = append(r.b, `,"chat_completion":null}`...)
		return
	}
	r.b = append(r.b, `{"error":null,"chat_completion":`...)
	r.b = append(AppendCompletion(r.b, c), '}')
}

// AppendCompletion appends a call that succeeded as a chat_completion.
func AppendCompletion(b []byte, c *broker.Call) []byte {
	start := len(b) + len(`{"root_model":`)
	b = append(b, `{"root_model":`...)
	b = jsonscan.AppendQuote(b, []byte(c.Name))
	model := [2]int{start, len(b)} // b may move
	b = append(b, `,"prompt":`...)
	b = append(b, c.Prompt...)
	b = append(b, `,"response":`...)
	b = append(b, c.Completion.Text...)
	b = append(b, `,"usage_summary":{"model_usage_summaries":{`...)
	b = append(b, b[model[0]:model[1]]...)
	u := c.Completion.Usage
	b = append(b, `:{"total_calls":1,"total_input_tokens":`...)
	b = strconv.AppendInt(b, u.Input, 10)
	b = append(b, `,"total_output_tokens":`...)
	b = strconv.AppendInt(b, u.Output, 10)
	b = append(b, `}}},"prompt_tokens":`...)
	b = strconv.AppendInt(b, u.Input, 10)
	b = append(b, `,"completion_tokens":`...)
	b = strconv.AppendInt(b, u.Output, 10)
	b = append(b, `,"execution_time":`...)
	b = appendSeconds(b, int64(c.Took))
	b = appendToolCalls(b, c)
	if c.Completion.Finish != "" {
		b = append(b, `,"finish_reason":`...)
		b = jsonscan.AppendQuote(b, []byte(c.Completion.Finish))
	}
	return append(b, '}')
}

// appendSeconds appends nanoseconds as seconds with six decimals.
func appendSeconds(b []byte, ns int64) []byte {
	micros := ns / 1000
	b = strconv.AppendInt(b, micros/1e6, 10)
	point := len(b)
	b = strconv.AppendInt(b, 1e6+micros%1e6, 10)
	b[point] = '.' // where the 1 is
	return b
}

func appendToolCalls(b []byte, c *broker.Call) []byte {
	for i, call := range c.Completion.ToolCalls {
		if i == 0 {
			b = append(b, `,"tool_calls":[`...)
		} else {
			b = append(b, ',')
		}
		b = append(b, `{"id":`...)
		b = jsonscan.AppendQuote(b, []byte(call.ID))
		b = append(b, `,"name":`...)
		b = jsonscan.AppendQuote(b, []byte(call.Name))
		b = append(b, `,"arguments":`...)
		b = append(append(b, call.Arguments...), '}')
		if i == len(c.Completion.ToolCalls)-1 {
			b = append(b, ']')
		}
	}
	return b
}

// endResponse closes the frame and returns the buffer.
func (r *response) endResponse(isError bool) []byte {
	if !isError {
		r.b = append(r.b, "]}"...)
	}
	if r.isTooLarge() {
		r.fail(tooLarge(r.size()))
	}
	binary.BigEndian.PutUint32(r.b[r.start:], uint32(r.size()))
	return r.b
}

func (r *response) size() int { return len(r.b) - r.start - prefix }

func (r *response) isTooLarge() bool { return r.size() > rlm.Limit }

func tooLarge(n int) string {
	return fmt.Sprintf("Frame too large: %d bytes (max %d)", n, rlm.Limit)
}
