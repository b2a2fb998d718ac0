// Package mcphttp implements the HTTP transport of MCP: each message is posted, and
// answered by JSON or by a stream of events. It only reads the fields of messages that HTTP
// repeats in headers.
package mcphttp

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/inflate"
	"github.com/wirectl/wirectl/internal/sse"
	"github.com/wirectl/wirectl/transport"
)

const (
	// MaxBody is the longest message that is accepted, in bytes.
	MaxBody = 16 << 20
	// maxRefusal bounds the body that is read of an error response, in bytes.
	maxRefusal = 64 << 10
	// maxRedirects is how many redirects are followed, as by package net/http.
	maxRedirects = 10
	// parting is how long a server may take to end a session.
	parting = time.Second
	// endpointPatience is how long a server of the older transport may take to name the
	// URL to post to.
	endpointPatience = 10 * time.Second
)

// ErrEnded means that the server ended the stream that carries all answers.
var ErrEnded = errors.New("the server ended the stream of events")

var errNoEvents = errors.New("the server answered a GET with something other than an event stream")

// A StatusError is a response with an error status.
type StatusError struct {
	Code   int
	Status string // such as "404 Not Found"
	Body   []byte // the beginning of it
	IsJSON bool   // by its content type
	// Advice are the fields of the response that say how to get an answer, by their names.
	Advice  map[string]string
	session int // the number of the session that the request named; 0 if none
}

// advices are the fields of a response for [StatusError].Advice: how to log in, and when to
// ask again.
var advices = []string{"WWW-Authenticate", "Retry-After"}

func (e *StatusError) Error() string {
	body := bytes.TrimSpace(e.Body[:min(len(e.Body), 512)])
	if len(body) == 0 {
		return "HTTP " + e.Status
	}
	return fmt.Sprintf("HTTP %s: %q", e.Status, body)
}

// A RedirectError means that the server redirects a request to where it is not sent.
type RedirectError struct{ reason string }

func (e *RedirectError) Error() string { return e.reason }

// A FaultError means that the server violated the protocol.
type FaultError struct{ Err error }

func (e *FaultError) Error() string { return "the server broke the protocol: " + e.Err.Error() }
func (e *FaultError) Unwrap() error { return e.Err }

func faultf(format string, args ...any) error { return &FaultError{fmt.Errorf(format, args...)} }

var errLongEvent = faultf("an event is over the limit of %d bytes", MaxBody)

// Options configure HTTP requests.
type Options struct {
	// Client makes the requests; nil is http.DefaultClient.
	Client *http.Client
	Header http.Header
}

// HTTPClient returns the client to use. It follows no redirect to another server, which
// would get the headers, and so keys, and none that drops the message.
func (o *Options) HTTPClient() *http.Client {
	c := *cmp.Or(o.Client, http.DefaultClient)
	c.CheckRedirect = sameServer
	return &c
}

// Do makes a request. Its error has a hint, like that of any endpoint.
func (o *Options) Do(req *http.Request) (*http.Response, error) {
	resp, err := o.HTTPClient().Do(req)
	if err != nil {
		return nil, transport.Explain(req.URL.Redacted(), err)
	}
	return resp, nil
}

func sameServer(req *http.Request, via []*http.Request) error {
	var reason string
	switch from, to := via[0], req.URL; {
	case to.Scheme != from.URL.Scheme || to.Host != from.URL.Host:
		reason = fmt.Sprintf("it redirects to another server, %s: use that address if you trust it", to.Redacted())
	case req.Method != from.Method:
		reason = fmt.Sprintf("HTTP %s redirects to %s, but as a %s: use that address", req.Response.Status, to.Redacted(), req.Method)
	case len(via) >= maxRedirects:
		reason = fmt.Sprintf("it redirects more than %d times: check the address", maxRedirects)
	default:
		return nil
	}
	return &RedirectError{reason}
}

// A Config configures a client.
type Config struct {
	URL string
	Options
	// Older allows the older transport of MCP, HTTP with SSE, for a server that refuses
	// the first post.
	Older bool
	// Receive takes each message of the server, one at a time. Its error ends the stream
	// that the message came in.
	Receive func(payload []byte) error
	// Fail is called when a stream that [Client.Send] or the older transport reads fails.
	Fail func(error)
}

