package server

import (
	"context"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
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
