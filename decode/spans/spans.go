// Package spans makes spans of the calls that trackers know, by the conventions of
// OpenTelemetry for MCP, A2A and GenAI, and measures the calls.
//
// A session is a trace. Its calls are spans below that of the session, or below the
// client's span if the request names that. A span holds no content of messages.
package spans

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/capture/tap"
	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/decode/track"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/internal/otlp"
	"github.com/wirectl/wirectl/protocol"
	agents "github.com/wirectl/wirectl/protocol/a2a"
	"github.com/wirectl/wirectl/session"
	"github.com/wirectl/wirectl/session/calls"
)

const (
	// maxSpans bounds the calls of a trace: a relay may run for months. What comes then is
	// in another trace of the same session.
	maxSpans = 1000
	// maxKept bounds the frames whose facts are kept until the tracker has seen them, the
	// requests of HTTP that may be answered, and the calls that others may belong to.
	maxKept = 4096
)

// A Follower follows one session, and sends its spans.
type Follower struct {
	to       *otlp.Exporter       // nil before Export
	about    []attribute.KeyValue // the session
	seed     [sha256.Size]byte
	trackers track.Trackers
	follower *track.Follower
	log      calls.Log
	routes   agents.Routes

	wires  kept[wireKey, *facts]          // from the heads of requests
	frames kept[int64, *facts]            // by the number of the frame
	open   map[callKey]*facts             // of calls that are not over
	roots  kept[int64, trace.SpanContext] // the calls that others may belong to
	trace  struct {                       // that is being made
		number, spans int64
		first, last   time.Time
	}
}

type (
	wireKey struct {
		conn   int
		stream int64
	}
	callKey struct {
		frame int64
		id    string
	}
)

// A Session describes a session for its spans.
type Session struct {
	Name, Host string
	// Identity tells sessions of one name apart. The ids of spans depend on it.
	Identity string
}

// NewFollower returns the follower of a session. It sends nothing before [Follower.Export].
func NewFollower(in decode.Input, cfg decode.Config) *Follower {
	f := &Follower{open: map[callKey]*facts{}}
	f.log = calls.Log{Show: f.over, Live: true, Unfold: true}
	f.trackers.Watcher = f
	f.follower = track.NewFollower(&f.trackers, in, cfg)
	return f
}

// Export begins to send spans: those of the calls that are not over.
func (f *Follower) Export(to *otlp.Exporter, s Session) {
	f.to = to
	f.about = []attribute.KeyValue{otlp.Session.String(s.Name), text(otlp.HostName, s.Host)}
	f.seed = sha256.Sum256([]byte(s.Name + s.Identity))
}

// Run follows a session to its end, or to that of ctx, and returns its trace.
func Run(ctx context.Context, to *otlp.Exporter, s Session, r capture.Reader, cfg decode.Config) (trace.TraceID, error) {
	in := decode.Input{Capture: r}
	cfg.Workers = 1
	f := NewFollower(in, cfg)
	f.Export(to, s)
	cfg.Event = f.Event
	id := f.rootContext().TraceID()
	_, err := decode.Run(ctx, in, io.Discard, cfg, func() decode.View { return f.View })
	f.End()
	if err == nil && !f.trackers.Timed {
		err = ErrNoTimes
	}
	return id, err
}

// ErrNoTimes says that a session does not say when its frames were read.
var ErrNoTimes = errors.New("it has no frame times, which spans need: use a capture, or a recording with its timing.jsonl")

// View handles an item and shows nothing.
func (f *Follower) View(dst []byte, it *decode.Item) ([]byte, error) {
	f.log.First = it.First
	f.read(it)
	return f.follower.View(dst, it)
}

// Event handles a record that is not a frame.
func (f *Follower) Event(rec *capture.Record) {
	if n, ok := tap.ParseNote(rec); ok && n.Tap == tap.Lost {
		f.Lose()
		return
	}
	f.follower.Event(rec)
}

// Lose notes that frames are missing.
func (f *Follower) Lose() {
	f.wires, f.frames = kept[wireKey, *facts]{}, kept[int64, *facts]{}
	f.follower.Lose()
}