// A Client posts messages to a server. It is safe for concurrent use.
type Client struct {
	cfg     Config
	alive   context.Context // ends with the client
	stop    context.CancelFunc
	streams sync.WaitGroup

	mu      sync.Mutex
	url     string // where to post
	older   bool   // the older transport is used
	sent    bool   // a message was accepted
	session string // the Mcp-Session-Id of the server
	number  int    // of the session, from 1
	version string // of MCP, as negotiated
	taking  sync.Mutex
}

// NewClient returns a client, which has to be closed.
func NewClient(cfg Config) *Client {
	alive, stop := context.WithCancel(context.Background())
	return &Client{cfg: cfg, url: cfg.URL, alive: alive, stop: stop, number: 1}
}

// Agree sets the negotiated version of MCP.
func (c *Client) Agree(version string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.version = version
}

// Send posts a message with additional headers. It reads the answer in the background.
func (c *Client) Send(ctx context.Context, payload []byte, header http.Header) error {
	answer, err := c.Post(ctx, payload, header)
	if err != nil {
		return err
	}
	c.streams.Go(func() {
		if err := answer.Read(c.Receive); err != nil && c.alive.Err() == nil {
			c.cfg.Fail(err)
		}
	})
	return nil
}

// Post posts a message with additional headers, by the older transport if the server only
// supports that. The error is a [*StatusError] if the server refuses it. The answer is valid
// until it is read or closed, or the client is closed; ctx only bounds the wait for it.
func (c *Client) Post(ctx context.Context, payload []byte, header http.Header) (*Answer, error) {
	answer, err := c.request(ctx, http.MethodPost, payload, header)
	if c.isOlder(err) {
		refusal := err
		bounded, cancel := context.WithTimeout(ctx, endpointPatience)
		defer cancel()
		if err := c.listen(bounded); err != nil {
			if _, ok := errors.AsType[*FaultError](err); ok {
				return nil, err
			}
			return nil, refusal // the first error says more
		}
		answer, err = c.request(ctx, http.MethodPost, payload, header)
	}
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sent = true
	c.session = cmp.Or(answer.resp.Header.Get(sessionHeader), c.session)
	return answer, nil
}

// sessionNumber returns the number of the current session.
func (c *Client) sessionNumber() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.number
}

