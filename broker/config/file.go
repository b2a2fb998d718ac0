// Package config reads what a broker is to do from one YAML file. It is strict:
// a key that nothing reads, a value of another type, a name that leads nowhere are
// refused with their line and with what was expected there.
//
// The file holds no keys. It names the environment variable or the file that a
// key is in.
package config

import (
	"fmt"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// A File is the file, as it is written.
type File struct {
	Default   string              `yaml:"default"`
	Listen    map[string]string   `yaml:"listen"`
	Providers map[string]Provider `yaml:"providers"`
	Models    map[string]Model    `yaml:"models"`
	Aliases   map[string]string   `yaml:"aliases"`
	Limits    Limits              `yaml:"limits"`
	Token     Secret              `yaml:"token"`
}

// A Provider is a backend.
type Provider struct {
	Kind        string            `yaml:"kind"`
	BaseURL     string            `yaml:"base_url"`
	APIVersion  string            `yaml:"api_version"`
	Key         Secret            `yaml:"key"`
	Headers     map[string]Header `yaml:"headers"`
	Concurrency int               `yaml:"concurrency"`
	Rate        float64           `yaml:"rate"`
	Burst       int               `yaml:"burst"`
	Retries     *int              `yaml:"retries"`
	Backoff     Duration          `yaml:"backoff"`
	MaxWait     Duration          `yaml:"max_wait"`
	Breaker     Breaker           `yaml:"breaker"`
	Timeouts    Timeouts          `yaml:"timeouts"`
	MaxTokens   int               `yaml:"max_tokens"`
	Drop        []string          `yaml:"drop"`
	Mock        Mock              `yaml:"mock"`
}

// A Breaker leaves a provider alone that failed too often.
type Breaker struct {
	Failures int      `yaml:"failures"`
	Delay    Duration `yaml:"delay"`
}

// Timeouts are how long a provider may take.
type Timeouts struct {
	Connect   Duration `yaml:"connect"`
	FirstPart Duration `yaml:"first_token"`
	Total     Duration `yaml:"total"`
}

// A Mock is how the provider of that kind behaves.
type Mock struct {
	Prefix  *string  `yaml:"prefix"`
	Latency Duration `yaml:"latency"`
	Pause   Duration `yaml:"pause"`
	Script  []Line   `yaml:"script"`
	Faults  []Fault  `yaml:"faults"`
}

// A Line answers the prompts that contain When.
type Line struct {
	When       string     `yaml:"when"`
	Say        string     `yaml:"say"`
	Finish     string     `yaml:"finish"`
	ToolCalls  []ToolCall `yaml:"tool_calls"`
	Status     int        `yaml:"status"`
	RetryAfter Duration   `yaml:"retry_after"`
}

// A ToolCall is a call that a mock wants made.
type ToolCall struct {
	ID        string         `yaml:"id"`
	Name      string         `yaml:"name"`
	Arguments map[string]any `yaml:"arguments"`
}

// A Fault makes every Every-th call go wrong.
type Fault struct {
	Every      int64    `yaml:"every"`
	Status     int      `yaml:"status"`
	RetryAfter Duration `yaml:"retry_after"`
}

// A Model is where calls go: to one provider, or to routes.
type Model struct {
	Provider  string   `yaml:"provider"`
	Model     string   `yaml:"model"`
	Routes    []Route  `yaml:"routes"`
	Fallbacks []string `yaml:"fallbacks"`
}

// A Route is one of several ways.
type Route struct {
	Provider string `yaml:"provider"`
	Model    string `yaml:"model"`
	Weight   int    `yaml:"weight"`
}

// Limits are those of the whole broker.
type Limits struct {
	Batch       int      `yaml:"batch"`
	Connections int      `yaml:"connections"`
	BodyBytes   int64    `yaml:"body_bytes"`
	Idle        Duration `yaml:"idle"`
	Read        Duration `yaml:"read"`
}

// A Secret says where a secret is.
type Secret struct {
	Env  string `yaml:"env"`
	File string `yaml:"file"`
}

// A Header is the value of one: a text or, where it is a key, where that is.
type Header struct {
	Secret
	Text string
}

// UnmarshalYAML reads either.
func (h *Header) UnmarshalYAML(node ast.Node) error {
	if nodeKind(node) == mapping {
		return yaml.NodeToValue(node, &h.Secret, yaml.Strict())
	}
	return yaml.NodeToValue(node, &h.Text)
}

// A Duration is written as 1.5s, 200ms or 5m.
type Duration time.Duration

// UnmarshalYAML reads a duration.
func (d *Duration) UnmarshalYAML(node ast.Node) error {
	tok := node.GetToken()
	v, err := time.ParseDuration(tok.Value)
	if err != nil || v < 0 {
		return &durationError{tok}
	}
	*d = Duration(v)
	return nil
}

// A durationError is a value that is no duration.
type durationError struct{ *token.Token }

func (e *durationError) Error() string {
	return fmt.Sprintf("%q is no duration: expected something like 1.5s, 200ms or 5m", e.Value)
}
