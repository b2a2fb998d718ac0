package replay

import (
	"slices"
	"time"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/jsonscan"
	"github.com/wirectl/wirectl/session/jsondiff"
)

// A Record is one frame of a recording.
type Record struct {
	Seq      int64
	Time     time.Time // zero if it is unknown
	Frame    *frame.Frame
	Framing  frame.Framing
	Protocol protocol.Protocol
}

// A Session is a recording, kept as a whole: its memory grows with its length.
type Session struct {
	conns []*Script
	lines map[line]*Script  // the same
	web   []Record          // what was said over HTTP
	bare  protocol.Protocol // the one of these whose messages have no ids; nil if there is none
}

// A Script is one connection of a recording, or one stream of it. It does not
// change any more, so that any number of runs may share it.
type Script struct {
	Conn     int
	Framing  frame.Framing
	Protocol protocol.Protocol
	steps    []*step
	opened   []opening // the exchanges
	uttered  map[utterance][3]bool
	ignore   []jsondiff.Path // what makes no difference in any case
	isHTTP   bool            // all of it was said over HTTP
	ready    bool
}

// A step is a frame of the recording.
type step struct {
	index   int
	seq     int64
	time    time.Time
	dir     frame.Dir
	frame   frame.Frame
	payload []byte
	form    []byte // the payload in its JSON form; nil if it has none
	message protocol.Message
	well    bool // message is what the payload means
	digest  [jsondiff.DigestSize]byte

	exchange int  // the one it belongs to, from 1; 0 if there is none
	opens    int  // the one that it opens; 0 if it opens none
	ends     bool // it ends the one that it belongs to
}

// An opening is how an exchange began.
type opening struct {
	step  int
	from  frame.Dir
	steps []int // all of it, in order
}

// Add accepts the next frame of the recording. It keeps nothing that r points
// to. Of a connection with a carrier, such as WebSocket, the messages are taken
// and not what the carrier says for itself: they are played in the framing that
// they had inside, or as lines.
func (s *Session) Add(r Record) {
	f, framing := r.Frame.Clone(), r.Framing
	at, isHTTP := line{conn: f.Conn}, false
	if f.Meta != nil {
		if isHTTP = f.Meta.Framing == frame.HTTP; isHTTP && !f.Gap {
			whole := f
			s.web = append(s.web, Record{Seq: r.Seq, Time: r.Time, Frame: &whole})
			if bare(r.Protocol) {
				s.bare = r.Protocol
			}
		}
		if f.Meta.Signal != frame.NoSignal || f.Gap {
			return
		}
		if f.Meta.Framing == frame.GRPC.Name() {
			at.stream = f.Stream
		}
		f, framing = unwrapped(&f)
	}
	c := s.script(at)
	c.isHTTP = isHTTP
	c.Framing, c.Protocol = framing, r.Protocol // what comes last was refined
	c.steps = append(c.steps, &step{index: len(c.steps), seq: r.Seq, time: r.Time, dir: f.Dir, frame: f})
}

// unwrapped returns a frame without its carrier.
func unwrapped(f *frame.Frame) (frame.Frame, frame.Framing) {
	payload := f.Payload()
	framing, err := frame.Named(f.Meta.Framing)
	if err != nil {
		if framing = frame.Len32; isJSON(payload) {
			framing, payload = frame.Line, jsonscan.AppendCompact(nil, payload)
		}
	}
	raw, err := frame.Append(nil, framing, payload)
	plain := frame.Frame{Raw: raw, Conn: f.Conn, Dir: f.Dir}
	var e frame.Extent
	if err != nil || framing.Next(raw, len(raw), true, &e) != nil {
		return plain, framing // an empty one, which no payload fits into
	}
	plain.Start, plain.End = e.Start, e.End
	return plain, framing
}

// A line is where one conversation is: a connection, or a stream of it.
type line struct {
	conn   int
	stream int64
}

