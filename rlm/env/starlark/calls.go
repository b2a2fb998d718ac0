package starlark

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	starjson "go.starlark.net/lib/json"
	"go.starlark.net/starlark"

	"github.com/wirectl/wirectl/protocol/repl"
	"github.com/wirectl/wirectl/rlm"
)

// Bounds of a message of a batch. Two messages are in flight, so that the host always has
// one.
const (
	batchPrompts = 256
	batchBytes   = 8 << 20
	underWay     = 2
)

// errInterrupted has the words of the interpreter.
var errInterrupted = errors.New(cancelled + interrupted) //nolint:staticcheck // their words

// promptOf returns a prompt as JSON.
func promptOf(t *starlark.Thread, v starlark.Value) (json.RawMessage, error) {
	switch v := v.(type) {
	case starlark.String:
		return json.Marshal(string(v))
	case *starlark.Dict, *starlark.List, starlark.Tuple:
		text, err := starlark.Call(t, starjson.Module.Members["encode"], starlark.Tuple{v}, nil)
		if err != nil {
			return nil, err
		}
		return json.RawMessage(textOf(text)), nil
	}
	return nil, fmt.Errorf("a prompt must be a string, a dict or a list of messages, not %s", v.Type())
}

// sendCall sends a call, whose result is sent to the channel.
func (w *worker) sendCall(call object) (<-chan *message, error) {
	answered := make(chan *message, 1)
	w.mu.Lock()
	w.last++
	call["id"], call["cell"] = w.last, w.cell.ID
	w.waiting[w.last] = answered
	w.mu.Unlock()
	w.flush()
	return answered, w.send(call)
}

// answer waits for the result of a call, or for an interrupt. A result after a cancel is that
// of a cancelled call, and is ignored.
func (w *worker) answer(answered <-chan *message) (m *message, err error) {
	select {
	case m = <-answered:
	case <-w.cell.life.Done():
	}
	if w.cell.life.Err() != nil {
		return nil, errInterrupted
	}
	return m, nil
}

// named returns the model in a call; nil if there is none.
func named(v starlark.Value) (any, error) {
	if v == nil || v == starlark.None {
		return nil, nil
	}
	name, ok := starlark.AsString(v)
	if !ok {
		return nil, fmt.Errorf("model must be a string, not %s", v.Type())
	}
	return name, nil
}

func (w *worker) query(t *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var prompt, model, id, depth starlark.Value
	if err := starlark.UnpackArgs(b.Name(), args, kwargs, "prompt", &prompt, "model?", &model, "correlation_id?", &id, "depth?", &depth); err != nil {
		return nil, err
	}
	text, err := w.queryOne(t, b.Name(), prompt, model)
	if err == errInterrupted { //nolint:errorlint // it is never wrapped
		return nil, err
	}
	if err != nil {
		text = "Error: LM query failed - " + err.Error()
	}
	return starlark.String(text), nil
}

func (w *worker) queryOne(t *starlark.Thread, kind string, prompt, model starlark.Value) (string, error) {
	name, err := named(model)
	if err != nil {
		return "", err
	}
	raw, err := promptOf(t, prompt)
	if err != nil {
		return "", err
	}
	if len(raw) > repl.Limit-4096 {
		return "", fmt.Errorf("the prompt has %d bytes, the limit is %d", len(raw), repl.Limit-4096)
	}
	answered, err := w.sendCall(object{"kind": kind, "model": name, "prompt": raw})
	if err != nil {
		return "", err
	}
	m, err := w.answer(answered)
	if err != nil {
		return "", err
	}
	if !m.OK {
		return "", errors.New(m.Error)
	}
	var response string
	err = json.Unmarshal(m.Response, &response)
	return response, err
}

