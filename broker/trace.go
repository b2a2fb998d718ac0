package broker

import (
	"context"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

const traceparent = "traceparent" // the name of the header

// SpanContext reads a W3C trace context. Of what is none, the result is not valid: it
// must not be passed on, for it would be a header of anybody's making.
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
