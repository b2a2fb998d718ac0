package decode

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/capture/tap"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/frame/carrier"
	"github.com/wirectl/wirectl/internal/inflate"
	"github.com/wirectl/wirectl/source"
	forms "github.com/wirectl/wirectl/source/all"
)

// readHead reads the beginning of a file: as much as is there without waiting, or of a pipe as much as it
// takes to know the form.
func readHead(f *source.File) *source.Head {
	h := &source.Head{}
	var err error
	for len(h.Bytes) < source.HeadSize && err == nil {
		var n int
		piece := make([]byte, min(source.HeadSize, 64<<10))
		n, err = f.Reader.Read(piece)
		h.Bytes = append(h.Bytes, piece[:n]...)
		if n == 0 || !f.AtHand && !forms.MayBecome(h.Bytes) {
			break
		}
	}
	h.Whole = err == io.EOF
	rest := f.Reader
	if err != nil {
		rest = &failed{err}
	}
	f.Reader = io.MultiReader(bytes.NewReader(h.Bytes), rest)
	return h
}

// IsForeign reports whether err says that a file of another program cannot be read.
func IsForeign(err error) bool {
	var e *source.Error
	return errors.As(err, &e)
}

// ErrNoBytes is the error for a session without bytes where bytes are wanted.
var ErrNoBytes = errors.New("there are no bytes of a wire")

// A failed reader fails.
type failed struct{ err error }

func (f *failed) Read([]byte) (int, error) { return 0, f.err }

// A pausing reader reads as a live file does (see [source.File]): before each read that may wait, it
// returns no bytes once.
type pausing struct {
	io.Reader
	paused bool
}

func (p *pausing) Read(b []byte) (int, error) {
	if p.paused = !p.paused; p.paused {
		return 0, nil
	}
	return p.Reader.Read(b)
}

// openForm opens a file of another program.
func openForm(form *source.Form, f *source.File, h *source.Head, cfg Config) (Input, error) {
	if form.Open == nil {
		return Input{}, &source.Error{Form: form}
	}
	if forms.IsPacked(h.Bytes) {
		r, err := inflate.Open("zstd", f.Reader)
		if err != nil {
			return Input{}, err
		}
		f.Reader, f.Live = r, false
	}
	if form.Piped && !f.AtHand && !f.Live {
		f.Reader, f.Live = &pausing{Reader: f.Reader}, true
	}
	if mark := "\xef\xbb\xbf"; bytes.HasPrefix(h.Bytes, []byte(mark)) { // editors on Windows write one
		if _, err := io.ReadFull(f.Reader, make([]byte, len(mark))); err != nil {
			return Input{}, err
		}
	}
	f.Keylog, f.Field = cfg.Keylog, cfg.Field
	r, err := form.Open(f)
	if err != nil {
		return Input{}, unreadable(form, err)
	}
	about := r.About()
	if about.Teller != "" && cfg.Wire {
		return Input{}, fmt.Errorf("%w: %s tells this session about itself", ErrNoBytes, about.Teller)
	}
	if about.Teller != "" && cfg.Notice != nil && f.Seen.Once([]byte("told by "+about.Teller)) {
		cfg.Notice("as " + about.Teller + " tells it: no bytes, no system prompt")
	}
	c := &foreign{cfg: cfg, form: form, reader: r, live: f.Live, told: about.Teller != "", conns: map[int]*foreignConn{}, open: map[int]bool{}, session: capture.Session{
		Created: about.Created, Controller: about.Controller, Unit: about.Unit, Redacted: about.Redacted, Comment: about.Comment,
	}}
	c.next, c.stop = iter.Pull(c.records)
	return Input{Capture: c}, nil
}

// A foreign capture has the records of a file of another program. A coroutine makes them, because one
// piece of a file can complete many frames.
type foreign struct {
	cfg     Config
	form    *source.Form
	reader  source.Reader
	session capture.Session
	live    bool
	told    bool // by a program, about itself
	conns   map[int]*foreignConn
	open    map[int]bool // connections of which the file ends no direction
	next    func() (*capture.Record, bool)
	stop    func()
	ahead   *capture.Record // that Buffered has made; nil for none
	over    bool
	err     error
}

// Session describes the file.
func (c *foreign) Session() *capture.Session { return &c.session }

// Buffered reports whether Next is sure not to wait; see [capture.Live].
func (c *foreign) Buffered() bool {
	if c.live && c.ahead == nil && !c.over {
		c.pull()
		return c.ahead != nil || c.over
	}
	return true
}

// pull makes the next record; none if there is none for now.
func (c *foreign) pull() {
	rec, more := c.next()
	c.ahead, c.over = rec, !more
}

// Next reads the next record; see [capture.Reader].
func (c *foreign) Next(rec *capture.Record) error {
	for c.ahead == nil && !c.over {
		c.pull()
	}
	if c.over {
		*rec = capture.Record{}
		return cmp.Or(c.err, io.EOF)
	}
	*rec, c.ahead = *c.ahead, nil
	return nil
}

