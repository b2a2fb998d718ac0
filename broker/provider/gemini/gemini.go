// Package gemini is the provider for Google's Gemini API. It translates requests and answers;
// package upstream does HTTP.
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
	"github.com/wirectl/wirectl/internal/jsonscan"
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

// Complete implements [provider.Provider].
func (p *Provider) Complete(ctx context.Context, r *provider.Request, c *provider.Completion) error {
	body, err := p.body(r)
	if err != nil {
		return err
	}
	if r.Emit != nil {
		resp, err := p.Post(ctx, path(r, ":streamGenerateContent?alt=sse"), nil, body, r)
		if err != nil {
			return err
		}
		return stream(ctx, resp, r, c)
	}
	answer, err := p.Ask(ctx, path(r, ":generateContent"), nil, body, r)
	if err != nil {
		return err
	}
	var a answered
	if json.Unmarshal(answer, &a) != nil || len(a.Candidates) == 0 && a.Feedback.Block == "" {
		return upstream.Malformed("it has no candidates")
	}
	a.add(c)
	c.Seal()
	if r.In(provider.GeminiContents) {
		c.Own = answer
	}
	return nil
}

// CountTokens implements [provider.Counter].
func (p *Provider) CountTokens(ctx context.Context, r *provider.Request, c *provider.Completion) error {
	body, err := p.body(r)
	if err != nil {
		return err
	}
	if !r.In(provider.GeminiContents) {
		// To count tools and the system text, the request must be wrapped and name its model.
		name := jsonscan.AppendQuote([]byte(`{"generateContentRequest":{"model":`), []byte("models/"+r.Model))
		body = append(append(append(name, ','), body[1:]...), '}')
	}
	answer, err := p.Ask(ctx, path(r, ":countTokens"), nil, body, r)
	if err != nil {
		return err
	}
	if r.In(provider.GeminiContents) {
		c.Own = answer
	}
	return upstream.Count(answer, "totalTokens", c)
}

// Embed implements [provider.Embedder]. The backend does not count the tokens.
func (p *Provider) Embed(ctx context.Context, r *provider.Request, c *provider.Completion) error {
	e, err := provider.ReadEmbeddings(r.Chat)
	if err != nil {
		return err
	}
	type one struct {
		Model   string  `json:"model"`
		Content content `json:"content"`
		Size    int     `json:"outputDimensionality,omitempty"`
	}
	var list []one
	for _, text := range e.Texts {
		list = append(list, one{"models/" + r.Model, content{Parts: []part{{Text: text}}}, e.Dimensions})
	}
	answer, err := p.Ask(ctx, path(r, ":batchEmbedContents"), nil, jsonscan.MustMarshal(map[string]any{"requests": list}), r)
	if err != nil {
		return err
	}
	var embedded struct {
		List []struct {
			Values []float32 `json:"values"`
		} `json:"embeddings"`
	}
	if json.Unmarshal(answer, &embedded) != nil || len(embedded.List) != len(e.Texts) {
		return upstream.Malformed("it does not have an embedding for each text")
	}
	var vectors [][]float32
	for _, of := range embedded.List {
		vectors = append(vectors, of.Values)
	}
	c.Chat = e.Answer(r.Model, vectors, 0)
	return nil
}

// path returns the path of a method for the model.
func path(r *provider.Request, method string) string {
	return "/v1beta/models/" + url.PathEscape(r.Model) + method
}

// stream reads a streamed answer. It has no end mark: the last event has a finish reason.
func stream(ctx context.Context, resp *upstream.Response, r *provider.Request, c *provider.Completion) error {
	err := upstream.Events(ctx, resp, r, func(data []byte) (bool, error) {
		var a answered
		if json.Unmarshal(data, &a) != nil {
			return false, upstream.Malformed("an event is not JSON")
		}
		if fault, ok := jsonscan.Get(data, "error"); ok && jsonscan.KindOf(fault) != jsonscan.Null {
			return false, upstream.Failed(data)
		}
		part := a.add(c)
		if r.In(provider.GeminiContents) {
			part.Event = data
		}
		if part.Text == nil && part.Thought == nil && part.Event == nil {
			return false, nil
		}
		return false, r.Emit(part)
	})
	// The end of the stream after its last event is not an error.
	if e, ok := err.(*provider.Error); ok && e.Cause == provider.Unreachable && c.Finish != "" && ctx.Err() == nil { //nolint:errorlint // Events returns it bare
		err = nil
	}
	c.Seal()
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
		Cached     int64 `json:"cachedContentTokenCount"`
	} `json:"usageMetadata"`
}

// add adds an answer, or a part of a streamed one, and returns its text and thoughts.
func (a *answered) add(c *provider.Completion) (part provider.Part) {
	text, thought := "", ""
	if a.Feedback.Block != "" {
		c.Finish = "content_filter"
	}
	if len(a.Candidates) > 0 {
		text, thought = addParts(c, a.Candidates[0].Content.Parts)
		if reason := a.Candidates[0].Finish; reason != "" {
			c.Finish = finish(reason, len(c.ToolCalls) > 0)
		}
	}
	if text != "" {
		part.Text = provider.Quote(text)
		c.AppendText(part.Text)
	}
	if thought != "" {
		part.Thought = provider.Quote(thought)
		c.AppendThought(part.Thought)
	}
	c.Usage.Input = max(c.Usage.Input, a.Usage.Prompt)
	c.Usage.Output = max(c.Usage.Output, a.Usage.Candidates+a.Usage.Thoughts)
	c.Usage.Cached = max(c.Usage.Cached, a.Usage.Cached)
	c.Usage.Thinking = max(c.Usage.Thinking, a.Usage.Thoughts)
	return part
}

// addParts adds tool calls to a completion, and returns the text and the thoughts.
func addParts(c *provider.Completion, parts []part) (text, thought string) {
	for _, p := range parts {
		if p.Call != nil {
			id := cmp.Or(p.Call.ID, fmt.Sprintf("call_%d", len(c.ToolCalls)))
			args := p.Call.Args
			if args == nil {
				args = json.RawMessage("{}")
			}
			c.ToolCalls = append(c.ToolCalls, provider.ToolCall{ID: id, Name: p.Call.Name, Arguments: args})
		}
		if p.Thought {
			thought += p.Text
		} else {
			text += p.Text
		}
	}
	return text, thought
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
