package replay

import (
	"context"
	"io"
	"slices"
	"time"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/wait"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/all"
	"github.com/wirectl/wirectl/session/jsondiff"
)

// A Script is one connection of a recording, or one stream of it. It is immutable once
// prepared, so any number of runs may share it.
type Script struct {
	Conn     int
	Framing  frame.Framing
	Protocol protocol.Protocol
	steps    []*step
	opened   []opening // the exchanges
	idUsers  map[idValue][3]bool
	ignore   []jsondiff.Path // never compared
	isHTTP   bool            // all of it is HTTP
	ready    bool
	end      closing // which side ended first
	died     *step   // the end of a unit that owed an answer; nil if it did not end so

	undigested []jsondiff.Path // further places that do not distinguish requests
	refused    error           // why it cannot be played; nil if it can
}

// OverHTTP reports whether it can only be played over HTTP.
func (c *Script) OverHTTP() bool {
	_, is := c.Protocol.(web)
	return is
}

// A reading is a frame as it was read, recorded or live.
type reading struct {
	payload []byte // the raw bytes of a gap
	form    []byte // the payload in its JSON form; nil if it has none
	message protocol.Message
	part    *part            // over HTTP or gRPC; nil otherwise
	inner   protocol.Message // in the part
	well    bool             // the payload is a valid message
	digest  [jsondiff.DigestSize]byte
}

// read parses a frame. A gap has no message.
func (m *reading) read(f *frame.Frame, s *Script) {
	m.message.Reset()
	if m.payload = f.Raw; !f.Gap {
		m.readPayload(f.Payload(), s)
	}
}

func (m *reading) readPayload(payload []byte, s *Script) {
	m.payload = payload
	var err error
	switch w, isWeb := s.Protocol.(web); {
	case !isWeb:
		err = s.Protocol.Parse(payload, &m.message)
	case m.part == nil:
		m.part, err = w.parse(payload, &m.message, &m.inner)
	default:
		w.read(m.part, payload, &m.message, &m.inner)
	}
	m.well = err == nil
	m.form = formOf(s.Protocol, m.payload)
	m.digest = jsondiff.Digest(m.value(), &m.message, slices.Concat(s.ignore, s.undigested))
}

// value returns the payload in its JSON form, or as it is.
func (m *reading) value() []byte {
	if m.form != nil {
		return m.form
	}
	return m.payload
}

// meaning returns the message, or the one inside a part.
func (m *reading) meaning() *protocol.Message {
	if len(m.inner.Kind) > 0 {
		return &m.inner
	}
	return &m.message
}

// A step is a frame of the recording.
type step struct {
	reading
	index int
	seq   int64
	time  time.Time
	dir   frame.Dir
	frame frame.Frame

	dies     bool // not a frame, but the end of the unit
	exchange int  // from 1; 0 if there is none
	opens    int  // the exchange that it opens; 0 if none
	ends     bool // it ends its exchange
}

// An opening is the start of an exchange.
type opening struct {
	step  int
	from  frame.Dir
	steps []int // of the whole exchange, in order
}

// EndedBy returns the side that ended the connection first, if that was recorded.
func (s *Script) EndedBy() frame.Dir { return s.end.by }

// Has reports whether the script has frames in a direction.
func (s *Script) Has(d frame.Dir) bool {
	return slices.ContainsFunc(s.steps, func(st *step) bool { return st.dir == d })
}

// prepare parses the messages by the protocol that was detected last, and assigns them to
// exchanges.
func (s *Script) prepare(side frame.Dir) {
	if s.ready {
		return
	}
	s.ready, s.idUsers = true, make(map[idValue][3]bool)
	s.opened = make([]opening, 1)
	exchanges := newLedger(s.Protocol)
	ended := map[int]bool{}
	for _, st := range s.steps {
		st.read(&st.frame, s)
		if st.dir == frame.DirUnknown {
			st.dir = side
			if st.message.From != frame.DirUnknown {
				st.dir = st.message.From
			}
		}
		if st.well {
			s.place(st, exchanges, func(n int) bool { return !ended[n] })
		}
		if st.exchange != 0 && st.ends {
			ended[st.exchange] = true
		}
		s.noteIDs(st)
	}
	s.died = s.death()
}

