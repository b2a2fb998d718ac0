package unit

import "context"

// AgentFunc is a function that is an Agent.
type AgentFunc func(ctx context.Context, p *Prompt, emit func(text string) error) (map[string]string, error)

// Answer calls f.
func (f AgentFunc) Answer(ctx context.Context, p *Prompt, emit func(text string) error) (map[string]string, error) {
	return f(ctx, p, emit)
}
