package server

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/wirectl/wirectl/hub"
	"github.com/wirectl/wirectl/internal/render"
)

// An index reads what the hub stores, keeps [facts] about each session in a bucket, and
// answers searches. One goroutine fills it.
type index struct {
	conn      *hub.Conn
	segments  jetstream.Stream
	summaries jetstream.Stream
	entries   jetstream.Stream // of the bucket
	bucket    jetstream.KeyValue
	watch     watch
	from      uint64 // the first message that watch counts
	warn      func(string)
	skipped   func(string) // warns of messages that are skipped

	at        position
	start     uint64 // the number of the last message when the index was opened
	done      atomic.Uint64
	readings  map[string]*reading
	allowance int // bytes that may be read again
	changed   bool
	committed time.Time
	trimmed   uint64 // messages before it have been removed from the index

	ctx      context.Context
	stop     context.CancelFunc
	running  sync.WaitGroup
	wake     chan chan struct{} // of channels to be closed once everything was read
	finds    *nats.Subscription
	texts    chan struct{} // has room for one search that reads sessions
	maxBytes int64         // of a session that a search reads
	stepTime time.Duration
}

// A position is how far an index has read the stream of segments. What it keeps may be
// ahead: each entry has the number of its own last segment.
type position struct {
	Format   int       `json:"format"`
	Created  time.Time `json:"created"` // the stream
	Segments uint64    `json:"segments"`
}

const (
	// format is the version of the facts. An index of another version is rebuilt.
	format = 1
	// positionKey is the key of the position in the bucket. Keys of sessions have dots.
	positionKey = "position"
)

const (
	// lookEvery is how often a complete index looks for more. Larger batches cost less, and a
	// search reads what is new at once.
	lookEvery = 2 * time.Second
	// trimEvery is how often the index is trimmed.
	trimEvery = 10 * time.Second
	// catchTime is how long a search waits until the index is complete.
	catchTime = 2 * time.Second
	// againTime is the time between two tries after an error.
	againTime = time.Second
	// searchers is how many searches are answered at once.
	searchers = 4
	// maxSearched bounds the stored bytes of a session that a search reads.
	maxSearched = 1 << 30
)

// startIndex opens the index of the hub and begins to fill it.
func (h *Hub) startIndex(ctx context.Context, js jetstream.JetStream) (*index, error) {
	told := &sieve{what: "the index", warn: h.options.Warn}
	h.sieves = append(h.sieves, told)
	x := &index{
		conn: h.conn, warn: h.options.Warn, skipped: told.filter, watch: newWatch(h.registry, h.spans), readings: map[string]*reading{},
		wake: make(chan chan struct{}), texts: make(chan struct{}, 1), maxBytes: cmp.Or(h.options.SearchBytes, maxSearched), stepTime: cmp.Or(h.options.SearchTime, stepTime),
	}
	summaries, _ := hub.Bucket(hub.Summaries)
	entries, _ := hub.Bucket(hub.Facts)
	var err error
	for _, of := range []struct {
		name   string
		stream *jetstream.Stream
	}{{hub.Stream, &x.segments}, {summaries, &x.summaries}, {entries, &x.entries}} {
		if *of.stream, err = js.Stream(ctx, of.name); err != nil {
			return nil, err
		}
	}
	if x.bucket, err = js.KeyValue(ctx, hub.Facts); err != nil {
		return nil, err
	}
	if err := x.restore(ctx, h.options.Reindex); err != nil {
		return nil, err
	}
	h.removeOldIndex()
	x.ctx, x.stop = context.WithCancel(context.Background())
	requests := make(chan *nats.Msg, 64)
	// If several hubs serve a cluster, one of them answers.
	if x.finds, err = h.conn.NATS().ChanQueueSubscribe(hub.Find+"*", "wirectl", requests); err == nil {
		err = h.conn.NATS().Flush() // users of the hub may search at once
	}
	if err != nil {
		return nil, err
	}
	x.running.Go(x.fill)
	for range searchers {
		x.running.Go(func() { x.answerFinds(requests) })
	}
	return x, nil
}

