package mcphttp

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/wirectl/wirectl/internal/wait"
	"github.com/wirectl/wirectl/transport"
)

const (
	// maxOpen bounds the requests that are open at once.
	maxOpen = 1024
	// tries bounds the retries of a stream in a row. The pause doubles each time.
	tries = 3
)

// How an exchange ends.
var (
	errTooMany      = fmt.Errorf("%d requests are open: wait for answers", maxOpen)
	errElsewhere    = errors.New("the answer comes elsewhere")
	errUnsubscribed = errors.New("the stream of the subscription ended")
)

// An unansweredError means that the response to a request has no answer.
type unansweredError struct {
	method string
	err    error
}

func (e *unansweredError) Error() string {
	return fmt.Sprintf("no answer to %s: %v; it may have been carried out: repeat it only if that does no harm", e.method, e.err)
}

func (e *unansweredError) Unwrap() error { return e.err }

// concernsOne reports whether an error concerns only one message, so that the connection
// goes on.
func concernsOne(err error) bool {
	_, isStatus := errors.AsType[*StatusError](err)
	_, isRedirect := errors.AsType[*RedirectError](err)
	_, isUnanswered := errors.AsType[*unansweredError](err)
	_, isForgotten := errors.AsType[*forgottenError](err)
	return isStatus || isRedirect || isUnanswered || isForgotten || errors.Is(err, errUnsubscribed)
}

// An Endpoint makes an MCP server over HTTP available as a stream of lines, like a server
// on standard input and output.
type Endpoint struct {
	URL *url.URL
	Options
	// Pause is the time before a stream that ended is requested again; 0 is a second.
	Pause time.Duration
	// Notice is called when the server refuses a message that has no answer.
	Notice func(text string)
	// Tap, if not nil, returns the tap of another HTTP connection. It is called for as many
	// as the exchanges need.
	Tap func() Tap
}

func (e *Endpoint) String() string { return e.URL.Redacted() }

// Dial returns a connection. The first message shows whether the server can be reached.
func (e *Endpoint) Dial(ctx context.Context) (transport.Conn, error) {
	if e.Notice == nil {
		e.Notice = func(string) {}
	}
	c := &conn{endpoint: e, open: map[string]*exchange{}, heard: make(chan struct{}, 1)}
	c.alive, c.stop = context.WithCancelCause(context.Background())
	c.out, c.lines = io.Pipe()
	options := e.Options
	if e.Tap != nil {
		c.recorded = options.record(e.Tap)
	}
	c.client = NewClient(Config{URL: e.URL.String(), Options: options, Older: true, Receive: c.receive, Fail: c.endWith})
	return c, ctx.Err()
}

// A conn posts lines to a server, and returns the server's messages as lines.
type conn struct {
	endpoint *Endpoint
	client   *Client
	recorded *recorded       // nil without a tap
	alive    context.Context // ends with the connection
	stop     context.CancelCauseFunc
	out      *io.PipeReader
	lines    *io.PipeWriter
	work     sync.WaitGroup // the goroutines of the connection
	heard    chan struct{}  // signals that something was received; has a buffer of one
	rest     []byte         // an incomplete line of the input

	writing   sync.Mutex // held while a line is written to lines
	mu        sync.Mutex
	open      map[string]*exchange // by the id as written
	ending    bool                 // no more goroutines are started
	handshake handshake
	renewal   *renewal           // of the current session; nil if there is none
	listening context.CancelFunc // ends the stream of the server's own messages; nil if it is not requested
}

// An exchange is an open request.
type exchange struct {
	message
	cancel    context.CancelFunc
	cancelled bool // there may be no answer
}

func (c *conn) Read(p []byte) (int, error) { return c.out.Read(p) }

// Write posts each complete line.
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

// take posts a line. Requests are answered later; anything else has arrived when take
// returns, so that it keeps its place.
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

// run runs f in a goroutine, unless the connection is ending. It reports whether it does.
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
	if !c.opened(e, line) {
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
		c.sendAnswer(e, c.exchange(httptrace.WithClientTrace(ctx, trace), line, e))
	}) {
		<-written
	}
}

// opened registers an open request, unless there are too many.
func (c *conn) opened(e *exchange, line []byte) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.open) >= maxOpen {
		return false
	}
	c.open[string(e.ID)] = e
	if e.Method == initialize {
		c.handshake = handshake{id: string(e.ID), initialize: line}
	}
	return true
}