// tool returns the function that calls a tool.
func (w *worker) tool(f rlm.Function) builtin {
	return func(t *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
		if len(args) > len(f.Arguments) {
			return nil, fmt.Errorf("%s: takes at most %d positional arguments", b.Name(), len(f.Arguments))
		}
		arguments := starlark.NewDict(len(args) + len(kwargs))
		for i, v := range args {
			kwargs = append(kwargs, starlark.Tuple{starlark.String(f.Arguments[i]), v})
		}
		for _, pair := range kwargs {
			if _, twice, _ := arguments.Get(pair[0]); twice {
				return nil, fmt.Errorf("%s: got multiple values for %s", b.Name(), pair[0])
			}
			_ = arguments.SetKey(pair[0], pair[1])
		}
		raw, err := promptOf(t, arguments)
		if err != nil {
			return nil, err
		}
		answered, err := w.sendCall(object{"kind": "tool_call", "name": f.Tool, "arguments": raw})
		if err != nil {
			return nil, err
		}
		m, err := w.answer(answered)
		switch {
		case err != nil:
			return nil, err
		case !m.OK:
			return nil, errors.New(toolError + m.Error)
		}
		return decode(string(m.Response))
	}
}

// A part is a message of a batch in flight.
type part struct {
	places   []int
	answered <-chan *message
}

// A batch is a call of a batched form.
type batch struct {
	*worker
	kind    string
	model   any
	answers []starlark.Value
	places  []int
	prompts []json.RawMessage
	size    int
	parts   []part
}

func (w *worker) batched(t *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var model, id starlark.Value
	var prompts starlark.Iterable
	if err := starlark.UnpackArgs(b.Name(), args, kwargs, "prompts", &prompts, "model?", &model, "correlation_id?", &id); err != nil {
		return nil, err
	}
	if _, ok := prompts.(*starlark.Dict); ok {
		return nil, fmt.Errorf("%s: prompts must be a list, not dict", b.Name())
	}
	c := batch{worker: w, kind: b.Name()}
	name, wrong := named(model)
	c.model = name
	for v := range starlark.Elements(prompts) {
		raw, err := promptOf(t, v)
		if err == nil && len(raw) > repl.Limit-4096 {
			err = fmt.Errorf("the prompt has %d bytes, the limit is %d", len(raw), repl.Limit-4096)
		}
		if wrong != nil {
			err = wrong
		}
		if err != nil {
			c.answers = append(c.answers, starlark.String("Error: "+err.Error()))
			continue
		}
		if err := c.add(raw); err != nil {
			return nil, err
		}
	}
	if err := c.send(0); err != nil {
		return nil, err
	}
	return starlark.NewList(c.answers), nil
}

// add adds a prompt. It may first have to send those before it.
func (c *batch) add(raw json.RawMessage) error {
	if len(c.prompts) == batchPrompts || len(c.prompts) > 0 && c.size+len(raw) > batchBytes {
		if err := c.send(underWay - 1); err != nil {
			return err
		}
	}
	c.places = append(c.places, len(c.answers))
	c.prompts = append(c.prompts, raw)
	c.size += len(raw)
	c.answers = append(c.answers, starlark.None)
	return nil
}

// send sends the prompts that were added, and waits until only left messages are in flight.
func (c *batch) send(left int) error {
	if len(c.prompts) > 0 {
		answered, err := c.sendCall(object{"kind": c.kind, "model": c.model, "prompts": c.prompts})
		if err != nil {
			return err
		}
		c.parts = append(c.parts, part{c.places, answered})
		c.places, c.prompts, c.size = nil, nil, 0
	}
	for len(c.parts) > left {
		m, err := c.answer(c.parts[0].answered)
		if err != nil {
			return err
		}
		for i, place := range c.parts[0].places {
			c.answers[place] = starlark.String(m.response(i))
		}
		c.parts = c.parts[1:]
	}
	return nil
}

// response returns the response to a prompt of a batch.
func (m *message) response(i int) string {
	var text string
	var failed struct{ Error string }
	switch {
	case !m.OK || i >= len(m.Responses):
		return "Error: " + strings.TrimSpace(m.Error)
	case json.Unmarshal(m.Responses[i], &text) == nil:
		return text
	}
	_ = json.Unmarshal(m.Responses[i], &failed)
	return "Error: " + failed.Error
}
