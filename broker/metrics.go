package broker

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/wirectl/wirectl/broker/provider"
)

// WriteMetrics writes what the broker counts in the text format of Prometheus.
// It is written here rather than by Prometheus's own module, whose beginning
// costs every run of the program a millisecond.
func (b *Broker) WriteMetrics(w io.Writer) error {
	m := metrics{w: w}
	b.callMetrics(&m)
	b.providerMetrics(&m)
	m.family("wirectl_broker_running_calls", "gauge", "Calls that run.")
	m.sample("wirectl_broker_running_calls", nil, float64(b.running.Load()))
	m.family("wirectl_broker_start_time_seconds", "gauge", "When the broker started.")
	m.sample("wirectl_broker_start_time_seconds", nil, float64(b.start.UnixMilli())/1000)
	return m.err
}

// callMetrics writes what was used at each door of each model.
func (b *Broker) callMetrics(m *metrics) {
	sums := b.sums()
	m.family("wirectl_broker_calls_total", "counter", "Calls that ended, by outcome.")
	for _, s := range sums {
		for o, n := range []int64{OK: s.OK, Failed: s.Failed, Cancelled: s.Cancelled, Refused: s.Refused} {
			if n > 0 {
				m.sample("wirectl_broker_calls_total", labels{{"door", s.Door}, {"model", s.Model}, {"outcome", Outcome(o).String()}}, float64(n))
			}
		}
	}
	m.family("wirectl_broker_tokens_total", "counter", "Tokens of calls that succeeded.")
	for _, s := range sums {
		m.sample("wirectl_broker_tokens_total", labels{{"door", s.Door}, {"model", s.Model}, {"direction", "input"}}, float64(s.InputTokens))
		m.sample("wirectl_broker_tokens_total", labels{{"door", s.Door}, {"model", s.Model}, {"direction", "output"}}, float64(s.OutputTokens))
	}
	m.family("wirectl_broker_call_duration_seconds", "histogram", "How long calls took.")
	for _, s := range sums {
		m.histogram("wirectl_broker_call_duration_seconds", labels{{"door", s.Door}, {"model", s.Model}}, s)
	}
}

// sums adds up what was used over all clients, of which there may be many.
func (b *Broker) sums() (list []*Usage) {
	type key struct{ door, model string }
	sums := map[key]*Usage{}
	for _, u := range b.Usage() {
		k := key{u.Door, u.Model}
		if sums[k] == nil {
			sums[k] = &Usage{Door: u.Door, Model: u.Model}
			list = append(list, sums[k])
		}
		sums[k].add(&u)
	}
	return list
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

func (b *Broker) providerMetrics(m *metrics) {
	backends := b.table.Load().backends
	for _, f := range []struct {
		name, kind, help string
		value            func(*backend) float64
	}{
		{"wirectl_provider_attempts_total", "counter", "Calls made to providers, retries among them.", func(k *backend) float64 { return float64(k.attempts.Load()) }},
		{"wirectl_provider_retries_total", "counter", "Calls made again.", func(k *backend) float64 { return float64(k.retries.Load()) }},
		{"wirectl_provider_running_calls", "gauge", "Calls that providers work on.", func(k *backend) float64 { return float64(k.running.Load()) }},
		{"wirectl_provider_breaker_open", "gauge", "1 while a provider is left alone.", func(k *backend) float64 {
			if k.isOpen() {
				return 1
			}
			return 0
		}},
	} {
		m.family(f.name, f.kind, f.help)
		for _, k := range backends {
			m.sample(f.name, labels{{"provider", k.Name}}, f.value(k))
		}
	}
	m.family("wirectl_provider_failures_total", "counter", "Calls that providers failed, by cause.")
	for _, k := range backends {
		for cause := range k.failures {
			if n := k.failures[cause].Load(); n > 0 {
				m.sample("wirectl_provider_failures_total", labels{{"provider", k.Name}, {"cause", provider.Cause(cause).String()}}, float64(n))
			}
		}
	}
}

// metrics writes the text format and keeps the first error.
type metrics struct {
	w   io.Writer
	err error
}

type labels [][2]string

func (m *metrics) family(name, kind, help string) {
	m.printf("# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
}

func (m *metrics) sample(name string, l labels, value float64) {
	m.printf("%s%s %v\n", name, l, value)
}

func (m *metrics) histogram(name string, l labels, u *Usage) {
	var sum int64
	for i, bound := range buckets {
		sum += u.durations[i]
		m.sample(name+"_bucket", append(l[:len(l):len(l)], [2]string{"le", fmt.Sprint(bound.Seconds())}), float64(sum))
	}
	m.sample(name+"_bucket", append(l[:len(l):len(l)], [2]string{"le", "+Inf"}), float64(u.Calls()))
	m.sample(name+"_sum", l, u.Seconds)
	m.sample(name+"_count", l, float64(u.Calls()))
}

func (m *metrics) printf(format string, args ...any) {
	if m.err == nil {
		_, m.err = fmt.Fprintf(m.w, format, args...)
	}
}

var labelEscapes = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

func (l labels) String() string {
	if len(l) == 0 {
		return ""
	}
	parts := make([]string, len(l))
	for i, pair := range l {
		parts[i] = pair[0] + `="` + labelEscapes.Replace(strings.ToValidUTF8(pair[1], "\uFFFD")) + `"`
	}
	return "{" + strings.Join(parts, ",") + "}"
}

// Uptime returns how long the broker has been there.
func (b *Broker) Uptime() time.Duration { return time.Since(b.start) }