// A closing is the first end of a direction.
type closing struct {
	by frame.Dir
	at time.Time
}

// death returns the end of the unit as a step, if it ended before it had answered its last request.
func (s *Script) death() *step {
	for n := len(s.opened) - 1; n > 0 && s.end.by == frame.U2C; n-- {
		o := s.opened[n]
		if o.from != frame.C2U || s.steps[o.step].message.Phase != protocol.Open {
			continue
		}
		if slices.ContainsFunc(o.steps, func(i int) bool { return s.steps[i].ends || s.steps[i].message.Phase == protocol.Cancel }) {
			break
		}
		return &step{index: len(s.steps), time: s.end.at, dir: frame.U2C, exchange: n, dies: true}
	}
	return nil
}

// formOf returns a payload as JSON; nil if it has no JSON form.
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

// place assigns a step to its exchange.
func (s *Script) place(st *step, exchanges *ledger, open func(int) bool) {
	m := &st.message
	st.exchange = exchanges.exchangeOf(st.dir, m, open)
	if opens(m) {
		st.opens = len(s.opened)
		s.opened = append(s.opened, opening{step: st.index, from: st.dir})
		exchanges.openExchange(st.dir, m, st.opens)
		if st.exchange == 0 {
			st.exchange = st.opens
		}
	}
	st.ends = exchanges.ends(st.dir, m, st.exchange)
	if st.exchange != 0 {
		o := &s.opened[st.exchange]
		o.steps = append(o.steps, st.index)
	}
}

// opens reports whether a message opens an exchange. Cancels with an id do, too.
func opens(m *protocol.Message) bool {
	return m.Phase == protocol.Open || m.Phase == protocol.Cancel && !m.ID.IsZero()
}

// A scene is a part of a script that is played in order: a frame of ours is sent once all before it
// have been sent and have arrived.
type scene struct {
	script *Script
	cue    *step // the frame of the client that begins it, if it is not among the steps
	steps  []*step
	pause  []time.Duration // the recorded time before each frame of ours
	tasks  []string        // that the unit begins
}

// add adds a step, and the time since the one before it.
func (sc *scene) add(st *step) {
	var pause time.Duration
	if n := len(sc.steps); n > 0 && !sc.steps[n-1].time.IsZero() {
		pause = max(st.time.Sub(sc.steps[n-1].time), 0)
	}
	sc.steps, sc.pause = append(sc.steps, st), append(sc.pause, pause)
}

// scenes returns what a side plays, in parts. The controller sends in the order of the recording,
// once everything has arrived that had arrived then. A unit only waits for the frames of the same
// group: the client chooses the requests and their order.
func (s *Script) scenes(side frame.Dir) (list []*scene) {
	if _, isWeb := s.Protocol.(web); isWeb && side == frame.U2C {
		return s.webScenes()
	}
	groups := make([]int, len(s.steps))
	if side == frame.U2C {
		groups = s.groups(side)
	}
	byGroup := map[int]*scene{}
	for i, st := range s.steps {
		sc := byGroup[groups[i]]
		if sc == nil {
			sc = &scene{script: s}
			byGroup[groups[i]], list = sc, append(list, sc)
		}
		sc.add(st)
	}
	if s.died != nil && side == frame.U2C {
		byGroup[groups[s.opened[s.died.exchange].step]].add(s.died)
	}
	return list
}

// webScenes returns what a unit answers over HTTP: each request in the recorded order, once the
// client's later requests that preceded the frame have arrived, because an answer may depend on them.
func (s *Script) webScenes() (list []*scene) {
	type progress struct {
		*scene
		at int // the first step that is not in the scene
	}
	byExchange := map[int]*progress{}
	for i, st := range s.steps {
		p := byExchange[st.exchange]
		if st.dir == frame.C2U && st.opens == 0 {
			continue
		}
		if p == nil || st.dir == frame.C2U {
			p = &progress{&scene{script: s}, i}
			byExchange[st.exchange], list = p, append(list, p.scene)
		}
		if st.dir == frame.C2U {
			continue
		}
		for _, before := range s.steps[p.at:i] {
			if before.dir == frame.C2U {
				p.add(before)
			}
		}
		p.add(st)
		p.at = i + 1
	}
	return list
}

