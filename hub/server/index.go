package server

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/wirectl/wirectl/hub"
	"github.com/wirectl/wirectl/hub/index"
)

// An indexer fills the index of a hub with what the hub stores, and answers searches.
type indexer struct {
	conn      *hub.Conn
	segments  jetstream.Stream
	summaries jetstream.Stream
	index     *index.Index
	maxWords  int64
	warn      func(string)
	asked     *nats.Subscription

	changed   bool // something was read since the last commit
	committed time.Time

	ctx     context.Context
	stop    context.CancelFunc
	running sync.WaitGroup
	wake    chan chan struct{} // of channels to be closed once everything was read
}

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
)

// startIndex opens the index of the hub and begins to fill it.
func (h *Hub) startIndex(ctx context.Context, js jetstream.JetStream) (*indexer, error) {
	x := &indexer{conn: h.conn, maxWords: h.options.MaxBytes, warn: h.options.Warn, wake: make(chan chan struct{})}
	var identity []string
	summaries, _ := hub.Bucket(hub.Summaries)
	for _, of := range []struct {
		name   string
		stream *jetstream.Stream
	}{{hub.Stream, &x.segments}, {summaries, &x.summaries}} {
		stream, err := js.Stream(ctx, of.name)
		if err != nil {
			return nil, err
		}
		*of.stream = stream
		identity = append(identity, stream.CachedInfo().Created.UTC().Format(time.RFC3339Nano))
	}
	name := "index.db"
	if h.server == nil { // the folder may have indexes of several servers
		sum := sha256.Sum256([]byte(h.address))
		name = "index-" + hex.EncodeToString(sum[:6]) + ".db"
	}
	if err := os.MkdirAll(h.options.Dir, 0o700); err != nil {
		return nil, err
	}
	var err error
	told := &sieve{what: "the index", warn: h.options.Warn}
	h.sieves = append(h.sieves, told)
	if x.index, err = index.Open(ctx, filepath.Join(h.options.Dir, name), strings.Join(identity, " "), h.options.Reindex, told.filter); err != nil {
		return nil, err
	}
	x.index.Watch, x.index.Again = index.NewWatch(h.registry, h.spans), x.again
	if x.index.Position().Segments == 0 { // it is rebuilt from sessions that were counted before
		x.index.From = x.segments.CachedInfo().State.LastSeq + 1
	}
	x.ctx, x.stop = context.WithCancel(context.Background())
	requests := make(chan *nats.Msg, 64)
	// If several hubs serve a cluster, one of them answers.
	if x.asked, err = h.conn.NATS().ChanQueueSubscribe(hub.Find+"*", "wirectl", requests); err == nil {
		err = h.conn.NATS().Flush() // users of the hub may search at once
	}
	if err != nil {
		return nil, errors.Join(err, x.index.Close())
	}
	x.running.Go(x.fill)
	x.running.Go(func() { x.answerFinds(requests) })
	return x, nil
}

// close ends the index.
func (x *indexer) close() error {
	x.stop()
	_ = x.asked.Unsubscribe() // it fails if the connection is closed
	x.running.Wait()
	return x.index.Close()
}

