package observe

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/net/http/httpguts"

	"github.com/wirectl/wirectl/broker"
	"github.com/wirectl/wirectl/broker/mask"
	"github.com/wirectl/wirectl/internal/render"
)

// Spans sends a span for each call, with a child for each attempt at a provider, to an
// OpenTelemetry collector by OTLP over HTTP. No call waits for the collector.
type Spans struct {
	exporter *exporter
	provider *sdk.TracerProvider
	tracer   trace.Tracer
	secrets  *mask.Secrets
	made     atomic.Int64 // spans that were begun
}

const (
	sendTime  = 10 * time.Second
	maxAnswer = 4096 // bytes of what a collector answers; an error has them
)

var (
	errAddress = errors.New("invalid URL: want one that begins with http:// or https:// and has no query, such as http://localhost:4318")
	errFull    = errors.New("the collector takes them slower than calls end")
	errLate    = errors.New("the collector did not take them in time")
)

// NewSpans returns one that sends to a collector at an address, with a header. What
// goes there begins at /v1/traces, unless the address says otherwise. The values of the
// header become secrets, which are in no span and no error.
func NewSpans(address string, header http.Header, secrets *mask.Secrets) (*Spans, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.RawQuery != "" {
		return nil, errAddress
	}
	if u.Path = strings.TrimSuffix(u.Path, "/"); !strings.HasSuffix(u.Path, "/v1/traces") {
		u.Path += "/v1/traces"
	}
	headers := map[string]string{}
	for name, values := range header {
		headers[name] = strings.Join(values, ", ")
		secrets.Add(values...)
	}
	if u.User != nil {
		password, _ := u.User.Password()
		basic := base64.StdEncoding.EncodeToString([]byte(u.User.Username() + ":" + password))
		headers["Authorization"] = "Basic " + basic
		secrets.Add(password, basic)
		u.User = nil
	}
	otel.SetLogger(logr.Discard()) // it would write what it cannot read of the environment, headers too
	about, err := resource.New(context.Background(), resource.WithAttributes(serviceName.String("wirectl")), resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	e := &exporter{client: http.Client{
		Timeout: sendTime, Transport: &http.Transport{Proxy: http.ProxyFromEnvironment},
		// A redirect would take the key elsewhere.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	e.SpanExporter, err = otlptracehttp.New(context.Background(),
		otlptracehttp.WithEndpointURL(u.String()), otlptracehttp.WithHeaders(headers), otlptracehttp.WithHTTPClient(&e.client),
		otlptracehttp.WithMaxResponseSize(maxAnswer))
	if err != nil {
		return nil, err
	}
	e.sending, e.stop = context.WithCancelCause(context.Background())
	s := &Spans{exporter: e, secrets: secrets}
	s.provider = sdk.NewTracerProvider(sdk.WithBatcher(e), sdk.WithIDGenerator(ids{}), sdk.WithResource(about),
		sdk.WithSampler(sdk.ParentBased(sdk.AlwaysSample()))) // as the contexts say that providers got
	s.tracer = s.provider.Tracer("wirectl/broker")
	return s, nil
}

// Headers reads what OTEL_EXPORTER_OTLP_HEADERS says: NAME=VALUE, with commas
// between them, and values escaped as in URLs. An error does not tell of values,
// which may be keys.
func Headers(list string) (http.Header, error) {
	header := http.Header{}
	for i, pair := range strings.Split(list, ",") {
		if strings.TrimSpace(pair) == "" {
			continue
		}
		name, value, ok := strings.Cut(pair, "=")
		value, err := url.PathUnescape(strings.TrimSpace(value))
		if name = strings.TrimSpace(name); !ok || err != nil || !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) {
			return nil, fmt.Errorf("header %d is invalid; want NAME=VALUE, with commas between them", i+1)
		}
		header.Add(name, value)
	}
	return header, nil
}

// An exporter counts the spans that a collector has got, keeps why it has not got
// others, and stops when there is no more time. One goroutine uses it, that of the
// provider.
type exporter struct {
	sdk.SpanExporter
	client http.Client

	sending context.Context // ends when there is no more time for it
	stop    context.CancelCauseFunc

	sent int64
	err  error // why the last of the others were lost
}

func (e *exporter) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(e.sending, cancel)()
	if err := e.SpanExporter.ExportSpans(ctx, spans); err != nil {
		e.err = cmp.Or(context.Cause(e.sending), err)
		return nil // lest it be logged
	}
	e.sent += int64(len(spans))
	return nil
}

