package provider

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/llm"
)

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
