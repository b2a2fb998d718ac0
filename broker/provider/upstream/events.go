package upstream

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"

	"github.com/wirectl/wirectl/broker/provider"
)

// Events reads server-sent events and calls f with the data of each, which is
// valid until f returns. Reading ends with the stream, with an error of f, or
// when f says that it is done.
func Events(ctx context.Context, resp *Response, r *provider.Request, f func(data []byte) (done bool, err error)) error {
	defer resp.Body.Close()
	s := newScanner(io.LimitReader(resp.Body, maxAnswer))
	for s.Scan() {
		if r.Exchange != nil {
			r.Exchange.Event(resp.StatusCode, s.Data())
		}
		if done, err := f(s.Data()); done || err != nil {
			return err
		}
	}
	if err := s.Err(); err != nil {
		return provider.Broken(ctx, err)
	}
	return &provider.Error{Cause: provider.Unreachable, Err: errors.New("the stream was cut")}
}

// A scanner reads the data of server-sent events. Their names, ids and comments
// are passed over.
type scanner struct {
	r    *bufio.Reader
	data []byte
	err  error
}

// maxEvent bounds an event, in bytes.
const maxEvent = 8 << 20

func newScanner(r io.Reader) *scanner { return &scanner{r: bufio.NewReaderSize(r, 16<<10)} }

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
			if found {
				return true
			}
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
			s.err = errors.New("an event is too large")
			return false
		}
	}
}

// line returns the next line without its end.
func (s *scanner) line() ([]byte, bool) {
	var long []byte
	for {
		piece, err := s.r.ReadSlice('\n')
		switch {
		case err == nil && long == nil:
			return bytes.TrimRight(piece, "\r\n"), true
		case err == nil:
			return bytes.TrimRight(append(long, piece...), "\r\n"), true
		case err != bufio.ErrBufferFull || len(long) > maxEvent:
			if err != io.EOF {
				s.err = err
			}
			return nil, false
		}
		long = append(long, piece...)
	}
}

// Data returns the event's data, valid until the next Scan.
func (s *scanner) Data() []byte { return s.data }

// Err returns why the stream could not be read, nil if it ended.
func (s *scanner) Err() error { return s.err }
