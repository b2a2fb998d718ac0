package provider

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"maps"
	"mime"
	"net"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/wirectl/wirectl/internal/inflate"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/internal/sse"
	"github.com/wirectl/wirectl/llm"
)

// errEnded: a stream ended without its end mark.
var errEnded error = &Error{Cause: Unreachable, Paid: true, Err: errors.New("the stream was cut")}

// stream reads the completion of a backend with an API: a stream of events or, if the backend
// answers so, a whole one, which becomes parts. Hide removes the usage from the chunks of Chat
// Completions.
func stream(ctx context.Context, resp *response, api llm.API, r *Request, c *Completion, hide bool) error {
	d := llm.Decoder{API: api, Answer: &c.Answer, Chunks: true}
	read := func(data []byte) (bool, error) {
		deltas, err := d.Read(data)
		if err != nil || r.Emit == nil {
			return d.Stopped, reported(err)
		}
		own := data
		switch {
		case r.API != api || api == llm.Chat && d.Stopped || !d.Chunks:
			own = nil
		case hide:
			own = llm.WithoutUsage(data, d.Event.Some)
		}
		for i := range deltas {
			p := Part{Delta: deltas[i]}
			if i == 0 {
				p.Event, own = own, nil
			}
			if err := r.Emit(p); err != nil {
				return false, err
			}
		}
		if own != nil {
			err = r.Emit(Part{Event: own})
		}
		return d.Stopped, err
	}
	err := events(ctx, resp, r, read, func(document []byte) error {
		d.Chunks = false
		_, err := read(document)
		return err
	})
	// Some backends omit the end mark, and Gemini's API has none.
	if err == errEnded && c.Finish != "" && ctx.Err() == nil { //nolint:errorlint // it comes bare
		err = nil
	}
	c.Seal()
	return cmp.Or(err, lostMedia(api, r, c))
}

// lostMedia is the error for an answer with an image or a sound for a client of another API, which
// would not get it.
func lostMedia(api llm.API, r *Request, c *Completion) error {
	if !c.Media || r.API == api {
		return nil
	}
	return Reported(&llm.Error{
		Status: 502, Code: "unsupported_content", Final: true, Shown: true,
		Message: "The model answered with an image or a sound, which cannot be translated: ask it through the API of its provider.",
	})
}

// events reads server-sent events and calls f with the data of each, which is valid until f
// returns. Reading ends with the stream, an error of f, or when f reports that it is done. An
// object instead of a stream is passed to whole.
func events(ctx context.Context, resp *response, r *Request, f func(data []byte) (done bool, err error), whole func(document []byte) error) error {
	defer resp.Body.Close()
	body := bufio.NewReaderSize(&limited{resp.Body, maxAnswer}, 16) // to peek at a byte
	if isDocument(body) {
		return document(ctx, resp, body, r, whole)
	}
	masked, some := r.Secrets.Stream(), false
	pass := func(data []byte) (bool, error) {
		if r.Exchange != nil {
			r.Exchange.Event(resp.StatusCode, data)
		}
		return f(data)
	}
	var failed error
	for e, err := range sse.Events(body, maxEvent, errEvent) {
		if failed = err; err != nil {
			break
		}
		if e == sse.Comment {
			if r.Alive != nil {
				if err := r.Alive(); err != nil {
					return err
				}
			}
			continue
		}
		if len(e.Data) == 0 {
			continue
		}
		if done, err := masked.Add(e.Data, pass); done || err != nil {
			return err
		}
		if some = true; e.Name == "error" { // its data may not say so
			if done, err := masked.End(pass); done || err != nil {
				return err
			}
			return Reported(llm.ReadError(0, r.Secrets.Hide(e.Data)))
		}
	}
	if ctx.Err() == nil {
		if done, err := masked.End(pass); done || err != nil {
			return err
		}
	}
	switch {
	case failed != nil:
		return broken(ctx, failed)
	case !some:
		return errNoStream
	}
	return errEnded
}

// maxEvent bounds an event, in bytes.
const maxEvent = 8 << 20

var errEvent = &TooLargeError{Part: "an event", Limit: maxEvent}

// isDocument reports whether the answer is a page or an object rather than a stream of events.
func isDocument(r *bufio.Reader) bool {
	b, _ := r.Peek(1)
	return len(b) > 0 && (b[0] == '{' || b[0] == '<')
}

// isStream reports whether an answer has the type of a stream of events, and is not a document.
func (r *response) isStream() bool {
	if media, _, _ := mime.ParseMediaType(r.header.Get("Content-Type")); media != "text/event-stream" {
		return false
	}
	body := bufio.NewReader(r.Body)
	r.readFrom(body)
	return !isDocument(body)
}

