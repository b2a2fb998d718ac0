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

	"github.com/wirectl/wirectl/internal/prices"
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
	Clients   map[string]Client   `yaml:"clients"`
	Spent     string              `yaml:"spent"`
	Join      string              `yaml:"join"`
	OnHubLoss string              `yaml:"on_hub_loss"`
	RLM       RLM                 `yaml:"rlm"`
}

// An RLM is what wirectl rlm does unless its flags say otherwise. A key is called as its
// flag is, with _ for -. The last ones have no flag. What is not set is nil.
type RLM struct {
	Model         *string     `yaml:"model"`
	SubModel      *string     `yaml:"sub_model"`
	AllowModel    []string    `yaml:"allow_model"`
	Context       []string    `yaml:"context"`
	Mode          *string     `yaml:"mode"`
	Tools         *string     `yaml:"tools"`
	ToolChoice    *string     `yaml:"tool_choice"`
	Schema        *string     `yaml:"schema"`
	Env           *string     `yaml:"env"`
	Image         *string     `yaml:"image"`
	Unsandboxed   *bool       `yaml:"unsandboxed"`
	Setup         *string     `yaml:"setup"`
	Memory        *string     `yaml:"memory"`
	Imports       *string     `yaml:"imports"`
	MaxIterations *int        `yaml:"max_iterations"`
	MaxDepth      *int        `yaml:"max_depth"`
	MaxCalls      *int        `yaml:"max_calls"`
	MaxTokens     *int64      `yaml:"max_tokens"`
	MaxCost       *float64    `yaml:"max_cost"`
	MaxErrors     *int        `yaml:"max_errors"`
	Timeout       *Duration   `yaml:"timeout"`
	CellTimeout   *Duration   `yaml:"cell_timeout"`
	Parallel      *int        `yaml:"parallel"`
	System        *string     `yaml:"system"`
	LogDir        *string     `yaml:"log_dir"`
	Capture       *string     `yaml:"capture"`
	Control       *bool       `yaml:"control"`
	Prices        *string     `yaml:"prices"`
	Output        *string     `yaml:"output"`
	Fences        []string    `yaml:"fences"`
	Proxy         *string     `yaml:"proxy"`
	Exec          []string    `yaml:"exec"`
	Log           RLMLog      `yaml:"log"`
	Stop          RLMStop     `yaml:"stop"`
	Compress      RLMCompress `yaml:"compress"`
	Nest          RLMNest     `yaml:"nest"`
}

// An RLMLog says what of the prompts is in the log of a run.
type RLMLog struct {
	Prompts *string `yaml:"prompts"`
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
	Delay   Duration `yaml:"delay"`
	Chunk   int      `yaml:"chunk"`
	Script  []Line   `yaml:"script"`
	Turns   []Turn   `yaml:"turns"`
	Faults  []Fault  `yaml:"faults"`
}

// A Line answers the prompts that contain When.
type Line struct {
	When       string     `yaml:"when"`
	Reasoning  string     `yaml:"reasoning"`
	Say        string     `yaml:"say"`
	Finish     string     `yaml:"finish"`
	ToolCalls  []ToolCall `yaml:"tool_calls"`
	Status     int        `yaml:"status"`
	RetryAfter Duration   `yaml:"retry_after"`
}

// A Turn is one answer of those that a mock gives in order.
type Turn struct {
	Reasoning string     `yaml:"reasoning"`
	Text      string     `yaml:"text"`
	Finish    string     `yaml:"finish"`
	ToolCalls []ToolCall `yaml:"tool_calls"`
	Status    int        `yaml:"status"`
	Delay     Duration   `yaml:"delay"`
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
	// Price is what the tokens of the model cost, and ContextWindow how many of them it
	// can read.
	Price         *prices.Price `yaml:"price"`
	ContextWindow int           `yaml:"context_window"`
	Budget        *Budget       `yaml:"budget"`
	// RLM makes the model a recursive language model over other models.
	RLM *RLM `yaml:"rlm"`
}

// A Budget is what a client or a model may use.
type Budget struct {
	Calls  int64    `yaml:"calls"`
	Tokens int64    `yaml:"tokens"`
	Cost   float64  `yaml:"cost"`
	Per    Duration `yaml:"per"`
}

// A Client has a token of its own.
type Client struct {
	Token  Secret  `yaml:"token"`
	Budget *Budget `yaml:"budget"`
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

// An RLMStop is what else may end a run: a command.
type RLMStop struct {
	Exec []string `yaml:"exec"`
}

// An RLMCompress is what shortens the answers that code gets.
type RLMCompress struct {
	Truncate  *int     `yaml:"truncate"`
	Summarize *string  `yaml:"summarize"`
	Exec      []string `yaml:"exec"`
}

// An RLMNest says which calls of llm_query start child runs.
type RLMNest struct {
	Always *bool    `yaml:"always"`
	Over   *int     `yaml:"over"`
	Match  *string  `yaml:"match"`
	Exec   []string `yaml:"exec"`
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

// A durationError is a value that is not a duration.
type durationError struct{ *token.Token }

func (e *durationError) Error() string {
	return fmt.Sprintf("%q is not a duration: expected something like 1.5s, 200ms or 5m", e.Value)
}