// groups assigns each frame to a group, as the unit sees it: the number of the peer's
// frame that started it, from 1; 0 before the first. A frame that the unit sends on its
// own belongs to the latest open request, or else to the latest frame of the peer.
func (s *Script) groups(side frame.Dir) []int {
	groups := make([]int, len(s.steps))
	var open []int // exchanges of the peer
	ended := map[int]bool{}
	last := 0
	for i, st := range s.steps {
		theirs := st.exchange != 0 && s.opened[st.exchange].from != side
		switch {
		case st.opens != 0 && st.dir != side && st.exchange == st.opens:
			groups[i], last = i+1, i+1
			open = append(open, st.exchange)
		case st.exchange != 0 && st.exchange != st.opens:
			groups[i] = groups[s.opened[st.exchange].step]
		case st.dir != side:
			groups[i], last = i+1, i+1
		default:
			groups[i] = last
			if n := len(open); n > 0 {
				groups[i] = groups[s.opened[open[n-1]].step]
			}
		}
		if theirs && st.ends {
			ended[st.exchange] = true
		}
		for len(open) > 0 && ended[open[len(open)-1]] {
			open = open[:len(open)-1]
		}
	}
	return groups
}

// messageProtocol returns the protocol of the messages, which may be in parts.
func (s *Script) messageProtocol() protocol.Protocol {
	if w, isWeb := s.Protocol.(web); isWeb && (w.isRPC || w.api != nil) {
		return w.Protocol
	}
	return s.Protocol
}

// meaningPayload returns the payload of the message in a step.
func (st *step) meaningPayload() []byte {
	if len(st.inner.Kind) == 0 {
		return st.payload
	}
	return st.part.content("")
}

// requestOf returns the step that an answer of the controller responds to; -1 if unknown.
func (s *Script) requestOf(st *step) int {
	if len(st.inner.Kind) == 0 {
		if st.exchange == 0 {
			return -1
		}
		return s.opened[st.exchange].step
	}
	for i, request := range slices.Backward(s.steps[:st.index]) {
		if m := request.meaning(); request.dir != st.dir && m.Phase == protocol.Open && string(m.ID.Text) == string(st.inner.ID.Text) {
			return i
		}
	}
	return -1
}

