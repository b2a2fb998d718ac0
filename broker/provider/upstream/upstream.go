// Package upstream is how providers speak HTTP to their backends: one request, an
// answer whole or as a stream of events, and errors that hold neither keys nor
// what the backend wrote. What is asked, and what the answer
// means, is the business of the package of each kind.
package upstream

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"maps"
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
	base   string // the URL
	header http.Header
	http   *http.Transport
}

// A Response is an answer.
type Response struct {
	StatusCode int
	// Length is that of the body, -1 if it is not known.
	Length int64
	Body   io.ReadCloser

	contentType              string
	retryAfter, retryAfterMs string
}

const (
	// maxAnswer bounds an answer, in bytes.
	maxAnswer = 64 << 20
	// maxRefusal is how much is read of an answer that is not 2xx, in bytes.
	maxRefusal = 64 << 10
	// maxIdle is how many connections are kept that no call uses.
	maxIdle = 256
)

// New returns a client for what lies below base. The header, keys among it, goes
// with every request. Connecting may take as long as connect says, 0 being ten
// seconds.
func New(base string, header http.Header, connect time.Duration) *Client {
	if connect == 0 {
		connect = 10 * time.Second
	}
	header.Set("Content-Type", "application/json")
	header.Set("User-Agent", "wirectl")
	// With one of these, net/http would send a request again that was written.
	header.Del("Idempotency-Key")
	header.Del("X-Idempotency-Key")
	return &Client{base: strings.TrimSuffix(base, "/"), header: header, http: &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            (&net.Dialer{Timeout: connect}).DialContext,
		TLSHandshakeTimeout:    connect,
		ForceAttemptHTTP2:      true,
		MaxIdleConnsPerHost:    maxIdle,
		IdleConnTimeout:        90 * time.Second,
		MaxResponseHeaderBytes: 64 << 10,
		ReadBufferSize:         2 << 10, // many calls are open for long
		WriteBufferSize:        1 << 10,
		DisableCompression:     true, // events come one by one, and limits count what comes
	}}
}

// Post sends a body and returns the answer, which is a 2xx. What was received has
// to be told to r's exchange by those who read it.
func (c *Client) Post(ctx context.Context, path string, body []byte, r *provider.Request) (*Response, error) {
	return c.PostAs(ctx, path, nil, body, r)
}

// PostAs is Post with headers of the request's own, which go before those of the
// client; nil is none.
func (c *Client) PostAs(ctx context.Context, path string, own http.Header, body []byte, r *provider.Request) (*Response, error) {
	if r.Exchange != nil {
		r.Exchange.Sent(c.base+path, body)
	}
	resp, err := c.post(ctx, path, own, body, r)
	if err != nil {
		return nil, provider.Broken(ctx, bare(err))
	}
	if resp.StatusCode/100 != 2 {
		defer resp.Body.Close()
		return nil, refused(ctx, resp, r)
	}
	return resp, nil
}

