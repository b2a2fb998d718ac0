package index

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/wirectl/wirectl/decode/spans"
	"github.com/wirectl/wirectl/internal/otlp"
	"github.com/wirectl/wirectl/session"
	"github.com/wirectl/wirectl/session/calls"
)

// A Watch counts what is read for an index, and sends spans. The zero Watch does nothing.
type Watch struct {
	// Spans sends spans; if it is nil, none are sent.
	Spans *otlp.Exporter

	calls, tokens, findings *prometheus.CounterVec
	durations               *prometheus.HistogramVec
}

// NewWatch returns a Watch that registers its metrics with r.
func NewWatch(r prometheus.Registerer, to *otlp.Exporter) Watch {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	w := Watch{
		Spans:    to,
		calls:    counter("wirectl_hub_calls_total", "Calls in sessions that ended, by outcome.", "protocol", "outcome"),
		tokens:   counter("wirectl_hub_tokens_total", "Tokens that calls used.", "protocol", "direction"),
		findings: counter("wirectl_hub_findings_total", "Rules that sessions broke.", "finding"),
		durations: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "wirectl_hub_call_duration_seconds", Help: "How long calls took.",
			Buckets: []float64{.001, .005, .025, .1, .25, .5, 1, 2.5, 5, 10, 30, 60},
		}, []string{"protocol"}),
	}
	r.MustRegister(w.calls, w.tokens, w.findings, w.durations)
	return w
}

// called counts a call that has ended.
func (w *Watch) called(c *calls.Call) {
	if w.calls == nil {
		return
	}
	w.calls.WithLabelValues(c.Protocol, c.Outcome.String()).Inc()
	w.tokens.WithLabelValues(c.Protocol, "input").Add(float64(c.Usage.Input))
	w.tokens.WithLabelValues(c.Protocol, "output").Add(float64(c.Usage.Output))
	if c.Outcome != session.Open && c.Outcome != session.Abandoned && !c.Start.IsZero() {
		w.durations.WithLabelValues(c.Protocol).Observe(c.Duration.Seconds())
	}
}

func (w *Watch) found(f session.Finding) {
	if w.findings != nil {
		w.findings.WithLabelValues(f.Name).Inc()
	}
}

// sessionOf returns the session for spans. The key consists of organisation, host, kind and
// id.
func sessionOf(key string) spans.Session {
	words := strings.Split(key, ".")
	return spans.Session{Name: "hub:" + words[3], Host: words[1]}
}
