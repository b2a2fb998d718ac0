// Package config reads the configuration of a broker from one YAML file. It is strict: unknown
// keys, values of the wrong type and unknown names are rejected, with their line and the expected
// value.
//
// The file holds no keys. It names the environment variables or files that hold them.
package config

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"

	"github.com/wirectl/wirectl/broker"
	"github.com/wirectl/wirectl/broker/provider"
	"github.com/wirectl/wirectl/internal/prices"
)

// A File is the content of the file.
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

// An RLM has the defaults of wirectl rlm. A key has the name of its flag, with _ for -. The last
// keys have no flag. Values that are not set are nil.
type RLM struct {
	Model         *string        `yaml:"model"`
	SubModel      *string        `yaml:"sub_model"`
	AllowModel    []string       `yaml:"allow_model"`
	Context       []string       `yaml:"context"`
	Mode          *string        `yaml:"mode"`
	Tools         *string        `yaml:"tools"`
	ToolChoice    *string        `yaml:"tool_choice"`
	Schema        *string        `yaml:"schema"`
	Env           *string        `yaml:"env"`
	Image         *string        `yaml:"image"`
	Unsandboxed   *bool          `yaml:"unsandboxed"`
	Setup         *string        `yaml:"setup"`
	Memory        *string        `yaml:"memory"`
	Imports       *string        `yaml:"imports"`
	MaxIterations *int           `yaml:"max_iterations"`
	MaxDepth      *int           `yaml:"max_depth"`
	MaxCalls      *int           `yaml:"max_calls"`
	MaxTokens     *int64         `yaml:"max_tokens"`
	MaxCost       *float64       `yaml:"max_cost"`
	MaxErrors     *int           `yaml:"max_errors"`
	Timeout       *time.Duration `yaml:"timeout"`
	CellTimeout   *time.Duration `yaml:"cell_timeout"`
	Parallel      *int           `yaml:"parallel"`
	System        *string        `yaml:"system"`
	LogDir        *string        `yaml:"log_dir"`
	Capture       *string        `yaml:"capture"`
	Control       *bool          `yaml:"control"`
	Prices        *string        `yaml:"prices"`
	Output        *string        `yaml:"output"`
	Fences        []string       `yaml:"fences"`
	Policy        *string        `yaml:"policy"`
	Proxy         *string        `yaml:"proxy"`
	Exec          []string       `yaml:"exec"`
	Log           RLMLog         `yaml:"log"`
	Stop          RLMStop        `yaml:"stop"`
	Compress      RLMCompress    `yaml:"compress"`
	Nest          RLMNest        `yaml:"nest"`
}

// An RLMLog says which prompts are in the log of a run.
type RLMLog struct {
	Prompts *string `yaml:"prompts"`
}

// A Provider is a backend.
type Provider struct {
	Kind        string              `yaml:"kind"`
	BaseURL     string              `yaml:"base_url"`
	APIVersion  string              `yaml:"api_version"`
	Key         Secret              `yaml:"key"`
	Headers     map[string]Header   `yaml:"headers"`
	Concurrency int                 `yaml:"concurrency"`
	Rate        float64             `yaml:"rate"`
	Burst       int                 `yaml:"burst"`
	Retries     *int                `yaml:"retries"`
	Backoff     time.Duration       `yaml:"backoff"`
	MaxWait     time.Duration       `yaml:"max_wait"`
	Breaker     Breaker             `yaml:"breaker"`
	Timeouts    Timeouts            `yaml:"timeouts"`
	MaxTokens   int                 `yaml:"max_tokens"`
	Drop        []string            `yaml:"drop"`
	Mock        provider.MockConfig `yaml:"mock"`
}

// A Breaker suspends a provider that failed too often.
type Breaker struct {
	Failures int           `yaml:"failures"`
	Delay    time.Duration `yaml:"delay"`
}

