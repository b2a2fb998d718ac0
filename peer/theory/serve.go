package theory

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"
)

// Serve serves until ctx ends.
func (t *Runtime) Serve(ctx context.Context, l net.Listener) error {
	s := &http.Server{Handler: t, ReadHeaderTimeout: 30 * time.Second}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	select {
	case err := <-served:
		t.Close()
		return err
	case <-ctx.Done():
	}
	t.Close() // every run is answered before its connection ends
	err := s.Close()
	if served := <-served; !errors.Is(served, http.ErrServerClosed) {
		return served
	}
	return err
}
