package hub

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/capture/tap"
	"github.com/wirectl/wirectl/decode/source"
	"github.com/wirectl/wirectl/internal/wait"
)

// A Reader reads a session as a capture in pcapng: first what the hub has, then what is
// still sent. The end of the session is io.EOF. Notes say where frames are missing.
type Reader struct {
	conn    *Conn
	owned   bool // Close closes the connection
	session Info
	ctx     context.Context
	stop    context.CancelFunc

	from  uint64 // the number of the next message in the stream
	joint Assembler
	queue []stored
	ready io.Reader
	ended bool          // nothing follows the queue
	rest  time.Duration // before the next try; 0 if the last one found something
	came  time.Time     // when something was found last
	heard time.Time     // when the hub answered last
	alone bool          // it has not answered since then

	refused atomic.Pointer[string] // why commands were refused
}

// stored is a compressed segment from the hub, or a section that the reader has made.
type stored struct {
	whole   *Whole
	section []byte
}

// Read reads from the session. It waits for more while the session is live.
func (r *Reader) Read(p []byte) (int, error) {
	for {
		if n, err := r.ready.Read(p); n > 0 || err != io.EOF {
			return n, err
		}
		err := io.EOF
		switch {
		case len(r.queue) > 0:
			r.unpack(r.queue[0])
			r.queue, err = r.queue[1:], nil
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
}

// unpack makes a segment the one that is read. One that cannot be read is skipped.
func (r *Reader) unpack(s stored) {
	if s.whole != nil {
		var err error
		if r.ready, err = s.whole.Section(); err == nil {
			return
		}
		s.section = r.note(err.Error(), true)
	}
	r.ready = bytes.NewReader(s.section)
}

// Close ends reading. It may be called once, by any goroutine.
func (r *Reader) Close() error {
	r.stop()
	if r.owned {
		r.conn.Close()
	}
	return nil
}

// A live session is read again after pollFirst, and then less and less often: every
// pollSoon if something was found within busyTime, otherwise every pollMost.
const (
	pollFirst = 5 * time.Millisecond
	pollSoon  = 20 * time.Millisecond
	pollMost  = 100 * time.Millisecond
	busyTime  = 200 * time.Millisecond
)

// outage is how long a reader waits for a hub that has answered before: a server may be
// replaced by another one, or restart.
const outage = time.Minute

// fetch reads the segments that the hub has. If there are none, it waits, unless nobody
// sends the session any more.
func (r *Reader) fetch() error {
	err := r.fetchOnce()
	switch {
	case err == nil:
		r.heard, r.alone = time.Now(), false
	case !errors.Is(err, nats.ErrNoResponders) && !errors.Is(err, errNoAnswer) || time.Since(r.heard) > outage:
		return err
	default:
		if r.rest = pollMost; !r.alone {
			r.alone = true
			r.say(fmt.Sprintf("the hub does not answer, and is asked again: %v", err))
		}
	}
	return nil
}

func (r *Reader) fetchOnce() error {
	if r.rest > 0 {
		select {
		case <-time.After(r.rest):
		case <-r.ctx.Done():
			return context.Cause(r.ctx)
		}
	}
	goesOn := true
	if r.rest == pollMost { // before the stream is read, so that it then has what was sent last
		var err error
		if goesOn, err = r.conn.goesOn(r.ctx, &r.session); err != nil {
			return err
		}
	}
	from, found, err := r.conn.Messages(r.ctx, Stream, Segments+r.session.Key(), r.from, r.take)
	r.from = from
	if err != nil {
		return err
	}
	most := pollMost
	if time.Since(r.came) < busyTime {
		most = pollSoon
	}
	r.rest = min(max(2*r.rest, pollFirst), most)
	if found {
		r.rest, r.came = 0, time.Now()
	} else if !goesOn {
		r.ended = true
		r.say("the hub has no more of this session, and its sender has gone: it has no end")
	}
	return nil
}

// goesOn reports whether somebody sends the session.
func (c *Conn) goesOn(ctx context.Context, i *Info) (live bool, err error) {
	err = c.Entries(ctx, Presence, i.Key(), func(string, *nats.Msg) error {
		live = true
		return nil
	})
	return live, err
}

// take adds a message.
func (r *Reader) take(m *nats.Msg) error {
	before := r.joint.Frames
	s, err := r.joint.Take(m)
	if err != nil {
		r.say(err.Error())
	}
	if s == nil {
		return nil
	}
	if s.Missing > 0 {
		r.gap(s.Missing, before)
	}
	r.queue = append(r.queue, stored{whole: s})
	r.ended = s.End
	return nil
}

// gap adds a note about segments that the hub does not have.
func (r *Reader) gap(missing, frames int64) {
	text := fmt.Sprintf("%d segments are missing here, after frame %d: the hub has removed them, or never had them", missing, frames)
	r.queue = append(r.queue, stored{section: r.note(text, true)})
}

// say adds a note to what will be read.
func (r *Reader) say(text string) { r.queue = append(r.queue, stored{section: r.note(text, false)}) }

// note returns a section with a note, and one that frames are missing here if gap is set.
func (r *Reader) note(text string, gap bool) []byte {
	p := packer{session: capture.Session{
		Created: r.session.Started, Protocol: r.session.Protocol, Framing: r.session.Framing,
		Controller: r.session.Controller, Unit: r.session.Unit, Redacted: true,
	}}
	_ = p.addNote(text) // it writes to memory
	if lost := (tap.Note{Tap: tap.Lost}).Record(); gap {
		_ = p.Write(&lost)
	}
	return p.buf
}

// Open opens the session that Find returns.
func (c *Conn) Open(ctx context.Context, name string) (*Reader, error) {
	info, err := c.Find(ctx, name)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	return &Reader{conn: c, session: info, ctx: ctx, stop: stop, from: 1, ready: bytes.NewReader(nil), heard: time.Now()}, nil
}

// findEvery is how often a session is looked for that does not exist yet.
const findEvery = 2 * time.Second

// Source returns a function that opens a session as a capture: at the hub that the
// environment names, or else at the one on this machine. With await, it waits until there is
// such a session, also if the hub, which has answered before, restarts meanwhile.
func Source(getenv func(string) string) func(_ context.Context, name string, await bool) (io.ReadCloser, error) {
	return func(ctx context.Context, name string, await bool) (io.ReadCloser, error) {
		for heard := time.Now(); ; {
			r, err := openFrom(ctx, getenv, name)
			if errors.Is(err, source.ErrNoSession) {
				heard = time.Now()
			}
			switch {
			case err == nil:
				return r, nil
			case !await || errors.Is(err, errSeveral) || time.Since(heard) > outage:
				return nil, err
			}
			if err := wait.For(ctx, findEvery); err != nil {
				return nil, err
			}
		}
	}
}

// openFrom opens a session on a connection of its own.
func openFrom(ctx context.Context, getenv func(string) string, name string) (*Reader, error) {
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

// DialFrom connects to the hub at an address; if it is "", to the one that the environment
// names, or else to the one on this machine.
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

// Live returns the keys of the live sessions of an organisation.
func (c *Conn) Live(ctx context.Context, org string) (map[string]bool, error) {
	live := map[string]bool{}
	err := c.Entries(ctx, Presence, org+".>", func(key string, _ *nats.Msg) error {
		live[key] = true
		return nil
	})
	return live, err
}

// Sessions lists the sessions of the organisation, oldest first.
func (c *Conn) Sessions(ctx context.Context) ([]Info, error) { return c.SessionsOf(ctx, c.address.Org) }

// SessionsOf lists the sessions of any organisation, oldest first.
func (c *Conn) SessionsOf(ctx context.Context, org string) ([]Info, error) {
	live, err := c.Live(ctx, org)
	if err != nil {
		return nil, err
	}
	var list []Info
	err = c.Entries(ctx, Summaries, org+".>", func(key string, m *nats.Msg) error {
		// An entry that is not a session was written by another program.
		if i, ok := ParseInfo(m); ok {
			i.Live = live[key]
			list = append(list, i)
		}
		return nil
	})
	return list, err
}

// shortest is how long the beginning of an id must be if there is a session of that name.
const shortest = 4

// maxNames bounds the sessions that an error lists.
const maxNames = 10

// errSeveral says that a name fits several sessions.
var errSeveral = errors.New("several sessions")

// Find returns the session with that id; or the newest of that name; or the only one whose id
// begins like that. HOST/NAME means only those of that host, and otherwise only one host may have
// such a session: no sender can have its session taken for another's. The error is a
// [NotFoundError] if there is none.
func (c *Conn) Find(ctx context.Context, name string) (Info, error) {
	list, err := c.Sessions(ctx)
	if err != nil {
		return Info{}, err
	}
	host, word, qualified := strings.Cut(name, "/")
	if !qualified {
		word = name
	}
	var same, begin []Info // the id or the name is the word; the id begins with it
	for _, i := range list {
		switch {
		case word == "" || qualified && i.Host != host:
		case i.ID == word || i.Name == word:
			same = append(same, i)
		case strings.HasPrefix(i.ID, word):
			begin = append(begin, i)
		}
	}
	all := same
	if len(same) == 0 || len(word) >= shortest {
		all = slices.Concat(same, begin)
	}
	var names []string
	for _, i := range all {
		names = append(names, "hub:"+i.Host+"/"+word)
	}
	slices.Sort(names)
	switch names = slices.Compact(names); {
	case len(names) == 0:
		return Info{}, &NotFoundError{Name: name, Hub: c.address.Servers, Org: c.address.Org}
	case len(names) > 1:
		more := ""
		if n := len(names) - maxNames; n > 0 {
			names, more = names[:maxNames], fmt.Sprintf(" and %d more", n)
		}
		return Info{}, fmt.Errorf("%w at the hub are called %q: write one of %s%s", errSeveral, word, strings.Join(names, ", "), more)
	case len(same) == 0 && len(begin) > 1:
		return Info{}, fmt.Errorf("%w at the hub have ids that begin with %q: write more of it", errSeveral, word)
	case len(same) == 0:
		return begin[0], nil
	}
	if n := slices.IndexFunc(same, func(i Info) bool { return i.ID == word }); n >= 0 {
		return same[n], nil
	}
	return slices.MaxFunc(same, func(a, b Info) int { return a.Started.Compare(b.Started) }), nil
}

// A NotFoundError says that a hub does not have a session. It is [source.ErrNoSession].
type NotFoundError struct{ Name, Hub, Org string }

// Is reports whether the error is target.
func (e *NotFoundError) Is(target error) bool { return target == source.ErrNoSession }

func (e *NotFoundError) Error() string {
	return fmt.Sprintf("the hub at %s has no session %q of %s: wirectl sessions --hub lists them", e.Hub, e.Name, e.Org)
}
