package server

import (
	"context"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/wirectl/wirectl/internal/otlp"
	"github.com/wirectl/wirectl/session"
	"github.com/wirectl/wirectl/session/calls"
)

// lastSpans is how long sending the last spans may take.
const lastSpans = 2 * time.Second

// newRegistry returns a registry with the metrics of the hub.
func (h *Hub) newRegistry() *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), gauges{h})
	return r
}

// Metrics serves the metrics of the hub for Prometheus. They name no sessions.
func (h *Hub) Metrics() http.Handler {
	return promhttp.HandlerFor(h.registry, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError, MaxRequestsInFlight: 4})
}

// gauges collects metrics when they are requested.
type gauges struct{ hub *Hub }

var (
	segmentsDesc = prometheus.NewDesc("wirectl_hub_stored_segments", "Messages of sessions that are stored.", nil, nil)
	bytesDesc    = prometheus.NewDesc("wirectl_hub_stored_bytes", "Bytes of sessions that are stored.", nil, nil)
	mostDesc     = prometheus.NewDesc("wirectl_hub_max_bytes", "Bytes of sessions that may be stored.", nil, nil)
	receivedDesc = prometheus.NewDesc("wirectl_hub_segments_total", "Messages of sessions that were stored since the hub was made.", nil, nil)
	behindDesc   = prometheus.NewDesc("wirectl_hub_index_behind_segments", "Messages of sessions that the index lacks.", nil, nil)
	liveDesc     = prometheus.NewDesc("wirectl_hub_live_sessions", "Sessions that are being sent.", nil, nil)
	clientsDesc  = prometheus.NewDesc("wirectl_hub_connections", "Connections of the embedded server.", nil, nil)
)

// Describe implements [prometheus.Collector]: the metrics are described when collected.
func (gauges) Describe(chan<- *prometheus.Desc) {}

// askTime is how long collecting may take.
const askTime = 5 * time.Second

// Collect implements [prometheus.Collector]. It leaves out what is not known.
func (g gauges) Collect(to chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), askTime)
	defer cancel()
	send := func(d *prometheus.Desc, kind prometheus.ValueType, n uint64) {
		to <- prometheus.MustNewConstMetric(d, kind, float64(n))
	}
	h := g.hub
	send(mostDesc, prometheus.GaugeValue, uint64(h.options.MaxBytes))
	if h.server != nil {
		send(clientsDesc, prometheus.GaugeValue, uint64(h.server.NumClients()))
	}
	if live, err := h.conn.Live(ctx, "*"); err == nil {
		send(liveDesc, prometheus.GaugeValue, uint64(len(live)))
	}
	if h.index == nil {
		return
	}
	info, err := h.index.segments.Info(ctx)
	if err != nil {
		return
	}
	s := info.State
	send(segmentsDesc, prometheus.GaugeValue, s.Msgs)
	send(bytesDesc, prometheus.GaugeValue, s.Bytes)
	send(receivedDesc, prometheus.CounterValue, s.LastSeq)
	send(behindDesc, prometheus.GaugeValue, s.LastSeq-min(h.index.done.Load(), s.LastSeq))
}

// A watch counts what is read for an index, and sends spans. The zero watch does nothing.
type watch struct {
	spans *otlp.Exporter // nil if none are sent

	calls, tokens, findings *prometheus.CounterVec
	durations               *prometheus.HistogramVec
}

// newWatch returns a watch that registers its metrics with r.
func newWatch(r prometheus.Registerer, to *otlp.Exporter) watch {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	w := watch{
		spans:    to,
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
func (w *watch) called(c *calls.Call) {
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

func (w *watch) found(f session.Finding) {
	if w.findings != nil {
		w.findings.WithLabelValues(f.Name).Inc()
	}
}
