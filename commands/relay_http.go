package commands

import (
	"context"
	"net/url"
	"strings"
	"sync"

	"github.com/wirectl/wirectl/relay"
	"github.com/wirectl/wirectl/relay/httpproxy"
	"github.com/wirectl/wirectl/transport"
)

// proxy stands between HTTP clients and the server that is the unit, until a
// signal ends it.
func (v *relaying) proxy(ctx context.Context, target *url.URL) error {
	address, ok := strings.CutPrefix(v.c.String("listen"), "http://")
	if !ok {
		return usagef("%s is reached by requests: take them with --listen http://127.0.0.1:7000", target)
	}
	opts, err := v.unitOptions(v.c)
	if err != nil {
		return err
	}
	l, err := transport.Listen(ctx, "tcp://"+strings.TrimSuffix(address, "/"), opts)
	if err != nil {
		return err
	}
	v.warn("listening on http://" + strings.TrimPrefix(l.Addr(), "tcp://"))
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var serving sync.WaitGroup
	failed := make(chan error, 1)
	serving.Go(func() {
		result, err := httpproxy.Serve(ctx, httpproxy.Config{
			Listener: l, Target: target, Transport: opts, Remote: opts.Remote,
			Sink: v.watch.fan, Limit: v.cfg.Limit, Warn: v.warn,
		})
		v.watch.add(&relay.Result{ToUnit: result.ToUnit, ToController: result.ToController})
		failed <- err
	})
	err = v.untilSignal(ctx, failed)
	cancel()
	serving.Wait()
	return err
}
