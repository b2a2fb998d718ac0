package share

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/llm"
)

// Messages are checked as far as other packages rely on it.

// maxBody bounds a call, and an answer, in bytes.
const maxBody = 128 << 20

// maxWorkers bounds how many workers a broker remembers.
const maxWorkers = 10_000

// is reports whether text is nil, or JSON of one of the kinds; no kinds are any.
func is(text []byte, kinds ...jsonscan.Kind) bool {
	return text == nil || jsonscan.Valid(text) == nil && (len(kinds) == 0 || slices.Contains(kinds, jsonscan.KindOf(text)))
}

// checked reads a message, and checks it.
func checked(text []byte, v interface{ check() error }) error {
	if err := json.Unmarshal(text, v); err != nil {
		return err
	}
	return v.check()
}

func (r *request) check() error {
	switch {
	case r.Prompt == nil && r.Body == nil:
		return errors.New("it has no prompt")
	case !is(r.Prompt), !is(r.Body, jsonscan.Object):
		return errors.New("its prompt is not JSON")
	case r.API > llm.Contents:
		return fmt.Errorf("the API %d is unknown", r.API)
	}
	return nil
}

func (p *part) check() error {
	if !is(p.Text, jsonscan.String) || !is(p.Thought, jsonscan.String) || !is(p.Event) || p.Choices < 0 {
		return errors.New("a part is not JSON")
	}
	return nil
}

func (e *end) check() error {
	c := &e.Completion
	if !is(c.Text, jsonscan.String) || !is(c.Thoughts, jsonscan.String) || !is(c.Body) || c.Choices < 0 {
		return errors.New("the answer is not JSON")
	}
	for i := range c.ToolCalls {
		if c.ToolCalls[i].Arguments == nil || !is(c.ToolCalls[i].Arguments) {
			return errors.New("the arguments of a tool call are not JSON")
		}
	}
	if u := c.Usage; min(u.Input, u.Output, u.Cached, u.Thinking) < 0 || max(u.Input, u.Output, u.Cached, u.Thinking) > math.MaxInt32 {
		return errors.New("the usage is out of range")
	}
	if f := e.Failure; f != nil {
		if f.Status < 400 || f.Status > 599 {
			f.Status = 0
		}
		f.RetryAfter = max(0, f.RetryAfter)
	} else {
		c.Seal()
	}
	return nil
}
