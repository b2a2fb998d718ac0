// Package tap copies the traffic of a relay or a broker to viewers. A [Hub] keeps the newest
// records, and a [Server] sends them over a Unix socket as a pcapng capture. [List], [Dial]
// and [Await] find the taps of this user. A tap never delays the traffic.
//
// docs/taps.md is the specification of the protocol.
package tap

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"time"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/capture/pcapng"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/internal/wait"
)

// A Conn is a connection to a tap. Read returns a pcapng capture that begins with the history
// and ends when the owner does.
type Conn struct {
	net.Conn
	// Info is the description of the tap.
	Info Info
}

// Dial connects to the tap with that name, or with that prefix if it is unique; with "", to
// the newest. The error is a [*NotFoundError] if there is none.
func Dial(ctx context.Context, dir, name string) (*Conn, error) {
	taps, err := List(dir, nil)
	if err != nil {
		return nil, err
	}
	found, err := find(taps, name)
	if err != nil {
		return nil, err
	}
	for _, info := range found {
		var d net.Dialer
		c, err := d.DialContext(ctx, "unix", filepath.Join(dir, info.Name+listens))
		if err == nil {
			return &Conn{c, info}, nil
		}
		if !refused(err) {
			return nil, err
		}
		remove(dir, info.Name) // another process has reused the owner's id
	}
	return nil, &NotFoundError{Name: name}
}

// awaitEvery is the polling interval of Await.
const awaitEvery = 100 * time.Millisecond

// Await is like Dial, but waits for a tap that does not exist yet. Before it waits, it calls
// waiting, if not nil. It does not wait for an ambiguous prefix.
func Await(ctx context.Context, dir, name string, waiting func()) (*Conn, error) {
	return await(ctx, waiting, func() (*Conn, error) { return Dial(ctx, dir, name) })
}

// Next is like Await, for a tap that began later than last and has the same base name, or any
// name if any is set.
func Next(ctx context.Context, dir string, last Info, any bool) (*Conn, error) {
	return await(ctx, nil, func() (*Conn, error) {
		taps, err := List(dir, nil)
		if err != nil {
			return nil, err
		}
		for _, info := range taps {
			if !info.Started.After(last.Started) || !any && info.base() != last.base() {
				continue
			}
			if c, err := Dial(ctx, dir, info.Name); !isNotFound(err) {
				return c, err
			}
		}
		return nil, &NotFoundError{}
	})
}

// await calls dial until it finds a tap.
func await(ctx context.Context, waiting func(), dial func() (*Conn, error)) (*Conn, error) {
	for {
		c, err := dial()
		if !isNotFound(err) {
			return c, err
		}
		if waiting != nil {
			waiting()
			waiting = nil
		}
		if err := wait.For(ctx, awaitEvery); err != nil {
			return nil, err
		}
	}
}

// isNotFound reports whether the error says that no such tap exists yet.
func isNotFound(err error) bool {
	none, ok := errors.AsType[*NotFoundError](err)
	return ok && !none.Ambiguous()
}

// Send sends a command. The answer is an [Answer] note among the records, with the
// command's Tag.
func (c *Conn) Send(cmd Command) error {
	text, err := jsonscan.Marshal(cmd)
	if err != nil {
		return err
	}
	_, err = c.Write(append(text, '\n'))
	return err
}

// patience is the timeout for a tap to report its totals.
const patience = 2 * time.Second

// A Past is a [capture.Reader] of the first frames in a tap's history. It ends where it would
// have to wait for more.
type Past struct {
	// Hello is the note that a tap sends first to each viewer.
	Hello Note

	*pcapng.Reader
	conn *Conn
	stop func() bool
	left int64 // frames
}

// Glance reads the totals of the tap with that name, and its history up to the given number
// of frames. The Past must be closed.
func Glance(ctx context.Context, dir, name string, frames int64) (*Past, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	c, err := Dial(ctx, dir, name)
	if err != nil {
		cancel()
		return nil, err
	}
	closed := context.AfterFunc(ctx, func() { c.Close() })
	p := &Past{conn: c, stop: func() bool { defer cancel(); return closed() }}
	if err := p.greet(frames); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

// greet reads the hello note.
func (p *Past) greet(frames int64) (err error) {
	if p.Reader, err = pcapng.NewReader(p.conn, 0); err != nil {
		return err
	}
	var rec capture.Record
	if err := p.Reader.Next(&rec); err != nil {
		return err
	}
	var ok bool
	if p.Hello, ok = ParseNote(&rec); !ok || p.Hello.Tap != Hello {
		return fmt.Errorf("%s does not state how many frames have passed", p.conn.Info.Name)
	}
	p.left = min(frames, p.Hello.Frames-p.Hello.Lost)
	return nil
}

// Next reads the next record of history; see [capture.Reader].
func (p *Past) Next(r *capture.Record) error {
	if p.left <= 0 {
		return io.EOF
	}
	err := p.Reader.Next(r)
	if n, ok := ParseNote(r); ok && n.Tap == Lost {
		p.left -= n.Lost
	}
	if r.Kind == capture.Frame {
		p.left--
	}
	return err
}

// Close disconnects from the tap.
func (p *Past) Close() error {
	p.stop()
	return p.conn.Close()
}

// A Sender sends a running session to another place.
type Sender interface {
	// Sink returns the writer for the records; nil if the sender reads the tap as a viewer.
	Sink() capture.Writer
	// Alter marks the session as altered; see [Hub.Alter].
	Alter()
	// Obey lets authorized remote viewers command c from now on.
	Obey(c Controller)
	// Close sends the remaining records until ctx ends. The tap's hub must be closed first.
	Close(ctx context.Context) error
}

// A SendFunc begins to send a session under that name. It calls view if the sender reads the
// tap.
type SendFunc func(s capture.Session, name string, view func() *Hub) (Sender, error)

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
