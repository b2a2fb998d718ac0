// Package otlp sends spans and metrics to an OpenTelemetry collector, by OTLP over HTTP, with
// the names of the semantic conventions.
package otlp

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/wirectl/wirectl/internal/cmdline"
	"github.com/wirectl/wirectl/internal/render"
)

// Options say where spans and metrics go.
type Options struct {
	// URL is the address of a collector, to which /v1/traces and /v1/metrics are appended. If
	// it ends in /v1/traces already, only spans are sent.
	URL    string
	Getenv func(string) string
	// Scope names the source of the spans.
	Scope string
	// Hide returns a text without its secrets; it may be nil.
	Hide func(text string) string
	// Past says that the spans are old: Send waits until there is room for each, and no
	// metrics are sent, because they have the time at which they are sent.
	Past bool
	// Warn is called once if the collector does not accept spans or metrics; it may be nil.
	Warn func(text string)
}

// An Exporter sends spans and metrics. Unless they are of the past, nothing waits for the
// collector: if it is too slow, spans are lost, and counted. No span and no error contains
// the headers and the password for the collector.
type Exporter struct {
	o       Options
	client  http.Client
	spans   *sdktrace.TracerProvider
	tracer  trace.Tracer
	metrics *sdkmetric.MeterProvider // nil if there are none
	meters  map[string]metric.Float64Histogram
	secrets []string

	sending context.Context // ends when there is no more time for sending
	stop    context.CancelCauseFunc
	made    atomic.Int64 // spans that were begun
	sent    atomic.Int64
	mu      sync.Mutex
	err     error // why spans or metrics were lost last
	warned  bool
}

const (
	sendTime  = 10 * time.Second
	maxAnswer = 4096 // bytes of an answer of a collector, which may be in an error
	maxText   = 1024 // bytes of a text that is sent
)

var (
	errAddress = cmdline.Errorf("invalid URL: want one that begins with http:// or https:// and has no query, such as http://localhost:4318")
	errFull    = errors.New("the collector accepts them more slowly than they are made")
	errLate    = errors.New("the collector did not accept them in time")
)

// New returns an exporter to a collector, which need not run yet. It uses OpenTelemetry's
// environment variables for exporters.
func New(o Options) (*Exporter, error) {
	u, err := url.Parse(o.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.RawQuery != "" {
		return nil, errAddress
	}
	header, err := Headers(cmp.Or(o.Getenv("OTEL_EXPORTER_OTLP_TRACES_HEADERS"), o.Getenv("OTEL_EXPORTER_OTLP_HEADERS")))
	if err != nil {
		return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_HEADERS: %w", err)
	}
	e := &Exporter{o: o}
	headers := map[string]string{}
	for name, values := range header {
		headers[name] = strings.Join(values, ", ")
	}
	if u.User != nil {
		password, _ := u.User.Password()
		headers["Authorization"] = "Basic " + base64.StdEncoding.EncodeToString([]byte(u.User.Username()+":"+password))
		e.hide(password)
		u.User = nil
	}
	for _, value := range headers {
		_, rest, _ := strings.Cut(value, " ") // the text after the scheme is a secret by itself
		e.hide(value, rest)
	}
	otel.SetLogger(logr.Discard()) // it would write variables that it cannot read, including headers
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(error) {}))
	about, err := resource.New(context.Background(), resource.WithAttributes(ServiceName.String("wirectl")), resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	e.client = http.Client{
		Timeout: sendTime, Transport: &http.Transport{Proxy: http.ProxyFromEnvironment},
		// A redirect would send the key elsewhere.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	e.sending, e.stop = context.WithCancelCause(context.Background())
	base, spansAlone := strings.CutSuffix(strings.TrimSuffix(u.Path, "/"), tracesPath)
	u.Path = base + tracesPath
	if err := e.openSpans(u.String(), headers, about); err != nil {
		return nil, err
	}
	if !o.Past && !spansAlone && o.Getenv("OTEL_METRICS_EXPORTER") != "none" {
		u.Path = base + "/v1/metrics"
		err = e.openMetrics(u.String(), headers, about)
	}
	return e, err
}

const tracesPath = "/v1/traces"

// hide adds secrets, which are removed from texts. Short ones are ignored: they may be words.
func (e *Exporter) hide(secrets ...string) {
	for _, s := range secrets {
		if len(s) >= 4 {
			e.secrets = append(e.secrets, s)
		}
	}
	slices.SortFunc(e.secrets, func(a, b string) int { return len(b) - len(a) })
}

func (e *Exporter) openSpans(url string, headers map[string]string, about *resource.Resource) error {
	to, err := otlptracehttp.New(context.Background(), otlptracehttp.WithEndpointURL(url), otlptracehttp.WithHeaders(headers),
		otlptracehttp.WithHTTPClient(&e.client), otlptracehttp.WithMaxResponseSize(maxAnswer))
	if err != nil {
		return err
	}
	var batch []sdktrace.BatchSpanProcessorOption
	if e.o.Past {
		batch = append(batch, sdktrace.WithBlocking())
	}
	e.spans = sdktrace.NewTracerProvider(sdktrace.WithBatcher(spanSender{to, e}, batch...), sdktrace.WithIDGenerator(ids{}), sdktrace.WithResource(about),
		sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.AlwaysSample()))) // as the parent was sampled
	e.tracer = e.spans.Tracer(e.o.Scope)
	return nil
}