// Write writes the frames of one side byte for byte, with the recorded pauses divided by
// speed, or at once if speed is 0.
func (s *Script) Write(ctx context.Context, w io.Writer, side frame.Dir, speed float64) error {
	start := time.Now()
	var first time.Time
	for _, st := range s.steps {
		if st.dir != side {
			continue
		}
		if first.IsZero() {
			first = st.time
		}
		if speed > 0 && st.time.After(first) {
			due := start.Add(time.Duration(float64(st.time.Sub(first)) / speed))
			if wait.For(ctx, time.Until(due)) != nil {
				return ctx.Err()
			}
		}
		if _, err := w.Write(st.wireBytes()); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// wireBytes returns the bytes of a frame. For HTTP, it returns the body as a line.
func (st *step) wireBytes() []byte {
	if st.part == nil {
		return st.frame.Raw
	}
	if body := st.part.content(""); len(body) > 0 {
		return append(body, '\n')
	}
	return nil
}

// A ledger finds exchanges by the names that their openers gave them. If an answer only
// accepts a request, the exchange continues, with its operation, under the name in the
// answer.
type ledger struct {
	exchanges map[name][]int // oldest first
	base      *protocol.Rules
	rules     *protocol.Rules // of the stated version
	states    map[int]state
}

// A state is the state of an exchange whose answer may only accept the request.
type state uint8

const (
	pending  state = iota + 1
	accepted       // the operation continues
	decided        // the operation has ended before the answer
	over
)

// A name is a name of an exchange. Without a text it stands for all exchanges of its opener.
type name struct {
	opener frame.Dir
	space  protocol.Space
	text   string
}

func newLedger(p protocol.Protocol) *ledger {
	rules := all.Rules(p)
	return &ledger{make(map[name][]int), rules, rules, make(map[int]state)}
}

// openExchange records the names of the exchange that m opens.
func (l *ledger) openExchange(from frame.Dir, m *protocol.Message, exchange int) {
	for _, t := range []protocol.Token{m.ID, m.Bind} {
		if !t.IsZero() {
			l.bind(name{from, t.Space, string(t.Text)}, exchange)
		}
	}
	l.bind(name{opener: from}, exchange)
	if slices.Contains(l.rules.Accepted, string(m.Kind)) {
		l.states[exchange] = pending
	}
}

// ends updates the state of an exchange with a message from one side, and reports whether
// the message ends it.
func (l *ledger) ends(from frame.Dir, m *protocol.Message, exchange int) bool {
	if len(m.Version) > 0 && (l.rules == l.base || m.Phase.Ends()) {
		l.rules = l.base.At(string(m.Version))
	}
	ends := m.Phase.Ends()
	switch at := l.states[exchange]; {
	case at == pending && m.Phase == protocol.Close:
		if n := (name{from.Opposite(), m.Bind.Space, string(m.Bind.Text)}); !m.Bind.IsZero() {
			if slices.ContainsFunc(l.exchanges[n], func(e int) bool { return l.states[e] == accepted }) {
				break // it was accepted as part of that operation
			}
			l.bind(n, exchange)
		}
		l.states[exchange] = accepted
		return false
	case at == pending && m.Operation.Does.Ends():
		l.states[exchange] = decided
	case at == accepted && m.Operation.Does.Ends():
		ends = true
	}
	if ends && l.states[exchange] != 0 {
		l.states[exchange] = over
	}
	return ends
}

func (l *ledger) bind(n name, exchange int) { l.exchanges[n] = append(l.exchanges[n], exchange) }

// exchangeOf returns the exchange of m, sent by the side from, or 0. If several have the
// name, it returns the oldest that is wanted, or else the last.
func (l *ledger) exchangeOf(from frame.Dir, m *protocol.Message, wanted func(int) bool) int {
	token, opener := m.Ref, from.Opposite()
	switch {
	case m.Phase == protocol.Open:
		return 0
	case m.Phase == protocol.Cancel:
		if opener = from; token.IsZero() {
			return 0
		}
	case m.Phase == protocol.Note && m.Operation.Does.Ends():
		token = m.Operation.Of
	case m.Phase == protocol.Note && m.ID.IsZero():
		return 0
	case token.IsZero():
		token = m.ID
	}
	n := name{opener, token.Space, string(token.Text)}
	candidates := l.exchanges[n]
	if len(candidates) == 0 && (m.Phase == protocol.Part || m.Phase == protocol.Note) && !token.IsZero() {
		n.opener = from // a further message of a request
		candidates = l.exchanges[n]
	}
	if i := slices.IndexFunc(candidates, wanted); i >= 0 {
		// The exchanges before it have ended and are not needed again.
		l.exchanges[n] = candidates[i:]
		return candidates[i]
	}
	if len(candidates) == 0 {
		return 0
	}
	l.exchanges[n] = candidates[len(candidates)-1:]
	return candidates[len(candidates)-1]
}

// A Step is a frame of a script with its place in it.
type Step struct {
	Record
	Message *protocol.Message // nil if the frame holds none
	// Group is the number of the client's frame, from 1, that began what the frame belongs to; 0 if
	// the server did. For a request or a notification of the client it is its own.
	Group int
	// Form is the payload as JSON; nil if it has none.
	Form []byte
}

// Steps returns the frames of a script in order.
func (s *Script) Steps() (list []Step) {
	groups := s.groups(frame.U2C)
	for i, st := range s.steps {
		f := st.frame
		f.Dir = st.dir
		one := Step{Record: Record{Seq: st.seq, Time: st.time, Frame: &f, Framing: s.Framing, Protocol: s.Protocol}, Group: groups[i], Form: st.form}
		if st.well {
			one.Message = &st.message
		}
		list = append(list, one)
	}
	return list
}

// WithPayload returns a record with another payload in the same framing; false if that cannot hold it.
func (r Record) WithPayload(payload []byte) (Record, bool) {
	f := framed(r.Frame, r.Framing, payload)
	r.Frame = &f
	return r, string(f.Payload()) == string(payload)
}
