package provider

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/llm"
)

// OpenAI is the provider.
type OpenAI struct {
	*client
	version string
	itself  bool // the backend is OpenAI
	kind    Kind

	mu       sync.Mutex
	refusals map[string]bool // the models whose backends do not count the tokens of streams
}

// NewOpenAI returns the provider. The base URL precedes /chat/completions; with an API version it is
// that of an Azure resource.
func NewOpenAI(cfg Config) *OpenAI {
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
	return &OpenAI{
		client: newClient(base, h, cfg.Connect), version: cfg.APIVersion, itself: strings.HasPrefix(base, "https://api.openai.com/"),
		kind: Kind{Name: "openai", Drop: cfg.Drop}, refusals: map[string]bool{},
	}
}

// Complete implements [provider.Provider]. Backends count the tokens of a stream only on request.
// The broker requests it for its accounts, and hides it from clients that did not.
func (p *OpenAI) Complete(ctx context.Context, r *Request, c *Completion) error {
	body, err := p.body(r)
	if err != nil {
		return err
	}
	path := p.path(r.Model, "/chat/completions")
	if r.Emit == nil {
		return p.client.Complete(ctx, path, nil, body, llm.Chat, r, c)
	}
	options, _ := jsonscan.Get(body, "stream_options", "include_usage")
	asked, counted := string(options) == "true", body
	if !asked && !p.refuses(r.Model) {
		counted = llm.WithUsage(body)
	}
	resp, err := p.Post(ctx, path, nil, counted, r)
	if !asked && isRefusal(err) && string(counted) != string(body) {
		counted = body
		if resp, err = p.Post(ctx, path, nil, body, r); err == nil {
			p.addRefusal(r.Model)
		}
	}
	if err != nil {
		return err
	}
	return stream(ctx, resp, llm.Chat, r, c, !asked && string(counted) != string(body))
}

// Embed implements [provider.Embedder]. It sends the client's own request.
func (p *OpenAI) Embed(ctx context.Context, r *Request, c *Completion) error {
	return p.Ask(ctx, p.path(r.Model, "/embeddings"), nil, llm.WithModel(r.Body, r.Model), r, func(answer []byte) error {
		if list, _ := jsonscan.Get(answer, "data"); jsonscan.KindOf(list) != jsonscan.Array || !json.Valid(answer) {
			return malformed("it is not a list of embeddings")
		}
		usage, _ := jsonscan.Get(answer, "usage")
		c.Usage, c.Body = llm.ReadUsage(llm.Chat, usage), answer
		return nil
	})
}

// path returns the path of a method for a model.
func (p *OpenAI) path(model, what string) string {
	if p.version == "" {
		return what
	}
	return "/openai/deployments/" + url.PathEscape(model) + what + "?api-version=" + url.QueryEscape(p.version)
}

// body returns the body of the request: the client's own if it uses OpenAI's API.
func (p *OpenAI) body(r *Request) ([]byte, error) {
	switch {
	case r.Body == nil:
		b := jsonscan.AppendQuote([]byte(`{"model":`), []byte(r.Model))
		b = append(append(b, `,"messages":`...), r.Messages()...)
		if r.Emit != nil {
			b = append(b, `,"stream":true`...)
		}
		return append(b, '}'), nil
	case r.API == llm.Chat:
		return llm.WithModel(r.Body, r.Model), nil
	}
	chat, err := r.Read(p.kind)
	if err != nil {
		return nil, err
	}
	// OpenAI's newer models require the newer name of the limit; other backends may know only the
	// older one.
	if limit, ok := chat.Options["max_tokens"]; ok && p.itself {
		delete(chat.Options, "max_tokens")
		chat.Options["max_completion_tokens"] = limit
	}
	body, err := chat.EncodeChat(r.Model)
	if err != nil {
		return nil, p.kind.Refusal(r.API, err)
	}
	return body, nil
}

// isRefusal reports whether an error may be the answer of a backend that does not know the option:
// it names the option, or nothing.
func isRefusal(err error) bool {
	var e *Error
	if !errors.As(err, &e) || e.Status != http.StatusBadRequest && e.Status != http.StatusUnprocessableEntity {
		return false
	}
	return e.Param == "" || strings.HasPrefix(e.Param, "stream_options")
}

// maxRefusals bounds how many models are remembered.
const maxRefusals = 1000

func (p *OpenAI) refuses(model string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.refusals[model]
}

func (p *OpenAI) addRefusal(model string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.refusals) < maxRefusals {
		p.refusals[model] = true
	}
}
