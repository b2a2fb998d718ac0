package provider

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

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

// Gemini is the provider.
type Gemini struct {
	*client
	kind       Kind
	signatures signatures
}

// NewGemini returns the provider.
func NewGemini(cfg Config) *Gemini {
	h := http.Header{}
	maps.Copy(h, cfg.Header)
	if cfg.Key != "" {
		h.Set("X-Goog-Api-Key", cfg.Key)
	}
	kind := Kind{Name: "gemini", Has: []string{"frequency_penalty", "presence_penalty", "response_format"}, Drop: cfg.Drop}
	return &Gemini{client: newClient(cmp.Or(cfg.BaseURL, "https://generativelanguage.googleapis.com"), h, cfg.Connect), kind: kind}
}

// Complete implements [provider.Provider].
func (p *Gemini) Complete(ctx context.Context, r *Request, c *Completion) error {
	body, err := p.body(r)
	if err != nil {
		return err
	}
	method := ":generateContent"
	if r.Emit != nil {
		method = ":streamGenerateContent?alt=sse"
	}
	err = p.client.Complete(ctx, path(r, method), nil, body, llm.Contents, r, c)
	if !r.In(llm.Contents) {
		p.signatures.keep(c.ToolCalls)
	}
	return err
}

// CountTokens implements [provider.Counter].
func (p *Gemini) CountTokens(ctx context.Context, r *Request, c *Completion) error {
	body, err := p.body(r)
	if err != nil {
		return err
	}
	if !r.In(llm.Contents) {
		// To count tools and the system text, the request must be wrapped and name its model.
		name := jsonscan.AppendQuote([]byte(`{"generateContentRequest":{"model":`), []byte("models/"+r.Model))
		body = append(append(append(name, ','), body[1:]...), '}')
	}
	return p.Ask(ctx, path(r, ":countTokens"), nil, body, r, counted("totalTokens", llm.Contents, r, c))
}

// Embed implements [provider.Embedder]. The backend does not count the tokens.
func (p *Gemini) Embed(ctx context.Context, r *Request, c *Completion) error {
	e, err := llm.ReadEmbeddings(r.Body)
	if err != nil {
		return p.kind.Refusal(llm.Chat, err)
	}
	type part struct {
		Text string `json:"text"`
	}
	type content struct {
		Parts []part `json:"parts"`
	}
	type one struct {
		Model   string  `json:"model"`
		Content content `json:"content"`
		Size    int     `json:"outputDimensionality,omitempty"`
	}
	var list []one
	for _, text := range e.Texts {
		list = append(list, one{"models/" + r.Model, content{[]part{{text}}}, e.Dimensions})
	}
	return p.Ask(ctx, path(r, ":batchEmbedContents"), nil, jsonscan.MustMarshal(map[string]any{"requests": list}), r, func(answer []byte) error {
		var embedded struct {
			List []struct {
				Values []float32 `json:"values"`
			} `json:"embeddings"`
		}
		if json.Unmarshal(answer, &embedded) != nil || len(embedded.List) != len(e.Texts) {
			return malformed("it does not have an embedding for each text")
		}
		var vectors [][]float32
		for _, of := range embedded.List {
			vectors = append(vectors, of.Values)
		}
		c.Body = e.Answer(r.Model, vectors, 0)
		return nil
	})
}

// path returns the path of a method for the model.
func path(r *Request, method string) string {
	return "/v1beta/models/" + url.PathEscape(r.Model) + method
}

// body returns the body of a request: the client's own if it uses the same API.
func (p *Gemini) body(r *Request) ([]byte, error) {
	if r.In(llm.Contents) {
		return r.Body, nil
	}
	chat, err := r.Read(p.kind)
	if err != nil {
		return nil, err
	}
	unsigned := ""
	if wantsSignatures(r.Model) {
		// It turns the check off, for calls whose signatures are not known.
		unsigned = "skip_thought_signature_validator"
	}
	body, err := chat.EncodeContents(p.signatures.find, unsigned)
	if err != nil {
		return nil, p.kind.Refusal(r.API, err)
	}
	return body, nil
}

// wantsSignatures reports whether a model requires the signatures of earlier calls. Models of the
// third generation and later do.
func wantsSignatures(model string) bool {
	generation, ok := strings.CutPrefix(model, "gemini-")
	return ok && !strings.HasPrefix(generation, "1.") && !strings.HasPrefix(generation, "2.")
}

// signatures are those of calls, by their ids: clients of other APIs cannot keep them. The oldest
// are dropped.
type signatures struct {
	mu    sync.Mutex
	byID  map[string]string
	order []string // the oldest first
	bytes int
}

const (
	maxSignatures     = 10_000
	maxSignatureBytes = 16 << 20
)

func (k *signatures) keep(calls []ToolCall) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, c := range calls {
		if c.Signature == "" || len(c.Signature)+len(c.ID) > maxSignatureBytes/16 || k.byID[c.ID] == c.Signature {
			continue
		}
		if k.byID == nil {
			k.byID = map[string]string{}
		}
		if old, known := k.byID[c.ID]; known {
			k.bytes -= len(old) + len(c.ID)
		} else {
			k.order = append(k.order, c.ID)
		}
		k.byID[c.ID] = c.Signature
		for k.bytes += len(c.Signature) + len(c.ID); k.bytes > maxSignatureBytes || len(k.order) > maxSignatures; k.order = k.order[1:] {
			k.bytes -= len(k.byID[k.order[0]]) + len(k.order[0])
			delete(k.byID, k.order[0])
		}
	}
}

func (k *signatures) find(id string) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.byID[id]
}

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
