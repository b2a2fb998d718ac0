package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"time"

	nserver "github.com/nats-io/nats-server/v2/server"
	"golang.org/x/sync/errgroup"

	"github.com/wirectl/wirectl/hub"
	"github.com/wirectl/wirectl/internal/wait"
)

// EndTime is how long a hub may take to stop.
const EndTime = 10 * time.Second

// Run runs a hub until ctx ends. It writes the address, and what to do on other machines.
func Run(ctx context.Context, o Options, out io.Writer) error {
	h, err := Start(ctx, o)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(out, "the hub is at %s\nto send from a machine, or to read there:\n  export %s='%s'\n", h.URL(), hub.Variable, h.pasted()); err != nil {
		return errors.Join(err, h.Close())
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return h.watch(ctx) })
	if o.Page != nil {
		g.Go(func() error { return o.Page(ctx, h.conn, h.Metrics()) })
	}
	return errors.Join(g.Wait(), h.Close())
}

// healthTime is how often the server is asked whether it can store messages.
const healthTime = time.Second

// watch waits until ctx ends or the server stores nothing any more, from which it does not
// recover by itself.
func (h *Hub) watch(ctx context.Context) error {
	for wait.For(ctx, healthTime) == nil {
		if h.server == nil {
			continue
		}
		if s := h.server.Healthz(&nserver.HealthzOptions{}); s.Error != "" {
			return fmt.Errorf("the hub cannot store messages: %s: free space in %s and restart it; lossless senders wait", s.Error, h.options.Dir)
		}
	}
	return nil
}

// pasted returns the address of the hub for other machines.
func (h *Hub) pasted() string {
	if h.server == nil {
		return h.options.NATS
	}
	if h.open {
		return h.URL()
	}
	u, err := url.Parse(h.URL())
	if err != nil {
		return h.URL()
	}
	if ip := net.ParseIP(u.Hostname()); ip == nil || ip.IsUnspecified() {
		name, _ := os.Hostname()
		u.Host = net.JoinHostPort(cmp.Or(name, "HOST"), u.Port())
	}
	return u.String() + "?creds=FILE"
}