func (e *Exporter) openMetrics(url string, headers map[string]string, about *resource.Resource) error {
	to, err := otlpmetrichttp.New(context.Background(), otlpmetrichttp.WithEndpointURL(url), otlpmetrichttp.WithHeaders(headers),
		otlpmetrichttp.WithHTTPClient(&e.client), otlpmetrichttp.WithMaxResponseSize(maxAnswer))
	if err != nil {
		return err
	}
	e.metrics = sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewPeriodicReader(metricSender{to, e})), sdkmetric.WithResource(about))
	meter := e.metrics.Meter(e.o.Scope)
	e.meters = map[string]metric.Float64Histogram{}
	for _, h := range histograms {
		if e.meters[h.name], err = meter.Float64Histogram(h.name, metric.WithUnit(h.unit), metric.WithExplicitBucketBoundaries(h.bounds...)); err != nil {
			return err
		}
	}
	return nil
}

// A spanSender counts the spans that were sent. It reports errors to the exporter, not to
// the SDK, which would log them.
type spanSender struct {
	sdktrace.SpanExporter
	e *Exporter
}

func (s spanSender) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	ctx, done := s.e.until(ctx)
	defer done()
	err := s.SpanExporter.ExportSpans(ctx, spans)
	if err == nil {
		s.e.sent.Add(int64(len(spans)))
	}
	s.e.failed(err)
	return nil
}

// A metricSender does the same with metrics.
type metricSender struct {
	sdkmetric.Exporter
	e *Exporter
}

func (s metricSender) Export(ctx context.Context, m *metricdata.ResourceMetrics) error {
	ctx, done := s.e.until(ctx)
	defer done()
	s.e.failed(s.Exporter.Export(ctx, m))
	return nil
}

// until returns a context that ends when there is no more time.
func (e *Exporter) until(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(e.sending, cancel)
	return ctx, func() { stop(); cancel() }
}

// failed notes why something was not sent, and warns the first time.
func (e *Exporter) failed(err error) {
	if err == nil {
		return
	}
	err = cmp.Or(context.Cause(e.sending), err)
	e.mu.Lock()
	tell := !e.warned && e.o.Warn != nil && e.sending.Err() == nil
	e.err, e.warned = err, e.warned || tell
	e.mu.Unlock()
	if tell {
		e.o.Warn("the OpenTelemetry collector does not accept spans or metrics: " + e.clean(err))
	}
}

// clean returns a text of an error that is safe to show: it may contain an answer of the
// collector.
func (e *Exporter) clean(err error) string { return render.Safe(e.sendable(err.Error())) }

// Err returns why spans or metrics were lost last; nil if none were.
func (e *Exporter) Err() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.err == nil {
		return nil
	}
	return errors.New(e.clean(e.err))
}

// ids gives spans the ids in their context.
type ids struct{}

func (ids) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	own := ctx.Value(ids{}).(trace.SpanContext)
	return own.TraceID(), own.SpanID()
}

func (i ids) NewSpanID(ctx context.Context, _ trace.TraceID) trace.SpanID {
	_, id := i.NewIDs(ctx)
	return id
}