// Traceparent returns the trace context under which a call goes on: that of the
// client with a span of ours, or a new one.
func Traceparent(client string) string {
	return broker.Traceparent(below(broker.SpanContext(client)))
}

// below returns the context of a new span below a parent, or of a new trace if that is
// not valid.
func below(parent trace.SpanContext) trace.SpanContext {
	var span trace.SpanID
	rand.Read(span[:]) //nolint:errcheck // it never fails
	if !parent.IsValid() {
		var id trace.TraceID
		rand.Read(id[:]) //nolint:errcheck // it never fails
		parent = trace.SpanContext{}.WithTraceID(id).WithTraceFlags(trace.FlagsSampled)
	}
	return parent.WithSpanID(span)
}

// ids gives spans the ids that were made for them when calls began.
type ids struct{}

func (ids) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	own := ctx.Value(ids{}).(trace.SpanContext)
	return own.TraceID(), own.SpanID()
}

func (i ids) NewSpanID(ctx context.Context, _ trace.TraceID) trace.SpanID {
	_, id := i.NewIDs(ctx)
	return id
}

// Ended makes the spans of a call, unless its client wants no record of the trace.
// When too many wait for the collector, they are lost, and counted.
func (s *Spans) Ended(c *broker.Call, r *broker.Report) {
	ctx := trace.ContextWithRemoteSpanContext(context.Background(), broker.SpanContext(c.Parent))
	ctx, span := s.start(ctx, c.Traceparent, c.Name, trace.SpanKindServer, c.Started)
	if !span.IsRecording() {
		return
	}
	span.SetAttributes(
		inputTokens.Int64(c.Completion.Usage.Input), outputTokens.Int64(c.Completion.Usage.Output),
		callDoor.String(c.Door), callOutcome.String(r.Outcome.String()), callNumber.Int64(c.ID))
	s.name(span, requestModel, cmp.Or(c.Model, c.Name))
	if finish := c.Completion.Finish; finish != "" {
		span.SetAttributes(finishReasons.StringSlice([]string{s.sendable(finish)}))
	}
	if r.Err == nil {
		s.name(span, responseModel, c.Name)
	}
	s.end(span, c.Started.Add(c.Took), r.Err)
	for i := range c.Hops {
		h := &c.Hops[i]
		_, span := s.start(ctx, h.Traceparent, h.Model, trace.SpanKindClient, h.Started)
		s.name(span, providerName, h.Provider)
		s.name(span, requestModel, h.Model)
		s.end(span, h.Started.Add(h.Took), h.Err)
	}
}

// start begins a span, which has the ids of a trace context if there is one. Its name is
// the operation and the model, if there is one.
func (s *Spans) start(ctx context.Context, traceparent, model string, kind trace.SpanKind, at time.Time) (context.Context, trace.Span) {
	own := broker.SpanContext(traceparent)
	if !own.IsValid() {
		own = below(own)
	}
	ctx, span := s.tracer.Start(context.WithValue(ctx, ids{}, own), s.sendable(strings.TrimSpace(operation+" "+model)),
		trace.WithSpanKind(kind), trace.WithTimestamp(at), trace.WithAttributes(operationName.String(operation)))
	if span.IsRecording() {
		s.made.Add(1)
	}
	return ctx, span
}

func (s *Spans) end(span trace.Span, at time.Time, err error) {
	if err != nil {
		span.SetStatus(codes.Error, s.sendable(broker.Message(err)))
		span.SetAttributes(errorType.String(broker.ErrorType(err)))
	}
	span.End(trace.WithTimestamp(at))
}

// name adds a name as an attribute, if there is one.
func (s *Spans) name(span trace.Span, key attribute.Key, name string) {
	if name != "" {
		span.SetAttributes(key.String(s.sendable(name)))
	}
}

// sendable returns what may be sent of a text: no secrets, and nothing but UTF-8.
func (s *Spans) sendable(text string) string {
	return strings.ToValidUTF8(string(s.secrets.Hide([]byte(text))), "\uFFFD")
}

// Close sends what is left for as long as the context lets it. The error says how many
// spans were lost, from the beginning on, and why the last were.
func (s *Spans) Close(ctx context.Context) error {
	e := s.exporter
	defer context.AfterFunc(ctx, func() { e.stop(errLate) })()
	err := s.provider.Shutdown(context.WithoutCancel(ctx))
	e.stop(nil)
	e.client.CloseIdleConnections()
	if lost := s.made.Load() - e.sent; lost > 0 {
		// The error may have what the collector says.
		return fmt.Errorf("spans were lost (%d): %s", lost, render.Safe(s.sendable(cmp.Or(e.err, errFull).Error())))
	}
	return err
}
