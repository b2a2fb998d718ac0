// Package spans makes spans of the calls that trackers know, by the conventions of
// OpenTelemetry for MCP, A2A and GenAI, and measures the calls.
//
// A session is a trace. Its calls are spans below that of the session, or below the
// client's span if the request names that. A span holds no content of messages.
package spans

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/capture/tap"
	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/decode/track"
	"github.com/wirectl/wirectl/internal/otlp"
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
	if n, ok := tap.ParseNote(rec); ok {
		if n.Tap == tap.Lost {
			f.Lose()
		}
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
