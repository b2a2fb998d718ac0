package tap

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"sort"
	"sync"
	"time"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/capture/recorder"
	"github.com/wirectl/wirectl/internal/jsonscan"
)

// Options limit the history of a Hub.
type Options struct {
	// Bytes is the approximate memory limit of the history; 0 means [DefaultBytes]. The
	// newest record is kept, however large it is.
	Bytes int64
	// Records is the maximum number of records in the history; 0 means [DefaultRecords].
	Records int64
}

// The default limits of a Hub's history.
const (
	DefaultBytes   = 16 << 20
	DefaultRecords = 32 << 10
)

// A Hub is the [capture.Writer] of a relay or a broker. It keeps the newest records for any
// number of viewers, and never waits for them. A viewer that falls too far behind loses
// frames and is told how many. A Hub is safe for concurrent use, and has no goroutine of its
// own.
type Hub struct {
	opts Options

	mu      sync.Mutex
	session *capture.Session // replaced, never changed
	ring    []*run           // oldest first, with gaps for evicted runs
	spare   []*run
	next    int64 // the number of the next record, from 0
	frames  int64
	bytes   int64 // of frames
	kept    held  // total of all runs except the newest
	floods  held  // total of those that hold floods
	flood   flood
	viewers map[*Viewer]struct{}
	waiting int // viewers that wait
	closed  bool
}

// A run is a segment of a Hub's history.
type run struct {
	recorder.Segment
	first  int64 // the number of its first record
	frames int64 // frames before its first record
	users  int   // viewers that read it
	flood  bool  // part of a flood
	gone   bool  // no longer in the ring
}

// nextNumber returns the number of the first record after the run.
func (r *run) nextNumber() int64 { return r.first + int64(len(r.Records)) }

// held is the total size of runs.
type held struct{ bytes, records int64 }

func (k *held) addRun(r *run, sign int64) {
	k.bytes += sign * r.Cost()
	k.records += sign * int64(len(r.Records))
}

// NewHub returns the hub of a session.
func NewHub(s capture.Session, opts Options) *Hub {
	opts.Bytes = cmp.Or(max(opts.Bytes, 0), DefaultBytes)
	opts.Records = cmp.Or(max(opts.Records, 0), DefaultRecords)
	return &Hub{opts: opts, session: &s, viewers: make(map[*Viewer]struct{})}
}

// Write accepts a record. It never blocks, and its error is always nil.
func (h *Hub) Write(r *capture.Record) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil
	}
	if newest := h.newest(); newest == nil || !newest.Append(r) {
		h.beginRun().Append(r)
	}
	h.next++
	if r.Kind == capture.Frame {
		h.frames++
		h.bytes += int64(len(r.Raw))
	}
	if h.waiting > 0 {
		h.wake()
	}
	return nil
}

// WriteRun accepts a run of records; see [capture.RunWriter].
func (h *Hub) WriteRun(r *capture.Run) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil
	}
	bytes := r.Bytes()
	h.bytes += bytes
	h.flood.countPassed(r.Shared.Time, bytes, int64(len(r.Frames)))
	h.flood.on = h.flood.on && len(h.viewers) == 0
	first := 0
	if h.flood.on {
		first = max(0, len(r.Frames)-floodRecords)
	}
	h.count(first)
	h.keepRun(r, first)
	if h.waiting > 0 {
		h.wake()
	}
	return nil
}

// keepRun keeps the records of a run, starting at index from.
func (h *Hub) keepRun(r *capture.Run, from int) {
	newest := h.newest()
	if newest == nil || newest.flood != h.flood.on || newest.nextNumber() != h.next {
		newest = h.beginRun()
	}
	for from < len(r.Frames) {
		n := newest.AppendRun(r, from)
		if n == 0 {
			newest = h.beginRun()
		}
		h.count(n)
		from += n
	}
}

// count counts frames that have passed.
func (h *Hub) count(n int) {
	h.next += int64(n)
	h.frames += int64(n)
}

// Alter marks the session as altered from the next record on, because faults, edits or
// injected frames are enabled.
func (h *Hub) Alter() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed || h.session.Altered {
		return
	}
	s := *h.session
	s.Altered = true
	h.session = &s
	if newest := h.newest(); newest != nil {
		h.beginRun()
	}
}

// Close ends the session. Viewers read the remaining records and then io.EOF.
func (h *Hub) Close() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	h.wake()
	return nil
}

// Counts are the totals of a hub.
type Counts struct {
	Frames  int64 `json:"frames"`
	Bytes   int64 `json:"bytes"`
	Viewers int   `json:"viewers"`
}

// Counts returns the totals so far.
func (h *Hub) Counts() Counts {
	h.mu.Lock()
	defer h.mu.Unlock()
	return Counts{h.frames, h.bytes, len(h.viewers)}
}

// Find returns a copy of the frame with that number, if the history still has it.
func (h *Hub) Find(seq int64) (capture.Record, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := len(h.ring) - 1; i >= 0; i-- {
		records := h.ring[i].Records
		for j := len(records) - 1; j >= 0; j-- {
			if r := &records[j]; r.Kind == capture.Frame && r.Seq == seq {
				return r.Clone(), true
			}
		}
	}
	return capture.Record{}, false
}

func (h *Hub) newest() *run {
	if len(h.ring) == 0 {
		return nil
	}
	return h.ring[len(h.ring)-1]
}

