package convert

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/decode/spans"
	"github.com/wirectl/wirectl/internal/otlp"
	"github.com/wirectl/wirectl/session"
)

// A Timeline draws the exchanges and cancels of trackers as trace events in JSON, which
// Perfetto and Chrome open: a process for each connection, and in it a track for each
// exchange, numbered as the frame that opened it. The track shows the exchange from request
// to end, in it the wait for the first part and the time in which parts came, and the
// cancels that named it.
//
// A tracker forgets exchanges that are long over: Append must be called at least once in
// [EveryFrames] frames. Exchanges whose times are not known are left out.
type Timeline struct {
	// Origin is the time that is 0 in the trace.
	Origin time.Time
	// Seen is how many exchanges were drawn or left out on purpose.
	Seen int64

	started  bool
	trackers map[*session.Tracker]*drawn
	conns    map[int]bool
}

// EveryFrames is how many frames a tracker may be fed between two calls of
// Append.
const EveryFrames = 1024

// keptBack is how many of the newest exchanges and cancels are not drawn before the end:
// they may still change.
const keptBack = 1024

// drawn holds the last exchange and the last cancel of a tracker that were drawn.
type drawn struct {
	exchange, cancel drawnKey
}

// A drawnKey names an exchange or a cancel.
type drawnKey struct {
	conn int
	seq  int64  // of its first frame
	id   string // its own, or that of its target
}

func keyOfExchange(e *session.Exchange) drawnKey {
	return drawnKey{e.Conn, e.First, string(e.ID.Text)}
}

func keyOfCancel(c *session.Cancel) drawnKey {
	return drawnKey{c.Conn, c.Seq, string(c.Target.Text)}
}

// Append appends the exchanges and cancels that have been over for a while.
func (l *Timeline) Append(dst []byte, t *session.Tracker) []byte {
	return l.append(dst, t, settled(t.Exchanges()), keptBack, time.Time{})
}

// AppendRest appends what is left at the end of the session. Exchanges that are still open
// are drawn up to the end.
func (l *Timeline) AppendRest(dst []byte, t *session.Tracker, end time.Time) []byte {
	return l.append(dst, t, t.Exchanges(), 0, end)
}

// AppendEnd ends the trace. Nothing may be appended after it.
func (l *Timeline) AppendEnd(dst []byte) []byte { return append(l.separate(dst, ""), "\n]}\n"...) }

func (l *Timeline) append(dst []byte, t *session.Tracker, exchanges iter.Seq[*session.Exchange], keep int, end time.Time) []byte {
	d := l.trackers[t]
	if d == nil {
		if l.trackers == nil {
			l.trackers, l.conns = map[*session.Tracker]*drawn{}, map[int]bool{}
		}
		d = &drawn{}
		l.trackers[t] = d
	}
	asked := map[drawnKey]time.Time{}
	for c := range t.Cancels() {
		asked[drawnKey{conn: c.Conn, seq: c.TargetSeq}] = c.Asked
	}
	for _, e := range undrawn(exchanges, keyOfExchange, d.exchange, keep) {
		until := end
		if e.Outcome.Stopped() {
			until = asked[drawnKey{conn: e.Conn, seq: e.First}]
		}
		dst = l.exchange(dst, e, until)
		d.exchange = keyOfExchange(e)
	}
	for _, c := range undrawn(t.Cancels(), keyOfCancel, d.cancel, keep) {
		dst = l.cancel(dst, c)
		d.cancel = keyOfCancel(c)
	}
	return dst
}

// settled yields the exchanges that are over, which come before those that are
// open.
func settled(exchanges iter.Seq[*session.Exchange]) iter.Seq[*session.Exchange] {
	return func(yield func(*session.Exchange) bool) {
		for e := range exchanges {
			if e.Outcome == session.Open || !yield(e) {
				return
			}
		}
	}
}