func (s *Session) script(at line) *Script {
	if c := s.lines[at]; c != nil {
		return c
	}
	c := &Script{Conn: at.conn}
	if s.lines == nil {
		s.lines = make(map[line]*Script)
	}
	s.lines[at] = c
	s.conns = append(s.conns, c)
	return c
}

// Scripts returns what is to be played, a script for each connection, in the
// order of their beginning. Frames whose direction is not known are those of the
// given side, unless their kind belongs to the other.
func (s *Session) Scripts(side frame.Dir) []*Script {
	if s.bare != nil {
		s.conns = slices.DeleteFunc(s.conns, func(c *Script) bool { return c.isHTTP })
		s.conns = append([]*Script{s.webScript()}, s.conns...)
		s.bare = nil
	}
	for _, c := range s.conns {
		c.prepare(side)
	}
	return s.conns
}

// Has reports whether anything in the script travels in a direction.
func (s *Script) Has(d frame.Dir) bool {
	for _, st := range s.steps {
		if st.dir == d {
			return true
		}
	}
	return false
}

// prepare reads the messages and finds out to which exchanges they belong. All
// are read by the protocol that the connection turned out to speak.
func (s *Script) prepare(side frame.Dir) {
	if s.ready {
		return
	}
	s.ready, s.uttered = true, make(map[utterance][3]bool)
	s.opened = make([]opening, 1)
	book := newLedger(s.Protocol)
	ended := map[int]bool{}
	for _, st := range s.steps {
		st.parseMessage(s.Protocol, s.ignore)
		if st.dir == frame.DirUnknown {
			st.dir = side
			if st.message.From != frame.DirUnknown {
				st.dir = st.message.From
			}
		}
		if st.well {
			s.place(st, book, func(n int) bool { return !ended[n] })
		}
		if st.exchange != 0 && st.ends {
			ended[st.exchange] = true
		}
		s.hear(st)
	}
}

// parseMessage parses the payload. Compressed payloads are not parsed.
func (st *step) parseMessage(p protocol.Protocol, ignore []jsondiff.Path) {
	st.message.Reset()
	if st.frame.Gap {
		return
	}
	st.payload = st.frame.Payload()
	st.well = p.Parse(st.payload, &st.message) == nil
	st.form = formOf(p, st.payload)
	st.digest = digestOf(st.form, st.payload, &st.message, ignore)
}

func digestOf(form, payload []byte, m *protocol.Message, ignore []jsondiff.Path) [jsondiff.DigestSize]byte {
	if form != nil {
		payload = form
	}
	return jsondiff.Digest(payload, m, ignore)
}

// formOf returns a payload as JSON; nil if it cannot be written so.
func formOf(p protocol.Protocol, payload []byte) []byte {
	switch p.Encoding() {
	case protocol.JSON:
		if isJSON(payload) {
			return payload
		}
	default:
		if t, ok := p.(protocol.Transcoder); ok {
			if form, _, err := t.AppendJSON(nil, payload); err == nil && isJSON(form) {
				return form
			}
		}
	}
	return nil
}

// place says to which exchange a step belongs.
func (s *Script) place(st *step, book *ledger, open func(int) bool) {
	m := &st.message
	st.exchange = book.exchangeOf(st.dir, m, open)
	if opens(m) {
		st.opens = len(s.opened)
		s.opened = append(s.opened, opening{step: st.index, from: st.dir})
		book.openExchange(st.dir, m, st.opens)
		if st.exchange == 0 {
			st.exchange = st.opens
		}
	}
	st.ends = book.ends(st.dir, m, st.exchange)
	if st.exchange != 0 {
		o := &s.opened[st.exchange]
		o.steps = append(o.steps, st.index)
	}
}

// opens reports whether a message begins an exchange; some cancels do, beside
// what they do to another.
func opens(m *protocol.Message) bool {
	return m.Phase == protocol.Open || m.Phase == protocol.Cancel && !m.ID.IsZero()
}
