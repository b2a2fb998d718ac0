package convert

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/decode/spans"
	"github.com/wirectl/wirectl/internal/otlp"
)

// IsCollector reports whether a name is that of a collector, not of a file.
func IsCollector(name string) bool {
	return name == string(OTLP) || strings.HasPrefix(name, "http://") || strings.HasPrefix(name, "https://")
}

// Send sends the spans of what is left of r to the collector at an address; "otlp" means the
// usual one.
func (o *Options) Send(ctx context.Context, address string, getenv func(string) string, r capture.Reader) error {
	if address == string(OTLP) {
		address = cmp.Or(getenv("OTEL_EXPORTER_OTLP_ENDPOINT"), "http://localhost:4318")
	}
	reading, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	to, err := otlp.New(otlp.Options{
		URL: address, Getenv: getenv, Scope: "wirectl/convert", Hide: capture.Secrets().Text(), Past: true,
		Warn: func(text string) { cancel(errors.New(text)) },
	})
	if err != nil {
		return err
	}
	s := r.Session()
	trace, err := spans.Run(reading, to, spans.Session{Name: o.Name, Identity: fmt.Sprint(s.Created.UnixNano(), s.Controller, s.Unit)}, Until(reading, r), o.Config)
	if refused := cmp.Or(to.Close(ctx), context.Cause(reading)); refused != nil {
		return refused
	}
	if errors.Is(err, spans.ErrNoTimes) {
		return fmt.Errorf("%s: %w", o.Name, err)
	}
	if err == nil || errors.Is(err, capture.ErrCut) {
		o.Note("the spans were sent, as trace " + trace.String())
	}
	return err
}