// undrawn returns those that come after the one that was drawn last, without
// the newest, of which keep are kept back. If the last one has been forgotten,
// all come after it.
func undrawn[T any, K comparable](all iter.Seq[T], key func(T) K, last K, keep int) []T {
	var list []T
	for v := range all {
		if key(v) == last {
			list = list[:0]
			continue
		}
		list = append(list, v)
	}
	return list[:max(0, len(list)-keep)]
}

// A traceEvent is an event of the format. Times are in microseconds.
type traceEvent struct {
	Name     string   `json:"name"`
	Category string   `json:"cat,omitempty"`
	Phase    string   `json:"ph"` // X: a slice, i: an instant, M: metadata
	Time     float64  `json:"ts"`
	Duration *float64 `json:"dur,omitempty"`
	Scope    string   `json:"s,omitempty"` // of an instant; t: its track
	Process  int      `json:"pid"`
	Track    int64    `json:"tid"`
	Args     any      `json:"args,omitempty"`
}

// event appends an event.
func (l *Timeline) event(dst []byte, e traceEvent) []byte {
	text, err := json.Marshal(e)
	if err != nil {
		panic("convert: " + err.Error()) // numbers are finite, and all else is text
	}
	return append(l.separate(dst, ",\n"), text...)
}

// separate appends what stands before an event: the beginning of the trace, or
// the separator.
func (l *Timeline) separate(dst []byte, separator string) []byte {
	if !l.started {
		l.started = true
		return append(dst, `{"displayTimeUnit":"ms","traceEvents":[`+"\n"...)
	}
	return append(dst, separator...)
}

// name appends what a process or a track is called.
func (l *Timeline) name(dst []byte, what string, conn int, track int64, name string) []byte {
	args := map[string]string{"name": name}
	return l.event(dst, traceEvent{Name: what, Phase: "M", Process: conn, Track: track, Args: args})
}

// connection appends the name of a connection that is new.
func (l *Timeline) connection(dst []byte, conn int) []byte {
	if l.conns[conn] {
		return dst
	}
	l.conns[conn] = true
	dst = l.name(dst, "process_name", conn, noTrack, fmt.Sprintf("connection %d", max(conn, 1)))
	return l.name(dst, "thread_name", conn, noTrack, "no exchange")
}

// noTrack is the track for cancels that belong to no exchange.
const noTrack = 0

