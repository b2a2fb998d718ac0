package hub_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	collect "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/wirectl/wirectl/hub"
	"github.com/wirectl/wirectl/hub/server"
)

// collector starts a server that keeps the spans it receives.
func collector(t *testing.T) (address string, spans func() []*trace.Span) {
	var mu sync.Mutex
	var got []*trace.Span
	c := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var request collect.ExportTraceServiceRequest
		if err := proto.Unmarshal(body, &request); err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		for _, resource := range request.GetResourceSpans() {
			for _, scope := range resource.GetScopeSpans() {
				got = append(got, scope.GetSpans()...)
			}
		}
	}))
	t.Cleanup(c.Close)
	return c.URL + "/v1/traces", func() []*trace.Span {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(got)
	}
}

// exporting starts a hub that exports spans.
func exporting(t *testing.T, dir, listen, to string, reindex bool) *server.Hub {
	t.Helper()
	h, err := server.Start(t.Context(), server.Options{
		Dir: dir, Listen: listen, MaxBytes: 1 << 30, MaxAge: time.Hour, Reindex: reindex, OTLP: to, Getenv: func(string) string { return "" },
		Warn: func(text string) { t.Log(text) },
	})
	check(t, err)
	return h
}

// families returns the metrics of a hub, parsed by Prometheus's own parser.
func families(t *testing.T, h *server.Hub) map[string]*dto.MetricFamily {
	t.Helper()
	w := httptest.NewRecorder()
	h.Metrics().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	parser := expfmt.NewTextParser(model.UTF8Validation)
	f, err := parser.TextToMetricFamilies(w.Body)
	check(t, err)
	return f
}

// Sessions are exported to a collector once, even if the index is rebuilt, and counted in
// the metrics.
func TestExport(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	to, spans := collector(t)
	h := exporting(t, dir, "127.0.0.1:0", to, false)
	f := send(t, h.URL(), lossless)
	f.talk(call(1, "add", "planted", well)...)
	f.talk(call(2, "search", "planted", ill)...)
	f.talk(`<{"jsonrpc":"2.0","id":77,"result":{}}`)
	f.end()
	search(t, h, hub.Query{}) // waits until everything is read
	counted := families(t, h)
	check(t, h.Close())
	var names []string
	for _, s := range spans() {
		names = append(names, s.GetName())
		text := s.String()
		if strings.Contains(text, "planted") || !strings.Contains(text, "hub:"+f.sender.Info().ID) || !strings.Contains(text, `"host.name"`) {
			t.Errorf("got %s", text)
		}
	}
	if slices.Sort(names); !slices.Equal(names, []string{"session", "tools/call add", "tools/call search"}) {
		t.Errorf("got %q", names)
	}
	check(t, exporting(t, dir, "127.0.0.1:0", to, true).Close())
	h = exporting(t, dir, "127.0.0.1:0", to, true)
	search(t, h, hub.Query{})
	again := families(t, h)
	check(t, h.Close())
	if n := len(spans()); n != 3 {
		t.Errorf("%d spans once the index was made again", n)
	}
	if again["wirectl_hub_calls_total"] != nil {
		t.Errorf("counted again: %v", again)
	}

	got := map[string]float64{}
	for _, name := range []string{"wirectl_hub_calls_total", "wirectl_hub_findings_total", "wirectl_hub_call_duration_seconds", "wirectl_hub_live_sessions", "wirectl_hub_index_behind_segments", "wirectl_hub_max_bytes"} {
		for _, m := range counted[name].GetMetric() {
			label := ""
			for _, l := range m.GetLabel() {
				label += " " + l.GetValue()
			}
			got[name+label] = m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	for name, want := range map[string]float64{
		"wirectl_hub_calls_total done mcp": 1, "wirectl_hub_calls_total failed mcp": 1, "wirectl_hub_findings_total orphan": 1,
		"wirectl_hub_call_duration_seconds mcp": 2, "wirectl_hub_index_behind_segments": 0, "wirectl_hub_max_bytes": 1 << 30,
	} {
		if n, there := got[name]; n != want || !there {
			t.Errorf("%s is %v, want %v", name, n, want)
		}
	}
	if counted["wirectl_hub_stored_bytes"].GetMetric()[0].GetGauge().GetValue() == 0 || counted["process_resident_memory_bytes"] == nil && counted["go_goroutines"] == nil {
		t.Errorf("got %v", counted)
	}
}

// The span of a call that is open when the hub restarts is sent when the call is over. Spans that
// were sent before are not sent again.
func TestExportIsResumed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	to, spans := collector(t)
	h := exporting(t, dir, freePort(t), to, false)
	f := send(t, h.URL(), lossless)
	f.talk(call(1, "early", "", well)...)
	f.talk(call(2, "slow", "", well)[0])
	until(t, "the first call is in the index", func() bool {
		return len(search(t, h, hub.Query{Where: "calls==1 and frames==3"})) == 1
	})
	check(t, h.Close())
	h = exporting(t, dir, listens(h), to, false)
	f.talk(call(2, "slow", "", well)[1])
	f.talk(call(3, "late", "", ill)...)
	until(t, "the sender has found the hub again", func() bool { // else its end does not wait for it
		return len(search(t, h, hub.Query{Where: "calls==3"})) == 1
	})
	f.end()
	search(t, h, hub.Query{})
	check(t, h.Close())
	var names []string
	ids := map[string]bool{}
	for _, s := range spans() {
		names = append(names, s.GetName())
		ids[string(s.GetSpanId())] = true
		if s.GetEndTimeUnixNano() < s.GetStartTimeUnixNano() || s.GetStartTimeUnixNano() == 0 {
			t.Errorf("got %s", s)
		}
	}
	slices.Sort(names)
	if want := []string{"session", "session", "tools/call early", "tools/call late", "tools/call slow"}; !slices.Equal(names, want) || len(ids) != len(want) {
		t.Errorf("got %q, want %q, with %d ids", names, want, len(ids))
	}
}
