// Package upstream is how providers speak HTTP to their backends: one request, an
// answer whole or as a stream of events, and errors that hold neither keys nor
// what the backend wrote.
package upstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/wirectl/wirectl/broker/provider"
	"github.com/wirectl/wirectl/protocol/jsonscan"
)

// A Client asks one backend.
type Client struct {
	base   string
	header http.Header
	http   *http.Client
}

// maxAnswer bounds an answer, in bytes.
const maxAnswer = 64 << 20

// New returns a client for what lies below base. The header, keys among it, goes
// with every request. Connecting may take as long as connect says, 0 being ten
// seconds.
func New(base string, header http.Header, connect time.Duration) *Client {
	if connect == 0 {
		connect = 10 * time.Second
	}
	header.Set("Content-Type", "application/json")
	return &Client{strings.TrimSuffix(base, "/"), header, &http.Client{
		Transport: &http.Transport{
			Proxy:               http.ProxyFromEnvironment,
			DialContext:         (&net.Dialer{Timeout: connect}).DialContext,
			TLSHandshakeTimeout: connect,
			ForceAttemptHTTP2:   true,
			MaxIdleConnsPerHost: 256,
			IdleConnTimeout:     90 * time.Second,
		},
		// A redirect would take the key elsewhere.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Post sends a body and returns the answer, which is a 2xx. What was received has
// to be told to r's exchange by those who read it.
func (c *Client) Post(ctx context.Context, path string, body []byte, r *provider.Request) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+path, bytes.NewReader(body))
	if err != nil {
		return nil, &provider.Error{Cause: provider.Internal, Err: errors.New("the URL cannot be requested")}
	}
	req.Header = c.header
	if r.Traceparent != "" {
		req.Header = c.header.Clone()
		req.Header.Set("Traceparent", r.Traceparent)
	}
	if r.Exchange != nil {
		r.Exchange.Sent(req.URL.Scheme+"://"+req.URL.Host+req.URL.Path, body)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, provider.Broken(ctx, plain(err))
	}
	if resp.StatusCode/100 != 2 {
		defer resp.Body.Close()
		return nil, refused(resp, r)
	}
	return resp, nil
}

// plain is err without the URL, which may have something secret in it.
func plain(err error) error {
	for {
		ue, ok := err.(interface { //nolint:errorlint // the outermost one alone
			error
			Unwrap() error
			Timeout() bool
		})
		if !ok || ue.Unwrap() == nil {
			return err
		}
		err = ue.Unwrap()
	}
}

// refused is the error for an answer that is not 2xx.
func refused(resp *http.Response, r *provider.Request) error {
	body, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if r.Exchange != nil {
		r.Exchange.Received(resp.StatusCode, body)
	}
	return provider.StatusError(resp.StatusCode, retryAfter(resp.Header, time.Now()), errors.New("the backend answered "+code(body)))
}

// code is the word by which a backend names an error, if it is one that cannot
// hold anything else.
func code(body []byte) string {
	for _, path := range [][]string{{"error", "code"}, {"error", "type"}, {"error", "status"}} {
		raw, ok := jsonscan.Get(body, path...)
		if word := provider.Unquote(raw); ok && word != "" && len(word) <= 40 && strings.Trim(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_") == "" {
			return word
		}
	}
	return "with an error"
}

// retryAfter reads how long the backend wants to be left alone, in seconds, in
// milliseconds, or up to a date.
func retryAfter(h http.Header, now time.Time) time.Duration {
	if ms, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil && ms > 0 {
		return time.Duration(ms * float64(time.Millisecond))
	}
	v := h.Get("Retry-After")
	if s, err := strconv.ParseFloat(v, 64); err == nil && s > 0 {
		return time.Duration(min(s, 1e6) * float64(time.Second))
	}
	if at, err := http.ParseTime(v); err == nil && at.After(now) {
		return at.Sub(now)
	}
	return 0
}

// Body reads an answer to its end.
func Body(ctx context.Context, resp *http.Response, r *provider.Request) ([]byte, error) {
	defer resp.Body.Close()
	var buf bytes.Buffer
	if n := resp.ContentLength; n > 0 && n <= 1<<20 {
		buf.Grow(int(n) + bytes.MinRead)
	}
	_, err := buf.ReadFrom(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, provider.Broken(ctx, err)
	case buf.Len() > maxAnswer:
		return nil, &provider.Error{Cause: provider.Internal, Err: fmt.Errorf("the answer is over %d bytes", maxAnswer)}
	}
	if r.Exchange != nil {
		r.Exchange.Received(resp.StatusCode, buf.Bytes())
	}
	return buf.Bytes(), nil
}

// Malformed is the error for an answer that is not what the backend's API has.
func Malformed(what string) error {
	return &provider.Error{Cause: provider.Overloaded, Err: errors.New("the answer makes no sense: " + what)}
}

// CloseIdleConnections closes the connections that no call uses.
func (c *Client) CloseIdleConnections() { c.http.CloseIdleConnections() }
