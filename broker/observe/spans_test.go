package observe_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	collect "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	"github.com/wirectl/wirectl/broker"
	"github.com/wirectl/wirectl/broker/mask"
	"github.com/wirectl/wirectl/broker/observe"
	"github.com/wirectl/wirectl/broker/provider"
	"github.com/wirectl/wirectl/internal/otlp"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const client = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// received returns the spans that a collector gets for calls.
func received(t *testing.T, secrets *mask.Secrets, calls ...*broker.Call) []*trace.Span {
	t.Helper()
	bodies := make(chan []byte, 1)
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.URL.Path != "/v1/traces" || r.Header.Get("Content-Type") != "application/x-protobuf" || r.Header.Get("X-Key") != "k 1" {
			t.Errorf("%s %s", r.URL.Path, r.Header)
		}
		bodies <- body
	}))
	defer collector.Close()
	t.Setenv("OTEL_TRACES_SAMPLER", "always_off") // set for other programs
	spans := newSpans(t, collector.URL+"/v1/traces", "X-Key=k%201", secrets)
	for _, c := range calls {
		r := &broker.Report{}
		if c.Name == "" {
			r = &broker.Report{Outcome: broker.Refused, Err: &broker.UnknownModelError{Model: c.Model}}
		}
		spans.Ended(c, r)
	}
	if err := spans.To.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	var request collect.ExportTraceServiceRequest
	if err := proto.Unmarshal(<-bodies, &request); err != nil {
		t.Fatal(err)
	}
	resource := request.GetResourceSpans()[0]
	if got := attributes(resource.GetResource().GetAttributes()); got != "service.name=wirectl" {
		t.Errorf("the resource is %s", got)
	}
	return resource.GetScopeSpans()[0].GetSpans()
}

// attributes writes attributes, one a line.
func attributes(list []*common.KeyValue) string {
	var lines []string
	for _, a := range list {
		value := a.GetValue().GetStringValue()
		switch v := a.GetValue().GetValue().(type) {
		case *common.AnyValue_IntValue:
			value = strconv.FormatInt(v.IntValue, 10)
		case *common.AnyValue_ArrayValue:
			value = "[" + v.ArrayValue.GetValues()[0].GetStringValue() + "]"
		}
		lines = append(lines, a.GetKey()+"="+value)
	}
	return strings.Join(lines, "\n")
}

// The spans of a call are nested: the client's, the broker's, and the attempts.
func TestSpans(t *testing.T) {
	own, first, second := observe.Traceparent(client), observe.Traceparent(client), observe.Traceparent(client)
	c := &broker.Call{ID: 7, Model: "a", Name: "m", Door: "rlm", Parent: client, Traceparent: own, Started: time.Now(), Took: time.Second}
	c.Completion.Usage, c.Completion.Finish = provider.Usage{Input: 3, Output: 4}, "stop"
	c.Hops = []broker.Hop{
		{Provider: "one", Model: "x", Started: c.Started, Took: time.Millisecond, Traceparent: first, Err: provider.StatusError(429, 0, errors.New("secret"))},
		{Provider: "two", Model: "y", Started: c.Started, Took: time.Millisecond, Traceparent: second},
	}
	want := []struct {
		traceparent, parent, name, attributes string
		kind                                  trace.Span_SpanKind
		status                                string
		took                                  time.Duration
	}{
		{
			own, client, "chat m", `gen_ai.operation.name=chat
gen_ai.usage.input_tokens=3
gen_ai.usage.output_tokens=4
wirectl.door=rlm
wirectl.outcome=ok
wirectl.call=7
gen_ai.request.model=a
gen_ai.response.finish_reasons=[stop]
gen_ai.response.model=m`, trace.Span_SPAN_KIND_SERVER, "", time.Second,
		},
		{
			first, own, "chat x", `gen_ai.operation.name=chat
gen_ai.provider.name=one
gen_ai.request.model=x
error.type=rate_limited`, trace.Span_SPAN_KIND_CLIENT, "Rate limit exceeded: try again later", time.Millisecond,
		},
		{
			second, own, "chat y", `gen_ai.operation.name=chat
gen_ai.provider.name=two
gen_ai.request.model=y`, trace.Span_SPAN_KIND_CLIENT, "", time.Millisecond,
		},
	}
	spans := received(t, new(mask.Secrets), c)
	if len(spans) != len(want) {
		t.Fatalf("got %v", spans)
	}
	for i, s := range spans {
		want := want[i]
		if got := fmt.Sprintf("00-%x-%x-01", s.GetTraceId(), s.GetSpanId()); got != want.traceparent {
			t.Errorf("span %d is %s, want %s", i, got, want.traceparent)
		}
		if got := fmt.Sprintf("00-%x-%x-01", s.GetTraceId(), s.GetParentSpanId()); got != want.parent {
			t.Errorf("span %d is below %s, want %s", i, got, want.parent)
		}
		if s.GetName() != want.name || s.GetKind() != want.kind || attributes(s.GetAttributes()) != want.attributes {
			t.Errorf("span %d is %v", i, s)
		}
		if failed := s.GetStatus().GetCode() == trace.Status_STATUS_CODE_ERROR; failed != (want.status != "") || s.GetStatus().GetMessage() != want.status {
			t.Errorf("the status of span %d is %v", i, s.GetStatus())
		}
		if took := s.GetEndTimeUnixNano() - s.GetStartTimeUnixNano(); s.GetStartTimeUnixNano() != uint64(c.Started.UnixNano()) || took != uint64(want.took) {
			t.Errorf("span %d took %d", i, took)
		}
	}
}

