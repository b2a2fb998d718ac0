package hub

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/wirectl/wirectl/capture"
)

// A Reader reads a session as a capture in pcapng: what the hub has of it, then what
// comes. The end of the session is io.EOF. What is missing is told of by notes.
type Reader struct {
	conn    *Conn
	owned   bool // Close closes the connection
	session Info
	ctx     context.Context
	stop    context.CancelFunc

	from    uint64 // the number in the stream to ask for next
	number  int64  // of the last segment that was read whole
	frames  int64  // of the session up to its end
	pieces  []byte // of the segment that is not whole yet
	piece   int    // how many those are
	of      int64  // the segment that they are of
	queue   []stored
	ready   []byte
	ended   bool // nothing comes after the queue
	waiting bool // nothing came at the last try
}

// stored is a segment that was fetched, compressed; or a section of the reader's own.
type stored struct {
	number  int64
	data    []byte
	section []byte
}

// Read reads from a session, which it waits for.
func (r *Reader) Read(p []byte) (int, error) {
	for len(r.ready) == 0 {
		err := io.EOF
		switch {
		case len(r.queue) > 0:
			err = r.unpack(r.queue[0])
			r.queue = r.queue[1:]
		case !r.ended:
			err = r.fetch()
		}
		if cause := context.Cause(r.ctx); cause != nil {
			err = cause
		}
		if err != nil {
			return 0, err
		}
	}
	n := copy(p, r.ready)
	r.ready = r.ready[n:]
	return n, nil
}

// unpack makes a segment ready.
func (r *Reader) unpack(s stored) (err error) {
	if r.ready = s.section; r.ready == nil {
		if r.ready, err = decompress()(s.data); err != nil {
			return fmt.Errorf("segment %d of the session %s: %w", s.number, r.session.ID, err)
		}
	}
	return nil
}

// Close ends reading. Any goroutine may call it, once.
func (r *Reader) Close() error {
	r.stop()
	if r.owned {
		r.conn.Close()
	}
	return nil
}

// pollTime is how often a session that goes on is looked at.
const pollTime = 100 * time.Millisecond

// fetch reads the segments that are there. If there are none it waits, unless nobody
// sends the session any more.
func (r *Reader) fetch() error {
	if r.waiting {
		select {
		case <-time.After(pollTime):
		case <-r.ctx.Done():
			return context.Cause(r.ctx)
		}
	}
	goesOn := true
	if r.waiting { // asked before the stream is: what came last is then there
		var err error
		if goesOn, err = r.conn.goesOn(r.ctx, &r.session); err != nil {
			return err
		}
	}
	from, found, err := r.conn.get(r.ctx, Stream, Segments+r.session.key(), r.from, r.take)
	if err != nil {
		return err
	}
	r.from, r.waiting = from, !found
	if !found && !goesOn {
		r.ended = true
		r.say(capture.Record{Kind: capture.Note, Time: time.Now(), Text: []byte("the hub has no more of this session, and nobody sends it now: it has no end")})
	}
	return nil
}

// goesOn reports whether somebody sends a session.
func (c *Conn) goesOn(ctx context.Context, i *Info) (live bool, err error) {
	err = c.entries(ctx, Presence, i.key(), func(string, []byte) error {
		live = true
		return nil
	})
	return live, err
}

// take takes a message.
func (r *Reader) take(m *nats.Msg) error {
	number, err := strconv.ParseInt(m.Header.Get(headerNumber), 10, 64)
	frames, err2 := strconv.ParseInt(m.Header.Get(headerFrames), 10, 64)
	if err != nil || err2 != nil || number <= 0 || frames < 0 {
		return fmt.Errorf("the hub has a message that is no segment, for the session %s", r.session.ID)
	}
	if number <= r.number {
		return nil // it was stored twice
	}
	data, whole, err := r.assemble(number, m)
	if err != nil || !whole {
		return err
	}
	if number > r.number+1 {
		r.gap(number)
	}
	r.number, r.frames = number, frames
	r.queue = append(r.queue, stored{number: number, data: data})
	r.ended = m.Header.Get(headerEnd) != ""
	return nil
}

