package merge

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"time"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/all"
	"github.com/wirectl/wirectl/session"
	"github.com/wirectl/wirectl/session/jsondiff"
)

// An opener opens a capture from its beginning, each time that it is called.
type opener func(context.Context) (capture.Reader, func(), error)

// maxFrames bounds the frames of a capture: 100 bytes are kept of each.
const maxFrames = 8 << 20

// ErrTooMany is the error for a capture with too many frames.
var ErrTooMany = fmt.Errorf("over %d frames: cut the capture into shorter ones", maxFrames)

// read reads a session item by item.
func read(ctx context.Context, open opener, cfg decode.Config, event func(*capture.Record), see func(*decode.Item) error) (r capture.Reader, cut error, err error) {
	r, done, err := open(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer done()
	cfg.Workers, cfg.Resync, cfg.Event = 1, true, event
	_, err = decode.Run(ctx, decode.Input{Capture: r}, io.Discard, cfg, func() decode.View {
		return func(dst []byte, it *decode.Item) ([]byte, error) { return dst, see(it) }
	})
	if errors.Is(err, capture.ErrCut) {
		return r, err, nil
	}
	return r, nil, err
}

// A scan makes the entries of a session.
type scan struct {
	side
	carried int64 // frames of carriers themselves, which each end has of its own
	ways    [3]bool
	http    bool
	rpc     bool // over HTTP
	seq     int64
	lanesOf map[lane]int32
	scopes  session.Scopes
	open    map[exchange]int32 // requests that answers may come for: indexes, from 1
}

// A lane is a connection, a session over HTTP, or all other HTTP.
type lane struct {
	conn, stream int
	http         bool
}

// An exchange is named by an id in its scope, or by the place of an HTTP request.
type exchange struct {
	conn, stream int
	id           uint64
	opener       frame.Dir
}

// maxOpen bounds the requests that are waited for.
const maxOpen = 1 << 20

var seed = maphash.MakeSeed()

func hash(parts ...[]byte) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	for _, p := range parts {
		h.Write(p)
		h.WriteByte(0xff)
	}
	return max(h.Sum64(), 1)
}

func newScan() *scan { return &scan{lanesOf: map[lane]int32{}, open: map[exchange]int32{}} }

// cover notes that the capture was running at a time.
func (s *scan) cover(at time.Time) {
	if n := nanos(at); n != 0 {
		if s.begin == 0 || n < s.begin {
			s.begin = n
		}
		s.end = max(s.end, n)
	}
}

func nanos(at time.Time) int64 {
	if at.IsZero() {
		return 0
	}
	return at.UnixNano()
}

// see adds the entry of an item. What a carrier adds by itself is no frame that could be lost.
func (s *scan) see(it *decode.Item) error {
	f := it.Frame
	s.seq = max(s.seq, it.Seq)
	s.cover(it.Time)
	carries := f.Meta == nil || !f.Gap && (f.Meta.Signal == frame.NoSignal || f.Meta.Signal == frame.Request || f.Meta.Signal == frame.Response || f.Meta.Signal == frame.Damaged)
	if !carries || f.Gap && len(f.Raw) == 0 {
		s.carried++
		return nil
	}
	if len(s.entries) >= maxFrames {
		return ErrTooMany
	}
	m := &it.Message
	if it.Err != nil && it.Err != f.Flaw || f.Gap {
		m = &protocol.Message{}
	}
	e := entry{seq: it.Seq, at: nanos(it.Time), dir: f.Dir}
	if e.dir == frame.DirUnknown {
		e.dir = m.From
	}
	e.vague = it.Redacted || it.Outlined || f.Meta != nil && f.Meta.Head.IsAbsent()
	s.ways[e.dir] = true
	s.identify(&e, it, m)
	s.place(&e, it, m)
	s.entries = append(s.entries, e)
	return nil
}

// identify hashes the content of a frame.
func (s *scan) identify(e *entry, it *decode.Item, m *protocol.Message) {
	f := it.Frame
	payload := it.Payload
	if f.Gap {
		payload = f.Raw
	}
	value := payload
	if form, _, err := it.JSON(); err == nil && form != nil && !f.Gap {
		value = form
	}
	sum := jsondiff.Digest(value, m, nil)
	e.exact, e.bare, e.kind = hash(payload), hash(sum[:]), hash(m.Kind)
	isHTTP := f.Meta != nil && f.Meta.Framing == frame.HTTP
	if (!m.ID.IsZero() || !m.Ref.IsZero()) && (!isHTTP || isRPC(it, m)) { // else it is the number of a request
		e.id = hash(m.ID.Text, m.Ref.Text)
	}
	h := headOf(f)
	if h == nil {
		return
	}
	e.own = f.Meta.Signal == frame.Request || f.Meta.Signal == frame.Response
	s.rpc = s.rpc || isRPC(it, m)
	if !isRPC(it, m) { // gateways may serve other paths, but the answer is theirs
		e.exact, e.kind = hash(payload, []byte(h.Start)), hash([]byte(h.Method()))
		e.asks = e.own && h.Method() != ""
		if e.bare = hash(sum[:], []byte(h.Status())); e.asks {
			e.bare = hash([]byte(h.Start))
		}
	}
}

