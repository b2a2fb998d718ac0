package server

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/capture/pcapng"
	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/decode/spans"
	"github.com/wirectl/wirectl/decode/track"
	"github.com/wirectl/wirectl/hub"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/all"
	"github.com/wirectl/wirectl/session"
	"github.com/wirectl/wirectl/session/calls"
)

// facts are what is known of a session from its frames. They are an entry of the bucket, as
// JSON.
type facts struct {
	Number   int64  `json:"number"` // of the last segment
	Last     uint64 `json:"last"`   // number of its message
	Frames   int64  `json:"frames"`
	Calls    int64  `json:"calls"`
	Failures int64  `json:"failures"`
	Findings int64  `json:"findings"`
	// Values are what the session can be found by, sorted, by their fields. There are More if
	// they are too many.
	Values map[string][]string `json:"values,omitempty"`
	More   bool                `json:"more,omitempty"`

	size int // of the values, in bytes; 0 if it is not known
}

// Fields of values.
const (
	protocolField = "protocol"
	requestField  = "request"
	toolField     = "tool"
	modelField    = "model"
	outcomeField  = "outcome"
	findingField  = "finding"
)

const (
	// maxValue bounds a value, and maxValues all values of a session, in bytes.
	maxValue  = 256
	maxValues = 64 << 10
)

// addValue adds a value, unless there are most bytes of them.
func (f *facts) addValue(field, value string, most int) {
	if value == "" {
		return
	}
	value = value[:min(len(value), maxValue)]
	at, found := slices.BinarySearch(f.Values[field], value)
	if found {
		return
	}
	if f.size == 0 {
		for _, list := range f.Values {
			for _, value := range list {
				f.size += len(value)
			}
		}
	}
	if f.size+len(value) > most {
		f.More = true
		return
	}
	f.size += len(value)
	if f.Values == nil {
		f.Values = map[string][]string{}
	}
	f.Values[field] = slices.Insert(f.Values[field], at, value)
}

// A reading reads a session segment by segment, and collects the facts about it.
type reading struct {
	joint    hub.Assembler
	section  io.Reader // the rest of the current segment
	next     func() (struct{}, bool)
	stop     func()
	trackers track.Trackers
	follower *track.Follower // nil before the first segment
	log      calls.Log
	watch    watch
	session  spans.Session
	spans    *spans.Follower // nil if no spans are sent
	watched  bool            // watch counts what is read now
	skip     func(error)     // tells the user what is skipped
	before   int64           // the number of the last segment that is not read
	last     uint64          // the number of the last message
	ended    bool

	facts    facts
	revision uint64   // of the entry in the bucket
	counting bool     // the current segment is not counted yet
	changed  bool     // the facts differ from the entry
	most     int      // bytes of values
	phrases  *phrases // that are searched; nil if none are
}

func newReading(w watch, key string, skip func(error)) *reading {
	words := strings.Split(key, ".") // ORG.HOST.KIND.ID
	return &reading{watch: w, session: spans.Session{Name: "hub:" + words[3], Host: words[1]}, skip: skip, most: maxValues}
}

// trackAnew begins to track calls, or begins again without what was open.
func (r *reading) trackAnew() {
	r.log = calls.Log{Show: r.called, Live: true}
	r.trackers = track.Trackers{Watcher: r}
	r.follower = track.NewFollower(&r.trackers, decode.Input{Capture: nobody{}}, decode.Config{})
}

// take reads a message.
func (r *reading) take(seq uint64, m *nats.Msg) {
	r.last = seq
	switch whole, err := r.joint.Take(m); {
	case err != nil:
		r.skip(err)
	case whole != nil && whole.Number > r.before && !r.ended:
		r.addWhole(whole)
	}
}

// addWhole reads a segment, or skips it. If segments before it are missing, open calls may
// have ended there.
func (r *reading) addWhole(w *hub.Whole) {
	if r.counting = w.Number > r.facts.Number; r.counting {
		r.changed = true
		r.facts.Number, r.facts.Last, r.facts.Frames = w.Number, r.last, max(r.facts.Frames, r.joint.Frames)
	}
	section, err := w.Section()
	if err != nil {
		r.skip(err)
		section = bytes.NewReader(nil)
	}
	if r.next == nil {
		r.next, r.stop = iter.Pull(r.run)
	}
	fresh := r.follower == nil
	if fresh {
		r.trackAnew()
		if r.watch.spans != nil {
			r.spans = spans.NewFollower(decode.Input{Capture: nobody{}}, decode.Config{})
		}
	}
	if r.watched && r.spans != nil && r.session.Identity == "" {
		r.session.Identity = strconv.FormatUint(r.last, 10) // earlier calls were exported in other traces
		r.spans.Export(r.watch.spans, r.session)
	}
	if w.Missing > 0 || err != nil || fresh && r.before > 0 {
		r.lose()
	}
	r.section = section
	r.next()
	if w.End {
		r.endSession()
	}
}

