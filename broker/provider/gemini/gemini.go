// Package gemini is the provider for Google's Gemini API. It turns
// shapes into its JSON and back; HTTP is the business of package upstream.
package gemini

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"

	"github.com/wirectl/wirectl/broker/provider"
	"github.com/wirectl/wirectl/broker/provider/upstream"
	"github.com/wirectl/wirectl/protocol/jsonscan"
)

// Provider is the provider.
type Provider struct {
	*upstream.Client
	kind provider.Kind
}

// New returns the provider.
func New(cfg provider.Config) *Provider {
	h := http.Header{}
	maps.Copy(h, cfg.Header)
	if cfg.Key != "" {
		h.Set("X-Goog-Api-Key", cfg.Key)
	}
	k := kind
	k.Drop = cfg.Drop
	return &Provider{upstream.New(cmp.Or(cfg.BaseURL, "https://generativelanguage.googleapis.com"), h, cfg.Connect), k}
}

// Complete asks the backend, as [provider.Provider] has it.
func (p *Provider) Complete(ctx context.Context, r *provider.Request, c *provider.Completion) error {
	body, err := p.body(r)
	if err != nil {
		return err
	}
	path := "/v1beta/models/" + url.PathEscape(r.Model)
	if r.Emit != nil {
		resp, err := p.Post(ctx, path+":streamGenerateContent?alt=sse", body, r)
		if err != nil {
			return err
		}
		return stream(ctx, resp, r, c)
	}
	resp, err := p.Post(ctx, path+":generateContent", body, r)
	if err != nil {
		return err
	}
	answer, err := upstream.Body(ctx, resp, r, c)
	if err != nil {
		return err
	}
	var a answered
	if json.Unmarshal(answer, &a) != nil || len(a.Candidates) == 0 && a.Feedback.Block == "" {
		return upstream.Malformed("it has no candidates")
	}
	a.add(c)
	c.Seal()
	return nil
}

// stream reads a streamed answer, which has no mark at its end: the last event
// is the one with a reason for the end.
func stream(ctx context.Context, resp *upstream.Response, r *provider.Request, c *provider.Completion) error {
	err := upstream.Events(ctx, resp, r, func(data []byte) (bool, error) {
		var a answered
		if json.Unmarshal(data, &a) != nil {
			return false, upstream.Malformed("an event is no JSON")
		}
		if fault, ok := jsonscan.Get(data, "error"); ok && jsonscan.KindOf(fault) != jsonscan.Null {
			return false, upstream.Failed(data)
		}
		if text := a.add(c); text != "" {
			return false, r.Emit(provider.Part{Text: provider.Quote(text)})
		}
		return false, nil
	})
	if c.Finish != "" && ctx.Err() == nil {
		err = ended(err)
	}
	c.Seal()
	return err
}

// ended is err unless it only says that a stream whose last event was there has
// ended.
func ended(err error) error {
	if e, ok := err.(*provider.Error); ok && e.Cause == provider.Unreachable { //nolint:errorlint // Events returns it bare
		return nil
	}
	return err
}

type answered struct {
	Candidates []struct {
		Content content `json:"content"`
		Finish  string  `json:"finishReason"`
	} `json:"candidates"`
	Feedback struct {
		Block string `json:"blockReason"`
	} `json:"promptFeedback"`
	Usage struct {
		Prompt     int64 `json:"promptTokenCount"`
		Candidates int64 `json:"candidatesTokenCount"`
		Thoughts   int64 `json:"thoughtsTokenCount"`
	} `json:"usageMetadata"`
}

// add takes in an answer, or a piece of one, and returns the text of it.
func (a *answered) add(c *provider.Completion) (text string) {
	if a.Feedback.Block != "" {
		c.Finish = "content_filter"
	}
	if len(a.Candidates) > 0 {
		text = addParts(c, a.Candidates[0].Content.Parts)
		if reason := a.Candidates[0].Finish; reason != "" {
			c.Finish = finish(reason, len(c.ToolCalls) > 0)
		}
	}
	if text != "" {
		c.AppendText(provider.Quote(text))
	}
	c.Usage.Input = max(c.Usage.Input, a.Usage.Prompt)
	c.Usage.Output = max(c.Usage.Output, a.Usage.Candidates+a.Usage.Thoughts)
	return text
}

// addParts adds the calls of tools to a completion, and returns the text without
// what the model thought.
func addParts(c *provider.Completion, parts []part) (text string) {
	for _, p := range parts {
		if p.Call != nil {
			id := cmp.Or(p.Call.ID, fmt.Sprintf("call_%d", len(c.ToolCalls)))
			args := p.Call.Args
			if args == nil {
				args = json.RawMessage("{}")
			}
			c.ToolCalls = append(c.ToolCalls, provider.ToolCall{ID: id, Name: p.Call.Name, Arguments: args})
		}
		if !p.Thought {
			text += p.Text
		}
	}
	return text
}

func finish(reason string, calls bool) string {
	switch reason {
	case "MAX_TOKENS":
		return "length"
	case "SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII":
		return "content_filter"
	}
	if calls {
		return "tool_calls"
	}
	return "stop"
}
