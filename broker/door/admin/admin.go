// Package admin is the broker's door for operators: health, metrics and usage over plain
// HTTP. It changes nothing.
package admin

import (
	"context"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/wirectl/wirectl/broker"
	"github.com/wirectl/wirectl/broker/door/web"
	"github.com/wirectl/wirectl/internal/jsonscan"
)

// New returns a server of the door.
func New(b *broker.Broker, a web.Access) *web.Server {
	registry := prometheus.NewRegistry()
	registry.MustRegister(b)
	h := handler{b, promhttp.HandlerFor(registry, promhttp.HandlerOpts{})}
	return web.New(web.Config{Handler: h.serve, Limit: 64 << 10, Access: a, Fault: func(_ string, f *web.Fault) []byte { return failure(f.Message) }})
}

// groupTime is how long the hub may take to return the usage of the other brokers.
const groupTime = 2 * time.Second

type handler struct {
	broker  *broker.Broker
	metrics http.Handler
}

// pages are the JSON pages, by path.
var pages = map[string]func(b *broker.Broker) any{
	"/healthz": func(b *broker.Broker) any {
		return map[string]any{"ok": true, "running": b.Running(), "uptime_seconds": b.Uptime().Seconds()}
	},
	"/usage": func(b *broker.Broker) any {
		page := map[string]any{"usage": b.Usage()}
		ctx, cancel := context.WithTimeout(context.Background(), groupTime)
		defer cancel()
		if group, err := b.GroupUsage(ctx); err == nil && group != nil {
			page["group"] = group
		}
		return page
	},
	"/budgets": func(b *broker.Broker) any { return map[string]any{"budgets": b.Budgets()} },
	"/models":  func(b *broker.Broker) any { return map[string]any{"models": b.Models()} },
}

func (h handler) serve(_ context.Context, r *web.Request, w *web.Response) {
	page, metrics := pages[r.URL.Path], r.URL.Path == "/metrics"
	switch {
	case page == nil && !metrics:
		w.JSON(http.StatusNotFound, failure("Not found"))
		return
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		w.Set("Allow", "GET, HEAD")
		w.JSON(http.StatusMethodNotAllowed, failure("Method not allowed"))
		return
	case metrics:
		w.Serve(r, h.metrics)
		return
	}
	w.JSON(http.StatusOK, jsonscan.MustMarshal(page(h.broker)))
}

func failure(message string) []byte {
	return jsonscan.MustMarshal(map[string]string{"error": message})
}
