package observe

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/wirectl/wirectl/broker"
	"github.com/wirectl/wirectl/broker/mask"
)

// Spans sends a span for each call, with a child for each attempt at a provider,
// to an OpenTelemetry collector: OTLP over HTTP, in JSON. The names of attributes
// are those of the GenAI conventions.
//
// It is written here rather than by OpenTelemetry's own modules because their
// beginning costs every run of the program more than all of this.
type Spans struct {
	url    string
	hide   func([]byte) []byte
	header http.Header
	client http.Client
	queue  chan []span
	done   chan struct{}

	sending context.Context // ends when there is no more time for it
	stop    context.CancelCauseFunc

	mu     sync.Mutex
	closed bool
	lost   int   // calls whose spans nobody has got
	err    error // why the last of them were lost
}

const (
	queued    = 1024 // calls that may wait to be sent
	batched   = 256  // calls sent at once
	sendTime  = 10 * time.Second
	flushTime = time.Second
)

// NewSpans returns one that sends to a collector at an address, with a header and
// secrets to mask, which may be nil. What goes there begins at /v1/traces, unless the address says otherwise.
func NewSpans(address string, header http.Header, secrets *mask.Secrets) (*Spans, error) {
	if u, err := url.Parse(address); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, errAddress
	}
	address = strings.TrimSuffix(address, "/")
	if !strings.HasSuffix(address, "/v1/traces") {
		address += "/v1/traces"
	}
	if header = header.Clone(); header == nil {
		header = http.Header{}
	}
	header.Set("Content-Type", "application/json")
	s := &Spans{url: address, hide: secrets.Hide, header: header, queue: make(chan []span, queued), done: make(chan struct{})}
	s.client = http.Client{
		Timeout: sendTime, Transport: &http.Transport{Proxy: http.ProxyFromEnvironment},
		// A redirect would take the key elsewhere.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	s.sending, s.stop = context.WithCancelCause(context.Background())
	go s.run()
	return s, nil
}

var (
	errFull = errors.New("the collector takes them slower than calls end")
	errLate = errors.New("the collector did not take them in time")
)

var errAddress = errors.New("expected a URL that begins with http:// or https://, such as http://localhost:4318")

// Headers reads what OTEL_EXPORTER_OTLP_HEADERS says: NAME=VALUE, with commas
// between them, and values escaped as in URLs. An error does not tell of values,
// which may be keys.
func Headers(list string) (http.Header, error) {
	header := http.Header{}
	for i, pair := range strings.Split(list, ",") {
		if strings.TrimSpace(pair) == "" {
			continue
		}
		name, value, ok := strings.Cut(pair, "=")
		value, err := url.PathUnescape(strings.TrimSpace(value))
		if name = strings.TrimSpace(name); !ok || err != nil || !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) {
			return nil, fmt.Errorf("header %d is none; expected NAME=VALUE, with commas between them", i+1)
		}
		header.Add(name, value)
	}
	return header, nil
}

// A span is one of OTLP.
type span struct {
	TraceID    string      `json:"traceId"`
	SpanID     string      `json:"spanId"`
	Parent     string      `json:"parentSpanId,omitempty"`
	Name       string      `json:"name"`
	Kind       int         `json:"kind"` // 2 is server, 3 client
	Start      string      `json:"startTimeUnixNano"`
	End        string      `json:"endTimeUnixNano"`
	Attributes []attribute `json:"attributes"`
	Status     struct {
		Code    int    `json:"code,omitempty"` // 2 is an error
		Message string `json:"message,omitempty"`
	} `json:"status"`
}

type attribute struct {
	Key   string         `json:"key"`
	Value map[string]any `json:"value"`
}

func text(key, value string) attribute {
	return attribute{key, map[string]any{"stringValue": value}}
}

func number(key string, value int64) attribute {
	return attribute{key, map[string]any{"intValue": strconv.FormatInt(value, 10)}}
}

// Traceparent returns the trace context under which a call goes on: that of the
// client with a span of ours, or a new one.
func Traceparent(client string) string {
	trace, _, flags, ok := broker.ParseTraceparent(client)
	if !ok {
		trace, flags = randomHex(16), "01"
	}
	return "00-" + trace + "-" + randomHex(8) + "-" + flags
}

// sampled reports whether whoever began a trace wants it recorded.
func sampled(flags string) bool {
	n, err := strconv.ParseUint(flags, 16, 8)
	return err != nil || n&1 == 1
}

func randomHex(n int) string {
	b := make([]byte, n)
	rand.Read(b) //nolint:errcheck // it never fails
	return hex.EncodeToString(b)
}

// Ended queues the spans of a call, unless its client wants no record of the
// trace. When too many wait, they are lost, and counted.
func (s *Spans) Ended(c *broker.Call, r *broker.Report) {
	spans := spansOf(c, r)
	if len(spans) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	select {
	case s.queue <- spans:
	default:
		s.lost, s.err = s.lost+1, errFull
	}
}

