package observe

import (
	"bytes"
	"encoding/json"
	"io"
	"sync"

	"github.com/wirectl/wirectl/broker"
	"github.com/wirectl/wirectl/protocol/jsonscan"
)

// Calls writes each call as a WireResult, the way that rlm has it: an error or a
// chat_completion, which holds the prompt and the response, behind who asked.
type Calls struct {
	mu     sync.Mutex
	w      io.Writer
	append func(b []byte, c *broker.Call) []byte
	err    error
}

// NewCalls returns a Calls to w. completion appends a chat_completion.
func NewCalls(w io.Writer, completion func(b []byte, c *broker.Call) []byte) *Calls {
	return &Calls{w: w, append: completion}
}

// A result is a line.
type result struct {
	Door       string          `json:"door"`
	Ref        string          `json:"correlation_id"`
	Error      *string         `json:"error"`
	Completion json.RawMessage `json:"chat_completion"`
}

// Ended writes a call.
func (l *Calls) Ended(c *broker.Call, r *broker.Report) {
	line := result{Door: c.Door, Ref: c.Ref}
	if r.Err != nil {
		line.Error = new(broker.Message(r.Err))
	} else {
		shown := *c
		if c.Prompt == nil {
			if shown.Prompt, _ = jsonscan.Get(c.Chat, "messages"); shown.Prompt == nil {
				shown.Prompt = []byte("null")
			}
		}
		line.Completion = l.append(nil, &shown)
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(line)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil {
		_, err = l.w.Write(b.Bytes())
	}
	if l.err == nil {
		l.err = err
	}
}

// Err returns the first error of writing.
func (l *Calls) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}