// Close frees what reading takes.
func (c *foreign) Close() error {
	c.stop()
	for _, k := range c.conns {
		k.stop()
	}
	if r, ok := c.reader.(io.Closer); ok {
		return r.Close()
	}
	return nil
}

// maxForeign bounds the connections of a file whose bytes are followed.
const maxForeign = 1 << 14

// records yields the records of the file, and nil where there is no more for now.
func (c *foreign) records(pass func(*capture.Record) bool) {
	frames := false
	yield := func(rec *capture.Record) bool {
		frames = frames || rec != nil && rec.Kind == capture.Frame
		return pass(rec)
	}
	var r source.Record
	for {
		if c.err = c.reader.Next(&r); c.err != nil {
			break
		}
		rec := capture.Record{Time: r.Time, Frame: frame.Frame{Conn: r.Conn, Dir: r.Dir}}
		on := true
		if r.Conn > 0 && r.Kind != source.Note && r.Kind != source.Ended {
			c.open[r.Conn] = true
		}
		switch r.Kind {
		case source.Idle:
			on = yield(nil)
		case source.Message:
			rec.Protocol, rec.Raw, rec.End = r.Protocol, r.Data, len(r.Data)
			if c.told {
				rec.Raw = append(rec.Raw, '\n') // as encode writes it
			}
			on = yield(&rec)
		case source.Note:
			rec.Kind, rec.Text = capture.Note, r.Data
			on = yield(&rec)
		case source.Opened:
			rec.Kind, rec.Text = capture.Opened, r.Data
			on = yield(&rec)
		case source.Bytes:
			if k := c.conn(&r); k != nil {
				on = k.feedBytes(&r, yield)
			}
		case source.Ended:
			if k := c.conns[r.Conn]; k != nil {
				if on = k.endHalf(&r, yield); k.over() {
					k.stop()
					delete(c.conns, r.Conn)
				}
			}
			delete(c.open, r.Conn)
			rec.Kind = capture.HalfClosed
			on = on && yield(&rec)
		case source.Lost:
			if r.Conn == 0 {
				on = yield(lost(&rec))
				break
			}
			if k := c.conn(&r); k != nil && !k.lost {
				k.lost = true
				rec.Kind, rec.Text = capture.Note, r.Data
				if len(r.Data) == 0 {
					rec.Text = fmt.Appendf(nil, "bytes of connection %d are missing: the rest of it is not read", r.Conn)
				}
				on = yield(&rec) && yield(lost(&rec))
			}
		}
		if !on {
			return
		}
	}
	for _, n := range slices.Sorted(maps.Keys(c.conns)) {
		for _, dir := range []frame.Dir{frame.C2U, frame.U2C} {
			if !c.conns[n].endHalf(&source.Record{Conn: n, Dir: dir}, yield) {
				return
			}
		}
	}
	if about := c.reader.About(); about.Teller == "" && len(c.open) > 0 && !yield(noteAt(&capture.Record{Time: r.Time}, tap.Unended)) {
		return
	}
	if c.err == io.EOF && !frames {
		c.err = errors.New("it has no messages")
	}
	c.err = unreadable(c.form, c.err)
}

// lost returns the record that frames are missing at the place of another record.
func lost(at *capture.Record) *capture.Record { return noteAt(at, tap.Lost) }

// noteAt returns a note at the place of another record.
func noteAt(at *capture.Record, note string) *capture.Record {
	rec := tap.Note{Tap: note}.Record()
	rec.Time, rec.Frame = at.Time, at.Frame
	return &rec
}

// unreadable returns the error of a reader as that of a capture.
func unreadable(form *source.Form, err error) error {
	known := (*source.Error)(nil)
	if err == io.EOF || errors.As(err, &known) {
		return err
	}
	if cut, ok := errors.AsType[*source.CutError](err); ok {
		return &capture.Error{Err: capture.ErrCut, Offset: cut.Offset, Detail: "its last record is not whole"}
	}
	if errors.Is(err, source.ErrCut) {
		return fmt.Errorf("%w inside a record", capture.ErrCut)
	}
	return &source.Error{Form: form, Why: err.Error()}
}

// conn returns the connection of a record; nil if there are too many.
func (c *foreign) conn(r *source.Record) *foreignConn {
	k := c.conns[r.Conn]
	if k == nil && len(c.conns) < maxForeign {
		k = &foreignConn{cfg: &c.cfg}
		c.conns[r.Conn] = k
	}
	return k
}

// A foreignConn is a connection of which a file has the bytes.
type foreignConn struct {
	cfg     *Config
	known   bool
	carrier *carrier.Carrier // nil in a plain stream
	held    []source.Record  // before that is known
	heads   [3][]byte        // those of each direction
	plain   [3]*plainHalf
	ended   [3]bool
	time    time.Time
	lost    bool
}