// slice returns a slice of a track.
func (l *Timeline) slice(name string, e *session.Exchange, from, to time.Time) traceEvent {
	duration := max(micros(to.Sub(from)), 0)
	return traceEvent{
		Name: name, Phase: "X", Time: micros(from.Sub(l.Origin)), Duration: &duration,
		Process: e.Conn, Track: e.First,
	}
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// exchangeArgs is what a trace says about an exchange besides its times.
type exchangeArgs struct {
	Kind      string  `json:"kind"`
	ID        string  `json:"id,omitempty"`
	Dir       string  `json:"dir,omitempty"`
	Outcome   string  `json:"outcome"`
	Parts     int64   `json:"parts"`
	BytesOut  int64   `json:"bytes_out"`
	BytesIn   int64   `json:"bytes_in"`
	First     int64   `json:"first_frame"`
	Last      int64   `json:"last_frame"`
	HeldBack  float64 `json:"held_back_us,omitempty"`
	HeldBy    int64   `json:"held_by_frame,omitempty"`
	GapMedian float64 `json:"gap_p50_us,omitempty"`
	GapMax    float64 `json:"gap_max_us,omitempty"`
}

func argsOf(e *session.Exchange) exchangeArgs {
	return exchangeArgs{
		Kind: e.Kind, ID: string(e.ID.Text), Dir: e.Opener.String(), Outcome: e.Outcome.String(),
		Parts: e.Parts, BytesOut: e.BytesOut, BytesIn: e.BytesIn, First: e.First, Last: e.Last,
		HeldBack: micros(e.HeldBack), HeldBy: e.HeldBy,
		GapMedian: micros(e.Gap(0.5)), GapMax: micros(e.Gap(1)),
	}
}

// exchange appends an exchange, which lasted until then if nothing ended it. A cancel that
// opened an exchange of its own and got no answer is drawn as a cancel only.
func (l *Timeline) exchange(dst []byte, e *session.Exchange, until time.Time) []byte {
	l.Seen++
	if e.Opened.IsZero() || e.Outcome == session.Done && e.Closed.IsZero() {
		return dst
	}
	end := e.Closed
	if end.IsZero() {
		end = until
	}
	if end.Before(e.LastPart) {
		end = e.LastPart
	}
	dst = l.connection(dst, e.Conn)
	dst = l.name(dst, "thread_name", e.Conn, e.First, trackName(e))
	whole := l.slice(e.Kind, e, e.Opened, end)
	whole.Category, whole.Args = e.Outcome.String(), argsOf(e)
	dst = l.event(dst, whole)
	if e.Parts > 0 {
		dst = l.event(dst, l.slice("wait", e, e.Opened, e.FirstPart))
		dst = l.event(dst, l.slice(fmt.Sprintf("parts: %d", e.Parts), e, e.FirstPart, e.LastPart))
	}
	return dst
}

func trackName(e *session.Exchange) string {
	name := e.Kind
	if len(e.ID.Text) > 0 {
		name = string(e.ID.Text) + " " + name
	}
	if dir := e.Opener.String(); dir != "" {
		name = dir + " " + name
	}
	return name
}

// cancelArgs is what a trace says about a cancel.
type cancelArgs struct {
	Kind   string `json:"kind"`
	Phase  string `json:"phase"`
	Target string `json:"target,omitempty"`
	Class  string `json:"class"`
	Frame  int64  `json:"frame"`
	Parts  int64  `json:"parts_after"`
	Bytes  int64  `json:"bytes_after"`
}

func (l *Timeline) cancel(dst []byte, c *session.Cancel) []byte {
	if c.Asked.IsZero() {
		return dst
	}
	dst = l.connection(dst, c.Conn)
	return l.event(dst, traceEvent{
		Name: c.Kind, Category: "cancel", Phase: "i", Scope: "t",
		Time: micros(c.Asked.Sub(l.Origin)), Process: c.Conn, Track: c.TargetSeq,
		Args: cancelArgs{c.Kind, "cancel", string(c.Target.Text), c.Class.String(), c.Seq, c.Parts, c.Bytes},
	})
}

// IsCollector reports whether a name is that of a collector, not of a file.
func IsCollector(name string) bool {
	return name == string(OTLP) || strings.HasPrefix(name, "http://") || strings.HasPrefix(name, "https://")
}

// Send sends the spans of what is left of r to the collector at an address; "otlp" means the
// usual one.
func (o *Options) Send(ctx context.Context, address string, getenv func(string) string, r capture.Reader) error {
	if address == string(OTLP) {
		address = cmp.Or(getenv("OTEL_EXPORTER_OTLP_ENDPOINT"), "http://localhost:4318")
	}
	reading, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	to, err := otlp.New(otlp.Options{
		URL: address, Getenv: getenv, Scope: "wirectl/convert", Hide: capture.Secrets().Text(), Past: true,
		Warn: func(text string) { cancel(errors.New(text)) },
	})
	if err != nil {
		return err
	}
	s := r.Session()
	trace, err := spans.Run(reading, to, spans.Session{Name: o.Name, Identity: fmt.Sprint(s.Created.UnixNano(), s.Controller, s.Unit)}, Until(reading, r), o.Config)
	if refused := cmp.Or(to.Close(ctx), context.Cause(reading)); refused != nil {
		return refused
	}
	if errors.Is(err, spans.ErrNoTimes) {
		return fmt.Errorf("%s: %w", o.Name, err)
	}
	if err == nil || errors.Is(err, capture.ErrCut) {
		o.Note("the spans were sent, as trace " + trace.String())
	}
	return err
}
