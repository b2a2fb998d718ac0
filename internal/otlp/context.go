package otlp

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/net/http/httpguts"
)

const traceparent = "traceparent" // the name of the header

// SpanContext reads a W3C trace context. If s is not one, the result is not valid, and s must
// not be passed on as a header.
func SpanContext(s string) trace.SpanContext {
	if s == "" {
		return trace.SpanContext{}
	}
	return trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier{traceparent: s}))
}

// Traceparent writes a trace context, "" if it is not valid.
func Traceparent(sc trace.SpanContext) string {
	if !sc.IsValid() {
		return ""
	}
	header := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(trace.ContextWithSpanContext(context.Background(), sc), header)
	return header[traceparent]
}

// Below returns the context of a new span below a parent, or of a new trace if the parent is
// not valid.
func Below(parent trace.SpanContext) trace.SpanContext {
	var span trace.SpanID
	rand.Read(span[:]) //nolint:errcheck // it never fails
	if !parent.IsValid() {
		var id trace.TraceID
		rand.Read(id[:]) //nolint:errcheck // it never fails
		parent = trace.SpanContext{}.WithTraceID(id).WithTraceFlags(trace.FlagsSampled)
	}
	return parent.WithSpanID(span)
}

// Headers reads OTEL_EXPORTER_OTLP_HEADERS: NAME=VALUE, separated by commas, with values
// escaped as in URLs. An error does not contain values, which may be secrets.
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