// renew begins another session with the messages initialize and, unless it is nil, initialized,
// whose answer it returns. The session becomes the current one if check accepts the answer to
// initialize.
func (c *Client) renew(ctx context.Context, initialize, initialized []byte, check func(*Answer) error) (accepted *Answer, err error) {
	answer, err := c.request(ctx, http.MethodPost, initialize, outsideSession())
	if err != nil {
		return nil, err
	}
	defer answer.Close()
	session := http.Header{sessionHeader: answer.resp.Header.Values(sessionHeader)}
	if err = check(answer); err == nil && initialized != nil {
		accepted, err = c.request(ctx, http.MethodPost, initialized, session)
	}
	if err != nil {
		_ = c.endSession(session) // best effort
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.session = session.Get(sessionHeader)
	c.number++
	return accepted, nil
}

// Events requests the stream of the server's own messages, or the rest of a stream after the
// event with that id.
func (c *Client) Events(ctx context.Context, after string) (*Answer, error) {
	header := http.Header{}
	if after != "" {
		header.Set("Last-Event-ID", after)
	}
	answer, err := c.request(ctx, http.MethodGet, nil, header)
	if err == nil && !answer.IsEvents() {
		defer context.AfterFunc(ctx, answer.Close)()
		answer.discard()
		return nil, errNoEvents
	}
	return answer, err
}

func (c *Client) request(ctx context.Context, method string, payload []byte, header http.Header) (*Answer, error) {
	bounded, end := context.WithCancel(context.WithoutCancel(ctx))
	release := context.AfterFunc(c.alive, end)
	cancel := func() {
		release()
		end()
	}
	stop := context.AfterFunc(ctx, cancel)
	c.mu.Lock()
	to, older := c.url, c.older
	c.mu.Unlock()
	req, err := http.NewRequestWithContext(bounded, method, to, bytes.NewReader(payload))
	if err != nil {
		cancel()
		return nil, err
	}
	session := c.setHeader(req.Header, method)
	maps.Copy(req.Header, header)
	if req.Header.Get(sessionHeader) == "" {
		session = 0
	}
	resp, err := c.cfg.Do(req) //nolint:bodyclose // the answer closes it
	if err != nil {
		cancel()
		return nil, err
	}
	stop() // from here on ctx does not matter
	answer := &Answer{resp: resp, cancel: cancel, session: session, elsewhere: older && method == http.MethodPost}
	if resp.StatusCode >= 300 {
		defer answer.Close()
		body, _ := io.ReadAll(io.LimitReader(resp.Body, maxRefusal)) // as much as there is
		refused := &StatusError{resp.StatusCode, resp.Status, withoutBOM(body), answer.media() == "application/json", map[string]string{}, session}
		for _, name := range advices {
			if values := resp.Header.Values(name); len(values) > 0 {
				refused.Advice[name] = strings.Join(values, ", ")
			}
		}
		return nil, refused
	}
	return answer, nil
}

// setHeader sets the headers that all messages have, and returns the number of their session.
func (c *Client) setHeader(h http.Header, method string) (session int) {
	maps.Copy(h, c.cfg.Header)
	switch method {
	case http.MethodPost:
		h.Set("Content-Type", "application/json")
		h.Set("Accept", "application/json, text/event-stream")
	case http.MethodGet:
		h.Set("Accept", "text/event-stream")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.session != "" {
		h.Set(sessionHeader, c.session)
	}
	if c.version != "" {
		h.Set("Mcp-Protocol-Version", c.version)
	}
	return c.number
}

// Receive passes a message to Config.Receive, one at a time.
func (c *Client) Receive(payload []byte) error {
	c.taking.Lock()
	defer c.taking.Unlock()
	return c.cfg.Receive(payload)
}

// isOlder reports whether the error of the first post suggests that the server speaks the
// older transport of MCP, HTTP with SSE.
func (c *Client) isOlder(err error) bool {
	refused, ok := errors.AsType[*StatusError](err)
	if !ok {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.sent && c.cfg.Older && slices.Contains([]int{http.StatusBadRequest, http.StatusNotFound, http.StatusMethodNotAllowed}, refused.Code)
}

// listen opens the stream of events that carries all answers, and waits for the event that
// names the URL to post to.
func (c *Client) listen(ctx context.Context) error {
	answer, err := c.Events(ctx, "")
	if err != nil {
		return err
	}
	known := make(chan error, 1) // the outcome of the endpoint event
	c.streams.Go(func() {
		defer answer.Close()
		said := false
		err := answer.events(func(name string, data []byte) error {
			switch {
			case isMessage(name):
				return c.Receive(data)
			case name == "endpoint" && !said:
				said = true
				known <- c.postTo(answer.resp.Request.URL, string(data))
			}
			return nil
		})
		err = cmp.Or(err, ErrEnded)
		switch {
		case !said:
			known <- err
		case c.alive.Err() == nil:
			c.cfg.Fail(err)
		}
	})
	select {
	case err := <-known:
		return err
	case <-ctx.Done():
		answer.Close()
		return context.Cause(ctx)
	}
}

// postTo sets the URL to post to. It must not lead to another server, which would get the
// headers, and so tokens.
func (c *Client) postTo(from *url.URL, reference string) error {
	to, err := from.Parse(reference)
	switch {
	case err != nil:
		return faultf("the server says to post to %q: %w", reference, err)
	case to.Scheme != from.Scheme || to.Host != from.Host:
		return faultf("the server says to post to %s, which is another server", to)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.url, c.older = to.String(), true
	return nil
}

// Close ends the session, if there is one, and cancels the open requests.
func (c *Client) Close() error {
	defer c.streams.Wait()
	defer c.stop()
	c.mu.Lock()
	session := c.session
	c.session = ""
	c.mu.Unlock()
	return c.endSession(http.Header{sessionHeader: {session}})
}

// endSession ends the session in a header, if there is one.
func (c *Client) endSession(session http.Header) error {
	if session.Get(sessionHeader) == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(c.alive, parting)
	defer cancel()
	answer, err := c.request(ctx, http.MethodDelete, nil, session)
	if _, ok := errors.AsType[*StatusError](err); ok { // it need not allow that
		return nil
	}
	if err != nil {
		return fmt.Errorf("the session could not be ended: %w", err)
	}
	defer context.AfterFunc(ctx, answer.Close)()
	answer.discard()
	return nil
}

// An Answer is the response to a request.
type Answer struct {
	resp    *http.Response
	cancel  context.CancelFunc
	session int // the number of the session of the request; 0 if none
	// last is the id of the last event; "" if there is none.
	last      string
	elsewhere bool // the messages come in another stream
	anyEvent  bool // events of each type are messages
}

// AnswerOf returns the answer in a response of another protocol than MCP, in which events of
// each type are messages.
func AnswerOf(resp *http.Response) *Answer {
	return &Answer{resp: resp, cancel: func() {}, anyEvent: true}
}

// Close closes the answer, and cancels the request of a stream. It may be called again, and
// while the answer is being read.
func (a *Answer) Close() {
	a.cancel()
	a.resp.Body.Close()
}

// Read passes each message of the answer to receive, and closes the answer.
func (a *Answer) Read(receive func(payload []byte) error) error {
	defer a.Close()
	switch {
	case a.IsAccepted(): // the messages come elsewhere
		a.discard()
		return nil
	case a.IsEvents():
		return a.events(func(name string, data []byte) error {
			if !a.anyEvent && !isMessage(name) {
				return nil
			}
			return receive(data)
		})
	}
	body, err := a.Body()
	body = withoutBOM(body)
	if err != nil || len(bytes.TrimSpace(body)) == 0 {
		return err
	}
	return receive(body)
}

// discard reads an answer whose body does not matter to its end, unless it is long.
func (a *Answer) discard() {
	defer a.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(a.resp.Body, maxRefusal)) // as much as there is
}

// Body reads an answer that is not a stream.
func (a *Answer) Body() ([]byte, error) {
	return inflate.ReadAll(a.resp.Body, MaxBody, faultf("the answer is over the limit of %d bytes", MaxBody))
}

// withoutBOM removes a byte order mark, which some servers write before JSON.
func withoutBOM(body []byte) []byte { return bytes.TrimPrefix(body, []byte("\xef\xbb\xbf")) }

// IsAccepted reports whether the message was accepted without an answer to it. In the older
// transport, servers do that with other codes, too.
func (a *Answer) IsAccepted() bool { return a.elsewhere || a.resp.StatusCode == http.StatusAccepted }

// IsEvents reports whether the answer is a stream of events.
func (a *Answer) IsEvents() bool { return a.media() == "text/event-stream" }

func (a *Answer) media() string {
	media, _, _ := mime.ParseMediaType(a.resp.Header.Get("Content-Type"))
	return media
}

// isMessage reports whether events of a type have a message. Clients ignore others, such as
// ping.
func isMessage(event string) bool { return event == "" || event == "message" }

// events passes the name and the data of each server-sent event to take.
func (a *Answer) events(take func(name string, data []byte) error) error {
	for e, err := range sse.Events(a.resp.Body, MaxBody, errLongEvent) {
		if err != nil {
			return err
		}
		a.last = cmp.Or(e.ID, a.last)
		if len(e.Data) == 0 {
			continue
		}
		if err := take(e.Name, e.Data); err != nil {
			return err
		}
	}
	return nil
}

// A handshake is how the client began its session. Another session begins in the same way, if
// the server forgets the first one, as after a restart.
type handshake struct {
	id                      string // of initialize
	initialize, initialized []byte // initialized is nil if it was not sent yet
	agreed                  *agreement
}

// An agreement is the part of the answer to initialize that must be the same in another session.
type agreement struct {
	ProtocolVersion string `json:"protocolVersion"`
	Capabilities    any    `json:"capabilities"`
}

// agreementIn returns the agreement in an answer to initialize; nil if there is none.
func agreementIn(payload []byte) *agreement {
	var answer struct {
		Result *agreement `json:"result"`
	}
	if json.Unmarshal(payload, &answer) != nil {
		return nil
	}
	return answer.Result
}

// A renewal replaces a session that the server has forgotten. Requests that are refused at the
// same time share it.
type renewal struct {
	session int // the number of the session
	done    chan struct{}
	err     error // valid once done is closed
}

// errForgotten means that the server does not know the session of a request any more.
var errForgotten = errors.New("the server has forgotten its session")

// A forgottenError means that a request was refused because the server has forgotten its
// session, and that another one could not begin.
type forgottenError struct {
	refused *StatusError
	err     error
}

func (e *forgottenError) Error() string {
	return fmt.Sprintf("%v: %v, and another could not begin: %v", e.refused, errForgotten, e.err)
}

// renewed reports whether err says that the server has forgotten the session of a request. Then
// it waits until there is another session; failed is why there is none.
func (c *conn) renewed(ctx context.Context, err error) (forgotten bool, failed error) {
	refused, ok := errors.AsType[*StatusError](err)
	if !ok || refused.Code != http.StatusNotFound || refused.session == 0 {
		return false, nil
	}
	c.mu.Lock()
	r := c.renewal
	switch {
	case r != nil && r.session == refused.session:
	case c.client.sessionNumber() != refused.session:
		c.mu.Unlock()
		return true, nil
	case c.handshake.agreed == nil || c.ending:
		c.mu.Unlock()
		return false, nil
	default:
		r = &renewal{session: refused.session, done: make(chan struct{})}
		c.renewal = r
		h := c.handshake
		c.work.Go(func() { c.renew(r, &h, refused) })
	}
	c.mu.Unlock()
	select {
	case <-r.done:
		return true, r.err
	case <-ctx.Done():
		return true, context.Cause(ctx)
	}
}

// renew carries out a renewal.
func (c *conn) renew(r *renewal, h *handshake, refused *StatusError) {
	defer close(r.done)
	differs := false
	accepted, err := c.client.renew(c.alive, h.initialize, h.initialized, func(answer *Answer) error {
		got, err := c.agreement(answer, h.id)
		if err == nil && !reflect.DeepEqual(got, h.agreed) {
			differs = true
			err = fmt.Errorf("the server answered %s with the version %s, and other capabilities or another version than before (%s): restart the client", initialize, got.ProtocolVersion, h.agreed.ProtocolVersion)
		}
		return err
	})
	if err != nil {
		r.err = &forgottenError{refused, err}
	}
	c.mu.Lock()
	if !differs { // otherwise, it would fail in the same way again
		c.renewal = nil
	}
	c.mu.Unlock()
	if err == nil {
		c.endpoint.Notice(fmt.Sprintf("%s: %v (HTTP %s), so the bridge began another one: what the server kept for the first one, such as subscriptions, is lost", c.endpoint, errForgotten, refused.Status))
		if accepted != nil {
			if !c.run(func() { _ = c.read(c.alive, accepted, c.client.Receive) }) {
				accepted.Close()
			}
			c.relisten()
		}
	}
}

// errFound ends the reading of an answer.
var errFound = errors.New("found")

// agreement reads the answer to initialize. Other messages are for the client.
func (c *conn) agreement(answer *Answer, id string) (*agreement, error) {
	var line []byte
	err := c.read(c.alive, answer, func(payload []byte) error {
		if m := parse(payload); m.isResponse() && string(m.ID) == id {
			line = bytes.Clone(payload)
			return errFound
		}
		return c.client.Receive(payload)
	})
	got := agreementIn(line)
	switch {
	case got != nil:
		return got, nil
	case line != nil:
		return nil, fmt.Errorf("the server answered %s with %.500s", initialize, line)
	case err == nil:
		err = fmt.Errorf("HTTP %s has no answer to %s", answer.resp.Status, initialize)
	}
	return nil, err
}

// A Tap takes the bytes of an HTTP/1.1 connection. Close ends both directions, beginning with
// first.
type Tap interface {
	Feed(dir frame.Dir, data []byte)
	Close(first frame.Dir)
}

// A recorded makes HTTP requests, and writes each exchange to a tap as if it had passed on an
// HTTP/1.1 connection, on which exchanges follow each other. Of the headers, it writes those
// that tell how the exchange went, and none that the user has configured: they may be keys.
type recorded struct {
	next   http.RoundTripper
	hidden http.Header
	open   func() Tap

	mu   sync.Mutex
	idle []Tap // of connections without an exchange
}

// record makes the requests of a client recorded.
func (o *Options) record(open func() Tap) *recorded {
	client := *cmp.Or(o.Client, http.DefaultClient)
	r := &recorded{next: cmp.Or(client.Transport, http.DefaultTransport), hidden: o.Header, open: open}
	client.Transport = r
	o.Client = &client
	return r
}

func (r *recorded) takeTap() Tap {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := len(r.idle)
	if n == 0 {
		return r.open()
	}
	t := r.idle[n-1]
	r.idle = r.idle[:n-1]
	return t
}

func (r *recorded) put(t Tap) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.idle = append(r.idle, t)
}

// close closes the idle connections.
func (r *recorded) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, t := range r.idle {
		t.Close(frame.C2U)
	}
	r.idle = nil
}

// RoundTrip makes a request.
func (r *recorded) RoundTrip(req *http.Request) (*http.Response, error) {
	t := r.takeTap()
	var body []byte
	if req.GetBody != nil {
		if b, err := req.GetBody(); err == nil {
			body, _ = io.ReadAll(b) // it is in memory
		}
	}
	start := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: %s\r\n", req.Method, req.URL.RequestURI(), req.URL.Host)
	length := ""
	if len(body) > 0 {
		length = fmt.Sprintf("Content-Length: %d\r\n", len(body))
	}
	t.Feed(frame.C2U, append([]byte(start+r.fields(req.Header)+length+"\r\n"), body...))
	resp, err := r.next.RoundTrip(req)
	b := &recordedBody{recorder: r, tap: t, req: req}
	if err != nil {
		b.cut()
		return nil, err
	}
	b.ReadCloser, b.chunked = resp.Body, resp.ContentLength < 0
	size := fmt.Sprintf("Content-Length: %d\r\n", resp.ContentLength)
	if b.chunked {
		size = "Transfer-Encoding: chunked\r\n"
	}
	t.Feed(frame.U2C, []byte("HTTP/1.1 "+resp.Status+"\r\n"+r.fields(resp.Header)+size+"\r\n"))
	if resp.ContentLength == 0 || resp.Body == http.NoBody {
		b.end()
	}
	resp.Body = b
	return resp, nil
}

// shown are the fields that are recorded, besides those of MCP.
var shown = append([]string{"Accept", "Content-Type", "Content-Encoding", "Last-Event-Id", "Allow", "Location"}, advices...)

// fields returns the lines of a head for the record.
func (r *recorded) fields(h http.Header) string {
	var lines strings.Builder
	for _, name := range slices.Sorted(maps.Keys(h)) {
		isShown := strings.HasPrefix(name, "Mcp-") || slices.ContainsFunc(shown, func(s string) bool { return strings.EqualFold(s, name) })
		if _, isHidden := r.hidden[name]; !isShown || isHidden {
			continue
		}
		for _, value := range h[name] {
			lines.WriteString(name + ": " + value + "\r\n")
		}
	}
	return lines.String()
}

// A recordedBody is the body of a response that is recorded as it is read.
type recordedBody struct {
	io.ReadCloser
	recorder *recorded
	tap      Tap
	req      *http.Request
	chunked  bool // its length is not known at its beginning

	mu    sync.Mutex
	ended bool
}

func (b *recordedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.mu.Lock()
	if n > 0 && !b.ended {
		b.feed(p[:n])
	}
	b.mu.Unlock()
	switch {
	case err == io.EOF:
		b.end()
	case err != nil:
		b.cut()
	}
	return n, err
}

func (b *recordedBody) feed(data []byte) {
	if b.chunked {
		data = fmt.Appendf(nil, "%x\r\n%s\r\n", len(data), data)
	}
	b.tap.Feed(frame.U2C, data)
}

// Close ends the reading. The server may have more to say.
func (b *recordedBody) Close() error {
	err := b.ReadCloser.Close()
	b.finish(func() { b.tap.Close(frame.C2U) })
	return err
}

// end records that the response is complete.
func (b *recordedBody) end() {
	b.finish(func() {
		if b.chunked {
			b.tap.Feed(frame.U2C, []byte("0\r\n\r\n"))
		}
		b.recorder.put(b.tap)
	})
}

// cut records that the connection broke, or that its client has left it.
func (b *recordedBody) cut() {
	first := frame.U2C
	if b.req.Context().Err() != nil {
		first = frame.C2U
	}
	b.finish(func() { b.tap.Close(first) })
}

// finish ends the exchange, once.
func (b *recordedBody) finish(how func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.ended {
		b.ended = true
		how()
	}
}
