package diff

import (
	"slices"
	"time"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/jsondiff"
	"github.com/wirectl/wirectl/protocol"
)

// MaxKept bounds the payloads that a session keeps, in bytes. Of those beyond
// it only whether they differ is known, and not where.
const MaxKept = 256 << 20

// A Session is one of those that are compared: its exchanges, in the order of
// opening. Its memory grows with the number of messages and with their ids; that
// of payloads is bounded by MaxKept.
type Session struct {
	options   Options
	room      int
	frames    int64
	conns     map[int]int // how they are numbered in the order of appearance
	exchanges []*exchange
	open      map[name][]*exchange // under each name, the oldest first
	last      map[name]*exchange   // to be opened or ended last
	tokens    map[string]bool      // all ids, as written
	blind     bool                 // the direction of some frame is not known
}

// A name is one of those of an exchange. No text names all that side opened.
type name struct {
	conn   int
	opener frame.Dir
	space  protocol.Space
	text   string
}

// NewSession returns a session without messages, to be compared by o.
func NewSession(o Options) *Session {
	return &Session{
		options: o, room: MaxKept, conns: make(map[int]int),
		open: make(map[name][]*exchange), last: make(map[name]*exchange), tokens: make(map[string]bool),
	}
}

// A Record is one frame, as a session takes it in.
type Record struct {
	Seq  int64
	Time time.Time // zero if it is unknown
	Conn int
	Dir  frame.Dir // frame.DirUnknown if it is unknown
	// Message is what the frame means; nil if it is no message.
	Message *protocol.Message
	// Payload is the payload in its JSON form, or as it is if it has none.
	Payload []byte
}

// Add takes in the next frame. It keeps nothing that r points to.
func (s *Session) Add(r Record) {
	s.frames++
	conn, ok := s.conns[r.Conn]
	if !ok {
		conn = len(s.conns)
		s.conns[r.Conn] = conn
	}
	m := r.Message
	if m == nil {
		m = &protocol.Message{Kind: []byte("malformed"), Phase: protocol.Note}
	}
	s.blind = s.blind || r.Dir == frame.DirUnknown
	for _, t := range []protocol.Token{m.ID, m.Ref, m.Bind} {
		if !t.IsZero() {
			s.tokens[string(t.Text)] = true
		}
	}
	if e := s.exchangeOf(conn, &r, m); !s.ignores(m) {
		s.place(e, &r, m)
	}
}

// exchangeOf returns the exchange that a message belongs to, which may be a
// new one.
func (s *Session) exchangeOf(conn int, r *Record, m *protocol.Message) *exchange {
	from, to := r.Dir, r.Dir.Opposite()
	switch {
	case m.Phase == protocol.Open:
		return s.begin(conn, from, m)
	case m.Phase == protocol.Cancel && !m.ID.IsZero():
		return s.begin(conn, from, m)
	case m.Phase == protocol.Cancel && !m.Ref.IsZero():
		if e := s.find(conn, from, m.Ref); e != nil {
			return e
		}
	case m.Phase == protocol.Note && m.ID.IsZero():
	default:
		token := m.Ref
		if token.IsZero() {
			token = m.ID
		}
		if e := s.find(conn, to, token); e != nil {
			return e
		}
	}
	return s.add(&exchange{conn: conn, opener: from, id: string(m.ID.Text)}, m)
}

// add adds an exchange that a message begins, unless none of its kind is compared.
func (s *Session) add(e *exchange, m *protocol.Message) *exchange {
	e.kind = string(clip(m.Kind))
	if !s.ignores(m) {
		s.exchanges = append(s.exchanges, e)
	}
	return e
}

func (s *Session) ignores(m *protocol.Message) bool {
	return slices.Contains(s.options.IgnoreKinds, string(m.Kind))
}

// asked counts the exchanges that began with a request.
func (s *Session) asked() (n int64) {
	for _, e := range s.exchanges {
		if e.asked {
			n++
		}
	}
	return n
}

// begin begins an exchange and makes it known by its names.
func (s *Session) begin(conn int, from frame.Dir, m *protocol.Message) *exchange {
	e := s.add(&exchange{conn: conn, opener: from, id: string(m.ID.Text), asked: true}, m)
	for _, t := range []protocol.Token{m.ID, m.Bind} {
		if !t.IsZero() {
			s.bind(e, t)
		}
	}
	s.bind(e, protocol.Token{})
	return e
}

func (s *Session) bind(e *exchange, t protocol.Token) {
	n := name{e.conn, e.opener, t.Space, string(t.Text)}
	s.open[n] = append(s.open[n], e)
	s.last[n] = e
}

// find returns the exchange that a token names: the oldest that is open, or
// else the last one. An opener that is not known may be on any side.
func (s *Session) find(conn int, opener frame.Dir, t protocol.Token) *exchange {
	sides := []frame.Dir{opener, frame.DirUnknown}
	if opener == frame.DirUnknown {
		sides = []frame.Dir{opener, frame.C2U, frame.U2C}
	}
	for _, side := range sides {
		if e := s.named(name{conn, side, t.Space, string(t.Text)}); e != nil {
			return e
		}
	}
	return nil
}

func (s *Session) named(n name) *exchange {
	queue := s.open[n]
	for len(queue) > 0 && queue[0].ending > 0 {
		queue = queue[1:]
	}
	if len(queue) == 0 {
		delete(s.open, n)
		return s.last[n]
	}
	s.open[n] = queue
	return queue[0]
}

// place appends a message to its exchange.
func (s *Session) place(e *exchange, r *Record, m *protocol.Message) {
	add := message{
		seq: r.Seq, dir: r.Dir, kind: string(clip(m.Kind)), label: string(clip(m.Label)),
		phase: m.Phase, time: r.Time, id: string(m.ID.Text), size: len(r.Payload),
		digest: jsondiff.Digest(r.Payload, m, s.options.Ignore),
	}
	if len(r.Payload) <= s.room {
		s.room -= len(r.Payload)
		add.payload = append([]byte{}, r.Payload...)
	}
	e.cancel = e.cancel || m.Phase == protocol.Cancel && len(e.messages) > 0
	e.messages = append(e.messages, add)
	if m.Phase.Ends() {
		e.ending = len(e.messages)
	}
}
