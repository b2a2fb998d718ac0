package diff

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"io"
	"maps"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/fd"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/all"
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
	account   account
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
func (s *Session) Close() error { return s.spill.Close() }

// End ends the session: nothing may be added after it. It returns why the session could
// not be stored, if so.
func (s *Session) End() error {
	s.last, s.queues, s.requests = nil, nil, nil
	return s.spill.Err()
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
		options: o, spill: spill{Tail: fd.Tail{Size: spillBuffer, Spill: true}}, conns: make(map[int]int), requests: make(map[scope]int32),
		followers: make(map[string]*follower), answers: make(map[int64]answer), texts: make(map[string]string),
		last: make(map[uint64]int32), queues: make(map[uint64][]int32), tokens: make(map[uint64]bool),
		account: account{at: map[any]*modelCall{}, byID: map[string]*toolCall{}, others: map[string]int{}},
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
	s.account.hear(&r, m)
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
	if r.Protocol != nil {
		r.Payload = without(r.Payload, all.Rules(r.Protocol).Varies)
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

// without returns a payload without some of its members.
func without(payload []byte, names []string) []byte {
	var members map[string]json.RawMessage
	if len(names) == 0 || json.Unmarshal(payload, &members) != nil {
		return payload
	}
	for _, name := range names {
		delete(members, name)
	}
	return jsonscan.MustMarshal(members)
}

// A spill keeps messages, nearly all of them in a temporary file.
type spill struct {
	fd.Tail
	err error // the first error of reading
}

const spillBuffer = 256 << 10

// readAt reads as many of the stored bytes at a position as there are.
func (s *spill) readAt(at int64, n int) []byte {
	b, err := s.Read(nil, at, n)
	s.err = cmp.Or(s.err, err)
	return b
}

// Each message is stored after a header of fixed size with the lengths of its texts and its
// payload.
const headSize = 8 + 8 + 8 + 4 + 8 + 1 + 1 + 2 + 2 + 4 + len(message{}.digest)

// put stores a message. The previous message of its exchange is at prev; -1 means none.
func (s *spill) put(m *message, prev int64, payload []byte) int64 {
	le := binary.LittleEndian
	h := make([]byte, 0, 512)
	h = le.AppendUint64(h, uint64(prev))
	h = le.AppendUint64(h, uint64(m.seq))
	h = le.AppendUint64(h, uint64(m.time.Unix()))
	h = le.AppendUint32(h, uint32(m.time.Nanosecond()))
	h = le.AppendUint64(h, uint64(len(payload)))
	h = append(h, byte(m.dir), byte(m.phase))
	h = le.AppendUint16(h, uint16(len(m.kind)))
	h = le.AppendUint16(h, uint16(len(m.label)))
	h = le.AppendUint32(h, uint32(len(m.id)))
	h = append(h, m.digest[:]...)
	h = append(append(append(h, m.kind...), m.label...), m.id...)
	return s.Append(h, payload)
}

// get reads the message at a position, without its payload, and the position of the previous
// message of its exchange.
func (s *spill) get(at int64) (m message, prev int64, ok bool) {
	b := s.readAt(at, headSize+128)
	if len(b) < headSize {
		return m, -1, false
	}
	le := binary.LittleEndian
	prev, m.seq = int64(le.Uint64(b)), int64(le.Uint64(b[8:]))
	m.time = time.Unix(int64(le.Uint64(b[16:])), int64(le.Uint32(b[24:])))
	m.size = int(le.Uint64(b[28:]))
	m.dir, m.phase = frame.Dir(b[36]), protocol.Phase(b[37])
	kind, label := int(le.Uint16(b[38:])), int(le.Uint16(b[40:]))
	copy(m.digest[:], b[46:])
	end := headSize + kind + label + int(le.Uint32(b[42:]))
	if end > len(b) {
		if b = s.readAt(at, end); len(b) < end {
			return m, -1, false
		}
	}
	m.kind, m.label, m.id = string(b[headSize:headSize+kind]), string(b[headSize+kind:headSize+kind+label]), string(b[headSize+kind+label:end])
	m.spill, m.at = s, at+int64(end)
	return m, prev, true
}

// A follower finds the operations to which the messages of one protocol belong. It is a
// [session.Watcher].
type follower struct {
	session.Bystander
	*session.Tracker
	exchange  int64 // the first frame of the exchange that the last message belongs to
	operation int64 // that of its operation, if another exchange began that
	changed   []change
}

// A change is how the exchange that begins with a frame has ended so far.
type change struct {
	first   int64
	outcome session.Outcome
}

// Changed implements [session.Watcher].
func (f *follower) Changed(e *session.Exchange, seq int64) {
	f.changed = append(f.changed, change{e.First, e.Outcome})
	if seq != 0 {
		f.exchange, f.operation = e.First, e.Of
	}
}

// follow feeds the tracker of the message's protocol.
func (s *Session) follow(r *Record) *follower {
	if r.Message == nil || r.Protocol == nil {
		return nil
	}
	f := s.followers[r.Protocol.Name()]
	if f == nil {
		f = new(follower)
		f.Tracker = session.New(r.Protocol, session.Options{OneWay: true, Watcher: f})
		s.followers[r.Protocol.Name()] = f
	}
	f.exchange, f.operation, f.changed = 0, 0, f.changed[:0]
	f.Feed(session.Frame{Seq: r.Seq, Time: r.Time, Conn: r.Conn, Stream: r.Stream, Dir: r.Dir, Size: len(r.Payload), Payload: r.Payload}, r.Message)
	return f
}

// change notes how exchanges have ended. The requests of a batch do not count as exchanges
// here.
func (s *Session) change(changes []change) {
	for _, c := range changes {
		if n := s.at(c.first); n != none && s.kept(n).asks {
			s.kept(n).outcome = c.outcome
		}
	}
}

// at returns the exchange that begins with a frame, or none.
func (s *Session) at(first int64) int32 {
	n, found := sort.Find(int(s.count), func(i int) int { return cmp.Compare(first, s.kept(int32(i)).first) })
	if !found {
		return none
	}
	return int32(n)
}

// addPart returns the exchange that a message continues or ends without using the id of its
// request; none if there is no such exchange.
func (s *Session) addPart(f *follower, m *protocol.Message) int32 {
	if f == nil || f.exchange == 0 || m.Phase != protocol.Part && !m.Operation.Does.Ends() {
		return none
	}
	return s.at(f.exchange)
}

// phaseOf returns what a message does to the exchange in which it is kept.
func phaseOf(m *protocol.Message) protocol.Phase {
	if (m.Phase == protocol.Note || m.Phase == protocol.Part) && m.Operation.Does.Ends() {
		return m.Operation.Does
	}
	return m.Phase
}

// joined returns the exchanges that belong to operations, by these.
func (s *Session) joined() map[int32][]int32 {
	all := make(map[int32][]int32)
	for n := range s.count {
		if k := s.kept(n); k.of != none && !k.ignored {
			all[k.of] = append(all[k.of], n)
		}
	}
	return all
}

// operations aligns the exchanges of two sessions: first the operations, then the exchanges
// within each pair of operations. An operation that only one session has is not looked into.
func operations(a, b *Session) []match {
	inA, inB := a.joined(), b.joined()
	var all []match
	for _, m := range matches(a, b) {
		all = append(all, m)
		if m.a == none || m.b == none {
			continue
		}
		own := len(all)
		for _, side := range []frame.Dir{frame.DirUnknown, frame.C2U, frame.U2C} {
			of := func(s *Session, list []int32) []int32 {
				return slices.DeleteFunc(slices.Clone(list), func(n int32) bool { return s.kept(n).opener != side })
			}
			all = appendLane(all, a, b, of(a, inA[m.a]), of(b, inB[m.b]))
		}
		for i := range all[own:] {
			all[own+i].of = &m
		}
		slices.SortStableFunc(all[own:], func(p, q match) int { return cmp.Compare(p.place, q.place) })
	}
	return all
}

// versions compares the versions that the sessions state.
func (c *comparison) versions() {
	for _, name := range slices.Sorted(maps.Keys(c.a.followers)) {
		other := c.b.followers[name]
		if other == nil {
			continue
		}
		a, b := c.a.followers[name].Versions(), other.Versions()
		if len(a) > 0 && len(b) > 0 && !slices.Equal(a, b) {
			c.report.addDifference(Difference{What: Version, Kind: name, A: &Side{Value: strings.Join(a, ", ")}, B: &Side{Value: strings.Join(b, ", ")}})
		}
	}
}
