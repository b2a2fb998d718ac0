package broker

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are the Prometheus metrics of a broker.
type metrics struct {
	calls, tokens               *prometheus.CounterVec
	durations                   *prometheus.HistogramVec
	attempts, retries, failures *prometheus.CounterVec
	working                     *prometheus.GaugeVec
}

func newMetrics() *metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	return &metrics{
		calls:  counter("wirectl_broker_calls_total", "Calls that ended, by outcome.", "door", "model", "outcome"),
		tokens: counter("wirectl_broker_tokens_total", "Tokens of calls that succeeded.", "door", "model", "direction"),
		durations: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "wirectl_broker_call_duration_seconds", Help: "How long calls took.",
			Buckets: []float64{.001, .005, .025, .1, .25, .5, 1, 2.5, 5, 10, 30, 60},
		}, []string{"door", "model"}),
		attempts: counter("wirectl_provider_attempts_total", "Calls made to providers, including retries.", "provider"),
		retries:  counter("wirectl_provider_retries_total", "Calls made again.", "provider"),
		failures: counter("wirectl_provider_failures_total", "Calls that failed at providers, by cause.", "provider", "cause"),
		working: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "wirectl_provider_running_calls", Help: "Calls in flight at providers.",
		}, []string{"provider"}),
	}
}

var (
	runningDesc = prometheus.NewDesc("wirectl_broker_running_calls", "Calls that run.", nil, nil)
	startDesc   = prometheus.NewDesc("wirectl_broker_start_time_seconds", "When the broker started.", nil, nil)
	breakerDesc = prometheus.NewDesc("wirectl_provider_breaker_open", "1 while a provider's breaker is open.", []string{"provider"}, nil)
)

// Describe makes a Broker a [prometheus.Collector], of metrics that are described when
// they are collected.
func (b *Broker) Describe(chan<- *prometheus.Desc) {}

// Collect hands over what the broker has counted so far.
func (b *Broker) Collect(to chan<- prometheus.Metric) {
	m := b.metrics
	for _, c := range []prometheus.Collector{m.calls, m.tokens, m.durations, m.attempts, m.retries, m.failures, m.working} {
		c.Collect(to)
	}
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	gauge(runningDesc, float64(b.running.Load()))
	gauge(startDesc, float64(b.start.UnixMilli())/1000)
	for _, k := range b.table.Load().backends {
		open := 0.0
		if k.isOpen() {
			open = 1
		}
		gauge(breakerDesc, open, label(k.Name))
	}
}

// addCall counts a call. Clients have no label, since there may be many: the ledger has them.
func (m *metrics) addCall(door, model string, c *Call, o Outcome) {
	door, model = label(door), label(model)
	m.calls.WithLabelValues(door, model, o.String()).Inc()
	m.durations.WithLabelValues(door, model).Observe(c.Took.Seconds())
	if o == OK {
		m.tokens.WithLabelValues(door, model, "input").Add(float64(c.used().Input))
		m.tokens.WithLabelValues(door, model, "output").Add(float64(c.used().Output))
	}
}

// label returns s as valid UTF-8, which labels must be.
func label(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
