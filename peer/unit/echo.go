package unit

import (
	"context"
	"strings"
	"time"

	"github.com/wirectl/wirectl/internal/wait"
)

// Echo answers each prompt with "Echo: " and its text. The answer is one part, or if Delay is
// positive a part for each word, with that delay between them.
type Echo struct {
	Delay time.Duration
}

// Answer answers p; see [Agent].
func (e Echo) Answer(ctx context.Context, p *Prompt, emit func(string) error) (map[string]string, error) {
	text := "Echo: " + p.Content
	if e.Delay <= 0 {
		return nil, emit(text)
	}
	for word := range strings.SplitAfterSeq(text, " ") {
		if err := emit(word); err != nil {
			return nil, err
		}
		if err := wait.For(ctx, e.Delay); err != nil {
			return nil, err
		}
	}
	return nil, nil
}