// readFrom replaces the reader of the body.
func (r *response) readFrom(from io.Reader) {
	r.Body = struct {
		io.Reader
		io.Closer
	}{from, r.Body}
}

// unasked reads a stream of events that was not asked for. Secrets that are split over events are
// found only by reading them as events.
func unasked(ctx context.Context, resp *response, r *Request) error {
	err := events(ctx, resp, r, func([]byte) (bool, error) { return false, nil }, func([]byte) error { return errNoStream })
	if err == errEnded || err == errNoStream { //nolint:errorlint // they come bare
		return errUnasked
	}
	return err
}

var errUnasked = malformed("it is an event stream, and none was requested")

var errNoStream = malformed("it is not an event stream")

// document reads an answer that is not a stream.
func document(ctx context.Context, resp *response, from io.Reader, r *Request, whole func(document []byte) error) error {
	body, err := readLimited(from)
	if err != nil {
		return broken(ctx, err)
	}
	body = r.Secrets.Hide(body)
	if r.Exchange != nil {
		r.Exchange.Received(resp.StatusCode, body)
	}
	if body[0] != '{' {
		return errNoStream
	}
	return whole(body)
}

// A Client sends requests to one backend.
type client struct {
	base   string // the URL
	header http.Header
	http   *http.Transport
}

// A Response is an answer.
type response struct {
	StatusCode int
	// Length is that of the body, -1 if it is not known.
	Length int64
	Body   io.ReadCloser

	header http.Header
}

const (
	// maxAnswer bounds an answer, in bytes.
	maxAnswer = 64 << 20
	// maxRefusal bounds an answer that is not 2xx, in bytes.
	maxRefusal = 64 << 10
	// maxIdle is how many idle connections are kept.
	maxIdle = 256
)

// newClient returns a client for paths below base. The header, including keys, is sent with every
// request. Connecting may take the time connect; 0 is ten seconds.
func newClient(base string, header http.Header, connect time.Duration) *client {
	if connect == 0 {
		connect = 10 * time.Second
	}
	header.Set("Content-Type", "application/json")
	header.Set("User-Agent", "wirectl")
	// With one of these, net/http would repeat a request that was written.
	header.Del("Idempotency-Key")
	header.Del("X-Idempotency-Key")
	return &client{base: strings.TrimSuffix(base, "/"), header: header, http: &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            (&net.Dialer{Timeout: connect}).DialContext,
		TLSHandshakeTimeout:    connect,
		ForceAttemptHTTP2:      true,
		MaxIdleConnsPerHost:    maxIdle,
		IdleConnTimeout:        90 * time.Second,
		MaxResponseHeaderBytes: 64 << 10,
		ReadBufferSize:         2 << 10, // many long calls are open at once
		WriteBufferSize:        2 << 10, // enough to write most requests at once
		DisableCompression:     true,    // so that events arrive one by one, and limits count received bytes
	}}
}

// Post sends a body and returns the answer, which is a 2xx. Headers of the request's own, which
// may be nil, take precedence over those of the client. The reader of the body must report it to
// r's exchange.
func (c *client) Post(ctx context.Context, path string, own http.Header, body []byte, r *Request) (*response, error) {
	if r.Exchange != nil {
		r.Exchange.Sent(c.base+path, body)
	}
	var sent atomic.Bool
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaders: func() { sent.Store(true) }})
	resp, err := c.post(traced, path, own, body, r)
	if err != nil {
		err = Broken(ctx, bare(err))
		if e, ok := err.(*Error); ok { //nolint:errorlint // it comes bare
			e.Unsent = !sent.Load()
		}
		return nil, err
	}
	if resp.StatusCode/100 != 2 {
		defer resp.Body.Close()
		return nil, refused(ctx, resp, r)
	}
	return resp, nil
}

func (c *client) post(ctx context.Context, path string, own http.Header, body []byte, r *Request) (*response, error) {
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
	// Redirects are not followed: they would send the key elsewhere.
	resp, err := c.http.RoundTrip(req) //nolint:bodyclose // the reader of the answer closes it
	if err != nil {
		return nil, err
	}
	made := &response{StatusCode: resp.StatusCode, Length: resp.ContentLength, Body: resp.Body, header: resp.Header}
	if coding := resp.Header.Get("Content-Encoding"); coding != "" && coding != "identity" { // nobody asked for it
		if plain, err := inflate.Open(strings.ToLower(coding), resp.Body); err == nil {
			made.Length = -1
			made.readFrom(plain)
		}
	}
	return made, nil
}

