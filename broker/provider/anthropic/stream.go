package anthropic

import (
	"context"
	"encoding/json"

	"github.com/wirectl/wirectl/broker/provider"
	"github.com/wirectl/wirectl/broker/provider/upstream"
)

// An event is any event of a stream.
type event struct {
	Type    string  `json:"type"`
	Message message `json:"message"`
	Block   block   `json:"content_block"`
	Delta   struct {
		Type    string `json:"type"`
		Text    string `json:"text"`
		Thought string `json:"thinking"`
		Partial string `json:"partial_json"`
		Stop    string `json:"stop_reason"`
	} `json:"delta"`
	Usage usage `json:"usage"`
}

func stream(ctx context.Context, resp *upstream.Response, r *provider.Request, c *provider.Completion) error {
	var arguments string
	calls := false // the open block is a call of a client's tool, not of a server tool
	err := upstream.Events(ctx, resp, r, func(data []byte) (bool, error) {
		var e event
		if json.Unmarshal(data, &e) != nil {
			return false, upstream.Malformed("an event is not JSON")
		}
		var part provider.Part
		if r.In(provider.AnthropicMessages) {
			part.Event = data
		}
		switch e.Type {
		case "message_start":
			e.Message.Usage.count(c)
		case "content_block_start":
			arguments, calls = "", e.Block.Type == "tool_use"
			if calls {
				c.ToolCalls = append(c.ToolCalls, provider.ToolCall{ID: e.Block.ID, Name: e.Block.Name, Arguments: []byte("{}")})
			}
		case "content_block_delta":
			arguments += e.Delta.Partial
			switch e.Delta.Type {
			case "text_delta":
				part.Text = provider.Quote(e.Delta.Text)
				c.AppendText(part.Text)
			case "thinking_delta":
				part.Thought = provider.Quote(e.Delta.Thought)
				c.AppendThought(part.Thought)
			}
		case "content_block_stop":
			if calls {
				c.ToolCalls[len(c.ToolCalls)-1].Arguments = provider.Arguments(arguments)
			}
		case "message_delta":
			c.Finish = finish(e.Delta.Stop)
			e.Usage.count(c)
		case "error":
			return false, upstream.Failed(data)
		}
		if part.Text != nil || part.Thought != nil || part.Event != nil {
			if err := r.Emit(part); err != nil {
				return false, err
			}
		}
		return e.Type == "message_stop", nil
	})
	c.Seal()
	return err
}