func (c *Client) post(ctx context.Context, path string, own http.Header, body []byte, r *provider.Request) (*Response, error) {
	header := c.header
	if own != nil {
		header = header.Clone()
		maps.Copy(header, own)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header = header
	if r.Traceparent != "" {
		req.Header = header.Clone()
		req.Header.Set("Traceparent", r.Traceparent)
	}
	// A redirect, which would take the key elsewhere, is not followed.
	resp, err := c.http.RoundTrip(req) //nolint:bodyclose // whoever reads the answer closes it
	if err != nil {
		return nil, err
	}
	return &Response{
		StatusCode: resp.StatusCode, Length: resp.ContentLength, Body: resp.Body,
		contentType: resp.Header.Get("Content-Type"), retryAfter: resp.Header.Get("Retry-After"), retryAfterMs: resp.Header.Get("Retry-After-Ms"),
	}, nil
}

// bare is err without the URL, which may have something secret in it.
func bare(err error) error {
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
func refused(ctx context.Context, resp *Response, r *provider.Request) error {
	resp.readFrom(io.LimitReader(resp.Body, maxRefusal))
	var body []byte
	if resp.isStream() {
		_ = unasked(ctx, resp, r) // it has no code
	} else {
		body, _ = io.ReadAll(resp.Body)
		body = r.Secrets.Hide(body)
		if r.Exchange != nil {
			r.Exchange.Received(resp.StatusCode, body)
		}
	}
	word := code(body)
	if resp.StatusCode/100 == 4 && resp.StatusCode != http.StatusTooManyRequests {
		message, _ := jsonscan.Get(body, "error", "message")
		word = provider.ReadCode(word, provider.Unquote(message))
	}
	e := provider.StatusError(resp.StatusCode, resp.wait(time.Now()), errors.New("the backend answered "+cmp.Or(word, "with an error")))
	e.Code, e.Param = word, param(body)
	return e
}

// param is the member of a request that a backend names as wrong.
func param(body []byte) string {
	name, _ := jsonscan.Get(body, "error", "param")
	return provider.Unquote(name)
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
	return ""
}

// wait reads how long the backend wants to be left alone, in seconds, in
// milliseconds, or up to a date.
func (r *Response) wait(now time.Time) time.Duration {
	if ms, err := strconv.ParseFloat(r.retryAfterMs, 64); err == nil && ms > 0 {
		return time.Duration(min(ms, 1e9) * float64(time.Millisecond))
	}
	if s, err := strconv.ParseFloat(r.retryAfter, 64); err == nil && s > 0 {
		return time.Duration(min(s, 1e6) * float64(time.Second))
	}
	if at, err := http.ParseTime(r.retryAfter); err == nil && at.After(now) {
		return at.Sub(now)
	}
	return 0
}

// Body reads an answer to its end. A short one is in the room of c.
func Body(ctx context.Context, resp *Response, r *provider.Request, c *provider.Completion) ([]byte, error) {
	defer resp.Body.Close()
	if resp.isStream() {
		return nil, unasked(ctx, resp, r)
	}
	body, err := readAll(resp, c)
	if err != nil {
		return nil, broken(ctx, err)
	}
	body = r.Secrets.Hide(body)
	if r.Exchange != nil {
		r.Exchange.Received(resp.StatusCode, body)
	}
	return body, nil
}

func readAll(resp *Response, c *provider.Completion) ([]byte, error) {
	if length := resp.Length; length > maxAnswer {
		return nil, errAnswer
	} else if 0 <= length && length <= 1<<20 {
		body := c.Room(int(length))
		_, err := io.ReadFull(resp.Body, body)
		return body, err
	}
	return readLimited(&limited{resp.Body, maxAnswer})
}

// readLimited reads to the end. Unlike io.ReadAll it allocates less than twice the
// limit in all.
func readLimited(from io.Reader) ([]byte, error) {
	body := make([]byte, 0, 1<<20)
	for {
		if len(body) == cap(body) {
			body = append(make([]byte, 0, min(4*cap(body)+1, maxAnswer+1)), body...)
		}
		n, err := from.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		switch {
		case err == io.EOF: //nolint:errorlint // a read's own
			return body, nil
		case err != nil:
			return nil, err
		}
	}
}

// limited reads up to left bytes. More are an error.
type limited struct {
	io.Reader
	left int64
}

var errAnswer = &provider.TooLargeError{Part: "it", Limit: maxAnswer}

func (l *limited) Read(p []byte) (int, error) {
	n, err := l.Reader.Read(p[:min(int64(len(p)), l.left+1)])
	if l.left -= int64(n); l.left < 0 {
		return n, errAnswer
	}
	return n, err
}

// broken is the error for an answer that could not be read.
func broken(ctx context.Context, err error) error {
	var large *provider.TooLargeError
	if errors.As(err, &large) {
		return &provider.Error{Cause: provider.Internal, Err: large}
	}
	return provider.Broken(ctx, err)
}

// Failed is the error for an event in which a backend tells that its answer went wrong.
func Failed(event []byte) error {
	word, status := code(event), http.StatusServiceUnavailable
	if strings.HasPrefix(word, "rate_limit") || word == "RESOURCE_EXHAUSTED" {
		status = http.StatusTooManyRequests
	}
	e := provider.StatusError(status, 0, errors.New("the backend broke the stream off: "+cmp.Or(word, "it has no word for why")))
	e.Code = word
	return e
}

// Malformed is the error for an answer that is not what the backend's API has.
func Malformed(what string) error {
	return &provider.Error{Cause: provider.Overloaded, Err: errors.New("the answer makes no sense: " + what)}
}

// CloseIdleConnections closes the connections that no call uses.
func (c *Client) CloseIdleConnections() {
	c.http.CloseIdleConnections()
}
