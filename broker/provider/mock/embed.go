package mock

import (
	"context"
	"crypto/sha256"
	"fmt"
	"math"

	"github.com/wirectl/wirectl/broker/provider"
	"github.com/wirectl/wirectl/internal/wait"
)

// dimensions is how many a vector has unless the request says so.
const dimensions = 16

// maxDimensions bounds what a request may say.
const maxDimensions = 4096

// Embed makes vectors of length 1 that depend on the texts alone, as
// [provider.Embedder] has it.
func (m *Mock) Embed(ctx context.Context, r *provider.Request, c *provider.Completion) error {
	if err := wait.For(ctx, m.cfg.Latency); err != nil {
		return err
	}
	e, err := provider.ReadEmbeddings(r.Chat)
	if err != nil {
		return err
	}
	size := dimensions
	if e.Dimensions > 0 {
		size = e.Dimensions
	}
	if size > maxDimensions {
		return provider.Unanswerable("dimensions", "invalid_value", fmt.Sprintf("Invalid 'dimensions': expected at most %d.", maxDimensions))
	}
	var vectors [][]float32
	for _, text := range e.Texts {
		vectors = append(vectors, vector(text, size))
		c.Usage.Input += int64(len(text)+3) / 4
	}
	c.Chat = e.Answer(r.Model, vectors, c.Usage.Input)
	return nil
}

func vector(text string, size int) []float32 {
	made, square := make([]float32, size), 0.0
	for i := range made {
		sum := sha256.Sum256(fmt.Appendf(nil, "%d %s", i, text))
		made[i] = float32(sum[0]) - 127.5
		square += float64(made[i]) * float64(made[i])
	}
	for i := range made {
		made[i] /= float32(math.Sqrt(square))
	}
	return made
}
