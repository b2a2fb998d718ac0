package upstream

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"

	"github.com/wirectl/wirectl/broker/provider"
)

// ErrEnded: a stream that is to say when it is done has ended without that.
var ErrEnded error = &provider.Error{Cause: provider.Unreachable, Err: errors.New("the stream was cut")}

// Events reads server-sent events and calls f with the data of each, which is
// valid until f returns. Reading ends with the stream, with an error of f, or
// when f says that it is done.
func Events(ctx context.Context, resp *Response, r *provider.Request, f func(data []byte) (done bool, err error)) error {
	defer resp.Body.Close()
	s := newScanner(&limited{resp.Body, maxAnswer})
	if s.isDocument() {
		return document(ctx, resp, s.r, r)
	}
	masked, some := r.Secrets.Stream(), false
	pass := func(data []byte) (bool, error) {
		if r.Exchange != nil {
			r.Exchange.Event(resp.StatusCode, data)
		}
		return f(data)
	}
	for ; s.Scan(); some = true {
		if done, err := masked.Add(s.Data(), pass); done || err != nil {
			return err
		}
	}
	if ctx.Err() == nil {
		if done, err := masked.End(pass); done || err != nil {
			return err
		}
	}
	switch err := s.Err(); {
	case err != nil:
		return broken(ctx, err)
	case !some:
		return errNoStream
	}
	return ErrEnded
}

var errNoStream = Malformed("it is no stream of events")

// document reads an answer that is no stream, but a page or an object, for those who
// look on.
func document(ctx context.Context, resp *Response, from io.Reader, r *provider.Request) error {
	body, err := readLimited(from)
	if err != nil {
		return broken(ctx, err)
	}
	body = r.Secrets.Hide(body)
	if r.Exchange != nil {
		r.Exchange.Received(resp.StatusCode, body)
	}
	return errNoStream
}

// A scanner reads the data of server-sent events. Their names, ids and comments
// are passed over.
type scanner struct {
	r     *bufio.Reader
	begun bool
	data  []byte
	err   error
}

// maxEvent bounds an event, in bytes.
const maxEvent = 8 << 20

var errEvent = &provider.TooLargeError{Part: "an event", Limit: maxEvent}

func newScanner(r io.Reader) *scanner { return &scanner{r: bufio.NewReaderSize(r, 16<<10)} }

// isDocument reports whether there is something else than a stream: no line of one
// begins so.
func (s *scanner) isDocument() bool {
	b, _ := s.r.Peek(1)
	return len(b) > 0 && (b[0] == '{' || b[0] == '<')
}

// Scan moves to the next event with data. An event that the stream ends in is
// none.
func (s *scanner) Scan() bool {
	s.data = s.data[:0]
	found := false
	for {
		line, ok := s.line()
		if !ok {
			return false
		}
		if len(line) == 0 {
			if len(s.data) > 0 { // as the standard has it
				return true
			}
			found = false
			continue
		}
		value, ok := bytes.CutPrefix(line, []byte("data:"))
		if !ok {
			continue
		}
		if found {
			s.data = append(s.data, '\n')
		}
		s.data = append(s.data, bytes.TrimPrefix(value, []byte(" "))...)
		found = true
		if len(s.data) > maxEvent {
			s.err = errEvent
			return false
		}
	}
}

// byteOrder is a mark that may stand before all else.
var byteOrder = []byte("\uFEFF")

// line returns the next line without its end.
func (s *scanner) line() ([]byte, bool) {
	line, err := readLine(s.r, maxEvent)
	if err != nil {
		switch err {
		case io.EOF:
		case bufio.ErrBufferFull:
			s.err = errEvent
		default:
			s.err = err
		}
		return nil, false
	}
	if !s.begun {
		s.begun, line = true, bytes.TrimPrefix(line, byteOrder)
	}
	return bytes.TrimRight(line, "\r\n"), true
}

// readLine reads a line with its end. One that is much longer than most is an error. The line is
// valid until the next is read.
func readLine(r *bufio.Reader, most int) ([]byte, error) {
	line, err := r.ReadSlice('\n')
	if err != bufio.ErrBufferFull {
		return line, err
	}
	long := bytes.Clone(line)
	for err == bufio.ErrBufferFull && len(long) <= most {
		line, err = r.ReadSlice('\n')
		long = append(long, line...)
	}
	return long, err
}

// Data returns the event's data, valid until the next Scan.
func (s *scanner) Data() []byte { return s.data }

// Err returns why the stream could not be read, nil if it ended.
func (s *scanner) Err() error { return s.err }