// sendAnswer completes an exchange.
func (c *conn) sendAnswer(e *exchange, err error) {
	switch {
	case errors.Is(err, errElsewhere):
		return
	case err == nil || c.isOver(e):
	case concernsOne(err):
		c.refuse(&e.message, err)
	default:
		c.endWith(err)
	}
	c.closed(string(e.ID), e)
}

// isOver reports whether nobody waits for the answer of an exchange any more.
func (c *conn) isOver(e *exchange) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return e.cancelled || c.ending
}

// exchange posts a request and reads its answer to the end, which may take several streams.
func (c *conn) exchange(ctx context.Context, line []byte, e *exchange) error {
	answer, err := c.client.Post(ctx, line, e.header())
	if forgotten, failed := c.renewed(ctx, err); forgotten && !c.isOver(e) {
		if err = failed; err == nil {
			answer, err = c.client.Post(ctx, line, e.header())
		}
	}
	if err != nil {
		return err
	}
	session := answer.session
	if answer.IsAccepted() {
		c.run(func() { _ = c.read(c.alive, answer, nil) })
		return errElsewhere
	}
	answered := line[0] == '['
	receive := func(payload []byte) error {
		if !answer.IsEvents() && !json.Valid(payload) {
			return fmt.Errorf("the body of HTTP %s is not JSON: %.200q", answer.resp.Status, payload)
		}
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
		switch {
		case answered, c.isOver(e):
			return nil
		case concernsOne(err):
			return err
		case err != nil:
			failed++
		}
		if last == "" || failed > tries || !c.pause(ctx, failed) {
			break
		}
		if session != 0 && session != c.client.sessionNumber() {
			err = errForgotten
			break
		}
		if answer, err = c.client.Events(ctx, last); concernsOne(err) {
			break
		} else if err == nil {
			answer.last = last
		}
	}
	if e.Method == listen { // the client may repeat it
		return errUnsubscribed
	}
	switch {
	case err == nil && !answer.IsEvents():
		err = fmt.Errorf("HTTP %s without an answer in the body", answer.resp.Status)
	case err == nil:
		err = errors.New("the stream ended before it")
	case errors.Is(err, io.ErrUnexpectedEOF):
		err = errors.New("the connection broke")
	}
	return &unansweredError{e.Method, err}
}

// read reads an answer until ctx ends.
func (c *conn) read(ctx context.Context, answer *Answer, receive func([]byte) error) error {
	defer context.AfterFunc(ctx, answer.Close)()
	return answer.Read(receive)
}

// pause waits before the next request for a stream. It reports whether ctx lasts.
func (c *conn) pause(ctx context.Context, failed int) bool {
	return wait.For(ctx, cmp.Or(c.endpoint.Pause, time.Second)<<max(failed-1, 0)) == nil
}

// cancel cancels the request that a notification names by closing its stream, if the
// version of MCP has no other way. It reports whether it did.
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

// notify posts a message that is not a request.
func (c *conn) notify(line []byte, m *message) {
	answer, err := c.client.Post(c.alive, line, m.header())
	if m.outlives() {
		if forgotten, failed := c.renewed(c.alive, err); forgotten {
			if err = failed; err == nil {
				answer, err = c.client.Post(c.alive, line, m.header())
			}
		}
	}
	isRefused := concernsOne(err)
	switch {
	case isRefused && m.Method == "" && len(m.ID) == 0: // it is not a message
		c.run(func() { c.refuse(m, err) })
	case isRefused:
		c.noticeRefusal(m, err)
	case err != nil:
		c.endWith(err)
	default:
		c.run(func() { _ = c.read(c.alive, answer, c.client.Receive) }) // most have none
		if m.Method == initialized {
			c.mu.Lock()
			c.handshake.initialized = line
			c.mu.Unlock()
			c.relisten()
		}
	}
}

// relisten requests the stream of the server's own messages, instead of one that is open.
func (c *conn) relisten() {
	ctx, cancel := context.WithCancel(c.alive)
	c.mu.Lock()
	before := c.listening
	c.listening = cancel
	c.mu.Unlock()
	if before != nil {
		before()
	}
	if !c.run(func() {
		defer cancel()
		c.listen(ctx)
	}) {
		cancel()
	}
}

