// Package mock is a provider without a key or network. It repeats prompts or answers
// from a script, as slowly and as badly as configured, and always in the same way:
// faults are counted, not random.
package mock

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wirectl/wirectl/broker/provider"
	"github.com/wirectl/wirectl/internal/wait"
	"github.com/wirectl/wirectl/protocol/jsonscan"
)

// Config is how a mock behaves. The zero Config answers at once with
// "Echo: " and what was said last.
type Config struct {
	// Prefix stands before what is echoed; nil is "Echo: ".
	Prefix *string
	// Script is looked through in order before anything is echoed.
	Script []Line
	// Turns are what is answered, each once and in order, to each model on its own. Where
	// there are any, a call after the last one fails.
	Turns []Turn
	// Latency is how long the mock takes to begin its answer.
	Latency time.Duration
	// Delay is how long it waits between two parts of a streamed answer, and Chunk how
	// many characters a part has; 0 is a word.
	Delay time.Duration
	Chunk int
	// Faults are calls that go wrong, by their number.
	Faults []Fault
}

// A Line of a script answers the prompts whose text contains When; an empty When
// is contained in all.
type Line struct {
	When      string
	Thought   string // before it says something
	Say       string
	Finish    string
	ToolCalls []provider.ToolCall
	// Status fails the call with this HTTP status instead.
	Status int
	// RetryAfter goes with Status.
	RetryAfter time.Duration
}

// A Turn is one answer of a conversation that is known in advance.
type Turn struct {
	Line
	// Delay is how long the answer takes, on top of the latency.
	Delay time.Duration
}

// A Fault makes every Every-th call fail: with Status, or, where that is 0,
// by breaking off in the middle.
type Fault struct {
	Every      int64
	Status     int
	RetryAfter time.Duration
}

// Mock is the provider.
type Mock struct {
	cfg    Config
	prefix string
	calls  atomic.Int64

	mu   sync.Mutex
	said map[string]int // turns, by model
}

// New returns a mock that behaves so.
func New(cfg Config) *Mock {
	m := &Mock{cfg: cfg, prefix: "Echo: ", said: map[string]int{}}
	if cfg.Prefix != nil {
		quoted := provider.Quote(*cfg.Prefix)
		m.prefix = string(quoted[1 : len(quoted)-1])
	}
	return m
}

// Complete answers r, as [provider.Provider] has it.
func (m *Mock) Complete(ctx context.Context, r *provider.Request, c *provider.Completion) error {
	n := m.calls.Add(1)
	if err := wait.For(ctx, m.cfg.Latency); err != nil {
		return err
	}
	fault := m.fault(n)
	if fault != nil && fault.Status != 0 {
		return provider.StatusError(fault.Status, fault.RetryAfter, fmt.Errorf("a fault was asked for in call %d", n))
	}
	if r.Choices < 0 || r.Choices > maxChoices {
		return provider.Unanswerable("n", "invalid_value", fmt.Sprintf("Invalid 'n': expected a whole number from 1 to %d.", maxChoices))
	}
	if err := m.answer(ctx, r, c); err != nil {
		return err
	}
	for i := range c.ToolCalls { // which clients insist on
		c.ToolCalls[i].ID = cmp.Or(c.ToolCalls[i].ID, fmt.Sprintf("call_%d_%d", n, i+1))
	}
	c.Choices = r.Choices
	c.Usage = provider.Usage{Input: tokens(r.Chat, r.Prompt), Output: tokens(c.Text, nil) * int64(max(c.Choices, 1))}
	if c.Thoughts != nil {
		c.Usage.Thinking = tokens(c.Thoughts, nil)
		c.Usage.Output += c.Usage.Thinking
	}
	if r.Emit != nil {
		return m.stream(ctx, r, c, fault != nil)
	}
	if fault != nil {
		return &provider.Error{Cause: provider.Unreachable, Err: fmt.Errorf("call %d was cut", n)}
	}
	return nil
}

// maxChoices is how many choices OpenAI gives at most.
const maxChoices = 128

// CountTokens counts as Complete does, as [provider.Counter] has it.
func (m *Mock) CountTokens(ctx context.Context, r *provider.Request, c *provider.Completion) error {
	if err := wait.For(ctx, m.cfg.Latency); err != nil {
		return err
	}
	c.Usage.Input = tokens(r.Chat, r.Prompt)
	return nil
}