// nobody is a capture without records; followers need one.
type nobody struct{ capture.Reader }

// run reads the session, and yields where it needs the next segment.
func (r *reading) run(yield func(struct{}) bool) {
	in, err := pcapng.NewReader(sections{r, yield}, 0)
	cfg := decode.Config{Workers: 1, Resync: true, Event: r.event}
	view := func(dst []byte, it *decode.Item) ([]byte, error) {
		if r.inFlight() > maxInFlight/4 {
			r.giveUp()
		}
		r.log.First = it.First
		r.read(it)
		if r.spans != nil {
			dst, _ = r.spans.View(dst, it) // it appends nothing
		}
		return r.follower.View(dst, it)
	}
	if err == nil {
		_, err = decode.Run(context.Background(), decode.Input{Capture: in}, io.Discard, cfg, func() decode.View { return view })
	}
	for err != nil && yield(struct{}{}) { // the rest cannot be read either
	}
}

// sections reads the segments one after another.
type sections struct {
	*reading
	yield func(struct{}) bool
}

func (s sections) Read(p []byte) (int, error) {
	for {
		if n, err := s.section.Read(p); n > 0 || err != io.EOF {
			return n, err
		}
		if !s.yield(struct{}{}) {
			return 0, io.EOF
		}
	}
}

// event handles a record that is not a frame.
func (r *reading) event(rec *capture.Record) {
	if r.spans != nil {
		r.spans.Event(rec)
	}
	r.follower.Event(rec)
}

// lose notes that frames are missing.
func (r *reading) lose() {
	if r.spans != nil {
		r.spans.Lose()
	}
	r.follower.Lose()
}

// endSession ends the session: open calls have no answer.
func (r *reading) endSession() {
	r.close()
	if r.follower != nil {
		r.follower.End()
		r.log.Finish(r.follower.Last)
	}
	if r.spans != nil {
		r.spans.End()
	}
	r.ended = true
}

// close stops reading. It may be called again.
func (r *reading) close() {
	if r.stop != nil {
		r.stop()
	}
	if r.spans != nil && !r.ended {
		r.spans.EndTrace()
	}
}

// inFlight returns how many calls are open.
func (r *reading) inFlight() (n int) {
	for _, t := range r.trackers.List {
		n += t.InFlight()
	}
	return n
}

// giveUp stops waiting for the answers to open calls, which nobody will answer.
func (r *reading) giveUp() {
	r.skip(fmt.Errorf("%d open calls are not counted: they are too many", r.inFlight()))
	r.trackAnew()
	r.lose()
}

// read adds a frame.
func (r *reading) read(it *decode.Item) {
	r.addValue(protocolField, it.Protocol.Name())
	switch m := &it.Message; {
	case r.phrases == nil:
	case it.Protocol.Encoding() == protocol.JSON:
		r.phrases.json(it.Payload)
	default:
		r.phrases.read(m.Kind, m.Label, m.Text)
	}
}

func (r *reading) addValue(field, value string) {
	if r.counting {
		r.facts.addValue(field, value, r.most)
	}
}

// called adds a call that has ended.
func (r *reading) called(c *calls.Call) {
	r.addValue(requestField, c.Kind)
	field := toolField
	if p, err := all.Named(c.Protocol); c.Model != "" || err == nil && all.Of(p).Labels == protocol.Models {
		field = modelField // the model that was requested
	}
	r.addValue(field, c.Name)
	r.addValue(modelField, c.Model)
	r.addValue(outcomeField, c.Outcome.String())
	if r.counting {
		r.facts.Calls++
		if c.Outcome.Failed() {
			r.facts.Failures++
		}
	}
	if r.watched {
		r.watch.called(c)
	}
}

// Changed, Asked and Found implement [session.Watcher].
func (r *reading) Changed(e *session.Exchange, seq int64) { r.log.Changed(e, seq) }
func (r *reading) Asked(c *session.Cancel)                { r.log.Asked(c) }
func (r *reading) Found(f session.Finding) {
	r.addValue(findingField, f.Name)
	if r.counting {
		r.facts.Findings++
	}
	if r.watched {
		r.watch.found(f)
	}
}