// End ends the session and its open calls.
func (f *Follower) End() {
	f.follower.End()
	f.log.Finish(f.follower.Last)
	f.EndTrace()
}

// Changed, Asked and Found are those of [session.Watcher].
func (f *Follower) Changed(e *session.Exchange, seq int64) {
	key := callKey{e.First, string(e.ID.Text)}
	if e.Mark == 0 {
		f.open[key] = &facts{}
	}
	if said, known := f.frames.of[seq]; known && f.open[key] != nil {
		f.open[key].learn(said, seq == e.First)
	}
	f.log.Changed(e, seq)
}

func (f *Follower) Asked(c *session.Cancel) { f.log.Asked(c) }

func (f *Follower) Found(session.Finding) {}

// over sends the span of a call that is over.
func (f *Follower) over(c *calls.Call) {
	key := callKey{c.Frame, c.ID}
	said := f.open[key]
	delete(f.open, key)
	if f.to == nil {
		return
	}
	if said == nil {
		said = &facts{}
	}
	if c.Start.IsZero() {
		return
	}
	s := f.span(c, said)
	own := f.id(c.Frame, c.ID)
	switch operation, known := f.roots.of[c.Operation]; {
	case said.parent.IsValid():
		s.Parent = said.parent
	case known && c.Operation != 0:
		s.Parent = operation
	default:
		s.Parent = f.root(s.Start, s.End)
	}
	s.Context = s.Parent.WithSpanID(own).WithRemote(false)
	if c.Operation == 0 {
		f.roots.put(c.Frame, s.Context)
	}
	f.to.Send(s)
	f.measure(c, s)
}

// id makes the id of a span.
func (f *Follower) id(frame int64, id string) (span trace.SpanID) {
	sum := sha256.Sum256(fmt.Appendf(f.seed[:len(f.seed):len(f.seed)], "span %d %s", frame, id))
	copy(span[:], sum[:])
	span[0] |= 1 // not all are zero
	return span
}

// root returns the context of the session's span, which covers that time.
func (f *Follower) root(from, to time.Time) trace.SpanContext {
	t := &f.trace
	if t.spans == maxSpans {
		f.EndTrace()
	}
	if t.spans++; t.first.IsZero() || from.Before(t.first) {
		t.first = from
	}
	if to.After(t.last) {
		t.last = to
	}
	return f.rootContext()
}

func (f *Follower) rootContext() trace.SpanContext {
	sum := sha256.Sum256(binary.BigEndian.AppendUint64(f.seed[:len(f.seed):len(f.seed)], uint64(f.trace.number)))
	var id trace.TraceID
	var span trace.SpanID
	copy(id[:], sum[:])
	copy(span[:], sum[len(id):])
	id[0], span[0] = id[0]|1, span[0]|1
	return trace.SpanContext{}.WithTraceID(id).WithSpanID(span).WithTraceFlags(trace.FlagsSampled)
}

// EndTrace sends the span of the session, if there are any below it. Later spans are in
// another trace.
func (f *Follower) EndTrace() {
	t := &f.trace
	if t.spans > 0 {
		f.to.Send(&otlp.Span{
			Context: f.rootContext(), Name: "session", Kind: trace.SpanKindInternal, Start: t.first, End: t.last,
			Attributes: f.about,
		})
	}
	t.number++
	t.spans, t.first, t.last = 0, time.Time{}, time.Time{}
}

// kept is a map that forgets its oldest entries.
type kept[K comparable, V any] struct {
	of    map[K]V
	order []K
}

func (k *kept[K, V]) put(key K, v V) {
	if k.of == nil {
		k.of = map[K]V{}
	}
	if _, known := k.of[key]; !known {
		if len(k.order) >= maxKept {
			delete(k.of, k.order[0])
			k.order = k.order[1:]
		}
		k.order = append(k.order, key)
	}
	k.of[key] = v
}