// assemble returns the data of a segment once all of its pieces are there.
func (r *Reader) assemble(number int64, m *nats.Msg) (data []byte, whole bool, err error) {
	text := m.Header.Get(headerPiece)
	if text == "" {
		return m.Data, true, nil
	}
	var piece, pieces int
	if _, err := fmt.Sscanf(text, "%d/%d", &piece, &pieces); err != nil || piece < 1 || piece > pieces {
		return nil, false, fmt.Errorf("the session %s has a piece %q of a segment: want 1/2", r.session.ID, text)
	}
	if piece == 1 {
		r.pieces, r.piece, r.of = nil, 0, number
	}
	if r.of != number || piece != r.piece+1 {
		return nil, false, nil // it was stored twice, or the first are gone
	}
	if len(r.pieces)+len(m.Data) > maxSegment {
		return nil, false, fmt.Errorf("segment %d of the session %s is larger than %d MiB", number, r.session.ID, maxSegment>>20)
	}
	r.pieces, r.piece = append(r.pieces, m.Data...), piece
	if piece < pieces {
		return nil, false, nil
	}
	data, r.pieces = r.pieces, nil
	return data, true, nil
}

// gap tells of segments before the one with that number that the hub does not have.
func (r *Reader) gap(number int64) {
	missing := number - r.number - 1
	r.say(capture.Record{Kind: capture.Note, Time: time.Now(), Text: fmt.Appendf(nil,
		"%d segments are missing here, behind frame %d: the hub has removed them, or never had them", missing, r.frames)})
}

// say adds a record of the reader's own.
func (r *Reader) say(rec capture.Record) {
	p := packer{session: capture.Session{
		Created: r.session.Started, Protocol: r.session.Protocol, Framing: r.session.Framing,
		Controller: r.session.Controller, Unit: r.session.Unit, Redacted: true,
	}}
	if p.Write(&rec) == nil {
		r.queue = append(r.queue, stored{section: p.buf})
	}
}

// Open reads the session whose id is, or begins with, the one given, or whose name is
// the newest that is called so. The error is a [NotFoundError] if there is none.
func (c *Conn) Open(ctx context.Context, name string) (*Reader, error) {
	info, err := c.Find(ctx, name)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	return &Reader{conn: c, session: info, ctx: ctx, stop: stop, from: 1}, nil
}

// Source opens a session for readers of captures: of the hub that the environment
// names, or of that on this machine.
func Source(getenv func(string) string) func(context.Context, string) (io.ReadCloser, error) {
	return func(ctx context.Context, name string) (io.ReadCloser, error) {
		conn, err := DialFrom(getenv, "")
		if err != nil {
			return nil, err
		}
		r, err := conn.Open(ctx, name)
		if err != nil {
			conn.Close()
			return nil, err
		}
		r.owned = true
		return r, nil
	}
}

// DialFrom connects to the hub at an address; if that is "", to the one that the
// environment names, or that of this machine.
func DialFrom(getenv func(string) string, address string) (*Conn, error) {
	for _, other := range []string{getenv(Variable), DefaultAddress} {
		if address == "" {
			address = other
		}
	}
	a, err := ParseAddress(address)
	if err != nil {
		return nil, err
	}
	return Dial(a)
}

// Sessions lists the sessions of the organisation, oldest first.
func (c *Conn) Sessions(ctx context.Context) ([]Info, error) {
	live := map[string]bool{}
	err := c.entries(ctx, Presence, c.address.Org+".>", func(key string, _ []byte) error {
		live[key] = true
		return nil
	})
	if err != nil {
		return nil, err
	}
	var list []Info
	err = c.entries(ctx, Summaries, c.address.Org+".>", func(key string, value []byte) error {
		var i Info
		// What is no session, somebody else has written there.
		if err := json.Unmarshal(value, &i); err == nil && i.key() == key {
			i.Live = live[key]
			list = append(list, i)
		}
		return nil
	})
	return list, err
}

// Find returns the session whose id is, or begins with, the one given, or whose tap was
// called so; of several with that name the newest.
func (c *Conn) Find(ctx context.Context, name string) (Info, error) {
	list, err := c.Sessions(ctx)
	if err != nil {
		return Info{}, err
	}
	var found []Info
	var named *Info
	for n, i := range list {
		if i.ID == name {
			return i, nil
		}
		if strings.HasPrefix(i.ID, name) && name != "" {
			found = append(found, i)
		}
		if i.Name == name && (named == nil || named.Started.Before(i.Started)) {
			named = &list[n]
		}
	}
	switch {
	case named != nil:
		return *named, nil
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		return Info{}, fmt.Errorf("the ids of %d sessions at the hub begin with %q: write more of it", len(found), name)
	}
	return Info{}, &NotFoundError{Name: name, Hub: c.address.Servers, Org: c.address.Org}
}

// A NotFoundError says that a hub has no such session.
type NotFoundError struct{ Name, Hub, Org string }

func (e *NotFoundError) Error() string {
	return fmt.Sprintf("the hub at %s has no session %q of %s: wirectl sessions --hub lists them", e.Hub, e.Name, e.Org)
}
