package diff

import (
	"cmp"
	"io"
	"slices"
	"time"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/session"
	"github.com/wirectl/wirectl/session/jsondiff"
)

// A Session is one of the two sessions to compare: its exchanges, in the order of opening.
// Messages are kept in a temporary file, so each exchange needs about 100 bytes of memory.
type Session struct {
	options   Options
	spill     spill
	frames    int64
	conns     map[int]int     // their numbers in the order of appearance
	requests  map[scope]int32 // the exchanges that the requests of HTTP carry
	list      [][]kept        // pieces of chunk exchanges each
	count     int32           // of exchanges in list
	last      map[uint64]int32
	queues    map[uint64][]int32   // oldest first; several of one name may be open
	tokens    map[uint64]bool      // all ids, as written
	followers map[string]*follower // by protocol
	answers   map[int64]answer     // of models, by the first frame of their exchange
	texts     map[string]string    // the texts of answers, each kept once
	asked     int64                // exchanges that began with a request
	blind     bool                 // the direction of some frame is unknown
}

// kept is the part of an exchange that stays in memory. Kind, label and words are hashes
// of its first message, each of more of it.
type kept struct {
	first              int64 // the number of its first frame
	last               int64 // where its last message is kept
	kind, label, words uint64
	lane               int32
	of                 int32 // the operation to which it belongs, or none
	opener             frame.Dir
	outcome            session.Outcome
	end                int64 // the number of the frame that ended it; 0 if it is open
	asks               bool  // it begins with a request
	http, ignored      bool
}

const chunk = 1 << 12

func (s *Session) kept(n int32) *kept { return &s.list[n/chunk][n%chunk] }

// Close removes the temporary file.
func (s *Session) Close() error { return s.spill.removeFile() }

// End ends the session: nothing may be added after it. It returns why the session could
// not be stored, if so.
func (s *Session) End() error {
	s.last, s.queues, s.requests = nil, nil, nil
	return s.spill.err
}

// load reads an exchange back; nil for none.
func (s *Session) load(n int32) *exchange {
	if n == none {
		return nil
	}
	k := s.kept(n)
	e := &exchange{lane: int(k.lane), opener: k.opener, outcome: k.outcome}
	for at := k.last; at >= 0; {
		m, before, ok := s.spill.get(at)
		if !ok {
			s.spill.err = cmp.Or(s.spill.err, io.ErrUnexpectedEOF)
			m.spill = &s.spill
		}
		e.messages, at = append(e.messages, m), before
	}
	slices.Reverse(e.messages)
	for i := range e.messages {
		if e.messages[i].phase.Ends() {
			e.ending = i + 1
		}
	}
	e.kind, e.id = e.messages[0].kind, e.messages[0].id
	return e
}

// A name is one of the names of an exchange. The empty text names all exchanges that one side
// opened.
type name struct {
	scope  scope
	opener frame.Dir
	space  protocol.Space
	text   string
}

// A scope is a connection, and a stream of it.
type scope struct {
	conn   int
	stream int64
}

// NewSession returns an empty session, to be compared with options o.
func NewSession(o Options) *Session {
	return &Session{
		options: o, conns: make(map[int]int), requests: make(map[scope]int32),
		followers: make(map[string]*follower), answers: make(map[int64]answer), texts: make(map[string]string),
		last: make(map[uint64]int32), queues: make(map[uint64][]int32), tokens: make(map[uint64]bool),
	}
}

// A Record is one frame to add to a session.
type Record struct {
	Seq  int64
	Time time.Time // zero if unknown
	// Conn and Stream are the scope of its ids, as [session.Scopes] says.
	Conn, Stream int
	Dir          frame.Dir // frame.DirUnknown if unknown
	// Frame is where it was read.
	Frame *frame.Frame
	// Protocol is nil if unknown.
	Protocol protocol.Protocol
	// Message is the parsed frame; nil if it is not a message.
	Message *protocol.Message
	// Payload is the payload in its JSON form, or as sent if it has none.
	Payload []byte
}

// Add accepts the next frame. It does not retain anything that r points to.
func (s *Session) Add(r Record) {
	s.frames++
	m := r.Message
	if m == nil {
		m = &protocol.Message{Kind: []byte("malformed"), Phase: protocol.Note}
	}
	s.blind = s.blind || r.Dir == frame.DirUnknown
	f := s.follow(&r)
	for _, t := range []protocol.Token{m.ID, m.Ref, m.Bind, m.Operation.Of, {Space: protocol.SpaceRetry, Text: m.State}} {
		if len(t.Text) > 0 {
			s.tokens[hash(string(t.Text))] = true
		}
	}
	n := s.addPart(f, m)
	if n == none {
		n = s.answersHTTP(&r, m)
	}
	if n == none {
		n = s.exchangeOf(&r, m)
	}
	s.noteHTTP(&r, n)
	if f != nil {
		s.change(f.changed)
	}
	if k := s.kept(n); f != nil && f.operation != 0 && f.exchange == k.first {
		k.of = s.at(f.operation)
	}
	if !s.ignores(m) {
		s.place(s.kept(n), &r, m)
	}
}

// scope returns that of the ids.
func (r *Record) scope() scope { return scope{r.Conn, int64(r.Stream)} }

// overHTTP reports whether a frame is part of an exchange of HTTP.
func (r *Record) overHTTP() bool {
	return r.Frame != nil && r.Frame.Meta != nil && r.Frame.Meta.Framing == frame.HTTP
}