// span makes the span of a call, without its place in a trace.
func (f *Follower) span(c *calls.Call, said *facts) *otlp.Span {
	s := &otlp.Span{Name: c.Kind, Kind: trace.SpanKindServer, Start: c.Start, End: c.Start.Add(c.Duration), Error: errorType(c, said)}
	add := func(attributes ...attribute.KeyValue) { s.Attributes = append(s.Attributes, attributes...) }
	switch operation := modelOperation(c); {
	case c.Protocol == mcp:
		aboutMCP(s, c, said)
	case c.Protocol == a2a:
		if m, _ := agents.ByName([]byte(c.Kind)); m != nil {
			s.Name = m.Newer
		}
		add(otlp.A2AMethod.String(s.Name), otlp.Kind.String(c.Kind), text(otlp.A2AVersion, c.Version))
	case operation != "":
		s.Kind = trace.SpanKindClient
		aboutModel(s, c, said, operation)
	default:
		s.Name, _, _ = strings.Cut(c.Kind, "?") // of a path, which may have a query
		add(otlp.Kind.String(s.Name), text(otlp.RequestModel, c.Model))
		addUsage(s, c)
	}
	for _, a := range said.attributes {
		if mayHave(c, a.Key) {
			add(a)
		}
	}
	add(f.about...)
	add(otlp.Protocol.String(c.Protocol), otlp.Frame.Int64(c.Frame), otlp.Outcome.String(c.Outcome.String()))
	if c.Stopped && !c.Asked.IsZero() {
		s.Events = []otlp.Event{{Name: "cancel", At: c.Asked}}
		if c.Class != session.Pending { // the final class may be known only later
			s.Events[0].Attributes = []attribute.KeyValue{otlp.Cancel.String(c.Class.String())}
		}
	}
	return s
}

// mayHave reports whether the span of a call has an attribute from a frame. MCP 2026-07-28
// has no sessions.
func mayHave(c *calls.Call, key attribute.Key) bool {
	return key != otlp.MCPSession || c.Protocol == mcp && c.Version < "2026"
}

// aboutMCP adds the attributes of the conventions for MCP.
func aboutMCP(s *otlp.Span, c *calls.Call, said *facts) {
	s.Attributes = append(s.Attributes, otlp.MCPMethod.String(c.Kind), text(otlp.MCPVersion, c.Version), text(otlp.RequestID, unquoted(c.ID)))
	if c.Outcome == session.Failed {
		s.Attributes = append(s.Attributes, text(otlp.RPCStatus, said.code))
	}
	switch c.Kind {
	case "tools/call":
		s.Attributes = append(s.Attributes, otlp.OperationName.String(otlp.ExecuteTool), text(otlp.ToolName, c.Name))
	case "prompts/get":
		s.Attributes = append(s.Attributes, text(otlp.PromptName, c.Name))
	default:
		return
	}
	s.Name = strings.TrimSpace(c.Kind + " " + c.Name)
}

// unquoted returns an id of JSON-RPC as text.
func unquoted(id string) string {
	if text, ok := jsonscan.Unquote([]byte(id)); ok {
		return string(text)
	}
	return id
}

// modelOperation returns the name that the conventions give to a call of a model; "" if it
// generates nothing.
func modelOperation(c *calls.Call) string {
	switch c.Protocol + " " + c.Kind {
	case openai + " chat/completions", openai + " responses", anthropic + " messages", realtime + " response.create":
		return otlp.Chat
	case openai + " completions":
		return otlp.TextCompletion
	case openai + " embeddings", gemini + " embedContent", gemini + " batchEmbedContents":
		return otlp.Embeddings
	case gemini + " generateContent", gemini + " streamGenerateContent":
		return otlp.GenerateContent
	}
	if c.Protocol == live {
		return otlp.GenerateContent
	}
	return ""
}

// aboutModel adds the attributes of the conventions for GenAI.
func aboutModel(s *otlp.Span, c *calls.Call, said *facts, operation string) {
	model := cmp.Or(c.Name, c.Model)
	s.Name = strings.TrimSpace(operation + " " + model)
	s.Attributes = append(s.Attributes, otlp.OperationName.String(operation), otlp.ProviderName.String(provider(c, said)), text(otlp.RequestModel, model))
	addUsage(s, c)
	if s.Error != "" {
		return
	}
	s.Attributes = append(s.Attributes, text(otlp.ResponseModel, c.Model))
	if c.StopReason != "" {
		s.Attributes = append(s.Attributes, otlp.FinishReasons.StringSlice([]string{c.StopReason}))
	}
	if c.Parts > 0 && c.FirstPart > 0 {
		s.Attributes = append(s.Attributes, otlp.FirstChunk.Float64(c.FirstPart.Seconds()))
	}
}