// fill reads what the hub stores, until the end.
func (x *indexer) fill() {
	var waiting []chan struct{}
	told, trimmed := false, time.Time{}
	for x.ctx.Err() == nil {
		began := time.Now()
		more, err := x.read()
		if err == nil && time.Since(trimmed) > trimEvery {
			var left bool
			if left, err = x.trim(); !left {
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

// read reads a batch of new messages, and reports whether there are more.
func (x *indexer) read() (more bool, err error) {
	stream, subjects := hub.Bucket(hub.Summaries)
	at := x.index.Position()
	summaries, err := x.batch(stream, subjects, at.Summaries, func(_ string, m *nats.Msg) error {
		if m.Header.Get("KV-Operation") == "" {
			x.index.Summary(sequence(m), m)
		}
		return nil
	})
	if err != nil {
		return false, err
	}
	segments, err := x.batch(hub.Stream, hub.Segments, at.Segments, func(key string, m *nats.Msg) error {
		return x.index.Segment(x.ctx, key, sequence(m), m)
	})
	if more = summaries || segments; err != nil || !x.changed || more && time.Since(x.committed) < lookEvery {
		return more, err
	}
	if err = x.index.Commit(x.ctx); err == nil {
		x.changed, x.committed = false, time.Now()
	}
	return more, err
}

// batch reads messages after the one with the number last, and reports whether there are more.
func (x *indexer) batch(stream, subjects string, last uint64, each func(key string, m *nats.Msg) error) (more bool, err error) {
	list, _, err := x.fetch(x.ctx, stream, subjects+">", last+1)
	for _, m := range list {
		x.changed, more = true, m.Header.Get("Nats-Num-Pending") != "0"
		if err := each(strings.TrimPrefix(m.Header.Get("Nats-Subject"), subjects), m); err != nil {
			return more, err
		}
	}
	return more, err
}

// fetch returns messages, and the number from which to read on. The hub must not wait until
// they are handled, which may take long.
func (x *indexer) fetch(ctx context.Context, stream, subject string, from uint64) (list []*nats.Msg, next uint64, err error) {
	next, _, err = x.conn.Messages(ctx, stream, subject, from, func(m *nats.Msg) error {
		list = append(list, m)
		return nil
	})
	return list, next, err
}

// again is [index.Index.Again].
func (x *indexer) again(ctx context.Context, key string, end uint64, each func(seq uint64, m *nats.Msg) error) error {
	for from := uint64(1); from < end; {
		list, next, err := x.fetch(ctx, hub.Stream, hub.Segments+key, from)
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

// sequence returns the number of a message, which Messages has checked.
func sequence(m *nats.Msg) uint64 {
	n, _ := strconv.ParseUint(m.Header.Get("Nats-Sequence"), 10, 64)
	return n
}

// trim removes what the hub does not have any more from the index, and from the list of
// sessions.
func (x *indexer) trim() (more bool, err error) {
	info, err := x.segments.Info(x.ctx)
	if err != nil {
		return false, err
	}
	gone, more, err := x.index.Trim(x.ctx, info.State.FirstSeq, x.maxWords)
	if err != nil {
		return false, err
	}
	_, subjects := hub.Bucket(hub.Summaries)
	for _, key := range gone {
		if err := x.summaries.Purge(x.ctx, jetstream.WithPurgeSubject(subjects+key)); err != nil {
			return false, err
		}
	}
	return more, nil
}

// answerFinds answers searches.
func (x *indexer) answerFinds(requests <-chan *nats.Msg) {
	for {
		select {
		case m := <-requests:
			x.answerOne(m)
		case <-x.ctx.Done():
			return
		}
	}
}

// pageSize is how many sessions fit into a message of an answer.
const pageSize = 100

func (x *indexer) answerOne(m *nats.Msg) {
	var page []hub.Info
	send := func() error {
		text, err := json.Marshal(page)
		page = page[:0]
		if err != nil {
			return err
		}
		return m.Respond(text)
	}
	behind, err := x.find(m, func(i hub.Info) error {
		if page = append(page, i); len(page) == pageSize {
			return send()
		}
		return nil
	})
	if err == nil && len(page) > 0 {
		err = send()
	}
	last := nats.NewMsg(m.Reply)
	last.Header.Set(hub.HeaderBehind, strconv.FormatUint(behind, 10))
	if err != nil {
		last.Header.Set(hub.HeaderError, strings.ReplaceAll(err.Error(), "\n", " "))
	}
	_ = m.RespondMsg(last) // it fails if the user has gone
}

func (x *indexer) find(m *nats.Msg, each func(hub.Info) error) (behind uint64, err error) {
	var q hub.Query
	if err := json.Unmarshal(m.Data, &q); err != nil {
		return 0, fmt.Errorf("invalid query: want an object: %w", err)
	}
	if behind, err = x.catchUp(); err != nil {
		return 0, err
	}
	org := strings.TrimPrefix(m.Subject, hub.Find)
	live, err := x.conn.Live(x.ctx, org)
	if err != nil {
		return 0, err
	}
	return behind, x.index.Find(x.ctx, org, &q, func(i *hub.Info) error {
		if i.Live = live[i.Key()]; !i.Has(q.Words) {
			return nil
		}
		return each(*i)
	})
}

// catchUp waits, though not long, until the index has what the hub has now. It returns how
// many messages are missing.
func (x *indexer) catchUp() (behind uint64, err error) {
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
	return info.State.LastSeq - min(x.index.Done(), info.State.LastSeq), nil
}