// lane returns the number of the sequence that a frame belongs to: its connection or, over
// HTTP, its MCP session. Other HTTP is one lane, because clients choose connections at will.
func (s *Session) lane(r *Record) int {
	switch {
	case r.overHTTP() && r.Stream < 0:
		return -r.Stream - 1
	case r.overHTTP():
		return 0
	}
	lane, ok := s.conns[r.Conn]
	if !ok {
		lane = len(s.conns)
		s.conns[r.Conn] = lane
	}
	return lane
}

// answersHTTP returns the exchange that the request of HTTP carried, if a frame is a signal of
// the response; or none.
func (s *Session) answersHTTP(r *Record, m *protocol.Message) int32 {
	if !r.overHTTP() || r.Dir != frame.U2C || r.Frame.Meta.Signal == frame.NoSignal || m.Phase != protocol.Note || !m.ID.IsZero() {
		return none
	}
	n, known := s.requests[scope{r.Frame.Conn, r.Frame.Stream}]
	if !known {
		return none
	}
	return n
}

// noteHTTP records which exchange a request of HTTP carries.
func (s *Session) noteHTTP(r *Record, n int32) {
	if r.overHTTP() && r.Dir == frame.C2U {
		s.requests[scope{r.Frame.Conn, r.Frame.Stream}] = n
	}
}

// exchangeOf returns the exchange that a message belongs to, which may be a
// new one.
func (s *Session) exchangeOf(r *Record, m *protocol.Message) int32 {
	from, to := r.Dir, r.Dir.Opposite()
	switch {
	case m.Phase == protocol.Open, m.Phase == protocol.Cancel && !m.ID.IsZero():
		return s.openExchange(r, m)
	case m.Phase == protocol.Cancel && !m.Ref.IsZero():
		if e := s.findExchange(r.scope(), from, m.Ref); e != none {
			return e
		}
	case m.Phase == protocol.Note && m.ID.IsZero():
	default:
		token := m.Ref
		if token.IsZero() {
			token = m.ID
		}
		if e := s.findExchange(r.scope(), to, token); e != none {
			return e
		}
	}
	return s.addExchange(r, m)
}

// addExchange adds the exchange that a message begins. Exchanges of an ignored kind are
// not compared.
func (s *Session) addExchange(r *Record, m *protocol.Message) int32 {
	if s.count%chunk == 0 {
		s.list = append(s.list, make([]kept, chunk))
	}
	s.count++
	*s.kept(s.count - 1) = kept{first: r.Seq, last: none, lane: int32(s.lane(r)), of: none, opener: r.Dir, http: r.overHTTP(), ignored: s.ignores(m)}
	return s.count - 1
}

func (s *Session) ignores(m *protocol.Message) bool {
	return slices.Contains(s.options.IgnoreKinds, string(m.Kind))
}

// openExchange begins an exchange and binds its names to it.
func (s *Session) openExchange(r *Record, m *protocol.Message) int32 {
	e, in := s.addExchange(r, m), r.scope()
	s.kept(e).asks = true
	if !s.kept(e).ignored {
		s.asked++
	}
	for _, t := range []protocol.Token{m.ID, m.Bind} {
		if !t.IsZero() {
			s.bind(e, hash(name{in, r.Dir, t.Space, string(t.Text)}))
		}
	}
	s.bind(e, hash(name{scope: in, opener: r.Dir}))
	return e
}

// bind gives an exchange a name. Exchanges that already have the name keep it as long as one of
// them is open.
func (s *Session) bind(e int32, n uint64) {
	before, used := s.last[n]
	switch queue := s.pending(n); {
	case len(queue) > 0:
		s.queues[n] = append(queue, e)
	case used && s.kept(before).end == 0:
		s.queues[n] = []int32{before, e}
	}
	s.last[n] = e
}

// pending returns the exchanges with a name, starting at the oldest open one.
func (s *Session) pending(n uint64) []int32 {
	queue, ok := s.queues[n]
	if !ok {
		return nil
	}
	for len(queue) > 0 && s.kept(queue[0]).end != 0 {
		queue = queue[1:]
	}
	if s.queues[n] = queue; len(queue) == 0 {
		delete(s.queues, n)
	}
	return queue
}

// findExchange returns the exchange that a token names: the oldest open one, or else the
// last one. An unknown opener matches any side.
func (s *Session) findExchange(in scope, opener frame.Dir, t protocol.Token) int32 {
	sides := []frame.Dir{opener, frame.DirUnknown}
	if opener == frame.DirUnknown {
		sides = []frame.Dir{opener, frame.C2U, frame.U2C}
	}
	for _, side := range sides {
		n := hash(name{in, side, t.Space, string(t.Text)})
		if queue := s.pending(n); len(queue) > 0 {
			return queue[0]
		}
		if e, ok := s.last[n]; ok {
			return e
		}
	}
	return none
}

// place stores a message of an exchange.
func (s *Session) place(e *kept, r *Record, m *protocol.Message) {
	phase := phaseOf(m)
	if phase.Ends() && e.end == 0 {
		e.end = r.Seq
	}
	if e.ignored {
		return
	}
	add := message{
		seq: r.Seq, dir: r.Dir, kind: string(render.Clip(m.Kind, maxValue)), label: string(render.Clip(m.Label, maxValue)),
		phase: phase, time: r.Time, id: string(m.ID.Text),
		digest: jsondiff.Digest(r.Payload, m, s.options.Ignore),
	}
	if e.last == none {
		e.kind = hash(add.kind)
		e.label = hash([2]string{add.kind, add.label})
		e.words = hash([2]string{add.kind, string(add.digest[:])})
	}
	e.last = s.spill.put(&add, e.last, r.Payload)
}
