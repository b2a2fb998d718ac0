package tap

import (
	"io"
	"time"

	"github.com/wirectl/wirectl/capture"
)

// pace is how long a viewer lets records accumulate after a read. Waking up for each record
// would cost the relay more than the records themselves.
const pace = 20 * time.Millisecond

// A Viewer reads the records of a [Hub]: its history, then new records. It is a
// [capture.Live] for one goroutine; the end of the session is io.EOF. If it was too slow, a
// [capture.Note] for [ParseNote] reports the lost frames.
type Viewer struct {
	hub     *Hub
	run     *run // of the current records
	records []capture.Record
	session *capture.Session
	number  int64 // number of the record after the current ones
	frames  int64 // frames before that record

	// The hub's lock guards these fields.
	posted          []capture.Record
	waiting, closed bool

	wake chan struct{}
	stop chan struct{}
	rest *time.Timer
}

// View returns a new viewer, which must be closed. Its first record is a note with the totals
// and the number of frames missing from the history.
func (h *Hub) View() *Viewer {
	v := &Viewer{hub: h, wake: make(chan struct{}, 1), stop: make(chan struct{}), rest: time.NewTimer(0)}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.viewers[v] = struct{}{}
	v.session = h.session
	hello := Note{Tap: Hello, Frames: h.frames, Bytes: h.bytes, Altered: h.session.Altered}
	if len(h.ring) > 0 {
		oldest := h.ring[0]
		v.number, v.frames, v.session = oldest.first, oldest.frames, oldest.Session
		hello.Lost = oldest.frames
	}
	v.records = []capture.Record{hello.Record()}
	return v
}

// Session describes the session. It is replaced when the session is altered.
func (v *Viewer) Session() *capture.Session { return v.session }

// Buffered reports whether Next will not block; see [capture.Live].
func (v *Viewer) Buffered() bool {
	if len(v.records) > 0 {
		return true
	}
	v.hub.mu.Lock()
	defer v.hub.mu.Unlock()
	return v.number < v.hub.next || len(v.posted) > 0 || v.hub.closed || v.closed
}

// Next waits for the next record and reads it; see [capture.Reader].
func (v *Viewer) Next(r *capture.Record) error {
	records, err := v.batch()
	if err != nil {
		*r = capture.Record{}
		return err
	}
	*r = records[0]
	v.records = records[1:]
	return nil
}

// Post adds a note for this viewer only.
func (v *Viewer) Post(n Note) {
	h := v.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	if v.closed {
		return
	}
	v.posted = append(v.posted, n.Record())
	if v.waiting {
		h.wakeOne(v)
	}
}

// Close makes Next return [io.ErrClosedPipe], even if it is waiting.
func (v *Viewer) Close() error {
	h := v.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	if v.closed {
		return nil
	}
	v.closed = true
	close(v.stop)
	if v.waiting {
		h.waiting--
	}
	delete(h.viewers, v)
	return nil
}

// batch returns the current records or, if none are left, the next ones. They are valid until
// the next call.
func (v *Viewer) batch() ([]capture.Record, error) {
	for len(v.records) == 0 {
		if wait, err := v.fetch(); err != nil {
			return nil, err
		} else if wait {
			v.await()
		}
	}
	return v.records, nil
}

// fetch gets the next records. If there are none yet, it returns true.
func (v *Viewer) fetch() (wait bool, err error) {
	h := v.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	v.release()
	switch {
	case v.closed:
		return false, io.ErrClosedPipe
	case len(v.posted) > 0:
		v.records, v.posted = v.posted, nil
	case v.number < h.next:
		if r := h.at(v.number); v.number < r.first {
			v.behind(r)
		} else {
			v.takeRun(r)
		}
	case h.closed:
		return false, io.EOF
	default:
		v.waiting = true
		h.waiting++
		return true, nil
	}
	return false, nil
}

// release releases the run that was read.
func (v *Viewer) release() {
	if v.run == nil {
		return
	}
	v.run.users--
	v.hub.recycle(v.run)
	v.run = nil
}

// behind skips records that were evicted.
func (v *Viewer) behind(next *run) {
	note := Note{Tap: Lost, Lost: next.frames - v.frames}
	v.number, v.frames = next.first, next.frames
	v.records = []capture.Record{note.Record()}
}

func (v *Viewer) takeRun(r *run) {
	v.run, v.session = r, r.Session
	r.users++
	v.records = r.Records[v.number-r.first:]
	v.number += int64(len(v.records))
	for i := range v.records {
		if v.records[i].Kind == capture.Frame {
			v.frames++
		}
	}
}

// await waits for a record, and then lets more accumulate.
func (v *Viewer) await() {
	select {
	case <-v.wake:
	case <-v.stop:
		return
	}
	select {
	case <-v.rest.C:
	case <-v.stop:
		return
	}
	v.rest.Reset(pace)
}
