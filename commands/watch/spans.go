package watch

import (
	"context"
	"fmt"
	"time"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/capture/tap"
	"github.com/wirectl/wirectl/decode/spans"
	"github.com/wirectl/wirectl/internal/otlp"
)

// spanning makes spans of the traffic, as a viewer of the tap. It never delays the relay; frames
// that it is too slow for are missing.
type spanning struct {
	to    *otlp.Exporter
	alarm func(text string)
	stop  context.CancelFunc
	done  chan struct{}
}

// lastSpans is how long the last spans may take.
const lastSpans = 2 * time.Second

// collector returns the exporter to the collector that the options name; nil if they name none.
func (o *Options) collector() (*otlp.Exporter, error) {
	if o.OTLP == "" {
		return nil, nil
	}
	x := capture.Secrets()
	x.Keys = append(x.Keys, o.Redaction.Keys...)
	x.Values = append(x.Values, o.Redaction.Values...)
	to, err := otlp.New(otlp.Options{URL: o.OTLP, Getenv: o.Getenv, Scope: "wirectl/relay", Hide: x.Text(), Warn: o.Alarm})
	if err != nil {
		return nil, fmt.Errorf("--otlp: %w", err)
	}
	return to, nil
}

// span starts making spans of the session.
func (o *Options) span(to *otlp.Exporter, s capture.Session, h *tap.Hub) *spanning {
	ctx, stop := context.WithCancel(context.Background())
	p := &spanning{to: to, alarm: o.Alarm, stop: stop, done: make(chan struct{})}
	view, cfg := h.View(), o.Config
	cfg.Resync, cfg.Notice = true, nil
	go func() {
		defer close(p.done)
		defer view.Close()
		_, _ = spans.Run(ctx, to, spans.Session{Name: o.name(), Identity: s.Created.String()}, view, cfg) // missing spans are counted
	}()
	return p
}

// close sends the remaining spans, once the hub is closed.
func (p *spanning) close(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, lastSpans)
	defer cancel()
	select {
	case <-p.done:
	case <-ctx.Done():
	}
	p.stop()
	<-p.done
	if err := p.to.Close(ctx); err != nil {
		p.alarm("the OpenTelemetry collector: " + err.Error())
	}
}
