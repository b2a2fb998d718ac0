package observe

import (
	"cmp"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/wirectl/wirectl/broker"
	"github.com/wirectl/wirectl/internal/otlp"
)

// Spans sends a span for each call, with a child for each attempt at a provider, and
// measures calls.
type Spans struct{ To *otlp.Exporter }

// Traceparent returns the trace context of a call: a new span in the client's trace, or a new
// trace.
func Traceparent(client string) string {
	return otlp.Traceparent(otlp.Below(otlp.SpanContext(client)))
}

// Ended sends the spans of a call, unless the client's trace is not sampled.
func (s Spans) Ended(c *broker.Call, r *broker.Report) {
	call := span(c.Traceparent, c.Parent, c.Name, trace.SpanKindServer, c.Started, c.Took, r.Err)
	call.Attributes = append(call.Attributes,
		otlp.InputTokens.Int64(c.Completion.Usage.Input), otlp.OutputTokens.Int64(c.Completion.Usage.Output),
		otlp.Door.String(c.Door), otlp.Outcome.String(r.Outcome.String()), otlp.CallNumber.Int64(c.ID),
		name(otlp.RequestModel, cmp.Or(c.Model, c.Name)))
	if finish := c.Completion.Finish; finish != "" {
		call.Attributes = append(call.Attributes, otlp.FinishReasons.StringSlice([]string{finish}))
	}
	if r.Err == nil {
		call.Attributes = append(call.Attributes, name(otlp.ResponseModel, c.Name))
	}
	s.To.Send(call)
	for i := range c.Hops {
		h := &c.Hops[i]
		hop := span(h.Traceparent, c.Traceparent, h.Model, trace.SpanKindClient, h.Started, h.Took, h.Err)
		about := []attribute.KeyValue{name(otlp.ProviderName, h.Provider), name(otlp.RequestModel, h.Model)}
		hop.Attributes = append(hop.Attributes, about...)
		s.To.Send(hop)
		s.measure(c, r, h, append(about, hop.Attributes[0]))
	}
}

// measure adds an attempt to the metrics. The last one has the tokens of the call.
func (s Spans) measure(c *broker.Call, r *broker.Report, h *broker.Hop, about []attribute.KeyValue) {
	if h == &c.Hops[len(c.Hops)-1] && r.Err == nil {
		s.To.MeasureTokens(c.Completion.Usage.Input, c.Completion.Usage.Output, about...)
	}
	if h.Err != nil {
		about = append(about, otlp.ErrorType.String(broker.ErrorType(h.Err)))
	}
	s.To.Measure(otlp.ModelDuration, h.Took.Seconds(), about...)
}

// span returns the span of a trace context below a parent. It is named after the operation and
// the model, if any.
func span(own, parent, model string, kind trace.SpanKind, at time.Time, took time.Duration, err error) *otlp.Span {
	s := &otlp.Span{
		Context: otlp.SpanContext(own), Parent: otlp.SpanContext(parent), Name: strings.TrimSpace(otlp.Chat + " " + model),
		Kind: kind, Start: at, End: at.Add(took), Attributes: []attribute.KeyValue{otlp.OperationName.String(otlp.Chat)},
	}
	if err != nil {
		s.Error, s.Message = broker.ErrorType(err), broker.Message(err)
	}
	return s
}

// name returns a name as an attribute, which is empty if the name is.
func name(key attribute.Key, name string) attribute.KeyValue {
	if name == "" {
		return attribute.KeyValue{}
	}
	return key.String(name)
}
