package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/wirectl/wirectl/broker"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/transport"
)

// NewAdmin returns a server of the door.
func NewAdmin(b *broker.Broker, a Access) *Server {
	registry := prometheus.NewRegistry()
	registry.MustRegister(b)
	h := handler{b, promhttp.HandlerFor(registry, promhttp.HandlerOpts{})}
	return New(Config{Handler: h.serve, Limit: 64 << 10, Access: a, Fault: func(_ string, f *Fault) []byte { return failure(f.Message) }})
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

func (h handler) serve(_ context.Context, r *Request, w *Response) {
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

// usageTime is how long a broker may take to return its usage.
const usageTime = 10 * time.Second

// Usage returns the usage of the broker whose door is at addr, or of its group. The token may
// be "".
func Usage(ctx context.Context, addr, token string) ([]broker.Usage, error) {
	ctx, cancel := context.WithTimeout(ctx, usageTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/usage", nil)
	if err != nil {
		return nil, err
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		err = transport.Explain(addr, err)
		if e := (*transport.Error)(nil); errors.As(err, &e) {
			e.Hint = "say where it is, as wirectl serve usage HOST:PORT"
		}
		return nil, fmt.Errorf("no broker answers at the door admin: %w", err)
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusOK:
	case http.StatusUnauthorized:
		return nil, fmt.Errorf("the door admin at %s refuses the token: set WIRECTL_TOKEN to the broker's token", addr)
	default:
		return nil, fmt.Errorf("the door admin at %s answers %s", addr, resp.Status)
	}
	var answer struct{ Usage, Group []broker.Usage }
	if err := json.NewDecoder(io.LimitReader(resp.Body, 16<<20)).Decode(&answer); err != nil {
		return nil, fmt.Errorf("the server at %s is not a broker: %w", addr, err)
	}
	if answer.Group != nil {
		return answer.Group, nil
	}
	return answer.Usage, nil
}
