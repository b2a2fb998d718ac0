// Package anthropic is the provider for backends with Anthropic's messages API.
package anthropic

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"slices"

	"github.com/wirectl/wirectl/broker/provider"
	"github.com/wirectl/wirectl/broker/provider/upstream"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/llm"
)

// Provider is the provider.
type Provider struct {
	*upstream.Client
	kind      provider.Kind
	maxTokens int
	beta      []string // beta features of every request
}

const betaHeader = "Anthropic-Beta"

// New returns the provider.
func New(cfg provider.Config) *Provider {
	h := http.Header{"Anthropic-Version": {"2023-06-01"}}
	maps.Copy(h, cfg.Header)
	if cfg.Key != "" {
		h.Set("X-Api-Key", cfg.Key)
	}
	kind := provider.Kind{Name: "anthropic", Has: []string{"parallel_tool_calls"}, Drop: cfg.Drop}
	return &Provider{upstream.New(cmp.Or(cfg.BaseURL, "https://api.anthropic.com"), h, cfg.Connect), kind, cmp.Or(cfg.MaxTokens, 4096), h[betaHeader]}
}

// Complete implements [provider.Provider].
func (p *Provider) Complete(ctx context.Context, r *provider.Request, c *provider.Completion) error {
	body, err := p.body(r)
	if err != nil {
		return err
	}
	return p.Client.Complete(ctx, "/v1/messages", p.own(r), body, llm.Messages, r, c)
}

// CountTokens implements [provider.Counter].
func (p *Provider) CountTokens(ctx context.Context, r *provider.Request, c *provider.Completion) error {
	body, err := p.body(r)
	if err != nil {
		return err
	}
	if !r.In(llm.Messages) {
		body = counted(body)
	}
	return p.Ask(ctx, "/v1/messages/count_tokens", p.own(r), body, r, upstream.Counted("input_tokens", llm.Messages, r, c))
}

// counted returns the members of a request that count_tokens accepts.
func counted(body []byte) []byte {
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
func (p *Provider) own(r *provider.Request) http.Header {
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
func (p *Provider) body(r *provider.Request) ([]byte, error) {
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