// restore reads the position, and empties an index that belongs to another stream or version.
func (x *index) restore(ctx context.Context, anew bool) error {
	state := x.segments.CachedInfo()
	first := position{Format: format, Created: state.Created.UTC().Round(0)}
	switch e, err := x.bucket.Get(ctx, positionKey); {
	case errors.Is(err, jetstream.ErrKeyNotFound):
		anew = true
	case err != nil:
		return err
	case json.Unmarshal(e.Value(), &x.at) != nil || x.at.Format != format || !x.at.Created.Equal(first.Created) || x.at.Segments > state.State.LastSeq:
		x.warn("rebuilding the index: it belongs to another hub or version")
		anew = true
	}
	if anew {
		// The sessions so far were counted before.
		x.at, x.from = first, state.State.LastSeq+1
		if err := x.entries.Purge(ctx); err != nil {
			return err
		}
	}
	x.start = x.at.Segments
	x.done.Store(x.at.Segments)
	return nil
}

// removeOldIndex removes the files in which earlier versions had the index.
func (h *Hub) removeOldIndex() {
	pattern := "index-*.db*"
	if h.server != nil { // the lock says that no other hub uses the folder
		pattern = "index.db*"
	}
	old, _ := filepath.Glob(filepath.Join(h.options.Dir, pattern))
	for _, name := range old {
		_ = os.Remove(name) // a hub works as well with them
	}
}

// close ends the index. What was not committed will be read again.
func (x *index) close() {
	x.stop()
	_ = x.finds.Unsubscribe() // it fails if the connection is closed
	x.running.Wait()
	for _, r := range x.readings {
		r.close()
	}
}

// fill reads what the hub stores, until the end.
func (x *index) fill() {
	var waiting []chan struct{}
	told, trimmed := false, time.Time{}
	for x.ctx.Err() == nil {
		began := time.Now()
		more, err := x.read()
		if err == nil && time.Since(trimmed) > trimEvery {
			if err = x.trim(); err == nil {
				trimmed = time.Now()
			}
		}
		rest := lookEvery
		switch {
		case err != nil:
			if x.ctx.Err() == nil && !told {
				x.warn(fmt.Sprintf("the index cannot be updated: %v", err))
			}
			told, rest = true, againTime
		case more: // use at most half of a processor: senders come first
			told, rest = false, time.Since(began)
		default:
			told = false
			for _, done := range waiting {
				close(done)
			}
			waiting = nil
		}
		select {
		case <-time.After(rest):
		case done := <-x.wake:
			waiting = append(waiting, done)
		case <-x.ctx.Done():
		}
	}
}

// catchUp waits, though not long, until the index has what the hub has now. It returns how
// many messages are missing.
func (x *index) catchUp() (behind uint64, err error) {
	ctx, cancel := context.WithTimeout(x.ctx, catchTime)
	defer cancel()
	done := make(chan struct{})
	select {
	case x.wake <- done:
	case <-ctx.Done():
	}
	select {
	case <-done:
		return 0, nil
	case <-ctx.Done():
	}
	info, err := x.segments.Info(x.ctx)
	if err != nil {
		return 0, err
	}
	return info.State.LastSeq - min(x.done.Load(), info.State.LastSeq), nil
}

// read reads a batch of new messages, and reports whether there are more.
func (x *index) read() (more bool, err error) {
	list, _, err := x.fetch(x.ctx, hub.Segments+">", x.at.Segments+1)
	for _, m := range list {
		more = m.Header.Get("Nats-Num-Pending") != "0"
		if err := x.segment(strings.TrimPrefix(m.Header.Get("Nats-Subject"), hub.Segments), sequence(m), m); err != nil {
			return more, err
		}
	}
	if err == nil && x.changed && (!more || time.Since(x.committed) >= lookEvery) {
		err = x.commit()
	}
	return more, err
}

