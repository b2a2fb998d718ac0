package provider

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"slices"

	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/llm"
)

// Anthropic is the provider.
type Anthropic struct {
	*client
	kind      Kind
	maxTokens int
	beta      []string // beta features of every request
}

const betaHeader = "Anthropic-Beta"

// NewAnthropic returns the provider.
func NewAnthropic(cfg Config) *Anthropic {
	h := http.Header{"Anthropic-Version": {"2023-06-01"}}
	maps.Copy(h, cfg.Header)
	if cfg.Key != "" {
		h.Set("X-Api-Key", cfg.Key)
	}
	kind := Kind{Name: "anthropic", Has: []string{"parallel_tool_calls"}, Drop: cfg.Drop}
	return &Anthropic{newClient(cmp.Or(cfg.BaseURL, "https://api.anthropic.com"), h, cfg.Connect), kind, cmp.Or(cfg.MaxTokens, 4096), h[betaHeader]}
}

// Complete implements [provider.Provider].
func (p *Anthropic) Complete(ctx context.Context, r *Request, c *Completion) error {
	body, err := p.body(r)
	if err != nil {
		return err
	}
	return p.client.Complete(ctx, "/v1/messages", p.own(r), body, llm.Messages, r, c)
}

// CountTokens implements [provider.Counter].
func (p *Anthropic) CountTokens(ctx context.Context, r *Request, c *Completion) error {
	body, err := p.body(r)
	if err != nil {
		return err
	}
	if !r.In(llm.Messages) {
		body = countable(body)
	}
	return p.Ask(ctx, "/v1/messages/count_tokens", p.own(r), body, r, counted("input_tokens", llm.Messages, r, c))
}

// countable returns the members of a request that count_tokens accepts.
func countable(body []byte) []byte {
	var all map[string]json.RawMessage
	_ = json.Unmarshal(body, &all) // it is our own JSON
	of := map[string]json.RawMessage{}
	for _, name := range [...]string{"model", "messages", "system", "tools", "tool_choice", "thinking"} {
		if all[name] != nil {
			of[name] = all[name]
		}
	}
	return jsonscan.MustMarshal(of)
}

// own returns the client's headers if the request is sent unchanged. The beta features of client
// and configuration are combined.
func (p *Anthropic) own(r *Request) http.Header {
	if !r.In(llm.Messages) {
		return nil
	}
	own := r.Header
	if len(p.beta) > 0 && own[betaHeader] != nil {
		own = maps.Clone(own)
		own[betaHeader] = slices.Concat(p.beta, own[betaHeader])
	}
	return own
}

// body returns the body of the request: the client's own if it uses the same API.
func (p *Anthropic) body(r *Request) ([]byte, error) {
	if r.In(llm.Messages) {
		return llm.WithModel(r.Body, r.Model), nil
	}
	chat, err := r.Read(p.kind)
	if err != nil {
		return nil, err
	}
	body, err := chat.EncodeMessages(r.Model, p.maxTokens)
	if err != nil {
		return nil, p.kind.Refusal(r.API, err)
	}
	return body, nil
}