// Timeouts are how long a provider may take.
type Timeouts struct {
	Connect   time.Duration `yaml:"connect"`
	FirstPart time.Duration `yaml:"first_token"`
	Total     time.Duration `yaml:"total"`
}

// A Model is the target of calls: a provider, or routes.
type Model struct {
	Provider  string   `yaml:"provider"`
	Model     string   `yaml:"model"`
	Routes    []Route  `yaml:"routes"`
	Fallbacks []string `yaml:"fallbacks"`
	// Price is the price of the model's tokens, and ContextWindow how many it can read.
	Price         *prices.Price  `yaml:"price"`
	ContextWindow int            `yaml:"context_window"`
	Budget        *broker.Budget `yaml:"budget"`
	// RLM makes the model a recursive language model over other models.
	RLM *RLM `yaml:"rlm"`
}

// A Client has a token of its own.
type Client struct {
	Token  Secret         `yaml:"token"`
	Budget *broker.Budget `yaml:"budget"`
}

// A Route is one of a model's targets.
type Route struct {
	Provider string `yaml:"provider"`
	Model    string `yaml:"model"`
	Weight   int    `yaml:"weight"`
}

// Limits are the limits of the whole broker.
type Limits struct {
	Batch       int           `yaml:"batch"`
	Connections int           `yaml:"connections"`
	BodyBytes   int64         `yaml:"body_bytes"`
	Idle        time.Duration `yaml:"idle"`
	Read        time.Duration `yaml:"read"`
}

// An RLMStop is a command that may end a run.
type RLMStop struct {
	Exec []string `yaml:"exec"`
}

// An RLMCompress says how answers to code are shortened.
type RLMCompress struct {
	Truncate  *int     `yaml:"truncate"`
	Summarize *string  `yaml:"summarize"`
	Exec      []string `yaml:"exec"`
}

// An RLMNest says which calls of llm_query start child runs. In a file, never and always may
// be words.
type RLMNest struct {
	Never  *bool    `yaml:"never"`
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

// A Header is the value of a header: a text, or the place of a secret.
type Header struct {
	Secret
	Text string
}

// UnmarshalYAML reads a word or the members.
func (n *RLMNest) UnmarshalYAML(node ast.Node) error {
	type members RLMNest
	word, yes := "", true
	if nodeKind(node) == mapping || yaml.NodeToValue(node, &word) != nil {
		return yaml.NodeToValue(node, (*members)(n), yaml.Strict())
	}
	switch word {
	case "never":
		n.Never = &yes
	case "always":
		n.Always = &yes
	default: // checkNode has let it pass as an alias or a tag
		return fmt.Errorf("found %q; expected %s", word, nesting)
	}
	return nil
}

// UnmarshalYAML reads either.
func (h *Header) UnmarshalYAML(node ast.Node) error {
	if nodeKind(node) == mapping {
		return yaml.NodeToValue(node, &h.Secret, yaml.Strict())
	}
	return yaml.NodeToValue(node, &h.Text)
}

// A toolCall is a call of a tool by a mock.
type toolCall struct {
	ID        string         `yaml:"id"`
	Name      string         `yaml:"name"`
	Arguments map[string]any `yaml:"arguments"`
}

func readToolCall(to *provider.ToolCall, text []byte) error {
	var c toolCall
	if err := yaml.UnmarshalWithOptions(text, &c, yaml.Strict()); err != nil {
		return err
	}
	to.ID, to.Name, to.Arguments = c.ID, c.Name, []byte("{}")
	if c.Arguments == nil {
		return nil
	}
	var err error
	to.Arguments, err = json.Marshal(c.Arguments)
	return err
}

// readDuration reads a duration, which was checked, or null.
func readDuration(to *time.Duration, text []byte) error {
	var s string
	err := yaml.Unmarshal(text, &s)
	if err == nil && s != "" {
		*to, err = time.ParseDuration(s)
	}
	return err
}
