package observe_test

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/wirectl/wirectl/broker"
	"github.com/wirectl/wirectl/broker/observe"
	"github.com/wirectl/wirectl/broker/provider"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	client = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	ids    = `"(traceId|spanId|parentSpanId)":"([0-9a-f]+)"`
)

// received returns what a collector gets of one call, whose client had a span.
func received(t *testing.T) []byte {
	t.Helper()
	bodies := make(chan []byte, 1)
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.URL.Path != "/v1/traces" || r.Header.Get("Content-Type") != "application/json" || r.Header.Get("X-Key") != "k 1" {
			t.Errorf("%s %s", r.URL.Path, r.Header)
		}
		bodies <- body
	}))
	defer collector.Close()
	spans := newSpans(t, collector.URL+"/", http.Header{"X-Key": {"k 1"}})
	c := &broker.Call{Model: "a", Name: "m", Door: "rlm", Parent: client, Traceparent: observe.Traceparent(client), Started: time.Now(), Took: time.Second}
	c.Completion.Usage, c.Completion.Finish = provider.Usage{Input: 3, Output: 4}, "stop"
	c.Hops = []broker.Hop{
		{Provider: "one", Model: "x", Started: c.Started, Took: time.Millisecond, Err: provider.StatusError(429, 0, errors.New("secret"))},
		{Provider: "two", Model: "y", Started: c.Started, Took: time.Millisecond},
	}
	spans.Ended(c, &broker.Report{})
	if err := spans.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	return <-bodies
}

// The types of OpenTelemetry read the spans, which hang together: that of the
// client has the broker's below it, and that the attempts. Ids are hex in OTLP's
// JSON, unlike in that of protobuf.
func TestSpans(t *testing.T) {
	body := regexp.MustCompile(ids).ReplaceAllStringFunc(string(received(t)), func(s string) string {
		m := regexp.MustCompile(ids).FindStringSubmatch(s)
		raw, _ := hex.DecodeString(m[2])
		return `"` + m[1] + `":"` + base64.StdEncoding.EncodeToString(raw) + `"`
	})
	var data trace.TracesData
	if err := protojson.Unmarshal([]byte(body), &data); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	spans := data.GetResourceSpans()[0].GetScopeSpans()[0].GetSpans()
	if len(spans) != 3 {
		t.Fatalf("got %v", spans)
	}
	parent := "b7ad6b7169203331"
	for i, s := range spans {
		if hex.EncodeToString(s.GetTraceId()) != "0af7651916cd43dd8448eb211c80319c" || hex.EncodeToString(s.GetParentSpanId()) != parent {
			t.Errorf("span %d hangs elsewhere: %v", i, s)
		}
		if i == 0 {
			parent = hex.EncodeToString(s.GetSpanId())
		}
		if failed := s.GetStatus().GetCode() == trace.Status_STATUS_CODE_ERROR; failed != (i == 1) {
			t.Errorf("the status of span %d is %v", i, s.GetStatus())
		}
		if s.GetEndTimeUnixNano() <= s.GetStartTimeUnixNano() {
			t.Errorf("span %d takes no time", i)
		}
	}
	for _, a := range spans[1].GetAttributes() {
		if a.GetKey() == "error.type" && a.GetValue().GetStringValue() != "rate_limited" {
			t.Errorf("the class of the error is %q", a.GetValue().GetStringValue())
		}
	}
	if got := spans[1].GetAttributes(); got[len(got)-1].GetKey() != "error.type" {
		t.Errorf("the error has no class: %v", got)
	}
	if spans[0].GetKind() != trace.Span_SPAN_KIND_SERVER || spans[1].GetKind() != trace.Span_SPAN_KIND_CLIENT {
		t.Errorf("kinds %v, %v", spans[0].GetKind(), spans[1].GetKind())
	}
	if strings.Contains(body, "secret") {
		t.Error("what a provider said got out")
	}
}

// A collector that refuses spans is told of at the end.
func TestRefused(t *testing.T) {
	collector := httptest.NewServer(http.NotFoundHandler())
	defer collector.Close()
	spans := newSpans(t, collector.URL, nil)
	spans.Ended(&broker.Call{}, &broker.Report{})
	if err := spans.Close(t.Context()); err == nil || !strings.Contains(err.Error(), "404 Not Found") {
		t.Errorf("got %v", err)
	}
}

// A collector that never answers holds up no end, and every call that it heard nothing
// of is counted: those that it was told of, those that waited, and those for which there
// was no place to.
func TestDeadCollector(t *testing.T) {
	asked := make(chan struct{}, 1)
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // only then the server sees that the client goes
		asked <- struct{}{}
		<-r.Context().Done()
	}))
	defer collector.Close()
	spans := newSpans(t, collector.URL, nil)
	for range 2000 {
		spans.Ended(&broker.Call{}, &broker.Report{})
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-asked
		cancel()
	}()
	if err := spans.Close(ctx); err == nil || err.Error() != "spans were lost (calls: 2000): the collector did not take them in time" {
		t.Errorf("got %v", err)
	}
}

