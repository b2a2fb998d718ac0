package index

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"iter"
	"strconv"

	"github.com/nats-io/nats.go"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/capture/pcapng"
	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/decode/spans"
	"github.com/wirectl/wirectl/decode/track"
	"github.com/wirectl/wirectl/hub"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/rlm"
	"github.com/wirectl/wirectl/session"
	"github.com/wirectl/wirectl/session/calls"
)

// A reading reads a session segment by segment, and collects what can be found.
type reading struct {
	joint    hub.Assembler
	section  io.Reader // the rest of the current segment
	next     func() (struct{}, bool)
	stop     func()
	trackers track.Trackers
	follower *track.Follower // nil before the first segment
	log      calls.Log
	watch    Watch
	session  spans.Session
	spans    *spans.Follower // nil if no spans are sent
	watched  bool            // watch counts what is read now
	skip     func(error)     // tells the user what is skipped
	before   int64           // the number of the last segment that was in the index
	last     uint64          // the number of the last message
	ended    bool

	// What was read since the last Commit.
	changed                   bool
	facts                     map[fact]int64
	calls, failures, findings int64
	passages                  []*passage
}

// A fact is something that sessions can be found by.
type fact struct{ what, value string }

// What facts are about.
const (
	protocolFact = "protocol"
	requestFact  = "request"
	toolFact     = "tool"
	modelFact    = "model"
	outcomeFact  = "outcome"
	findingFact  = "finding"
)

const (
	// maxFacts bounds the facts between two commits, and maxValue the bytes of one.
	maxFacts = 4096
	maxValue = 256
	// maxWords bounds the words of a segment, in bytes; further ones are not found.
	maxWords = 16 << 20
)

func newReading(w Watch, key string, skip func(error)) *reading {
	return &reading{facts: map[fact]int64{}, watch: w, session: sessionOf(key), skip: skip}
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
	r.changed = true
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
		if r.watch.Spans != nil {
			r.spans = spans.NewFollower(decode.Input{Capture: nobody{}}, decode.Config{})
		}
	}
	if r.watched && r.spans != nil && r.session.Identity == "" {
		r.session.Identity = strconv.FormatUint(r.last, 10) // earlier calls were exported in other traces
		r.spans.Export(r.watch.Spans, r.session)
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

// size returns how many bytes of words were read.
func (r *reading) size() (size int) {
	for _, p := range r.passages {
		size += p.size
	}
	return size
}

// written forgets what was written.
func (r *reading) written() {
	r.changed = false
	clear(r.facts)
	r.calls, r.failures, r.findings, r.passages = 0, 0, 0, nil
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

// read adds the words of a frame.
func (r *reading) read(it *decode.Item) {
	r.addValue(protocolFact, it.Protocol.Name())
	var p *passage
	if n := len(r.passages); n > 0 && r.passages[n-1].read < passageSize {
		p = r.passages[n-1]
	} else {
		p = &passage{}
		r.passages = append(r.passages, p)
	}
	p.seq = r.last
	if r.size() > maxWords {
		return
	}
	if it.Protocol.Encoding() == protocol.JSON {
		p.addJSON(it.Payload)
		return
	}
	m := &it.Message
	for _, text := range [][]byte{m.Kind, m.Label, m.Text} {
		p.addText(text)
	}
}

// addValue adds a fact.
func (r *reading) addValue(what, value string) {
	if value == "" {
		return
	}
	f := fact{what, value[:min(len(value), maxValue)]}
	if n, there := r.facts[f]; there || len(r.facts) < maxFacts {
		r.facts[f] = n + 1
	}
}

// called adds a call that has ended.
func (r *reading) called(c *calls.Call) {
	r.calls++
	r.addValue(requestFact, c.Kind)
	name := toolFact
	if c.Model != "" || c.Protocol == rlm.Protocol.Name() {
		name = modelFact // the model that was requested
	}
	r.addValue(name, c.Name)
	if c.Model != c.Name {
		r.addValue(modelFact, c.Model)
	}
	r.addValue(outcomeFact, c.Outcome.String())
	if r.watched {
		r.watch.called(c)
	}
	if c.Outcome.Failed() {
		r.failures++
	}
}

// Changed, Asked and Found implement [session.Watcher].
func (r *reading) Changed(e *session.Exchange, seq int64) { r.log.Changed(e, seq) }

func (r *reading) Asked(c *session.Cancel) { r.log.Asked(c) }

func (r *reading) Found(f session.Finding) {
	r.findings++
	r.addValue(findingFact, f.Name)
	if r.watched {
		r.watch.found(f)
	}
}
