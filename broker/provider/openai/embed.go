package openai

import (
	"context"

	"github.com/wirectl/wirectl/broker/provider"
	"github.com/wirectl/wirectl/broker/provider/upstream"
	"github.com/wirectl/wirectl/internal/jsonscan"
)

// Embed implements [provider.Embedder]. It sends the client's own request.
func (p *Provider) Embed(ctx context.Context, r *provider.Request, c *provider.Completion) error {
	answer, err := p.Ask(ctx, p.path(r.Model, "/embeddings"), nil, provider.WithModel(r.Chat, r.Model), r)
	if err != nil {
		return err
	}
	var a completion
	if list, _ := jsonscan.Get(answer, "data"); a.decode(answer, "message") != nil || jsonscan.KindOf(list) != jsonscan.Array {
		return upstream.Malformed("it is not a list of embeddings")
	}
	a.count(c)
	c.Chat = answer
	return nil
}
