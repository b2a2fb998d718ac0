package broker

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/wirectl/wirectl/broker/provider"
)

// What a broker counts, as Prometheus describes it.
var (
	callsDesc    = describe("wirectl_broker_calls_total", "Calls that ended, by outcome.", "door", "model", "outcome")
	tokensDesc   = describe("wirectl_broker_tokens_total", "Tokens of calls that succeeded.", "door", "model", "direction")
	durationDesc = describe("wirectl_broker_call_duration_seconds", "How long calls took.", "door", "model")
	runningDesc  = describe("wirectl_broker_running_calls", "Calls that run.")
	startDesc    = describe("wirectl_broker_start_time_seconds", "When the broker started.")

	attemptsDesc = describe("wirectl_provider_attempts_total", "Calls made to providers, retries among them.", "provider")
	retriesDesc  = describe("wirectl_provider_retries_total", "Calls made again.", "provider")
	workingDesc  = describe("wirectl_provider_running_calls", "Calls that providers work on.", "provider")
	breakerDesc  = describe("wirectl_provider_breaker_open", "1 while a provider is left alone.", "provider")
	failuresDesc = describe("wirectl_provider_failures_total", "Calls that providers failed, by cause.", "provider", "cause")
)

var descs = []*prometheus.Desc{
	callsDesc, tokensDesc, durationDesc, runningDesc, startDesc,
	attemptsDesc, retriesDesc, workingDesc, breakerDesc, failuresDesc,
}

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

var _ prometheus.Collector = (*Broker)(nil)

// Describe makes a Broker a [prometheus.Collector].
func (b *Broker) Describe(to chan<- *prometheus.Desc) {
	for _, d := range descs {
		to <- d
	}
}

// Collect hands over what the broker has counted so far.
func (b *Broker) Collect(to chan<- prometheus.Metric) {
	m := metrics(to)
	for key, u := range b.sums() {
		for o, n := range []int64{OK: u.OK, Failed: u.Failed, Cancelled: u.Cancelled, Refused: u.Refused} {
			if n > 0 {
				m.counter(callsDesc, n, key.door, key.model, Outcome(o).String())
			}
		}
		m.counter(tokensDesc, u.InputTokens, key.door, key.model, "input")
		m.counter(tokensDesc, u.OutputTokens, key.door, key.model, "output")
		m.durations(u, key.door, key.model)
	}
	m.gauge(runningDesc, float64(b.running.Load()))
	m.gauge(startDesc, float64(b.start.UnixMilli())/1000)
	for _, k := range b.table.Load().backends {
		m.backend(k)
	}
}

// sums adds up what was used over all clients, of which there may be many. Its keys
// are valid UTF-8, as labels have to be.
func (b *Broker) sums() map[accountKey]*Usage {
	sums := map[accountKey]*Usage{}
	for _, u := range b.Usage() {
		key := accountKey{door: label(u.Door), model: label(u.Model)}
		if sums[key] == nil {
			sums[key] = &Usage{}
		}
		sums[key].add(&u)
	}
	return sums
}

func (u *Usage) add(v *Usage) {
	u.OK += v.OK
	u.Failed += v.Failed
	u.Cancelled += v.Cancelled
	u.Refused += v.Refused
	u.InputTokens += v.InputTokens
	u.OutputTokens += v.OutputTokens
	u.Seconds += v.Seconds
	for i, n := range v.durations {
		u.durations[i] += n
	}
}

func label(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// metrics are handed over as they are made.
type metrics chan<- prometheus.Metric

func (m metrics) counter(d *prometheus.Desc, n int64, labels ...string) {
	m <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
}

func (m metrics) gauge(d *prometheus.Desc, value float64, labels ...string) {
	m <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
}

func (m metrics) durations(u *Usage, labels ...string) {
	var sum uint64
	bounds := map[float64]uint64{}
	for i, n := range u.durations {
		sum += uint64(n)
		if i < len(buckets) {
			bounds[buckets[i].Seconds()] = sum
		}
	}
	m <- prometheus.MustNewConstHistogram(durationDesc, sum, u.Seconds, bounds, labels...)
}

func (m metrics) backend(k *backend) {
	name := label(k.Name)
	m.counter(attemptsDesc, k.attempts.Load(), name)
	m.counter(retriesDesc, k.retries.Load(), name)
	m.gauge(workingDesc, float64(k.running.Load()), name)
	open := 0.0
	if k.isOpen() {
		open = 1
	}
	m.gauge(breakerDesc, open, name)
	for cause := range k.failures {
		if n := k.failures[cause].Load(); n > 0 {
			m.counter(failuresDesc, n, name, provider.Cause(cause).String())
		}
	}
}