// beginRun appends a new run to the ring, and evicts old runs that exceed the limits.
func (h *Hub) beginRun() *run {
	if newest := h.newest(); newest != nil {
		h.kept.addRun(newest, 1)
		if newest.flood {
			h.floods.addRun(newest, 1)
		}
	}
	r := &run{}
	if n := len(h.spare); n > 0 {
		r, h.spare = h.spare[n-1], h.spare[:n-1]
	}
	r.Session, r.first, r.frames, r.flood, r.gone = h.session, h.next, h.frames, h.flood.on, false
	h.ring = append(h.ring, r)
	for len(h.ring) > 1 && (h.kept.bytes > h.opts.Bytes || h.kept.records > h.opts.Records) {
		h.evict(0)
	}
	for i := 0; i < len(h.ring)-1 && h.floods.bytes > floodKept; {
		if h.ring[i].flood {
			h.evict(i)
		} else {
			i++
		}
	}
	return r
}

// evict removes a run from the ring.
func (h *Hub) evict(i int) {
	old := h.ring[i]
	h.ring = slices.Delete(h.ring, i, i+1)
	h.kept.addRun(old, -1)
	if old.flood {
		h.floods.addRun(old, -1)
	}
	old.gone = true
	h.recycle(old)
}

// maxSpare bounds the number of spare runs.
const maxSpare = 2

// recycle reuses the memory of a run without readers.
func (h *Hub) recycle(r *run) {
	if !r.gone || r.users > 0 {
		return
	}
	r.Reset()
	if len(h.spare) < maxSpare {
		h.spare = append(h.spare, r)
	}
}

// at returns the run that holds the record with that number. If that run was evicted, it
// returns the next one.
func (h *Hub) at(number int64) *run {
	i := sort.Search(len(h.ring)-1, func(i int) bool {
		return h.ring[i].nextNumber() > number
	})
	return h.ring[i]
}

// wake wakes all waiting viewers.
func (h *Hub) wake() {
	for v := range h.viewers {
		if v.waiting {
			h.wakeOne(v)
		}
	}
}

func (h *Hub) wakeOne(v *Viewer) {
	v.waiting = false
	h.waiting--
	v.wake <- struct{}{} // never blocks: the channel has a buffer of one
}

// A flood is more traffic than a person can look at. Without viewers, the history keeps only
// the newest part of a flood. Copying all of it through memory as large as the history, which
// fits in no cache, would double the relay's cost.
type flood struct {
	on            bool
	since         time.Time
	bytes, frames int64 // since then
}

const (
	floodTime   = 20 * time.Millisecond
	floodBytes  = 4 << 20 // per floodTime; more is a flood
	floodFrames = 16 << 10

	floodKept    = 512 << 10 // bytes kept of all floods
	floodRecords = 64        // records kept per run during a flood
)

// countPassed counts traffic at a given time.
func (f *flood) countPassed(at time.Time, bytes, frames int64) {
	passed := at.Sub(f.since)
	if f.on = f.on && passed < 2*floodTime; passed > floodTime {
		f.on = f.on && f.rises()
		f.since, f.bytes, f.frames = at, 0, 0
	}
	f.bytes += bytes
	f.frames += frames
	f.on = f.on || f.rises()
}

func (f *flood) rises() bool { return f.bytes > floodBytes || f.frames > floodFrames }

// The types of a [Note].
const (
	// Hello is the first note for a viewer. Frames and Bytes are the totals so far. The
	// history lacks the first Lost frames.
	Hello = "hello"
	// Lost tells a viewer that it was too slow and missed Lost frames.
	Lost = "lost"
	// Answer is the result of a viewer's command: Do, Tag, Error.
	Answer = "answer"
	// Held describes the held frame with the number Held: Conn, Dir, and Payload or Data. The
	// frame is not yet in the history.
	Held = "held"
	// Released says what happened to the held frame with the number Held: How.
	Released = "released"
)

// A Note is information for viewers other than frames. It is JSON in the text of a record of
// the kind [capture.Note].
type Note struct {
	Tap     string `json:"tap"`
	Frames  int64  `json:"frames,omitempty"`
	Bytes   int64  `json:"bytes,omitempty"`
	Lost    int64  `json:"lost,omitempty"`
	Altered bool   `json:"altered,omitempty"`

	Do    string `json:"do,omitempty"`
	Tag   string `json:"tag,omitempty"`
	Error string `json:"error,omitempty"`

	Held int64  `json:"held,omitempty"`
	How  string `json:"how,omitempty"` // released, edited or dropped, or gone with its connection
	Conn int    `json:"conn,omitempty"`
	Dir  string `json:"dir,omitempty"`
	// Payload is the payload of a held frame if it is JSON; otherwise Data is set.
	Payload json.RawMessage `json:"payload,omitempty"`
	Data    []byte          `json:"data,omitempty"`
}

// Record returns the note as a record.
func (n Note) Record() capture.Record {
	text, err := jsonscan.Marshal(n)
	if err != nil { // a payload that is not JSON
		n.Data, n.Payload = n.Payload, nil
		text, _ = jsonscan.Marshal(n)
	}
	return capture.Record{Kind: capture.Note, Time: time.Now(), Text: text}
}

// ParseNote returns the note in a record, if it is the note of a tap.
func ParseNote(r *capture.Record) (Note, bool) {
	if r.Kind != capture.Note || !bytes.HasPrefix(r.Text, []byte(`{"tap":`)) {
		return Note{}, false
	}
	var n Note // escapes to the heap, so declared after the check
	err := json.Unmarshal(r.Text, &n)
	return n, err == nil
}
