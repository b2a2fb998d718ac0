package rlm

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/wirectl/wirectl/rlm/prompt"
)

const (
	defaultWindow = 128_000
	// compactAt is the percentage of the window at which the history is compacted.
	compactAt = 85
)

// BytesPerToken is for estimates, where no provider has counted.
const BytesPerToken = 4

// compact replaces the turns in the history by a summary when they fill the window of the
// model. The variable history of the code still has all of them.
func (t *turn) compact(ctx context.Context) error {
	window := cmp.Or(t.o.Model.Window(t.model), defaultWindow)
	if len(t.history) == t.opening || t.tokens(ctx, window)*100 < window*compactAt {
		return nil
	}
	ref := t.ref + "/summary"
	t.tell(Event{Kind: EventCall, Ref: ref, Depth: t.depth, Model: t.model})
	request := Request{Model: t.model, Ref: ref}
	ask, goOn := prompt.Compact, prompt.Continue+"\n\n"+t.request(t.n)
	if t.mode == ToolsMode {
		ask, goOn = prompt.CompactTools, prompt.ContinueTools
		request.Tools, request.ToolChoice = t.tools.Definitions(), "none" // some providers refuse a history with calls of tools that are not defined
	}
	request.Messages = append(slices.Clip(t.history), Message{Role: "user", Content: ask})
	c, err := t.complete(ctx, t.meter, t.depth > 0, request)
	t.tell(Event{
		Kind: EventCall, Done: true, Ref: ref, Depth: t.depth, Model: c.Model, Text: cutEvent(c.Text), Tokens: &c.Tokens,
		Took: c.Took.Seconds(), Error: errorText(err),
	})
	if err != nil {
		return fmt.Errorf("the history could not be summarized: %w", err)
	}
	full := t.full
	t.history, t.wire = slices.Clip(t.history[:t.opening]), nil
	for _, m := range t.history {
		t.wire = appendMessage(t.wire, m)
	}
	t.say("assistant", c.Text)
	t.say("user", goOn)
	t.full = full
	return nil
}

// tokens estimates how many tokens the history has.
func (t *turn) tokens(ctx context.Context, window int) int {
	counter, ok := t.o.Model.(TokenCounter)
	if ok && len(t.wire)*100 >= window*compactAt { // a token is at least a byte
		if n, err := counter.CountTokens(ctx, t.model, t.history); err == nil {
			return n
		}
	}
	return len(t.wire) / BytesPerToken
}
