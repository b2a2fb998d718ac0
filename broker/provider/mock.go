package provider

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/internal/wait"
	"github.com/wirectl/wirectl/llm"
)

// dimensions is the default size of a vector.
const dimensions = 16

// maxDimensions is the largest size of a vector.
const maxDimensions = 4096

// Embed implements [provider.Embedder]. The vectors have length 1 and depend only on the texts.
func (m *Mock) Embed(ctx context.Context, r *Request, c *Completion) error {
	if err := wait.For(ctx, m.cfg.Latency); err != nil {
		return err
	}
	e, err := llm.ReadEmbeddings(r.Body)
	if err != nil {
		return Kind{Name: "mock"}.Refusal(llm.Chat, err)
	}
	size := dimensions
	if e.Dimensions > 0 {
		size = e.Dimensions
	}
	if size > maxDimensions {
		return Unanswerable("dimensions", "invalid_value", fmt.Sprintf("Invalid 'dimensions': expected at most %d.", maxDimensions))
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

// MockConfig is how a mock behaves. The zero Config answers at once with "Echo: " and the last
// message.
type MockConfig struct {
	// Prefix precedes an echo; nil is "Echo: ".
	Prefix *string `yaml:"prefix"`
	// Script is searched in order before anything is echoed.
	Script []Line `yaml:"script"`
	// Turns are the answers, each given once and in order, for each model separately. If
	// there are any, a call after the last one fails.
	Turns []Turn `yaml:"turns"`
	// Latency is the time before an answer begins.
	Latency time.Duration `yaml:"latency"`
	// Delay is the time between two parts of a streamed answer, and Chunk the characters of
	// a part; 0 is a word.
	Delay time.Duration `yaml:"delay"`
	Chunk int           `yaml:"chunk"`
	// Faults are calls that fail, by their number.
	Faults []Fault `yaml:"faults"`
}

// A Line of a script answers the prompts whose text contains When; all texts contain "".
type Line struct {
	When      string     `yaml:"when"`
	Thought   string     `yaml:"reasoning"`
	Say       string     `yaml:"say"`
	Finish    string     `yaml:"finish"`
	ToolCalls []ToolCall `yaml:"tool_calls"`
	// Status fails the call with this HTTP status instead, and RetryAfter.
	Status     int           `yaml:"status"`
	RetryAfter time.Duration `yaml:"retry_after"`
}

// A Turn is one answer of a conversation that is known in advance.
type Turn struct {
	Thought   string     `yaml:"reasoning"`
	Say       string     `yaml:"text"`
	Finish    string     `yaml:"finish"`
	ToolCalls []ToolCall `yaml:"tool_calls"`
	Status    int        `yaml:"status"`
	// Delay is the time of the answer, besides the latency.
	Delay time.Duration `yaml:"delay"`
}

// A Fault makes every Every-th call fail: with Status, or, if that is 0, by breaking off in
// the middle.
type Fault struct {
	Every      int64         `yaml:"every"`
	Status     int           `yaml:"status"`
	RetryAfter time.Duration `yaml:"retry_after"`
}

// Mock is the provider.
type Mock struct {
	cfg    MockConfig
	prefix string
	calls  atomic.Int64

	mu    sync.Mutex
	turns map[string]int // how many turns were used, by model
}

// NewMock returns a mock.
func NewMock(cfg MockConfig) *Mock {
	m := &Mock{cfg: cfg, prefix: "Echo: ", turns: map[string]int{}}
	if cfg.Prefix != nil {
		quoted := Quote(*cfg.Prefix)
		m.prefix = string(quoted[1 : len(quoted)-1])
	}
	return m
}

// Complete answers r, as [provider.Provider] has it.
func (m *Mock) Complete(ctx context.Context, r *Request, c *Completion) error {
	n := m.calls.Add(1)
	if err := wait.For(ctx, m.cfg.Latency); err != nil {
		return err
	}
	fault := m.fault(n)
	if fault != nil && fault.Status != 0 {
		return StatusError(fault.Status, fault.RetryAfter, fmt.Errorf("a fault was asked for in call %d", n))
	}
	if r.Choices < 0 || r.Choices > maxChoices {
		return Unanswerable("n", "invalid_value", fmt.Sprintf("Invalid 'n': expected a whole number from 1 to %d.", maxChoices))
	}
	if err := m.answerRequest(ctx, r, c); err != nil {
		return err
	}
	for i := range c.ToolCalls { // clients require an id
		c.ToolCalls[i].ID = cmp.Or(c.ToolCalls[i].ID, fmt.Sprintf("call_%d_%d", n, i+1))
	}
	c.Choices = r.Choices
	c.Usage = Usage{Input: tokens(r.Chat(), r.Prompt), Output: tokens(c.Text, nil) * int64(max(c.Choices, 1))}
	if c.Thoughts != nil {
		c.Usage.Thinking = tokens(c.Thoughts, nil)
		c.Usage.Output += c.Usage.Thinking
	}
	if r.Emit != nil {
		return m.stream(ctx, r, c, fault != nil)
	}
	if fault != nil {
		return &Error{Cause: Unreachable, Err: fmt.Errorf("call %d was cut", n)}
	}
	return nil
}

// maxChoices is OpenAI's limit of choices.
const maxChoices = 128

// CountTokens counts as Complete does, as [provider.Counter] has it.
func (m *Mock) CountTokens(ctx context.Context, r *Request, c *Completion) error {
	if err := wait.For(ctx, m.cfg.Latency); err != nil {
		return err
	}
	c.Usage.Input = tokens(r.Chat(), r.Prompt)
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

// turn answers with the model's next turn.
func (m *Mock) turn(ctx context.Context, r *Request, c *Completion) error {
	m.mu.Lock()
	n := m.turns[r.Model]
	m.turns[r.Model] = min(n+1, len(m.cfg.Turns))
	m.mu.Unlock()
	if n == len(m.cfg.Turns) {
		return Unanswerable("", "no_more_turns", fmt.Sprintf("The mock has no more turns for the model %q: it had %d. Add turns, or make fewer calls.", r.Model, n))
	}
	t := &m.cfg.Turns[n]
	if err := wait.For(ctx, t.Delay); err != nil {
		return err
	}
	return (&Line{Thought: t.Thought, Say: t.Say, Finish: t.Finish, ToolCalls: t.ToolCalls, Status: t.Status}).setCompletion(c)
}

// answerRequest makes the answer.
func (m *Mock) answerRequest(ctx context.Context, r *Request, c *Completion) error {
	c.Finish = "stop"
	if len(m.cfg.Turns) > 0 {
		return m.turn(ctx, r, c)
	}
	text := r.LastText()
	if len(m.cfg.Script) > 0 {
		said := Unquote(text)
		for i := range m.cfg.Script {
			if line := &m.cfg.Script[i]; strings.Contains(said, line.When) {
				return line.setCompletion(c)
			}
		}
	}
	c.SetText(m.prefix, text)
	return nil
}

func (l *Line) setCompletion(c *Completion) error {
	if l.Status != 0 {
		return StatusError(l.Status, l.RetryAfter, fmt.Errorf("the script says so"))
	}
	c.Text = Quote(l.Say)
	if l.Thought != "" {
		c.Thoughts = Quote(l.Thought)
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

// stream emits thoughts and text, part by part; if cut, only half of the parts.
func (m *Mock) stream(ctx context.Context, r *Request, c *Completion, cut bool) error {
	var parts []Part
	for _, piece := range m.pieces(c.Thoughts) {
		parts = append(parts, Part{Delta: llm.Delta{Thought: piece}})
	}
	for _, piece := range m.pieces(c.Text) {
		parts = append(parts, Part{Delta: llm.Delta{Text: piece}})
	}
	for i, call := range c.ToolCalls {
		parts = append(parts, Part{Delta: llm.Delta{Call: &llm.CallDelta{Index: i, ID: call.ID, Name: call.Name, Arguments: string(call.Arguments), Custom: call.Custom}}})
	}
	for i, part := range parts {
		if cut && i == (len(parts)+1)/2 {
			return &Error{Cause: Unreachable, Began: i > 0, Err: fmt.Errorf("the stream was cut")}
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

// pieces splits a string token, which may be nil.
func (m *Mock) pieces(token []byte) [][]byte {
	if m.cfg.Chunk <= 0 {
		return words(token)
	}
	var list [][]byte
	for chars := range slices.Chunk([]rune(Unquote(token)), m.cfg.Chunk) {
		list = append(list, Quote(string(chars)))
	}
	return list
}

// words splits a string token before its spaces.
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

// tokens estimates the tokens of a text: one for four bytes.
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
