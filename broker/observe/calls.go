package observe

import (
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

// Ended writes a call.
func (l *Calls) Ended(c *broker.Call, r *broker.Report) {
	b := jsonscan.AppendQuote([]byte(`{"door":`), []byte(c.Door))
	b = jsonscan.AppendQuote(append(b, `,"correlation_id":`...), []byte(c.Ref))
	if r.Err != nil {
		b = jsonscan.AppendQuote(append(b, `,"error":`...), []byte(broker.Message(r.Err)))
		b = append(b, `,"chat_completion":null`...)
	} else {
		b = append(b, `,"error":null,"chat_completion":`...)
		shown := *c
		if c.Prompt == nil {
			if shown.Prompt, _ = jsonscan.Get(c.Chat, "messages"); shown.Prompt == nil {
				shown.Prompt = []byte("null")
			}
		}
		b = jsonscan.AppendCompact(nil, l.append(b, &shown))
	}
	b = append(b, "}\n"...)
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, err := l.w.Write(b); l.err == nil {
		l.err = err
	}
}

// Err returns the first error of writing.
func (l *Calls) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}