// A Span is a span that has ended.
type Span struct {
	// Context is the context of the span; if it is not valid, a new one is made. Parent is not
	// valid if there is no parent.
	Context, Parent trace.SpanContext
	Name            string
	Kind            trace.SpanKind
	Start, End      time.Time
	Attributes      []attribute.KeyValue
	Events          []Event
	// Error is the error.type; "" if the span has not failed. Message is the error in words.
	Error, Message string
}

// An Event is an event in a span.
type Event struct {
	Name       string
	At         time.Time
	Attributes []attribute.KeyValue
}

// Send sends a span, unless its parent was not sampled.
func (e *Exporter) Send(s *Span) {
	own := s.Context
	if !own.IsValid() {
		own = Below(s.Parent)
	}
	ctx := trace.ContextWithRemoteSpanContext(context.WithValue(context.Background(), ids{}, own), s.Parent)
	_, span := e.tracer.Start(ctx, e.sendable(s.Name), trace.WithSpanKind(s.Kind), trace.WithTimestamp(s.Start))
	if !span.IsRecording() {
		return
	}
	e.made.Add(1)
	span.SetAttributes(e.clear(s.Attributes)...)
	for _, ev := range s.Events {
		span.AddEvent(ev.Name, trace.WithTimestamp(ev.At), trace.WithAttributes(e.clear(ev.Attributes)...))
	}
	if s.Error != "" {
		span.SetAttributes(ErrorType.String(e.sendable(s.Error)))
		span.SetStatus(codes.Error, e.sendable(s.Message))
	}
	span.End(trace.WithTimestamp(s.End))
}

// Measure adds a value to a metric.
func (e *Exporter) Measure(name string, value float64, attributes ...attribute.KeyValue) {
	if h := e.meters[name]; h != nil {
		h.Record(context.Background(), value, metric.WithAttributes(e.clear(attributes)...))
	}
}

// MeasureTokens adds the tokens of a call of a model.
func (e *Exporter) MeasureTokens(input, output int64, attributes ...attribute.KeyValue) {
	for kind, n := range map[string]int64{inputTokenType: input, outputTokenType: output} {
		if n > 0 {
			e.Measure(ModelTokens, float64(n), append(slices.Clone(attributes), TokenType.String(kind))...)
		}
	}
}

// clear returns attributes that may be sent. It leaves out those without a key.
func (e *Exporter) clear(attributes []attribute.KeyValue) (clear []attribute.KeyValue) {
	for _, a := range attributes {
		switch a.Value.Type() {
		case attribute.STRING:
			a.Value = attribute.StringValue(e.sendable(a.Value.AsString()))
		case attribute.STRINGSLICE:
			var list []string
			for _, text := range a.Value.AsStringSlice() {
				list = append(list, e.sendable(text))
			}
			a.Value = attribute.StringSliceValue(list)
		}
		if a.Key != "" {
			clear = append(clear, a)
		}
	}
	return clear
}

// sendable returns a text that may be sent: without secrets, in valid UTF-8, and cut.
func (e *Exporter) sendable(text string) string {
	for _, s := range e.secrets {
		text = strings.ReplaceAll(text, s, strings.Repeat("*", len(s)))
	}
	if e.o.Hide != nil {
		text = e.o.Hide(text)
	}
	return strings.ToValidUTF8(text[:min(len(text), maxText)], "\uFFFD")
}

// Close sends the rest until ctx ends. The error says how many spans were lost in all, and
// why the last were lost, unless Warn was called.
func (e *Exporter) Close(ctx context.Context) error {
	defer context.AfterFunc(ctx, func() { e.stop(errLate) })()
	err := e.spans.Shutdown(context.WithoutCancel(ctx))
	if e.metrics != nil {
		err = errors.Join(err, e.metrics.Shutdown(context.WithoutCancel(ctx)))
	}
	e.stop(nil)
	e.client.CloseIdleConnections()
	if e.warned {
		return nil
	}
	if lost := e.made.Load() - e.sent.Load(); lost > 0 {
		return fmt.Errorf("spans were lost (%d): %s", lost, e.clean(cmp.Or(e.Err(), errFull)))
	}
	return err
}
