package mcphttp

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http/httptrace"
	"net/url"
	"os"
	"sync"
	"time"

	"github.com/wirectl/wirectl/transport"
)

const (
	// maxOpen bounds the requests that are open at once.
	maxOpen = 1024
	// tries is how often a stream is asked for again in a row, each time after twice the
	// pause.
	tries = 3
)

// How an exchange ends.
var (
	errTooMany      = fmt.Errorf("%d requests are open: wait for answers", maxOpen)
	errElsewhere    = errors.New("the answer comes elsewhere")
	errUnsubscribed = errors.New("the stream of the subscription ended")
)

// An Endpoint is a server of MCP over HTTP that is spoken to in lines, as one on standard
// input and output is.
type Endpoint struct {
	URL *url.URL
	Options
	// Grace is how long answers may take to come once nothing more is said.
	Grace time.Duration
	// Pause is the time before a stream that ended is asked for again; 0 is a second.
	Pause time.Duration
	// Notice is told which message the server refused that no answer can tell of.
	Notice func(text string)
}

func (e *Endpoint) String() string { return e.URL.Redacted() }

// Dial returns a connection. Whether the server can be reached the first message tells.
func (e *Endpoint) Dial(ctx context.Context) (transport.Conn, error) {
	if e.Notice == nil {
		e.Notice = func(string) {}
	}
	c := &conn{endpoint: e, open: map[string]*exchange{}, heard: make(chan struct{}, 1)}
	c.alive, c.stop = context.WithCancelCause(context.Background())
	c.out, c.lines = io.Pipe()
	c.client = NewClient(Config{URL: e.URL.String(), Options: e.Options, Older: true, Receive: c.receive, Fail: c.fail})
	return c, ctx.Err()
}

// A conn takes lines to a server by posting them, and what the server says back as lines.
type conn struct {
	endpoint *Endpoint
	client   *Client
	alive    context.Context // ends with the connection
	stop     context.CancelCauseFunc
	out      *io.PipeReader
	lines    *io.PipeWriter
	work     sync.WaitGroup // what was begun on the way
	heard    chan struct{}  // has room for a sign that something was received
	rest     []byte         // of what was written, a line that is not whole
	listens  bool           // the stream of what the server says by itself was asked for

	writing sync.Mutex // held while a line is written to lines
	mu      sync.Mutex
	open    map[string]*exchange // by the id as written
	ending  bool                 // nothing more is begun
	begun   string               // the id of the initialize that is open
}

// An exchange is a request that is not answered yet.
type exchange struct {
	message
	cancel context.CancelFunc
	// cancelled says that its answer may never come.
	cancelled bool
}

func (c *conn) Read(p []byte) (int, error) { return c.out.Read(p) }

// Write posts each line that is whole.
func (c *conn) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		line, after, whole := bytes.Cut(rest, []byte("\n"))
		rest = after
		if len(c.rest)+len(line) > MaxBody {
			return len(p) - len(rest), fmt.Errorf("a line is over the limit of %d bytes", MaxBody)
		}
		c.rest = append(c.rest, line...)
		if whole {
			line, c.rest = c.rest, nil
			c.take(line)
		}
	}
	return len(p), context.Cause(c.alive)
}

// take posts a line. That of a request is answered later; anything else has arrived when
// take returns, so that it is not overtaken.
func (c *conn) take(line []byte) {
	line = bytes.TrimSpace(line)
	if len(line) == 0 {
		return
	}
	m := parse(line)
	switch {
	case m.isRequest() || line[0] == '[':
		c.request(line, &m)
	case m.Method == "notifications/cancelled" && c.cancel(&m):
	default:
		c.notify(line, &m)
	}
}

// run begins what ends with the connection. It reports whether it has.
func (c *conn) run(f func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.ending {
		c.work.Go(f)
	}
	return !c.ending
}

// request posts a request, or a batch, and returns when it was written.
func (c *conn) request(line []byte, m *message) {
	ctx, cancel := context.WithCancel(c.alive)
	e := &exchange{message: *m, cancel: cancel}
	if !c.opened(e) {
		cancel()
		c.run(func() { c.refuse(m, errTooMany) })
		return
	}
	written := make(chan struct{})
	isWritten := sync.OnceFunc(func() { close(written) })
	if c.run(func() {
		defer cancel()
		defer isWritten()
		trace := &httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) { isWritten() }}
		c.answer(e, c.exchange(httptrace.WithClientTrace(ctx, trace), line, e))
	}) {
		<-written
	}
}

