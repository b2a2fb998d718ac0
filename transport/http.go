package transport

import (
	"context"
	"errors"
	"fmt"
	"net/url"
)

// HTTP is an endpoint for requests rather than for one connection. Dialling it fails;
// callers that make requests use its URL.
type HTTP struct{ address *url.URL }

func parseHTTP(address string) (Endpoint, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, fmt.Errorf("%q: %w", address, cause(err))
	}
	if u.Host == "" {
		return nil, fmt.Errorf("%q: no host: want %s://HOST:PORT/PATH", address, u.Scheme)
	}
	return HTTP{u}, nil
}

func (e HTTP) String() string { return e.address.String() }

// URL is the endpoint's address.
func (e HTTP) URL() *url.URL {
	u := *e.address
	return &u
}

// Dial always fails.
func (e HTTP) Dial(context.Context) (Conn, error) {
	return nil, &Error{e.String(), errors.ErrUnsupported, "HTTP carries requests, not frames in both directions: use a command that sends requests"}
}