// bare is err without the URL, which may contain a secret.
func bare(err error) error {
	for {
		ue, ok := err.(interface { //nolint:errorlint // only the outermost
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
func refused(ctx context.Context, resp *response, r *Request) error {
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
	e := Reported(llm.ReadError(resp.StatusCode, body))
	e.Hints = hints(resp.header)
	if e.RetryAfter = cmp.Or(llm.RetryAfter(resp.header, time.Now()), e.RetryAfter); e.Hints.Get("X-Should-Retry") == "false" && e.Hints.Get("Retry-After") == "" {
		e.RetryAfter = 0
	}
	return e
}

// hints are the headers of an answer on which clients act.
func hints(h http.Header) http.Header {
	made := http.Header{}
	for name, values := range h {
		lower := strings.ToLower(name)
		if lower == "x-should-retry" || lower == "retry-after" || lower == "retry-after-ms" || strings.Contains(lower, "ratelimit-") {
			made[name] = values
		}
	}
	return made
}

// Complete makes a completion at a backend with an API. Header may be nil.
func (c *client) Complete(ctx context.Context, path string, header http.Header, body []byte, api llm.API, r *Request, into *Completion) error {
	resp, err := c.Post(ctx, path, header, body, r)
	switch {
	case err != nil:
		return err
	case r.Emit == nil && !resp.isStream():
		return whole(ctx, resp, r, answered(api, r, into))
	}
	return stream(ctx, resp, api, r, into, false)
}

// Ask is Post, and reads the whole body of the answer.
func (c *client) Ask(ctx context.Context, path string, own http.Header, body []byte, r *Request, read func(answer []byte) error) error {
	resp, err := c.Post(ctx, path, own, body, r)
	if err != nil {
		return err
	}
	if resp.isStream() {
		defer resp.Body.Close()
		return unasked(ctx, resp, r)
	}
	return whole(ctx, resp, r, read)
}

// whole reads the whole body of an answer.
func whole(ctx context.Context, resp *response, r *Request, read func(answer []byte) error) error {
	defer resp.Body.Close()
	answer, err := readAll(resp)
	if err != nil {
		return broken(ctx, err)
	}
	answer = r.Secrets.Hide(bytes.TrimPrefix(answer, []byte("\ufeff")))
	if r.Exchange != nil {
		r.Exchange.Received(resp.StatusCode, answer)
	}
	return read(answer)
}

// answered reads an answer into c.
func answered(api llm.API, r *Request, c *Completion) func(answer []byte) error {
	return func(answer []byte) error {
		d := llm.Decoder{API: api, Answer: &c.Answer}
		_, err := d.Read(answer)
		c.Seal()
		if r.API == api {
			c.Body = answer
		}
		return cmp.Or(reported(err), lostMedia(api, r, c))
	}
}

// reported is the error of a decoder as a provider's.
func reported(err error) error {
	if e, ok := err.(*llm.Error); ok { //nolint:errorlint // llm returns it bare
		return Reported(e)
	}
	return err
}

// counted reads the number of tokens in a member of an answer into c.
func counted(member string, api llm.API, r *Request, c *Completion) func(answer []byte) error {
	return func(answer []byte) (err error) {
		if r.In(api) {
			c.Body = answer
		}
		n, _ := jsonscan.Get(answer, member)
		if c.Usage.Input, err = strconv.ParseInt(string(n), 10, 64); err != nil {
			return malformed("it counts no tokens")
		}
		return nil
	}
}

func readAll(resp *response) ([]byte, error) {
	if length := resp.Length; length > maxAnswer {
		return nil, errAnswer
	} else if 0 <= length && length <= 1<<20 {
		body := make([]byte, length)
		_, err := io.ReadFull(resp.Body, body)
		return body, err
	}
	return readLimited(&limited{resp.Body, maxAnswer})
}

// readLimited reads to the end. Unlike io.ReadAll, it allocates less than twice the limit in all.
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

// limited reads up to left bytes. More is an error.
type limited struct {
	io.Reader
	left int64
}

var errAnswer = &TooLargeError{Part: "it", Limit: maxAnswer}

func (l *limited) Read(p []byte) (int, error) {
	n, err := l.Reader.Read(p[:min(int64(len(p)), l.left+1)])
	if l.left -= int64(n); l.left < 0 {
		return n, errAnswer
	}
	return n, err
}

// broken is the error for an answer that could not be read.
func broken(ctx context.Context, err error) error {
	if large, ok := errors.AsType[*TooLargeError](err); ok {
		return &Error{Cause: Internal, Err: large}
	}
	err = Broken(ctx, err)
	if e, ok := err.(*Error); ok { //nolint:errorlint // it comes bare
		e.Paid = true // an answer had begun
	}
	return err
}

// malformed is the error for an answer that does not match the backend's API.
func malformed(what string) error {
	return &Error{Cause: Overloaded, Paid: true, Err: errors.New("invalid answer: " + what)}
}

// CloseIdleConnections closes idle connections.
func (c *client) CloseIdleConnections() { c.http.CloseIdleConnections() }