// A call that no model was found for has a span, which is called after none.
func TestNameless(t *testing.T) {
	bodies := make(chan []byte, 1)
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		bodies <- body
	}))
	defer collector.Close()
	spans := newSpans(t, collector.URL, nil)
	spans.Ended(&broker.Call{Model: "nope"}, &broker.Report{Outcome: broker.Refused, Err: &broker.UnknownModelError{Model: "nope"}})
	spans.Ended(&broker.Call{}, &broker.Report{Outcome: broker.Refused, Err: &broker.UnknownModelError{}})
	if err := spans.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	body := string(<-bodies)
	if strings.Count(body, `"name":"chat"`) != 2 || strings.Count(body, "gen_ai.request.model") != 1 || strings.Contains(body, "gen_ai.response.model") || strings.Count(body, "unknown_model") != 2 {
		t.Errorf("got %s", body)
	}
}

// Headers for a collector come as OpenTelemetry has them in the environment; what
// is none is told of without its value, and no redirect gets any.
func TestHeaders(t *testing.T) {
	got, err := observe.Headers("api-key=a%20b%3D, X-Team = blue ,,x-team=red")
	if want := (http.Header{"Api-Key": {"a b="}, "X-Team": {"blue", "red"}}); err != nil || !maps.EqualFunc(got, want, slices.Equal) {
		t.Errorf("got %v, %v", got, err)
	}
	for _, bad := range []string{"secret", "a=b,=secret", "a b=secret", "a=secret%0d%0aX: y", "a=secret%zz"} {
		if _, err := observe.Headers(bad); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", bad, err)
		}
	}
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a redirect was followed") }))
	defer elsewhere.Close()
	collector := httptest.NewServer(http.RedirectHandler(elsewhere.URL, http.StatusTemporaryRedirect))
	defer collector.Close()
	spans := newSpans(t, collector.URL, got)
	spans.Ended(&broker.Call{}, &broker.Report{})
	if err := spans.Close(t.Context()); err == nil || !strings.Contains(err.Error(), "307") {
		t.Errorf("got %v", err)
	}
}

// The context of a client is gone on with as the client wants it; what is none
// begins a trace of our own.
func TestTraceparent(t *testing.T) {
	for _, tt := range []struct{ client, begins, ends string }{
		{client, "00-0af7651916cd43dd8448eb211c80319c-", "-01"},
		{"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00", "00-0af7651916cd43dd8448eb211c80319c-", "-00"},
		{"01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-03-later", "00-0af7651916cd43dd8448eb211c80319c-", "-03"},
		{"", "00-", "-01"},
		{client + "-more", "00-", "-01"},
		{"ff" + client[2:], "00-", "-01"},
		{client + "\r\nX: y", "00-", "-01"},
		{"00-00000000000000000000000000000000-b7ad6b7169203331-01", "00-", "-01"},
	} {
		got := observe.Traceparent(tt.client)
		_, _, _, ok := broker.ParseTraceparent(got)
		foreign := tt.begins == "00-" && strings.Contains(got, "0af7651916cd43dd8448eb211c80319c")
		if !ok || foreign || !strings.HasPrefix(got, tt.begins) || !strings.HasSuffix(got, tt.ends) {
			t.Errorf("%q became %q", tt.client, got)
		}
	}
}

// A trace that its client wants no record of gets none.
func TestUnsampled(t *testing.T) {
	collector := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a span was sent") }))
	defer collector.Close()
	spans := newSpans(t, collector.URL, nil)
	unsampled := observe.Traceparent(client[:len(client)-2] + "00")
	spans.Ended(&broker.Call{Traceparent: unsampled}, &broker.Report{})
	if err := spans.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// An address that nothing could be sent to is refused at once.
func TestNoCollector(t *testing.T) {
	for _, address := range []string{"localhost:4318", "ftp://localhost", "http://", "/v1/traces", "http://a b"} {
		if _, err := observe.NewSpans(address, nil, nil); err == nil {
			t.Errorf("%s is taken", address)
		}
	}
}

func newSpans(t *testing.T, address string, header http.Header) *observe.Spans {
	t.Helper()
	spans, err := observe.NewSpans(address, header, nil)
	if err != nil {
		t.Fatal(err)
	}
	return spans
}

// The password in a collector's address is in no error.
func TestCollectorsPassword(t *testing.T) {
	collector := httptest.NewServer(http.NotFoundHandler())
	defer collector.Close()
	s, err := observe.NewSpans(strings.Replace(collector.URL, "//", "//user:sk-planted@", 1), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	s.Ended(&broker.Call{}, &broker.Report{})
	if err := s.Close(t.Context()); err == nil || strings.Contains(err.Error(), "sk-planted") || !strings.Contains(err.Error(), "404") {
		t.Errorf("got %v", err)
	}
}