// fetch returns messages of sessions, and the number from which to read on. The hub must not
// wait until they are handled, which may take long.
func (x *index) fetch(ctx context.Context, subject string, from uint64) (list []*nats.Msg, next uint64, err error) {
	next, _, err = x.conn.Messages(ctx, hub.Stream, subject, from, func(m *nats.Msg) error {
		list = append(list, m)
		return nil
	})
	return list, next, err
}

// sequence returns the number of a message, which Messages has checked.
func sequence(m *nats.Msg) uint64 {
	n, _ := strconv.ParseUint(m.Header.Get("Nats-Sequence"), 10, 64)
	return n
}

// again calls each for the messages of a session before the one with the number end.
func (x *index) again(ctx context.Context, key string, end uint64, each func(seq uint64, m *nats.Msg) error) error {
	for from := uint64(1); from < end; {
		list, next, err := x.fetch(ctx, hub.Segments+key, from)
		if err != nil || len(list) == 0 {
			return err
		}
		from = next
		for _, m := range list {
			if seq := sequence(m); seq < end {
				if err := each(seq, m); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// segment reads a message of a session. One that cannot be read is skipped, and the user is
// told.
func (x *index) segment(key string, seq uint64, m *nats.Msg) error {
	if !hub.IsKey(key) {
		x.at.Segments, x.changed = seq, true
		x.skipped(render.Safe(fmt.Sprintf("a message is skipped, because %q is no ORG.HOST.KIND.ID", key)))
		return nil
	}
	r := x.readings[key]
	if r == nil {
		if err := x.makeRoom(); err != nil {
			return err
		}
		var err error
		if r, err = x.resume(key, seq, hub.IsPiece(m)); err != nil {
			return err
		}
		x.readings[key] = r
	}
	x.at.Segments, x.changed = seq, true
	x.allowance = min(x.allowance+allowed*len(m.Data), maxAllowance)
	r.watched = seq >= x.from
	r.take(seq, m)
	x.bound()
	return nil
}

const (
	// maxReadings bounds the sessions that are read at once. If a session is given up and then
	// goes on, it is read again from its start.
	maxReadings = 128
	// allowed is how many bytes may be read again for each new byte, and maxAllowance bounds
	// the sum. Each session may also be read again once after a start of the hub.
	allowed      = 4
	maxAllowance = 1 << 30
	// maxPieces bounds the segments in memory that are not complete, in bytes.
	maxPieces = 128 << 20
	// maxInFlight bounds the open calls in memory. One session may have a quarter.
	maxInFlight = 1 << 17
)

var errSpent = errors.New("too much was read again")

// makeRoom gives up the reading that has been idle longest, if there are too many.
func (x *index) makeRoom() error {
	if len(x.readings) < maxReadings {
		return nil
	}
	if err := x.commit(); err != nil {
		return err
	}
	if len(x.readings) == maxReadings { // none of them has ended
		oldest := slices.MinFunc(slices.Collect(maps.Keys(x.readings)), func(a, b string) int {
			return cmp.Compare(x.readings[a].last, x.readings[b].last)
		})
		x.readings[oldest].close()
		delete(x.readings, oldest)
	}
	return nil
}

// resume returns the reading of a session, which goes on with the message with the number
// seq. It reads what was counted once more, because calls may have been open there.
func (x *index) resume(key string, seq uint64, piece bool) (*reading, error) {
	say := func(why error) { x.skipped(render.Safe(fmt.Sprintf("the session %s: %v", key, why))) }
	r := newReading(x.watch, key, func(error) {}) // it was said before
	var err error
	if r.facts, r.revision, err = x.stored(key); err != nil {
		return nil, err
	}
	if r.facts.Number > 0 || piece {
		err = x.again(x.ctx, key, seq, func(seq uint64, m *nats.Msg) error {
			if r.facts.Last > x.start {
				if x.allowance -= len(m.Data); x.allowance < 0 {
					return errSpent
				}
			}
			r.take(seq, m)
			return nil
		})
		switch {
		case errors.Is(err, errSpent):
			x.allowance = 0
			r.close()
			later := newReading(x.watch, key, nil)
			later.facts, later.revision, later.before = r.facts, r.revision, r.facts.Number
			r = later
			say(errors.New("its open calls are not counted: it was read again too often"))
		case err != nil:
			r.close()
			return nil, err
		}
	}
	r.skip = say
	return r, nil
}

// stored returns the facts about a session in the bucket, and their revision; 0 if there are
// none.
func (x *index) stored(key string) (f facts, revision uint64, err error) {
	e, err := x.bucket.Get(x.ctx, key)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return f, 0, nil
	}
	if err != nil {
		return f, 0, err
	}
	if err := json.Unmarshal(e.Value(), &f); err != nil {
		f = facts{} // another program wrote it
	}
	return f, e.Revision(), nil
}

// bound gives up the largest incomplete segments and the most open calls, if all sessions
// together have too many.
func (x *index) bound() {
	for _, of := range []struct {
		most   int
		size   func(*reading) int
		giveUp func(*reading)
	}{
		{maxPieces, func(r *reading) int { return r.joint.Waiting() }, func(r *reading) { r.skip(r.joint.Forget()) }},
		{maxInFlight, (*reading).inFlight, (*reading).giveUp},
	} {
		for {
			sum, largest := 0, (*reading)(nil)
			for _, r := range x.readings {
				n := of.size(r)
				if sum += n; largest == nil || n > of.size(largest) {
					largest = r
				}
			}
			if sum <= of.most {
				break
			}
			of.giveUp(largest)
		}
	}
}

// commit stores what was read since the last commit, and then the position.
func (x *index) commit() error {
	for key, r := range x.readings {
		if r.changed {
			if err := x.store(key, r); err != nil {
				return err
			}
			r.changed = false
		}
		if r.ended {
			r.close()
			delete(x.readings, key)
		}
	}
	text, err := json.Marshal(&x.at)
	if err == nil {
		_, err = x.bucket.Put(x.ctx, positionKey, text)
	}
	if err != nil {
		return err
	}
	x.done.Store(x.at.Segments)
	x.changed, x.committed = false, time.Now()
	return nil
}

// store stores the facts about a session, unless another hub on the same server, which reads
// the same messages, is ahead.
func (x *index) store(key string, r *reading) error {
	for {
		text, err := json.Marshal(&r.facts)
		if most := x.conn.NATS().MaxPayload(); err == nil && int64(len(text)) > most/2 {
			f := r.facts
			f.Values, f.More = nil, true
			text, err = json.Marshal(&f)
		}
		if err != nil {
			return err
		}
		revision, err := x.bucket.Update(x.ctx, key, text, r.revision)
		if !errors.Is(err, jetstream.ErrKeyRevisionMismatch) {
			r.revision = cmp.Or(revision, r.revision)
			return err
		}
		other, revision, err := x.stored(key)
		if err != nil {
			return err
		}
		if r.revision = revision; other.Number >= r.facts.Number {
			r.facts = other
			return nil
		}
	}
}

// trim removes the sessions of which the hub has nothing any more.
func (x *index) trim() error {
	info, err := x.segments.Info(x.ctx)
	if err != nil || info.State.FirstSeq == x.trimmed {
		return err
	}
	var gone []string
	err = x.conn.Entries(x.ctx, hub.Facts, "*.>", func(key string, m *nats.Msg) error {
		var f facts
		if r := x.readings[key]; r != nil {
			f = r.facts
		} else if json.Unmarshal(m.Data, &f) != nil {
			return nil //nolint:nilerr // an entry that cannot be read is rebuilt, not removed
		}
		if f.Last > 0 && f.Last < info.State.FirstSeq {
			gone = append(gone, key)
		}
		return nil
	})
	for _, key := range gone {
		if r := x.readings[key]; r != nil {
			r.close()
			delete(x.readings, key)
		}
		for name, stream := range map[string]jetstream.Stream{hub.Summaries: x.summaries, hub.Facts: x.entries} {
			_, subjects := hub.Bucket(name)
			if err == nil {
				err = stream.Purge(x.ctx, jetstream.WithPurgeSubject(subjects+key))
			}
		}
	}
	if err == nil {
		x.trimmed = info.State.FirstSeq
	}
	return err
}