func (m *Mock) fault(n int64) *Fault {
	for i := range m.cfg.Faults {
		if f := &m.cfg.Faults[i]; f.Every > 0 && n%f.Every == 0 {
			return f
		}
	}
	return nil
}

// turn answers with the next turn of the request's model.
func (m *Mock) turn(ctx context.Context, r *provider.Request, c *provider.Completion) error {
	m.mu.Lock()
	n := m.said[r.Model]
	m.said[r.Model] = min(n+1, len(m.cfg.Turns))
	m.mu.Unlock()
	if n == len(m.cfg.Turns) {
		return provider.Unanswerable("", "no_more_turns", fmt.Sprintf("The mock has no more turns for the model %q: it had %d. Add to turns, or ask less.", r.Model, n))
	}
	if err := wait.For(ctx, m.cfg.Turns[n].Delay); err != nil {
		return err
	}
	return m.cfg.Turns[n].answer(c)
}

// answer decides what is said.
func (m *Mock) answer(ctx context.Context, r *provider.Request, c *provider.Completion) error {
	c.Finish = "stop"
	if len(m.cfg.Turns) > 0 {
		return m.turn(ctx, r, c)
	}
	text := r.LastText()
	if len(m.cfg.Script) > 0 {
		said := provider.Unquote(text)
		for i := range m.cfg.Script {
			if line := &m.cfg.Script[i]; strings.Contains(said, line.When) {
				return line.answer(c)
			}
		}
	}
	c.SetText(m.prefix, text)
	return nil
}

func (l *Line) answer(c *provider.Completion) error {
	if l.Status != 0 {
		return provider.StatusError(l.Status, l.RetryAfter, fmt.Errorf("the script says so"))
	}
	c.Text = provider.Quote(l.Say)
	if l.Thought != "" {
		c.Thoughts = provider.Quote(l.Thought)
	}
	c.ToolCalls = append(c.ToolCalls, l.ToolCalls...)
	switch {
	case l.Finish != "":
		c.Finish = l.Finish
	case len(l.ToolCalls) > 0:
		c.Finish = "tool_calls"
	}
	return nil
}

// stream emits what is thought and said, part by part; if cut, only half of it.
func (m *Mock) stream(ctx context.Context, r *provider.Request, c *provider.Completion, cut bool) error {
	var parts []provider.Part
	for _, piece := range m.pieces(c.Thoughts) {
		parts = append(parts, provider.Part{Thought: piece})
	}
	for _, piece := range m.pieces(c.Text) {
		parts = append(parts, provider.Part{Text: piece})
	}
	for i, part := range parts {
		if cut && i == (len(parts)+1)/2 {
			return &provider.Error{Cause: provider.Unreachable, Began: i > 0, Err: fmt.Errorf("the stream was cut")}
		}
		if i > 0 {
			if err := wait.For(ctx, m.cfg.Delay); err != nil {
				return err
			}
		}
		if err := r.Emit(part); err != nil {
			return err
		}
	}
	return nil
}

// pieces cuts a string token, which may be nil, into tokens.
func (m *Mock) pieces(token []byte) [][]byte {
	if m.cfg.Chunk <= 0 {
		return words(token)
	}
	var list [][]byte
	for chars := range slices.Chunk([]rune(provider.Unquote(token)), m.cfg.Chunk) {
		list = append(list, provider.Quote(string(chars)))
	}
	return list
}

// words cuts a string token before its spaces.
func words(token []byte) [][]byte {
	if token == nil {
		return nil
	}
	var list [][]byte
	for body := token[1 : len(token)-1]; len(body) > 0; {
		n := len(body)
		if i := bytes.IndexByte(body[1:], ' '); i >= 0 {
			n = i + 1
		}
		piece := append(append([]byte{'"'}, body[:n]...), '"')
		list, body = append(list, piece), body[n:]
	}
	return list
}

// tokens is about how many tokens a text has: one for four bytes.
func tokens(text, other []byte) int64 {
	if text == nil {
		text = other
	}
	n := len(text)
	if jsonscan.KindOf(text) == jsonscan.String {
		n -= 2
	}
	return int64(n+3) / 4
}