// opened notes that a request is open, unless too many are.
func (c *conn) opened(e *exchange) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.open) >= maxOpen {
		return false
	}
	c.open[string(e.ID)] = e
	if e.Method == "initialize" {
		c.begun = string(e.ID)
	}
	return true
}

// answer does what remains when an exchange is over.
func (c *conn) answer(e *exchange, err error) {
	_, isRefused := errors.AsType[*StatusError](err)
	switch {
	case errors.Is(err, errElsewhere):
		return
	case isRefused || errors.Is(err, errUnsubscribed):
		c.refuse(&e.message, err)
	case err != nil && !c.isCancelled(e):
		c.fail(err)
	}
	c.closed(string(e.ID), e)
}

func (c *conn) isCancelled(e *exchange) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return e.cancelled
}

// exchange posts a request and reads its answer to the end, on as many streams as the server
// cuts it into.
func (c *conn) exchange(ctx context.Context, line []byte, e *exchange) error {
	answer, err := c.client.Post(ctx, line, e.header())
	if err != nil {
		return err
	}
	if answer.IsAccepted() {
		answer.Close()
		return errElsewhere
	}
	answered := line[0] == '['
	receive := func(payload []byte) error {
		m := parse(payload)
		answered = answered || m.isResponse()
		return c.client.Receive(payload)
	}
	failed, last := 0, ""
	for {
		if err == nil {
			err = c.read(ctx, answer, receive)
			if answer.last != last {
				failed, last = 0, answer.last
			}
		}
		switch _, isRefused := errors.AsType[*StatusError](err); {
		case answered, c.isCancelled(e):
			return nil
		case isRefused:
			return err
		case err != nil:
			failed++
		}
		if last == "" || failed > tries || !c.pause(ctx, failed) {
			break
		}
		if answer, err = c.client.Events(ctx, last); err == nil {
			answer.last = last
		}
	}
	if e.Method == "subscriptions/listen" { // it may be asked for again
		return errUnsubscribed
	}
	return fmt.Errorf("the stream of %s (id %s) ended before its answer: %w", e.Method, e.ID, cmp.Or(err, io.ErrUnexpectedEOF))
}

// read reads an answer for as long as ctx lasts.
func (c *conn) read(ctx context.Context, answer *Answer, receive func([]byte) error) error {
	defer context.AfterFunc(ctx, answer.Close)()
	return answer.Read(receive)
}

// pause waits until a stream may be asked for again.
func (c *conn) pause(ctx context.Context, failed int) bool {
	pause := c.endpoint.Pause
	if pause == 0 {
		pause = time.Second
	}
	timer := time.NewTimer(pause << max(failed-1, 0))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// cancel cancels the request that a notification names by closing its stream, where the
// version of that request has no other way. It reports whether it has.
func (c *conn) cancel(m *message) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.open[string(m.Params.RequestID)]
	if e == nil {
		return false
	}
	e.cancelled = true
	delete(c.open, string(m.Params.RequestID))
	if e.isStateless() {
		e.cancel()
	}
	return e.isStateless()
}

// notify posts what is not a request.
func (c *conn) notify(line []byte, m *message) {
	answer, err := c.client.Post(c.alive, line, m.header())
	_, isRefused := errors.AsType[*StatusError](err)
	switch {
	case isRefused && m.Method == "" && len(m.ID) == 0: // it is not a message
		c.run(func() { c.refuse(m, err) })
	case isRefused:
		c.endpoint.Notice(fmt.Sprintf("%s: the server refused %s: %v", c.endpoint, m.title(), err))
	case err != nil:
		c.fail(err)
	default:
		c.run(func() { _ = c.read(c.alive, answer, c.client.Receive) }) // most have none
		if m.Method == "notifications/initialized" && !c.listens {
			c.listens = true
			c.run(c.listen)
		}
	}
}

// listen reads what the server says by itself, where it offers that. A stream that ends is
// asked for again.
func (c *conn) listen() {
	last := ""
	for failed := 0; c.alive.Err() == nil; {
		answer, err := c.client.Events(c.alive, last)
		if _, ok := errors.AsType[*StatusError](err); ok || errors.Is(err, errNoEvents) {
			return
		}
		if err == nil {
			failed = 0
			answer.last = last
			_ = c.read(c.alive, answer, c.client.Receive)
			last = answer.last
		}
		if failed++; failed > tries {
			c.fail(err)
			return
		}
		if !c.pause(c.alive, failed) {
			return
		}
	}
}

