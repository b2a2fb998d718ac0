// Package anthropic is the provider for Anthropic's messages API. It translates requests and
// answers; package upstream does HTTP.
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
)

// Provider is the provider.
type Provider struct {
	*upstream.Client
	kind      provider.Kind
	maxTokens int
	beta      []string // beta features of every request
}

// New returns the provider.
func New(cfg provider.Config) *Provider {
	h := http.Header{"Anthropic-Version": {"2023-06-01"}}
	maps.Copy(h, cfg.Header)
	if cfg.Key != "" {
		h.Set("X-Api-Key", cfg.Key)
	}
	k := kind
	k.Drop = cfg.Drop
	return &Provider{upstream.New(cmp.Or(cfg.BaseURL, "https://api.anthropic.com"), h, cfg.Connect), k, cmp.Or(cfg.MaxTokens, 4096), h[betaHeader]}
}

// Complete implements [provider.Provider].
func (p *Provider) Complete(ctx context.Context, r *provider.Request, c *provider.Completion) error {
	body, err := p.body(r)
	if err != nil {
		return err
	}
	const path = "/v1/messages"
	if r.Emit != nil {
		resp, err := p.Post(ctx, path, p.own(r), body, r)
		if err != nil {
			return err
		}
		return stream(ctx, resp, r, c)
	}
	answer, err := p.Ask(ctx, path, p.own(r), body, r)
	if err != nil {
		return err
	}
	var m message
	if json.Unmarshal(answer, &m) != nil || m.Type != "message" {
		return upstream.Malformed("it is not a message")
	}
	m.complete(c)
	if r.In(provider.AnthropicMessages) {
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
	if !r.In(provider.AnthropicMessages) {
		body = counted(body)
	}
	answer, err := p.Ask(ctx, "/v1/messages/count_tokens", p.own(r), body, r)
	if err != nil {
		return err
	}
	if r.In(provider.AnthropicMessages) {
		c.Own = answer
	}
	return upstream.Count(answer, "input_tokens", c)
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

const betaHeader = "Anthropic-Beta"

// own returns the client's headers if the request is sent unchanged. The beta features of client
// and configuration are combined.
func (p *Provider) own(r *provider.Request) http.Header {
	if !r.In(provider.AnthropicMessages) {
		return nil
	}
	own := r.OwnHeader
	if len(p.beta) > 0 && own[betaHeader] != nil {
		own = maps.Clone(own)
		own[betaHeader] = slices.Concat(p.beta, own[betaHeader])
	}
	return own
}

// body returns the body of the request: the client's own if it uses the same API.
func (p *Provider) body(r *provider.Request) ([]byte, error) {
	if r.In(provider.AnthropicMessages) {
		return provider.WithModel(r.Own, r.Model), nil
	}
	chat, err := r.Read(p.kind)
	if err != nil {
		return nil, err
	}
	messages, err := turns(chat)
	if err != nil {
		return nil, err
	}
	body := map[string]any{"model": r.Model, "max_tokens": cmp.Or(chat.MaxTokens, p.maxTokens), "messages": messages}
	for name, value := range chat.Rest {
		body[name] = value
	}
	set := func(name string, value any, given bool) {
		if given {
			body[name] = value
		}
	}
	set("system", chat.System, chat.System != "")
	set("temperature", chat.Temperature, chat.Temperature != nil)
	set("top_p", chat.TopP, chat.TopP != nil)
	set("stop_sequences", chat.Stop, len(chat.Stop) > 0)
	set("tools", tools(chat.Tools), len(chat.Tools) > 0)
	set("tool_choice", toolChoice(chat), len(chat.Tools) > 0 && (chat.ToolChoice != "" || chat.OneCall))
	set("output_config", outputConfig(chat), chat.Schema != nil)
	set("stream", true, r.Emit != nil)
	b, err := jsonscan.Marshal(body)
	if err != nil {
		return nil, &provider.Error{Cause: provider.Internal, Err: err}
	}
	return b, nil
}

// kind lists the optional members that the API supports.
var kind = provider.Kind{Name: "anthropic", Has: []string{"parallel_tool_calls"}}

// outputConfig requires an answer that matches the schema, in addition to the client's own
// output_config.
func outputConfig(chat *provider.Chat) map[string]any {
	config := map[string]any{}
	if own := chat.Rest["output_config"]; jsonscan.KindOf(own) == jsonscan.Object {
		_ = json.Unmarshal(own, &config) // it is JSON
	}
	config["format"] = map[string]any{"type": "json_schema", "schema": chat.Schema}
	return config
}

type block struct {
	Type      string          `json:"type"`
	Text      string          `json:"text,omitempty"`
	Thinking  string          `json:"thinking,omitempty"`
	ID        string          `json:"id,omitempty"`
	Name      string          `json:"name,omitempty"`
	Input     json.RawMessage `json:"input,omitempty"`
	ToolUseID string          `json:"tool_use_id,omitempty"`
	Content   any             `json:"content,omitempty"` // text or blocks, of tool results
	Source    *source         `json:"source,omitempty"`
}

type source struct {
	Type      string `json:"type"`
	URL       string `json:"url,omitempty"`
	MediaType string `json:"media_type,omitempty"`
	Data      string `json:"data,omitempty"`
}

type turn struct {
	Role    string  `json:"role"`
	Content []block `json:"content"`
}

// turns writes the messages. The answers of tools are the user's; those of one round are one
// turn.
func turns(chat *provider.Chat) ([]turn, error) {
	list := []turn{}
	for _, t := range chat.Turns {
		role := t.Role
		blocks, err := contents(t)
		if err != nil {
			return nil, err
		}
		if role == "tool" {
			role = "user"
		}
		if n := len(list); n > 0 && list[n-1].Role == role {
			list[n-1].Content = append(list[n-1].Content, blocks...)
		} else if len(blocks) > 0 {
			list = append(list, turn{role, blocks})
		}
	}
	return list, nil
}

func contents(t provider.Turn) ([]block, error) {
	var list []block
	said, plain := "", true // nothing but text
	for _, p := range t.Parts {
		b, err := content(p)
		if err != nil {
			return nil, err
		}
		list, said, plain = append(list, b), said+p.Text, plain && p.At == ""
	}
	switch {
	case t.Role != "tool":
	case plain:
		return []block{{Type: "tool_result", ToolUseID: t.Answers, Content: said}}, nil
	default:
		return []block{{Type: "tool_result", ToolUseID: t.Answers, Content: list}}, nil
	}
	for _, call := range t.Calls {
		list = append(list, block{Type: "tool_use", ID: call.ID, Name: call.Name, Input: call.Input()})
	}
	return list, nil
}

func content(p provider.TurnPart) (block, error) {
	mediaType, data, isData := p.Data()
	switch {
	case p.ImageURL != "" && isData:
		return block{Type: "image", Source: &source{Type: "base64", MediaType: mediaType, Data: data}}, nil
	case p.ImageURL != "":
		return block{Type: "image", Source: &source{Type: "url", URL: p.ImageURL}}, nil
	case p.File == "":
		return block{Type: "text", Text: p.Text}, nil
	case mediaType == "application/pdf":
		return block{Type: "document", Source: &source{Type: "base64", MediaType: mediaType, Data: data}}, nil
	}
	return block{}, kind.Refusal(p.At, "Use text, images or PDF")
}

func tools(list []provider.Tool) []map[string]any {
	var made []map[string]any
	for _, t := range list {
		schema := t.Parameters
		if schema == nil {
			schema = json.RawMessage(`{"type":"object"}`)
		}
		tool := map[string]any{"name": t.Name, "description": t.Description, "input_schema": schema}
		if t.Strict {
			tool["strict"] = true
		}
		made = append(made, tool)
	}
	return made
}

func toolChoice(chat *provider.Chat) map[string]any {
	choice := map[string]any{"type": cmp.Or(chat.ToolChoice, "auto")}
	switch {
	case chat.Tool != "":
		choice = map[string]any{"type": "tool", "name": chat.Tool}
	case chat.ToolChoice == "required":
		choice["type"] = "any"
	}
	if chat.OneCall && chat.ToolChoice != "none" {
		choice["disable_parallel_tool_use"] = true
	}
	return choice
}

type usage struct {
	Input         int64 `json:"input_tokens"`
	CacheCreation int64 `json:"cache_creation_input_tokens"`
	CacheRead     int64 `json:"cache_read_input_tokens"`
	Output        int64 `json:"output_tokens"`
}

func (u usage) count(c *provider.Completion) {
	c.Usage.Input = max(c.Usage.Input, u.Input+u.CacheCreation+u.CacheRead)
	c.Usage.Output = max(c.Usage.Output, u.Output)
	c.Usage.Cached = max(c.Usage.Cached, u.CacheRead)
}

type message struct {
	Type    string  `json:"type"`
	Content []block `json:"content"`
	Stop    string  `json:"stop_reason"`
	Usage   usage   `json:"usage"`
}

func (m *message) complete(c *provider.Completion) {
	for _, b := range m.Content {
		switch b.Type {
		case "text":
			c.AppendText(provider.Quote(b.Text))
		case "thinking":
			c.AppendThought(provider.Quote(b.Thinking))
		case "tool_use":
			c.ToolCalls = append(c.ToolCalls, provider.ToolCall{ID: b.ID, Name: b.Name, Arguments: provider.Arguments(string(b.Input))})
		}
	}
	c.Finish = finish(m.Stop)
	m.Usage.count(c)
	c.Seal()
}

func finish(stop string) string {
	switch stop {
	case "end_turn", "stop_sequence", "pause_turn":
		return "stop"
	case "max_tokens", "model_context_window_exceeded":
		return "length"
	case "tool_use":
		return "tool_calls"
	case "refusal":
		return "content_filter"
	}
	return stop
}
