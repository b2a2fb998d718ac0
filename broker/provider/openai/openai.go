// Package openai is the provider for everything that speaks OpenAI's chat
// completions: OpenAI, Azure, LiteLLM, Portkey, Ollama, vLLM, llama.cpp. What a
// client of the OpenAI door sends passes unchanged but for the model's name and
// what usage.go says of streams, and so does what the backend answers.
package openai

import (
	"cmp"
	"context"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/wirectl/wirectl/broker/provider"
	"github.com/wirectl/wirectl/broker/provider/upstream"
	"github.com/wirectl/wirectl/protocol/jsonscan"
)

// Config is where the backend is and how it knows us.
type Config struct {
	// BaseURL is what stands before /chat/completions; "" is OpenAI's. With
	// APIVersion it is that of an Azure resource.
	BaseURL, APIVersion string
	Key                 string
	Header              http.Header
	Connect             time.Duration
}

// Provider is the provider.
type Provider struct {
	client   *upstream.Client
	version  string
	itself   bool // it is OpenAI
	refusals refusals
}

// New returns the provider.
func New(cfg Config) *Provider {
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
	return &Provider{client: upstream.New(base, h, cfg.Connect), version: cfg.APIVersion, itself: strings.HasPrefix(base, "https://api.openai.com/")}
}

// Complete asks the backend, as [provider.Provider] has it.
func (p *Provider) Complete(ctx context.Context, r *provider.Request, c *provider.Completion) error {
	if r.ChatErr != nil {
		return r.ChatErr
	}
	if r.Emit != nil {
		return p.stream(ctx, r, c)
	}
	resp, err := p.client.Post(ctx, p.path(r.Model), p.body(r), r)
	if err != nil {
		return err
	}
	answer, err := upstream.Body(ctx, resp, r, c)
	if err != nil {
		return err
	}
	return read(answer, c)
}

func (p *Provider) path(model string) string {
	if p.version == "" {
		return "/chat/completions"
	}
	return "/openai/deployments/" + url.PathEscape(model) + "/chat/completions?api-version=" + url.QueryEscape(p.version)
}

// body returns what is sent: the client's own words if it speaks OpenAI.
func (p *Provider) body(r *provider.Request) []byte {
	switch {
	case r.Message != nil && p.itself:
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

// withNewLimit returns a request that was translated, and so is compact, with the
// limit under its newer name. OpenAI's newer models insist on that; others who speak
// OpenAI may know the older one alone.
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

// read reads a chat completion.
func read(answer []byte, c *provider.Completion) error {
	var s jsonscan.Scanner
	s.Init(answer)
	chosen := false
	for ok := s.Object(); ok && s.Next(); {
		switch string(s.Key()) {
		case "choices":
			for array := s.Array(); array && s.Elem(); {
				if !chosen {
					readChoice(&s, c)
					chosen = true
				}
			}
		case "usage":
			readUsage(&s, c)
		}
	}
	if s.End() != nil || !chosen {
		return upstream.Malformed("it is no chat completion")
	}
	c.Seal()
	c.Chat = answer
	return nil
}

func readChoice(s *jsonscan.Scanner, c *provider.Completion) {
	for ok := s.Object(); ok && s.Next(); {
		switch string(s.Key()) {
		case "finish_reason":
			c.Finish = provider.Reason(s.Value())
		case "message":
			readMessage(s, c)
		}
	}
}

func readMessage(s *jsonscan.Scanner, c *provider.Completion) {
	for ok := s.Object(); ok && s.Next(); {
		switch string(s.Key()) {
		case "content":
			if s.Peek() == jsonscan.String {
				c.Text = s.Value()
			}
		case "refusal":
			if token := s.Value(); isRefused(token) {
				c.Text = token
			}
		case "tool_calls":
			readToolCalls(s.Value(), c)
		}
	}
}

// isRefused reports whether a token says why a model will not answer: that is what it
// says then, rather than its content.
func isRefused(token []byte) bool {
	return jsonscan.KindOf(token) == jsonscan.String && len(token) > len(`""`)
}

func readUsage(s *jsonscan.Scanner, c *provider.Completion) {
	for ok := s.Object(); ok && s.Next(); {
		switch string(s.Key()) {
		case "prompt_tokens":
			c.Usage.Input = cmp.Or(count(s.Value()), c.Usage.Input)
		case "completion_tokens":
			c.Usage.Output = cmp.Or(count(s.Value()), c.Usage.Output)
		}
	}
}

// CloseIdleConnections closes the connections that no call uses.
func (p *Provider) CloseIdleConnections() { p.client.CloseIdleConnections() }
