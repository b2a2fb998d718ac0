// Package openai is the provider for backends with OpenAI's chat completions: OpenAI, Azure,
// LiteLLM, Portkey, Ollama, vLLM, llama.cpp. Requests of OpenAI's clients and the answers pass
// unchanged, except for the model's name, and for usage in streams (usage.go).
package openai

import (
	"cmp"
	"context"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/wirectl/wirectl/broker/provider"
	"github.com/wirectl/wirectl/broker/provider/upstream"
	"github.com/wirectl/wirectl/internal/jsonscan"
)

// Provider is the provider.
type Provider struct {
	*upstream.Client
	version  string
	itself   bool // the backend is OpenAI
	drop     []string
	refusals refusals
}

// New returns the provider. The base URL precedes /chat/completions; with an API version it is
// that of an Azure resource.
func New(cfg provider.Config) *Provider {
	h := http.Header{}
	maps.Copy(h, cfg.Header)
	switch {
	case cfg.Key == "":
	case cfg.APIVersion != "":
		h.Set("Api-Key", cfg.Key)
	default:
		h.Set("Authorization", "Bearer "+cfg.Key)
	}
	base := cmp.Or(cfg.BaseURL, "https://api.openai.com/v1")
	return &Provider{Client: upstream.New(base, h, cfg.Connect), version: cfg.APIVersion, drop: cfg.Drop, itself: strings.HasPrefix(base, "https://api.openai.com/")}
}

// Complete implements [provider.Provider].
func (p *Provider) Complete(ctx context.Context, r *provider.Request, c *provider.Completion) error {
	if err := r.Untranslated(p.drop); err != nil {
		return err
	}
	if r.Emit != nil {
		return p.stream(ctx, r, c)
	}
	answer, err := p.Ask(ctx, p.path(r.Model, completions), nil, p.body(r), r)
	if err != nil {
		return err
	}
	var a completion
	if a.decode(answer, "message") != nil || a.first == nil {
		return upstream.Malformed("it is not a chat completion")
	}
	var calls calls
	calls.addPieces(a.first.pieces)
	c.Text, c.Finish, c.ToolCalls = a.first.text(), a.first.finish, calls.list()
	c.Thoughts = a.first.thought()
	a.count(c)
	c.Seal()
	c.Chat = answer
	return nil
}

const completions = "/chat/completions"

// path returns the path of a method for a model.
func (p *Provider) path(model, what string) string {
	if p.version == "" {
		return what
	}
	return "/openai/deployments/" + url.PathEscape(model) + what + "?api-version=" + url.QueryEscape(p.version)
}

// body returns the body of the request: the client's own if it uses OpenAI's API.
func (p *Provider) body(r *provider.Request) []byte {
	switch {
	case r.Own != nil && p.itself:
		return withNewLimit(provider.WithModel(r.Chat, r.Model))
	case r.Chat != nil:
		return provider.WithModel(r.Chat, r.Model)
	}
	b := jsonscan.AppendQuote([]byte(`{"model":`), []byte(r.Model))
	b = append(append(b, `,"messages":`...), r.Messages()...)
	if r.Emit != nil {
		b = append(b, `,"stream":true`...)
	}
	return append(b, '}')
}

// withNewLimit returns a translated request, which is compact, with the newer name of the limit.
// OpenAI's newer models require it; other backends may know only the older one.
func withNewLimit(body []byte) []byte {
	const older, newer = `"max_tokens":`, `"max_completion_tokens":`
	var s jsonscan.Scanner
	s.Init(body)
	for ok := s.Object(); ok && s.Next(); {
		if string(s.Key()) == "max_tokens" {
			at := s.Offset()
			return slices.Concat(body[:at-len(older)], []byte(newer), body[at:])
		}
	}
	return body
}