func isRPC(it *decode.Item, m *protocol.Message) bool {
	return all.IsRPC(it.Protocol) && len(m.Kind) > 0 && (it.Frame.Meta == nil || it.Frame.Meta.Signal == frame.NoSignal)
}

func headOf(f *frame.Frame) *frame.Head {
	if f.Meta == nil || f.Meta.Framing != frame.HTTP {
		return nil
	}
	return f.Meta.Head
}

// place finds the lane of a frame, and the request that it answers.
func (s *scan) place(e *entry, it *decode.Item, m *protocol.Message) {
	f := it.Frame
	isHTTP := f.Meta != nil && f.Meta.Framing == frame.HTTP
	conn, stream := s.scopes.Of(f)
	at := lane{conn: f.Conn, stream: 0}
	switch {
	case isHTTP && stream < 0:
		at = lane{conn, stream, true}
	case isHTTP:
		at = lane{http: true}
	}
	s.http = s.http || isHTTP
	if _, known := s.lanesOf[at]; !known {
		s.lanesOf[at] = int32(s.lanes)
		s.lanes++
	}
	e.lane = s.lanesOf[at]
	index := int32(len(s.entries) + 1)
	named := exchange{conn, stream, hash(m.ID.Text), e.dir}
	placed := exchange{f.Conn, int(f.Stream), 0, frame.C2U}
	keep := func(x exchange) {
		if len(s.open) < maxOpen {
			s.open[x] = index
		}
	}
	switch {
	case m.Phase == protocol.Open && !m.ID.IsZero():
		if first := s.open[named]; first == 0 || s.entries[first-1].exact != e.exact { // else it is sent again
			keep(named)
		}
	case !m.ID.IsZero() && m.Phase != protocol.Note && m.Phase != protocol.Cancel:
		named.opener = e.dir.Opposite()
		if m.Phase != protocol.Part && s.open[named] != 0 {
			defer delete(s.open, named)
		}
		e.request = s.open[named]
	}
	switch {
	case !isHTTP:
	case e.dir == frame.C2U:
		keep(placed)
	case e.request == 0 && m.ID.IsZero() && !isRPC(it, m):
		e.request = s.open[placed]
	}
}

// scanOf reads the entries of a capture.
func scanOf(ctx context.Context, open opener, cfg decode.Config) (s *scan, about capture.Session, cut error, err error) {
	s = newScan()
	r, cut, err := read(ctx, open, cfg, func(rec *capture.Record) { s.cover(rec.Time) }, s.see)
	if err != nil {
		return nil, about, nil, err
	}
	about = *r.Session()
	if s.begin != 0 {
		s.cover(about.Created)
	}
	for i := range s.entries {
		s.entries[i].vague = s.entries[i].vague || about.Redacted || about.Outlined
	}
	return s, about, cut, nil
}

// A detail is what is shown of a frame.
type detail struct {
	name, protocol string // the kind of message, and what it is about
	id             string
	line           string // of HTTP
	form           []byte // the payload as JSON; nil if it is not, or too large
	text           []byte // its beginning
	size           int
}

const (
	maxDetails = 10_000  // frames that are shown
	maxShown   = 1 << 20 // bytes of a payload that is compared
	maxForms   = 1 << 8  // payloads that are kept to be compared
)

// detailsOf reads again what is to be shown.
func detailsOf(ctx context.Context, open opener, cfg decode.Config, wanted map[int64]bool, forms map[int64]bool) (map[int64]*detail, error) {
	found := map[int64]*detail{}
	_, _, err := read(ctx, open, cfg, nil, func(it *decode.Item) error {
		if !wanted[it.Seq] {
			return nil
		}
		d := &detail{size: it.Frame.Size()}
		if m := &it.Message; !it.Frame.Gap {
			d.name, d.protocol, d.id = string(m.Kind), it.Protocol.Name(), string(m.ID.Text)
			if len(m.Label) > 0 {
				d.name += " " + string(m.Label)
			}
		}
		if h := headOf(it.Frame); h != nil {
			if d.line = h.Start; h.Status() != "" {
				d.line = h.Status()
			}
		}
		if form, _, err := it.JSON(); forms[it.Seq] && it.Frame.Size() <= maxShown && !it.Frame.Gap {
			if err == nil && form != nil {
				d.form = append([]byte(nil), form...)
			}
			d.text = append([]byte(nil), it.Payload[:min(len(it.Payload), 256)]...)
		}
		found[it.Seq] = d
		return nil
	})
	return found, err
}