// receive writes a message of the server as a line, and notes what it answers.
func (c *conn) receive(payload []byte) error {
	m := parse(payload)
	if m.isResponse() {
		c.mu.Lock()
		if version := m.Result.ProtocolVersion; version != "" && string(m.ID) == c.begun {
			c.begun = ""
			c.client.Agree(version)
		}
		c.mu.Unlock()
	}
	err := c.write(payload)
	if m.isResponse() {
		c.closed(string(m.ID), nil)
	}
	select {
	case c.heard <- struct{}{}:
	default:
	}
	return err
}

// closed notes that a request is open no longer, if it is that exchange; nil is any.
func (c *conn) closed(id string, e *exchange) {
	c.mu.Lock()
	if e == nil || c.open[id] == e {
		delete(c.open, id)
	}
	c.mu.Unlock()
	select {
	case c.heard <- struct{}{}:
	default:
	}
}

// write writes a line.
func (c *conn) write(payload []byte) error {
	var line bytes.Buffer
	if !bytes.ContainsAny(payload, "\r\n") || json.Compact(&line, payload) != nil {
		line.Reset()
		line.Write(bytes.Map(func(r rune) rune {
			if r == '\n' || r == '\r' { // no JSON has these but as blanks
				return ' '
			}
			return r
		}, payload))
	}
	line.WriteByte('\n')
	c.writing.Lock()
	defer c.writing.Unlock()
	_, err := c.lines.Write(line.Bytes())
	return err
}

// refuse answers a request that the server refused.
func (c *conn) refuse(m *message, err error) {
	_ = c.write(refusal(m.ID, err)) // it fails where nobody reads any more
}

// fail ends the connection, with what was received before.
func (c *conn) fail(err error) {
	c.mu.Lock()
	ending := c.ending
	c.mu.Unlock()
	if ending {
		return
	}
	c.writing.Lock()
	defer c.writing.Unlock()
	err = transport.Explain(c.endpoint.String(), err)
	c.lines.CloseWithError(err)
	c.stop(err)
}

// CloseWrite lets the answers come that are still to come, and then ends the connection.
func (c *conn) CloseWrite() error {
	if rest := c.rest; len(rest) > 0 { // a last line without its end
		c.rest = nil
		c.take(rest)
	}
	c.run(c.finish)
	return nil
}

func (c *conn) finish() {
	timer := time.NewTimer(c.endpoint.Grace)
	defer timer.Stop()
	for {
		c.mu.Lock()
		open := len(c.open)
		c.mu.Unlock()
		if open == 0 {
			break
		}
		select {
		case <-c.heard:
			timer.Reset(c.endpoint.Grace)
			continue
		case <-timer.C:
		case <-c.alive.Done():
		}
		break
	}
	c.end()
	c.lines.Close()
}

// end ends the session, and what is under way.
func (c *conn) end() {
	c.mu.Lock()
	c.ending = true
	c.mu.Unlock()
	_ = c.client.Close() // the server will notice that nobody comes any more
	c.stop(os.ErrClosed)
}

// Close ends the connection.
func (c *conn) Close() error {
	c.out.Close() // what is being written fails
	c.end()
	c.work.Wait()
	return nil
}

// refusal is the error of JSON-RPC for the request of an id: that which the server gave, if it
// gave one, since it may hold what the client needs to go on.
func refusal(id json.RawMessage, err error) []byte {
	var body struct {
		Error json.RawMessage `json:"error"`
	}
	var fault struct {
		Code *int `json:"code"`
	}
	if refused, ok := errors.AsType[*StatusError](err); ok {
		_ = json.Unmarshal(refused.Body, &body)
	}
	if json.Unmarshal(body.Error, &fault) != nil || fault.Code == nil {
		const internalError = -32603
		body.Error, _ = json.Marshal(map[string]any{"code": internalError, "message": err.Error()})
	}
	if len(id) == 0 {
		id = json.RawMessage("null")
	}
	answer, _ := json.Marshal(struct {
		Version string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Error   json.RawMessage `json:"error"`
	}{"2.0", id, body.Error})
	return answer
}