// addUsage adds the tokens of a call, unless it is unclear how many they are.
func addUsage(s *otlp.Span, c *calls.Call) {
	if c.Usage.Perhaps != (protocol.Tokens{}) {
		return
	}
	for key, n := range map[attribute.Key]int64{otlp.InputTokens: c.Usage.Input, otlp.OutputTokens: c.Usage.Output, otlp.CacheReadTokens: c.Usage.Cached} {
		if n > 0 {
			s.Attributes = append(s.Attributes, key.Int64(n))
		}
	}
}

// provider names the provider of the model. Many servers have the API of OpenAI: their
// addresses tell them apart.
func provider(c *calls.Call, said *facts) string {
	host := strings.ToLower(said.host)
	switch {
	case strings.Contains(host, ".openai.azure.com"), strings.Contains(host, ".services.ai.azure.com"):
		return "azure.ai.openai"
	case strings.Contains(host, "bedrock") && strings.Contains(host, ".amazonaws.com"):
		return "aws.bedrock"
	case strings.Contains(host, "aiplatform.googleapis.com"):
		return "gcp.vertex_ai"
	case c.Protocol == anthropic:
		return "anthropic"
	case c.Protocol == gemini, c.Protocol == live:
		return "gcp.gemini"
	}
	return "openai"
}

// errorType is why a call failed; "" if it has not. A cancel is no failure.
func errorType(c *calls.Call, said *facts) string {
	_, isModel := modelAPIs[c.Protocol]
	switch {
	case c.Outcome == session.ToolError:
		return otlp.ToolError
	case c.Outcome == session.TimedOut:
		return otlp.Timeout
	case c.Outcome == session.Died:
		return c.Outcome.String()
	case c.Outcome != session.Failed:
		return ""
	case isModel:
		return cmp.Or(said.code, c.StopReason, otlp.OtherType)
	}
	return cmp.Or(said.code, otlp.OtherType)
}

// text returns a text as an attribute, which is empty if the text is.
func text(key attribute.Key, text string) attribute.KeyValue {
	if text == "" {
		return attribute.KeyValue{}
	}
	return key.String(text)
}

// measured holds the attributes of metrics: those with few values.
var measured = map[string][]attribute.Key{
	otlp.MCPDuration:   {otlp.MCPMethod, otlp.MCPVersion, otlp.OperationName, otlp.ToolName, otlp.PromptName, otlp.Transport, otlp.ProtocolName, otlp.RPCStatus},
	otlp.ModelDuration: {otlp.OperationName, otlp.ProviderName, otlp.RequestModel, otlp.ResponseModel, otlp.ServerAddress, otlp.ServerPort},
	otlp.OtherDuration: {otlp.Protocol, otlp.Kind},
}

// measure adds a call that was answered to the metrics.
func (f *Follower) measure(c *calls.Call, s *otlp.Span) {
	if c.Outcome == session.Open || c.Outcome == session.Abandoned {
		return
	}
	name := otlp.OtherDuration
	switch {
	case c.Protocol == mcp:
		name = otlp.MCPDuration
	case modelOperation(c) != "":
		name = otlp.ModelDuration
	}
	var about []attribute.KeyValue
	for _, key := range measured[name] {
		for _, a := range s.Attributes {
			if a.Key == key {
				about = append(about, a)
			}
		}
	}
	if name == otlp.ModelDuration {
		f.to.MeasureTokens(c.Usage.Input, c.Usage.Output, about...)
	}
	if s.Error != "" {
		about = append(about, otlp.ErrorType.String(s.Error))
	}
	f.to.Measure(name, c.Duration.Seconds(), about...)
}