// feedBytes passes bytes on, and yields the frames that they complete.
func (k *foreignConn) feedBytes(r *source.Record, yield func(*capture.Record) bool) bool {
	if k.time = r.Time; k.lost || k.ended[r.Dir] {
		return true
	}
	if !k.known && !k.findCarrier(r, false) {
		return true
	}
	for len(k.held) > 0 {
		first := k.held[0]
		k.held = k.held[1:]
		if !k.takeBytes(&first, yield) {
			return false
		}
	}
	return k.takeBytes(r, yield)
}

// findCarrier finds the carrier by the first bytes of either direction. It holds bytes back that do not tell.
func (k *foreignConn) findCarrier(r *source.Record, atEOF bool) bool {
	k.heads[r.Dir] = append(k.heads[r.Dir], r.Data...)
	g := carrier.Detect(k.heads[r.Dir], atEOF)
	if g.More && len(k.heads[r.Dir]) < carrier.HeadSize {
		r := *r
		r.Data = bytes.Clone(r.Data)
		k.held = append(k.held, r)
		return false
	}
	if k.known, k.heads = true, [3][]byte{}; g.Kind != carrier.Plain {
		k.carrier = carrier.New(k.cfg.carrier())
	}
	return true
}

// takeBytes passes bytes to the carrier, or cuts them into frames.
func (k *foreignConn) takeBytes(r *source.Record, yield func(*capture.Record) bool) bool {
	if k.carrier != nil {
		return k.carried(r, k.carrier.Feed(r.Dir, r.Data), yield)
	}
	h := k.plain[r.Dir]
	if h == nil {
		h = newPlainHalf(k.cfg)
		k.plain[r.Dir] = h
	}
	return h.cutBytes(r, yield)
}

func (k *foreignConn) carried(r *source.Record, frames []frame.Frame, yield func(*capture.Record) bool) bool {
	for ; len(frames) > 0; frames = k.carrier.More() {
		for i := range frames {
			rec := capture.Record{Time: r.Time, Frame: frames[i]}
			if rec.Conn = r.Conn; rec.Meta != nil {
				rec.Framing = rec.Meta.Framing
			}
			if !yield(&rec) {
				return false
			}
		}
	}
	return true
}

// endHalf ends a direction.
func (k *foreignConn) endHalf(r *source.Record, yield func(*capture.Record) bool) bool {
	if k.lost {
		k.ended[r.Dir] = true
	}
	if k.ended[r.Dir] {
		return true
	}
	if r.Time.IsZero() {
		r.Time = k.time
	}
	if !k.known && len(k.heads[r.Dir]) > 0 {
		last := source.Record{Conn: r.Conn, Dir: r.Dir, Time: r.Time}
		k.findCarrier(&last, true)
		if !k.feedBytes(&last, yield) {
			return false
		}
	}
	k.ended[r.Dir] = true
	switch h := k.plain[r.Dir]; {
	case k.carrier != nil:
		return k.carried(r, k.carrier.End(r.Dir), yield)
	case h != nil:
		h.ended = true
		return h.cutBytes(r, yield)
	}
	return true
}

func (k *foreignConn) over() bool { return k.ended[frame.C2U] && k.ended[frame.U2C] }

func (k *foreignConn) stop() {
	for _, h := range k.plain {
		if h != nil {
			h.stop()
		}
	}
}

// A plainHalf cuts one direction of a plain stream into frames. A scanner pulls bytes, and here they are
// pushed: so it runs as a coroutine that yields nil when it wants to read.
type plainHalf struct {
	stream *stream
	pushed []byte
	ended  bool
	next   func() (*batch, bool)
	stop   func()
	wait   func(*batch) bool
}

func newPlainHalf(cfg *Config) *plainHalf {
	h := &plainHalf{}
	own := *cfg
	own.Resync, own.Notice, own.Conn = true, nil, 0
	h.stream = newStream(h, own)
	h.next, h.stop = iter.Pull(func(yield func(*batch) bool) {
		h.wait = yield
		var b batch
		for h.stream.nextBatch(&b) && yield(&b) {
		}
	})
	return h
}

// Read is for the scanner.
func (h *plainHalf) Read(p []byte) (int, error) {
	for len(h.pushed) == 0 {
		if h.ended || !h.wait(nil) {
			return 0, io.EOF
		}
	}
	n := copy(p, h.pushed)
	h.pushed = h.pushed[n:]
	return n, nil
}

// cutBytes cuts more of the stream, and yields the frames.
func (h *plainHalf) cutBytes(r *source.Record, yield func(*capture.Record) bool) bool {
	h.pushed = r.Data
	for {
		b, more := h.next()
		if b == nil || !more {
			return true
		}
		for i := range b.Frames {
			rec := capture.Record{Time: r.Time, Framing: h.stream.framing.Name(), Frame: b.Frames[i]}
			rec.Conn, rec.Dir = r.Conn, r.Dir
			if !yield(&rec) {
				return false
			}
		}
	}
}
