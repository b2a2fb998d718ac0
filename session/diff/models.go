package diff

import (
	"strconv"
	"strings"
	"time"

	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/session"
	"github.com/wirectl/wirectl/session/jsondiff"
)

// An answer is how a model answered.
type answer struct {
	model, stopReason, tools string
	used                     protocol.Usage
	firstPart                time.Duration
	perSecond                float64
}

// Watcher returns the watcher of the session's calls. With it, model calls are also compared by
// model, tokens, cost and speed, and calls over HTTP by how their responses ended.
func (s *Session) Watcher() session.Watcher { return models{s} }

type models struct{ *Session }

// Changed implements [session.Watcher].
func (m models) Changed(e *session.Exchange, _ int64) {
	if n := m.at(e.First); n != none && m.kept(n).asks && m.kept(n).http && e.Outcome != session.Open {
		m.kept(n).outcome = e.Outcome
	}
	if e.Model == "" {
		return
	}
	m.answers[e.First] = answer{
		model: m.shared(e.Model), stopReason: m.shared(e.StopReason), tools: m.shared(strings.Join(e.ToolCalls, " ")),
		used: e.Usage, firstPart: e.TimeToFirstPart(), perSecond: e.TokensPerSecond(),
	}
}

// Asked implements [session.Watcher].
func (models) Asked(*session.Cancel) {}

// Found implements [session.Watcher].
func (models) Found(session.Finding) {}

// shared returns the single copy of a text.
func (m models) shared(text string) string {
	if known, ok := m.texts[text]; ok {
		return known
	}
	m.texts[text] = text
	return text
}

// models compares how models answered, using the field names of calls. Speed is compared by the
// same factor as latency.
func (c *comparison) models(p pair) {
	a, inA := c.a.answers[p.a.first()]
	b, inB := c.b.answers[p.b.first()]
	if !inA || !inB {
		return
	}
	field := func(name, a, b string) {
		if a != b && !jsondiff.Ignored(c.options.Ignore, []string{name}) {
			c.addDifference(p, Model, p.a.endMessage(), p.b.endMessage(), name, a, b)
		}
	}
	field("model", a.model, b.model)
	field("stop_reason", a.stopReason, b.stopReason)
	field("tool_calls", a.tools, b.tools)
	field("input_tokens", number(a.used.Input), number(b.used.Input))
	field("cached_tokens", number(a.used.Cached), number(b.used.Cached))
	field("output_tokens", number(a.used.Output), number(b.used.Output))
	field("cost_usd", dollars(a.used.Cost), dollars(b.used.Cost))
	if c.late(a.firstPart, b.firstPart) || c.late(b.firstPart, a.firstPart) {
		field("first_part_ms", millis(a.firstPart), millis(b.firstPart))
	}
	if f := c.options.Latency; f > 0 && a.perSecond > 0 && b.perSecond > 0 && (a.perSecond > f*b.perSecond || b.perSecond > f*a.perSecond) {
		field("tokens_per_second", rate(a.perSecond), rate(b.perSecond))
	}
}

func number(n int64) string { return strconv.FormatInt(n, 10) }

// dollars formats a cost in millionths of a dollar; "" for zero.
func dollars(micros int64) string {
	if micros == 0 {
		return ""
	}
	return strconv.FormatFloat(float64(micros)/1e6, 'f', -1, 64)
}

func millis(d time.Duration) string {
	return strconv.FormatFloat(float64(d.Microseconds())/1e3, 'f', -1, 64)
}

func rate(f float64) string { return strconv.FormatFloat(f, 'f', 1, 64) }
