package mock

import (
	"context"
	"crypto/sha256"
	"fmt"
	"math"

	"github.com/wirectl/wirectl/broker/provider"
	"github.com/wirectl/wirectl/internal/wait"
	"github.com/wirectl/wirectl/llm"
)

// dimensions is the default size of a vector.
const dimensions = 16

// maxDimensions is the largest size of a vector.
const maxDimensions = 4096

// Embed implements [provider.Embedder]. The vectors have length 1 and depend only on the texts.
func (m *Mock) Embed(ctx context.Context, r *provider.Request, c *provider.Completion) error {
	if err := wait.For(ctx, m.cfg.Latency); err != nil {
		return err
	}
	e, err := llm.ReadEmbeddings(r.Body)
	if err != nil {
		return provider.Kind{Name: "mock"}.Refusal(llm.Chat, err)
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
	c.Body = e.Answer(r.Model, vectors, c.Usage.Input)
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
