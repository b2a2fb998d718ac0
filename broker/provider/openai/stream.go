package openai

import (
	"context"
	"strconv"

	"github.com/wirectl/wirectl/broker/provider"
	"github.com/wirectl/wirectl/broker/provider/upstream"
	"github.com/wirectl/wirectl/protocol/jsonscan"
)

// stream asks for a streamed completion, and for its count of tokens. A backend that
// refuses is asked once more, without.
func (p *Provider) stream(ctx context.Context, r *provider.Request, c *provider.Completion) error {
	path, body := p.path(r.Model), p.body(r)
	ask, said := !asks(r.Chat) && !p.refusals.has(r.Model), body
	if ask {
		said = withOption(body)
	}
	resp, err := p.client.Post(ctx, path, said, r)
	if ask && isRefusal(err) {
		ask = false
		if resp, err = p.client.Post(ctx, path, body, r); err == nil {
			p.refusals.add(r.Model)
		}
	}
	if err != nil {
		return err
	}
	return chunks(ctx, resp, r, c, ask)
}

// chunks reads the chunks of a streamed completion. The count, if the client did not
// ask for it, is hidden from it.
func chunks(ctx context.Context, resp *upstream.Response, r *provider.Request, c *provider.Completion, hide bool) error {
	var calls calls
	err := upstream.Events(ctx, resp, r, func(data []byte) (bool, error) {
		if string(data) == "[DONE]" {
			return true, nil
		}
		if jsonscan.Valid(data) != nil {
			return false, upstream.Malformed("a chunk is no JSON")
		}
		if fault, ok := jsonscan.Get(data, "error"); ok && jsonscan.KindOf(fault) != jsonscan.Null {
			return false, upstream.Failed(data)
		}
		part := provider.Part{Text: chunk(data, c, &calls), Chunk: data}
		if hide {
			if part.Chunk = unasked(data); part.Chunk == nil {
				return false, nil
			}
		}
		return false, r.Emit(part)
	})
	if err == upstream.ErrEnded && c.Finish != "" { //nolint:errorlint // it comes bare
		err = nil // some backends leave the last mark out
	}
	c.ToolCalls = append(c.ToolCalls, calls.list()...)
	c.Seal()
	return err
}

// chunk takes in a chunk and returns the token of its text, nil if it has none.
func chunk(data []byte, c *provider.Completion, calls *calls) (text []byte) {
	if usage, ok := jsonscan.Get(data, "usage"); ok {
		var s jsonscan.Scanner
		s.Init(usage)
		readUsage(&s, c)
	}
	choice := first(data, "choices")
	if number(choice, "index") > 0 { // another answer to the same, of which the first counts
		return nil
	}
	if reason, ok := jsonscan.Get(choice, "finish_reason"); ok && jsonscan.KindOf(reason) == jsonscan.String {
		c.Finish = provider.Reason(reason)
	}
	token, _ := jsonscan.Get(choice, "delta", "content")
	if refusal, _ := jsonscan.Get(choice, "delta", "refusal"); isRefused(refusal) {
		token = refusal
	}
	if jsonscan.KindOf(token) == jsonscan.String {
		c.AppendText(token)
		text = token
	}
	if raw, ok := jsonscan.Get(choice, "delta", "tool_calls"); ok {
		calls.add(raw)
	}
	return text
}

// first returns the first element of an array.
func first(data []byte, key string) []byte {
	raw, _ := jsonscan.Get(data, key)
	var s jsonscan.Scanner
	s.Init(raw)
	if s.Array() && s.Elem() {
		return s.Value()
	}
	return nil
}

// number returns a whole number, 0 if there is none.
func number(data []byte, path ...string) int64 {
	raw, _ := jsonscan.Get(data, path...)
	return count(raw)
}

// count returns the whole number that a token is, 0 if it is none.
func count(token []byte) int64 {
	n, _ := strconv.ParseInt(string(token), 10, 64)
	return max(n, 0)
}

func readToolCalls(raw []byte, c *provider.Completion) {
	var calls calls
	calls.add(raw)
	c.ToolCalls = append(c.ToolCalls, calls.list()...)
}

// calls are tool calls that come in pieces, by their index.
type calls struct{ of []call }

type call struct {
	id, name, arguments string
}

// maxCalls bounds the tool calls of one completion.
const maxCalls = 1000

func (k *calls) add(raw []byte) {
	var s jsonscan.Scanner
	s.Init(raw)
	if !s.Array() {
		return
	}
	for i := 0; s.Elem(); i++ {
		piece := s.Value()
		at := i
		if _, given := jsonscan.Get(piece, "index"); given {
			at = int(min(number(piece, "index"), maxCalls))
		}
		for len(k.of) <= at {
			k.of = append(k.of, call{})
		}
		c := &k.of[at]
		c.id += text(piece, "id")
		c.name += text(piece, "function", "name")
		c.arguments += text(piece, "function", "arguments")
	}
}

func text(data []byte, path ...string) string {
	raw, _ := jsonscan.Get(data, path...)
	return provider.Unquote(raw)
}

// list returns the calls.
func (k *calls) list() []provider.ToolCall {
	var list []provider.ToolCall
	for _, c := range k.of {
		list = append(list, provider.ToolCall{ID: c.id, Name: c.name, Arguments: provider.Arguments(c.arguments)})
	}
	return list
}