// spansOf are the spans of a call: its own, and one for each attempt; none if the
// client does not sample the trace.
func spansOf(c *broker.Call, r *broker.Report) []span {
	trace, own, flags, ok := broker.ParseTraceparent(c.Traceparent)
	switch {
	case !ok:
		trace, own = randomHex(16), randomHex(8)
	case !sampled(flags):
		return nil
	}
	_, parent, _, _ := broker.ParseTraceparent(c.Parent)
	root := newSpan(trace, own, parent, named(c.Name), 2, c.Started, c.Took)
	root.Attributes = append(root.Attributes,
		text("gen_ai.operation.name", operation),
		number("gen_ai.usage.input_tokens", c.Completion.Usage.Input), number("gen_ai.usage.output_tokens", c.Completion.Usage.Output),
		text("wirectl.door", c.Door), text("wirectl.outcome", r.Outcome.String()), number("wirectl.call", c.ID))
	root.model("gen_ai.request.model", cmp.Or(c.Model, c.Name))
	if c.Completion.Finish != "" {
		root.Attributes = append(root.Attributes, attribute{"gen_ai.response.finish_reasons", map[string]any{
			"arrayValue": map[string]any{"values": []map[string]any{{"stringValue": c.Completion.Finish}}},
		}})
	}
	if r.Err != nil {
		root.fail(r.Err)
	} else {
		root.model("gen_ai.response.model", c.Name)
	}
	list := []span{root}
	for i := range c.Hops {
		list = append(list, hopSpan(trace, own, &c.Hops[i]))
	}
	return list
}

// hopSpan is the span of one attempt, below that of the call.
func hopSpan(trace, call string, h *broker.Hop) span {
	_, id, _, ok := broker.ParseTraceparent(h.Traceparent)
	if !ok {
		id = randomHex(8)
	}
	s := newSpan(trace, id, call, named(h.Model), 3, h.Started, h.Took)
	s.Attributes = append(s.Attributes, text("gen_ai.operation.name", operation), text("gen_ai.provider.name", h.Provider))
	s.model("gen_ai.request.model", h.Model)
	if h.Err != nil {
		s.fail(h.Err)
	}
	return s
}

// operation is what calls are in the words of the GenAI conventions.
const operation = "chat"

// named is the name of a span: the operation and the model, if there is one.
func named(model string) string { return strings.TrimSpace(operation + " " + model) }

// model adds a model as an attribute, if there is one.
func (s *span) model(key, name string) {
	if name != "" {
		s.Attributes = append(s.Attributes, text(key, name))
	}
}

func newSpan(trace, id, parent, name string, kind int, start time.Time, took time.Duration) span {
	return span{
		TraceID: trace, SpanID: id, Parent: parent, Name: name, Kind: kind,
		Start: strconv.FormatInt(start.UnixNano(), 10), End: strconv.FormatInt(start.Add(took).UnixNano(), 10),
	}
}

func (s *span) fail(err error) {
	s.Status.Code, s.Status.Message = 2, broker.Message(err)
	s.Attributes = append(s.Attributes, text("error.type", broker.ErrorType(err)))
}

// run sends what is queued, many calls at a time.
func (s *Spans) run() {
	defer close(s.done)
	for first := range s.queue {
		batch, calls := first, 1
		timer := time.NewTimer(flushTime)
		for open := true; calls < batched && open; {
			select {
			case more, ok := <-s.queue:
				if open = ok; ok {
					batch, calls = append(batch, more...), calls+1
				}
			case <-timer.C:
				open = false
			}
		}
		timer.Stop()
		s.send(batch, calls)
	}
}

func (s *Spans) send(batch []span, calls int) {
	body, err := json.Marshal(map[string]any{"resourceSpans": []any{map[string]any{
		"resource":   map[string]any{"attributes": []attribute{text("service.name", "wirectl")}},
		"scopeSpans": []any{map[string]any{"scope": map[string]any{"name": "wirectl/broker"}, "spans": batch}},
	}}})
	if err == nil {
		err = s.post(body)
	}
	if err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.lost, s.err = s.lost+calls, cmp.Or(context.Cause(s.sending), err)
	}
}

func (s *Spans) post(body []byte) error {
	req, err := http.NewRequestWithContext(s.sending, http.MethodPost, s.url, bytes.NewReader(s.hide(body)))
	if err != nil {
		return err
	}
	req.Header = s.header
	resp, err := s.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("the collector at %s answered %s", req.URL.Redacted(), resp.Status)
	}
	_, err = io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<16))
	return err
}

// Close sends what is left for as long as the context lets it. The error says of how
// many calls the spans were lost, from the beginning on, and why the last were.
func (s *Spans) Close(ctx context.Context) error {
	defer context.AfterFunc(ctx, func() { s.stop(errLate) })()
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		close(s.queue)
	}
	s.mu.Unlock()
	<-s.done
	s.stop(nil)
	s.client.CloseIdleConnections()
	if s.lost == 0 {
		return nil
	}
	return fmt.Errorf("spans were lost (calls: %d): %w", s.lost, s.err)
}