// listen reads the server's own messages until ctx ends, if it offers that. It requests a stream
// that ends again.
func (c *conn) listen(ctx context.Context) {
	last, opened := "", false
	for failed := 0; ctx.Err() == nil; {
		answer, err := c.client.Events(ctx, last)
		if opened { // otherwise, 404 only says that there is no such stream
			if forgotten, failed := c.renewed(ctx, err); forgotten {
				if err = failed; err == nil {
					return // the other session has a stream of its own
				}
			}
		}
		if concernsOne(err) || errors.Is(err, errNoEvents) || ctx.Err() != nil {
			return
		}
		if err == nil {
			failed, opened = 0, true
			answer.last = last
			_ = c.read(ctx, answer, c.client.Receive)
			last = answer.last
		}
		if failed++; failed > tries {
			c.endWith(err)
			return
		}
		if !c.pause(ctx, failed) {
			return
		}
	}
}

// receive writes a message of the server as a line, and closes the exchange that it answers.
func (c *conn) receive(payload []byte) error {
	if text := bytes.TrimSpace(payload); !json.Valid(text) || text[0] != '{' && text[0] != '[' {
		c.endpoint.Notice(fmt.Sprintf("%s: what the server sent is not a JSON-RPC message, and is not passed on: %.200q", c.endpoint, payload))
		return nil
	}
	m := parse(payload)
	if m.isResponse() {
		c.mu.Lock()
		if h := &c.handshake; h.agreed == nil && m.Result.ProtocolVersion != "" && string(m.ID) == h.id {
			h.agreed = agreementIn(payload)
			c.client.Agree(m.Result.ProtocolVersion)
		}
		c.mu.Unlock()
	}
	err := c.write(payload)
	if m.isResponse() {
		c.closed(string(m.ID), nil)
	}
	c.signal()
	return err
}

func (c *conn) signal() {
	select {
	case c.heard <- struct{}{}:
	default:
	}
}

// closed removes an open request, if it is e or e is nil.
func (c *conn) closed(id string, e *exchange) {
	c.mu.Lock()
	if e == nil || c.open[id] == e {
		delete(c.open, id)
	}
	c.mu.Unlock()
	c.signal()
}

