package observe

import (
	"encoding/json"
	"io"

	"github.com/wirectl/wirectl/broker"
	"github.com/wirectl/wirectl/internal/jsonscan"
)

// Calls writes each call as a line: its door and id, then the WireResult of rlm, which is an
// error or a chat_completion with the prompt and the response.
type Calls struct {
	lines
	append func(b []byte, c *broker.Call) []byte
}

// NewCalls returns a Calls to w. completion appends a chat_completion.
func NewCalls(w io.Writer, completion func(b []byte, c *broker.Call) []byte) *Calls {
	return &Calls{lines{w: w}, completion}
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
			if shown.Prompt, _ = jsonscan.Get(c.Chat(), "messages"); shown.Prompt == nil {
				shown.Prompt = []byte("null")
			}
		}
		line.Completion = l.append(nil, &shown)
	}
	l.write(line)
}
