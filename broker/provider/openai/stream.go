package openai

import (
	"cmp"
	"context"

	"github.com/wirectl/wirectl/broker/provider"
	"github.com/wirectl/wirectl/broker/provider/upstream"
)

// stream requests a streamed completion with its usage. If the backend rejects that, the request
// is repeated without.
func (p *Provider) stream(ctx context.Context, r *provider.Request, c *provider.Completion) error {
	path, body := p.path(r.Model, completions), p.body(r)
	ask, said := !asks(r.Chat) && !p.refusals.has(r.Model), body
	if ask {
		said = withOption(body)
	}
	resp, err := p.Post(ctx, path, nil, said, r)
	if ask && isRefusal(err) {
		ask = false
		if resp, err = p.Post(ctx, path, nil, body, r); err == nil {
			p.refusals.addModel(r.Model)
		}
	}
	if err != nil {
		return err
	}
	return chunks(ctx, resp, r, c, ask)
}

// chunks reads the chunks of a streamed completion. It hides the usage if the client did not
// request it.
func chunks(ctx context.Context, resp *upstream.Response, r *provider.Request, c *provider.Completion, hide bool) error {
	var calls calls
	err := upstream.Events(ctx, resp, r, func(data []byte) (bool, error) {
		if string(data) == "[DONE]" {
			return true, nil
		}
		var a completion
		if a.decode(data, "delta") != nil {
			return false, upstream.Malformed("a chunk is not JSON")
		}
		if a.fault != nil && string(a.fault) != "null" {
			return false, upstream.Failed(data)
		}
		part := provider.Part{Chunk: data}
		part.Text, part.Thought = chunk(&a, c, &calls)
		if hide {
			if part.Chunk = unasked(data, a.first != nil); part.Chunk == nil {
				return false, nil
			}
		}
		return false, r.Emit(part)
	})
	if err == upstream.ErrEnded && c.Finish != "" { //nolint:errorlint // it comes bare
		err = nil // some backends omit the end mark
	}
	c.ToolCalls = append(c.ToolCalls, calls.list()...)
	c.Seal()
	return err
}

// chunk adds a chunk, and returns the tokens of its text and its thoughts, nil if it has none.
func chunk(a *completion, c *provider.Completion, calls *calls) (text, thought []byte) {
	a.count(c)
	first := a.first
	if first == nil || first.index > 0 { // only the first choice counts
		return nil, nil
	}
	c.Finish = cmp.Or(first.finish, c.Finish)
	if text = first.text(); text != nil {
		c.AppendText(text)
	}
	if thought = first.thought(); thought != nil {
		c.AppendThought(thought)
	}
	calls.addPieces(first.pieces)
	return text, thought
}