// write writes a line.
func (c *conn) write(payload []byte) error {
	var line bytes.Buffer
	if !bytes.ContainsAny(payload, "\r\n") || json.Compact(&line, payload) != nil {
		line.Reset()
		line.Write(bytes.Map(func(r rune) rune {
			if r == '\n' || r == '\r' { // in JSON these are only white space
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

// refuse answers a request that the server refused. The user learns what the client may not
// show: how to log in, and when to ask again.
func (c *conn) refuse(m *message, err error) {
	if refused, ok := errors.AsType[*StatusError](err); ok && len(refused.Advice) > 0 {
		c.noticeRefusal(m, refused)
	}
	_ = c.write(refusal(m.ID, err)) // it fails if nobody reads any more
}

func (c *conn) noticeRefusal(m *message, err error) {
	text := fmt.Sprintf("%s: the server refused %s: %v", c.endpoint, m.title(), err)
	if refused, ok := errors.AsType[*StatusError](err); ok {
		for _, name := range advices {
			if value := refused.Advice[name]; value != "" {
				text += "; " + name + ": " + value
			}
		}
	}
	c.endpoint.Notice(text)
}

// endWith ends the connection after the messages that were received before.
func (c *conn) endWith(err error) {
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

// CloseWrite ends the connection after the outstanding answers.
func (c *conn) CloseWrite() error {
	if rest := c.rest; len(rest) > 0 { // a last line without its end
		c.rest = nil
		c.take(rest)
	}
	c.run(c.finish)
	return nil
}

func (c *conn) finish() {
	for c.waits() {
		select {
		case <-c.heard:
		case <-c.alive.Done():
		}
	}
	c.endConn()
	c.lines.Close()
}

// waits reports whether a request is open that will have an answer, unlike a subscription.
func (c *conn) waits() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range c.open {
		if e.Method != listen {
			return c.alive.Err() == nil
		}
	}
	return false
}

// listen is the request that is open for as long as its client wants to hear of changes.
const listen = "subscriptions/listen"

// endConn ends the session and cancels the open requests.
func (c *conn) endConn() {
	c.mu.Lock()
	c.ending = true
	c.mu.Unlock()
	_ = c.client.Close() // best effort
	c.stop(os.ErrClosed)
}

// Close ends the connection.
func (c *conn) Close() error {
	c.out.Close() // what is being written fails
	c.endConn()
	c.work.Wait()
	if c.recorded != nil {
		c.recorded.close()
	}
	return nil
}

// refusal is the JSON-RPC error for a request: that of the server if it sent one, because it
// may contain what the client needs. Its data has the advice of the response.
func refusal(id json.RawMessage, err error) []byte {
	var body struct {
		Error json.RawMessage `json:"error"`
	}
	var fault struct {
		Code *int `json:"code"`
	}
	refused, ok := errors.AsType[*StatusError](err)
	if ok {
		_ = json.Unmarshal(refused.Body, &body)
	}
	if json.Unmarshal(body.Error, &fault) != nil || fault.Code == nil {
		const internalError = -32603
		body.Error, _ = json.Marshal(map[string]any{"code": internalError, "message": err.Error()})
	}
	if ok && len(refused.Advice) > 0 {
		body.Error = advised(body.Error, refused.Advice)
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

// advised adds advice to the data of a JSON-RPC error. What the server has written there stays.
func advised(fault json.RawMessage, advice map[string]string) json.RawMessage {
	var members, data map[string]json.RawMessage
	if json.Unmarshal(fault, &members) != nil || members["data"] != nil && json.Unmarshal(members["data"], &data) != nil {
		return fault
	}
	all := map[string]json.RawMessage{}
	for name, value := range advice {
		all[name], _ = json.Marshal(value)
	}
	maps.Copy(all, data)
	members["data"], _ = json.Marshal(all)
	fault, _ = json.Marshal(members)
	return fault
}

// stateless is the first version of MCP without initialize, whose requests carry the
// version, and are cancelled by closing their streams.
const stateless = "2026-07-28"

// A message has the fields that HTTP needs. They are empty for a batch and for anything that
// is not a message.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Name      string          `json:"name"`
		URI       string          `json:"uri"`
		TaskID    string          `json:"taskId"`
		RequestID json.RawMessage `json:"requestId"`
		Meta      struct {
			Version string `json:"io.modelcontextprotocol/protocolVersion"`
		} `json:"_meta"`
	} `json:"params"`
	Result struct {
		ProtocolVersion string `json:"protocolVersion"`
	} `json:"result"`
}

const (
	initialize  = "initialize"
	initialized = "notifications/initialized"
)

func parse(payload []byte) (m message) {
	_ = json.Unmarshal(withoutBOM(payload), &m) // fields of another type stay empty
	return m
}

func (m *message) isRequest() bool { return m.Method != "" && len(m.ID) > 0 }

func (m *message) isResponse() bool { return m.Method == "" && len(m.ID) > 0 }

// isStateless reports whether a request is of a version without sessions.
func (m *message) isStateless() bool { return m.Params.Meta.Version >= stateless }

// outlives reports whether a message that is not a request makes sense in another session than
// the one for which it was written.
func (m *message) outlives() bool {
	return m.Method != "" && !slices.Contains([]string{"notifications/cancelled", "notifications/progress"}, m.Method)
}

func (m *message) title() string { return cmp.Or(m.Method, "the answer to request "+string(m.ID)) }

// sessionHeader names the session of a message.
const sessionHeader = "Mcp-Session-Id"

// outsideSession removes the headers of a session, which no request that begins one has.
func outsideSession() http.Header {
	return http.Header{sessionHeader: nil, "Mcp-Protocol-Version": nil}
}

// header returns the headers for a message that states its version, or begins a session.
func (m *message) header() http.Header {
	switch {
	case m.Method == initialize:
		return outsideSession()
	case !m.isStateless():
		return nil
	}
	return m.headerOf(m.Params.Meta.Version)
}

// Header returns the headers for a message in a version of MCP without a handshake.
func Header(version string, payload []byte) http.Header {
	m := parse(payload)
	return m.headerOf(version)
}

func (m *message) headerOf(version string) http.Header {
	h := http.Header{}
	h.Set("Mcp-Protocol-Version", headerValue(version))
	h.Set("Mcp-Method", headerValue(m.Method))
	switch m.Method {
	case "tools/call", "prompts/get":
		h.Set("Mcp-Name", headerValue(m.Params.Name))
	case "resources/read":
		h.Set("Mcp-Name", headerValue(m.Params.URI))
	case "tasks/get", "tasks/update", "tasks/cancel":
		h.Set("Mcp-Name", headerValue(m.Params.TaskID))
	}
	return h
}

// headerValue encodes text as the value of a header, which must be ASCII.
func headerValue(text string) string {
	isPlain := text == strings.TrimSpace(text) && !strings.HasPrefix(text, "=?base64?")
	for i := range len(text) {
		isPlain = isPlain && text[i] >= ' ' && text[i] <= '~'
	}
	if isPlain {
		return text
	}
	return "=?base64?" + base64.StdEncoding.EncodeToString([]byte(text)) + "?="
}
