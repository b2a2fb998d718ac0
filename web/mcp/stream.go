package mcp

import (
	"bytes"
	"io"
	"sync"
	"time"

	"github.com/wirectl/wirectl/internal/jsonscan"
)

// A stream is the input and output of a client. The library drops the requests that are open at the end of the input, so
// the end is told once they have been answered, or after a while.
type stream struct {
	in   io.Reader
	out  io.Writer
	part []byte // a line of the input that is not whole

	mu     sync.Mutex
	change sync.Cond
	owed   int // answers
	closed bool
}

// lastAnswers is how long answers may take after the end of the input.
const lastAnswers = 30 * time.Second

func newStream(in io.Reader, out io.Writer) *stream {
	s := &stream{in: in, out: out}
	s.change.L = &s.mu
	return s
}

// Read reads input, and counts the requests in it.
func (s *stream) Read(p []byte) (int, error) {
	n, err := s.in.Read(p)
	s.mu.Lock()
	defer s.mu.Unlock()
	for text := p[:n]; len(text) > 0; {
		line, rest, whole := bytes.Cut(text, []byte{'\n'})
		if s.part = append(s.part, line...); !whole && len(s.part) <= maxMessage {
			break
		}
		method, isCall := jsonscan.Get(s.part, "method")
		_, hasID := jsonscan.Get(s.part, "id")
		switch {
		case isCall && hasID:
			s.owed++
		case string(method) == `"notifications/cancelled"`: // it may not be answered
			s.owed--
		}
		text, s.part = rest, s.part[:0]
	}
	if err != io.EOF {
		return n, err
	}
	defer time.AfterFunc(lastAnswers, func() { s.Close() }).Stop()
	for s.owed > 0 && !s.closed {
		s.change.Wait()
	}
	return n, err
}

// Write writes a message.
func (s *stream) Write(message []byte) (int, error) {
	n, err := s.out.Write(message)
	if _, isCall := jsonscan.Get(message, "method"); !isCall || err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.owed--
		s.change.Broadcast()
	}
	return n, err
}

// Close tells the end at once. Input and output are not ours to close.
func (s *stream) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.change.Broadcast()
	return nil
}
