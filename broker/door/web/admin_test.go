package web_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/wirectl/wirectl/broker"
	"github.com/wirectl/wirectl/broker/door/web"
	"github.com/wirectl/wirectl/broker/provider"
	"github.com/wirectl/wirectl/test/kit/doortest"
)

// served returns the address of the door of a broker that accepts any model.
func served(t *testing.T) (*broker.Broker, string) {
	t.Helper()
	k := &broker.Backend{Name: "k", Provider: provider.NewMock(provider.MockConfig{})}
	b, err := broker.New(broker.Config{Models: []broker.Model{{Name: "m*", Routes: []broker.Route{{Backend: k}}}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return b, "http://" + doortest.Serve(t, web.NewAdmin(b, web.Access{}))
}

// Prometheus's own parser accepts the metrics, even if names of models are not UTF-8 and
// become the same label.
func TestMetrics(t *testing.T) {
	b, url := served(t)
	names := []string{"m \"x\"\ny", "m\xff", "m\xfe"}
	for _, name := range append(names, "none") {
		_ = b.Do(t.Context(), &broker.Call{Model: name, Door: "rlm", Prompt: provider.Quote("hi")})
	}
	status, header, body := doortest.Ask(t, http.MethodGet, url+"/metrics", "", nil)
	if status != http.StatusOK || !strings.HasPrefix(header.Get("Content-Type"), "text/plain; version=0.0.4; charset=utf-8") {
		t.Fatalf("%d %v\n%s", status, header, body)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"wirectl_broker_call_duration_seconds HISTOGRAM", "wirectl_broker_calls_total COUNTER", "wirectl_broker_running_calls GAUGE",
		"wirectl_broker_start_time_seconds GAUGE", "wirectl_broker_tokens_total COUNTER", "wirectl_provider_attempts_total COUNTER",
		"wirectl_provider_breaker_open GAUGE", "wirectl_provider_retries_total COUNTER", "wirectl_provider_running_calls GAUGE",
	}
	var got []string
	for _, name := range slices.Sorted(maps.Keys(families)) {
		got = append(got, name+" "+families[name].GetType().String())
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	calls := map[string]float64{}
	for _, m := range families["wirectl_broker_calls_total"].GetMetric() {
		var labels []string
		for _, l := range m.GetLabel() {
			labels = append(labels, l.GetName()+"="+l.GetValue())
		}
		calls[strings.Join(labels, ",")] = m.GetCounter().GetValue()
	}
	if want := map[string]float64{
		"door=rlm,model=m \"x\"\ny,outcome=ok": 1, "door=rlm,model=m\uFFFD,outcome=ok": 2, "door=rlm,model=unknown,outcome=refused": 1,
	}; !maps.Equal(calls, want) {
		t.Errorf("got %v, want %v", calls, want)
	}
	for _, m := range families["wirectl_broker_call_duration_seconds"].GetMetric() {
		h := m.GetHistogram()
		if n := h.GetSampleCount(); n == 0 || len(h.GetBucket()) != 13 || h.GetBucket()[12].GetCumulativeCount() != n {
			t.Errorf("the histogram is %v", h)
		}
	}
}

// The other pages are JSON and read-only. Other paths do not exist.
func TestAdminPages(t *testing.T) {
	_, url := served(t)
	for _, tt := range []struct {
		method, path, want string
		status             int
	}{
		{http.MethodGet, "/healthz", `{"ok":true,"running":0,"uptime_seconds":0}`, http.StatusOK},
		{http.MethodGet, "/usage", `{"usage":[]}`, http.StatusOK},
		{http.MethodGet, "/models", `{"models":["m*"]}`, http.StatusOK},
		{http.MethodHead, "/metrics", "", http.StatusOK},
		{http.MethodPost, "/metrics", `{"error":"Method not allowed"}`, http.StatusMethodNotAllowed},
		{http.MethodGet, "/metrics/", `{"error":"Not found"}`, http.StatusNotFound},
	} {
		status, _, body := doortest.Ask(t, tt.method, url+tt.path, "", nil)
		if got := doortest.Zero(body, "uptime_seconds"); status != tt.status || got != tt.want || got != "" && !json.Valid([]byte(body)) {
			t.Errorf("%s %s: %d %s", tt.method, tt.path, status, body)
		}
	}
}
