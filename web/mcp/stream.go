package mcp

import (
	"bytes"
	"encoding/json"
	"io"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// A stream is the input and output of a client. The library drops the requests that are open at the end of the input, so
// the end is told once they have been answered, or after a while. It also ends at a line that is no message, and at a
// batch: such lines are left out after the first message, and batches taken apart.
type stream struct {
	in     io.Reader
	out    io.Writer
	part   []byte // a line of the input that is not whole
	ready  []byte // what the library may read
	err    error  // the end of the input
	speaks bool   // a message has come

	mu     sync.Mutex
	change sync.Cond
	owed   map[jsonrpc.ID]bool // answers
	closed bool
}

// lastAnswers is how long answers may take after the end of the input.
const lastAnswers = 30 * time.Second

func newStream(in io.Reader, out io.Writer) *stream {
	s := &stream{in: in, out: out, owed: map[jsonrpc.ID]bool{}}
	s.change.L = &s.mu
	return s
}

// Read reads messages, and remembers the requests among them.
func (s *stream) Read(p []byte) (int, error) {
	for len(s.ready) == 0 {
		if s.err != nil {
			s.awaitAnswers()
			return 0, s.err
		}
		n, err := s.in.Read(p)
		s.part, s.err = append(s.part, p[:n]...), err
		for len(s.part) > 0 {
			line, rest, whole := bytes.Cut(s.part, []byte{'\n'})
			if !whole && err == nil && len(line) <= maxMessage {
				break
			}
			s.takeLine(line)
			s.part = rest
		}
	}
	n := copy(p, s.ready)
	s.ready = s.ready[n:]
	return n, nil
}

// takeLine takes the messages of a line.
func (s *stream) takeLine(line []byte) {
	var items []json.RawMessage
	if json.Unmarshal(line, &items) != nil {
		items = []json.RawMessage{line}
	}
	for _, item := range items {
		m, err := jsonrpc.DecodeMessage(item)
		if err != nil && s.speaks && len(item) <= maxMessage {
			continue
		}
		s.speaks = true
		s.ready = append(append(s.ready, item...), '\n')
		r, ok := m.(*jsonrpc.Request)
		if !ok {
			continue
		}
		s.mu.Lock()
		if r.IsCall() {
			s.owed[r.ID] = true
		} else if r.Method == "notifications/cancelled" { // it may not be answered
			var params struct{ RequestID any }
			_ = json.Unmarshal(r.Params, &params)
			id, _ := jsonrpc.MakeID(params.RequestID)
			delete(s.owed, id)
		}
		s.mu.Unlock()
	}
}

// awaitAnswers waits for the answers that are owed.
func (s *stream) awaitAnswers() {
	if s.err != io.EOF {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	defer time.AfterFunc(lastAnswers, func() { s.Close() }).Stop()
	for len(s.owed) > 0 && !s.closed {
		s.change.Wait()
	}
}

// Write writes a message.
func (s *stream) Write(message []byte) (int, error) {
	n, err := s.out.Write(message)
	m, _ := jsonrpc.DecodeMessage(message)
	if r, ok := m.(*jsonrpc.Response); ok && err == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.owed, r.ID)
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