// A secret in the name of a model is masked, and a name that is not UTF-8 loses no span.
func TestNames(t *testing.T) {
	var secrets mask.Secrets
	secrets.Add("sk-planted")
	spans := received(t, &secrets, &broker.Call{Model: "sk-planted"}, &broker.Call{Model: "\xff", Name: "\xff"})
	if len(spans) != 2 || spans[1].GetName() != "chat \uFFFD" {
		t.Fatalf("got %v", spans)
	}
	if got := spans[0].String(); strings.Contains(got, "sk-planted") || strings.Count(got, "**********") != 2 {
		t.Errorf("got %s", got)
	}
}

// Spans that a collector rejects are reported at the end.
func TestRefused(t *testing.T) {
	collector := httptest.NewServer(http.NotFoundHandler())
	defer collector.Close()
	spans := newSpans(t, collector.URL, "", nil)
	spans.Ended(&broker.Call{}, &broker.Report{})
	if err := spans.To.Close(t.Context()); err == nil || !strings.Contains(err.Error(), "404 Not Found") {
		t.Errorf("got %v", err)
	}
}

// A collector that never answers does not delay the end. Every unconfirmed span is counted:
// those sent, those queued, and those for which the queue had no room.
func TestDeadCollector(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // only then the server notices the disconnect
		cancel()
		<-r.Context().Done()
	}))
	defer collector.Close()
	spans := newSpans(t, collector.URL, "", nil)
	for range 5000 {
		spans.Ended(&broker.Call{}, &broker.Report{})
	}
	if err := spans.To.Close(ctx); err == nil || err.Error() != "spans were lost (5000): the collector did not accept them in time" {
		t.Errorf("got %v", err)
	}
}

// A call without a model has a span with a name that does not mention one.
func TestNameless(t *testing.T) {
	for _, model := range []string{"nope", ""} {
		s := received(t, new(mask.Secrets), &broker.Call{Model: model})[0]
		got := attributes(s.GetAttributes())
		if s.GetName() != "chat" || strings.Contains(got, "gen_ai.request.model="+model+"\n") != (model != "") || strings.Contains(got, "gen_ai.response.model") || !strings.Contains(got, "error.type=unknown_model") {
			t.Errorf("got %v", s)
		}
	}
}

// Redirects do not receive the collector's headers.
func TestRedirect(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a redirect was followed") }))
	defer elsewhere.Close()
	collector := httptest.NewServer(http.RedirectHandler(elsewhere.URL, http.StatusTemporaryRedirect))
	defer collector.Close()
	spans := newSpans(t, collector.URL, "api-key=planted", nil)
	spans.Ended(&broker.Call{}, &broker.Report{})
	if err := spans.To.Close(t.Context()); err == nil || !strings.Contains(err.Error(), "307") {
		t.Errorf("got %v", err)
	}
}

// A client's valid trace context is continued with its flags. An invalid one starts a new
// trace.
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
		ok := otlp.SpanContext(got).IsValid()
		foreign := tt.begins == "00-" && strings.Contains(got, "0af7651916cd43dd8448eb211c80319c")
		if !ok || foreign || !strings.HasPrefix(got, tt.begins) || !strings.HasSuffix(got, tt.ends) {
			t.Errorf("%q became %q", tt.client, got)
		}
	}
}

// A trace that its client does not sample is not recorded.
func TestUnsampled(t *testing.T) {
	collector := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a span was sent") }))
	defer collector.Close()
	spans := newSpans(t, collector.URL+"/v1/traces", "", nil)
	unsampled := client[:len(client)-2] + "00"
	spans.Ended(&broker.Call{Parent: unsampled, Traceparent: observe.Traceparent(unsampled), Hops: []broker.Hop{{}}}, &broker.Report{})
	if err := spans.To.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

func newSpans(t *testing.T, address, headers string, secrets *mask.Secrets) observe.Spans {
	t.Helper()
	to, err := otlp.New(otlp.Options{
		URL: address, Scope: "test", Hide: func(text string) string { return string(secrets.Hide([]byte(text))) },
		Getenv: func(name string) string { return map[string]string{"OTEL_EXPORTER_OTLP_HEADERS": headers}[name] },
	})
	if err != nil {
		t.Fatal(err)
	}
	return observe.Spans{To: to}
}

// The password in a collector's address is sent to the collector, which may repeat it.
// Errors contain neither the password nor the headers, nor control characters of terminals.
func TestCollectorsSecrets(t *testing.T) {
	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		http.Error(w, fmt.Sprint("\x1b[2J", user, password, r.Header), http.StatusForbidden)
	}))
	defer collector.Close()
	spans := newSpans(t, strings.Replace(collector.URL, "//", "//user:sk-planted@", 1), "X-Key=sk-planted-too", nil)
	spans.Ended(&broker.Call{}, &broker.Report{})
	err := spans.To.Close(t.Context())
	if err == nil || !strings.Contains(err.Error(), "403") || !strings.Contains(err.Error(), "user**********") || strings.Contains(err.Error(), "\x1b") {
		t.Errorf("got %v", err)
	}
	for _, secret := range []string{"sk-planted", base64.StdEncoding.EncodeToString([]byte("user:sk-planted"))} {
		if strings.Contains(err.Error(), secret) {
			t.Errorf("%s is in %v", secret, err)
		}
	}
}
