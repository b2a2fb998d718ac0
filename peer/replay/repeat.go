package replay

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/internal/nearest"
	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/all"
	"github.com/wirectl/wirectl/session/jsondiff"
	"github.com/wirectl/wirectl/transport"
)

// A Repeater plays the unit of a recording for clients that send the recorded requests any
// number of times and in any order. A [Script] is played once, from start to end.
type Repeater struct {
	script *Script // of the first connection
	ignore []jsondiff.Path
	scenes []*scene
	alike  map[[jsondiff.DigestSize]byte][]*scene // by their cue
	named  map[string]bool                        // tasks
	own    int64                                  // the largest number among the ids of the unit's requests
}

// NewRepeater returns a repeater for the connections of a recording that have the protocol
// and framing of the first. They must be prepared for the side frame.U2C. Values at the
// ignored paths do not distinguish requests.
func NewRepeater(scripts []*Script, ignore []jsondiff.Path) *Repeater {
	p := &Repeater{script: scripts[0], ignore: slices.Concat(scripts[0].inBody(ignore), scripts[0].ignore, scripts[0].undigested, webSessions), alike: make(map[[jsondiff.DigestSize]byte][]*scene), named: make(map[string]bool)}
	for _, s := range scripts {
		if s.Protocol == p.script.Protocol && s.Framing == p.script.Framing {
			p.addScript(s)
		}
	}
	return p
}

func (p *Repeater) addScript(s *Script) {
	groups, byGroup, pauses := s.groups(frame.U2C), make(map[int]*scene), make(map[*step]time.Duration)
	for _, sc := range s.scenes(frame.U2C) {
		for i, st := range sc.steps {
			pauses[st] = sc.pause[i]
		}
	}
	for i, st := range s.steps {
		if st.dir == frame.U2C && st.opens != 0 {
			number, _ := strconv.ParseInt(string(st.message.ID.Text), 10, 64)
			p.own = max(p.own, number)
		}
		sc := byGroup[groups[i]]
		if sc == nil {
			sc = &scene{script: s}
			byGroup[groups[i]] = sc
			if groups[i] > 0 || s == p.script {
				p.scenes = append(p.scenes, sc)
			}
		}
		if groups[i] == i+1 {
			sc.cue = st
			sum := p.digest(&st.reading)
			p.alike[sum] = append(p.alike[sum], sc)
			continue
		}
		sc.steps, sc.pause = append(sc.steps, st), append(sc.pause, pauses[st])
	}
	if d := s.died; d != nil {
		sc := byGroup[groups[s.opened[d.exchange].step]]
		sc.steps, sc.pause = append(sc.steps, d), append(sc.pause, pauses[d])
	}
	for i, st := range s.steps {
		if request := s.requestOf(st); groups[i] == i+1 && st.inner.Phase.Ends() && request >= 0 {
			byGroup[groups[request]].await(st, func(other *step) bool { return other.index > st.index })
		}
		sc := byGroup[groups[i]]
		sc.addTasks(st, p.named)
		if cancel := s.cancelOf(st); cancel != nil && sc.cue != nil && cancel.index > sc.cue.index {
			sc.await(cancel, func(other *step) bool { return other == st })
		}
	}
}

// await adds a frame of the client that came in a scene of its own, before the first step for
// which isNext is true: an answer to a request of the unit, which is posted over HTTP, or the
// cancel of a task.
func (sc *scene) await(st *step, isNext func(*step) bool) {
	if at := slices.IndexFunc(sc.steps, isNext); at >= 0 {
		sc.steps, sc.pause = slices.Insert(sc.steps, at, st), slices.Insert(sc.pause, at, 0)
	}
}

// cancelOf returns the request that cancelled a task, given the unit's step that says so; nil
// if there is none.
func (s *Script) cancelOf(st *step) *step {
	task := st.meaning().Operation
	if st.dir != frame.U2C || task.Does != protocol.Cancelled || task.Of.IsZero() {
		return nil
	}
	for _, other := range slices.Backward(s.steps[:st.index]) {
		if other.dir == frame.C2U && cancels(other.meaning(), task.Of) {
			return other
		}
	}
	return nil
}

// cancels reports whether a message is the request to cancel a task.
func cancels(m *protocol.Message, task protocol.Token) bool {
	return m.Operation.Does == protocol.Cancel && m.Operation.Of.Space == task.Space && bytes.Equal(m.Operation.Of.Text, task.Text)
}

func (p *Repeater) digest(h *reading) [jsondiff.DigestSize]byte {
	m := h.message
	if s := m.Ref.Space; s == protocol.SpaceTask || s == protocol.SpaceTurn { // the unit's ids are as recorded
		m.Ref = protocol.Token{}
	}
	return jsondiff.Digest(h.value(), &m, p.ignore)
}

// A repetition is a connection to a client.
type repetition struct {
	*run
	repeater *Repeater
	live     map[name]*turn
	times    map[[jsondiff.DigestSize]byte]int // how often a frame of the client has arrived
	played   map[*scene]bool
	fresh    int64 // the number of the unit's last request
	shared   map[idValue]string

	recorded map[string]string             // the recorded ids of tasks, by their live ones
	clients  map[string]map[idValue]string // the ids of their clients, likewise
	repeated int64                         // the number of repeated tasks

	refused [][]byte // answers to write before those of turns
}

// The bounds of a connection.
const (
	maxTurns   = 10_000 // the oldest turn is dropped
	maxRefused = 100    // reading pauses
)

// Run answers a client until it leaves. The result has a divergence for each request
// that was never recorded.
func (p *Repeater) Run(ctx context.Context, conn transport.Conn, o Options) (Result, error) {
	if err := p.script.refused; err != nil {
		return Result{}, errors.Join(err, conn.Close())
	}
	o.KeepGoing = true
	r := &repetition{
		run: newRun(ctx, p.script, conn, &o), repeater: p,
		live: make(map[name]*turn), times: make(map[[jsondiff.DigestSize]byte]int),
		played: make(map[*scene]bool), fresh: p.own, shared: make(map[idValue]string),
		recorded: make(map[string]string), clients: make(map[string]map[idValue]string),
	}
	r.guide = r
	for _, sc := range p.scenes {
		if sc.cue == nil {
			r.startTurn(sc, nil)
		}
	}
	result, err := r.play()
	if o.Cases {
		result.Cases = r.cases()
	}
	return result, err
}

// cases returns the requests of the recording, and the others.
func (r *repetition) cases() (list []Case) {
	for _, sc := range r.repeater.scenes {
		if sc.cue != nil && sc.cue.message.Phase == protocol.Open {
			list = append(list, Case{Name: sc.cue.String(), Skipped: !r.played[sc]})
		}
	}
	for _, d := range r.result.Divergences {
		list = append(list, Case{Name: d.Live.title(), Divergence: d})
	}
	return list
}

// act writes an answer to a request that was never recorded.
func (r *repetition) act() {
	if len(r.refused) > 0 {
		answer := r.refused[0]
		r.refused = r.refused[1:]
		r.full = len(r.refused) > maxRefused
		r.writing = &step{index: unrecorded}
		r.outgoing <- answer
	}
}

// pause waits for the client without a limit.
func (r *repetition) pause() (pause, error) { return pause{forever: true}, nil }

func (r *repetition) peerEnded(error) {}

// writeFailed ends the run: the client has left.
func (r *repetition) writeFailed(*step, error) { r.ended, r.stopped = true, true }

// noteSend binds the turn to the names that a frame gives to its exchange.
func (r *repetition) noteSend(t *turn, st *step, m *protocol.Message) {
	switch {
	case st.opens != 0:
		r.nameTurn(t, frame.U2C, m)
	case m.Phase == protocol.Close && !st.ends: // it continues under a name given by the unit
		r.nameTurn(t, frame.C2U, m)
	}
}

// nameTurn binds a turn to the names of an exchange.
func (r *repetition) nameTurn(t *turn, opener frame.Dir, m *protocol.Message) {
	for _, token := range []protocol.Token{m.ID, m.Bind} {
		if !token.IsZero() {
			n := name{opener, token.Space, string(token.Text)}
			r.live[n] = t
			t.ids = append(t.ids, n)
		}
	}
}

// startTurn starts playing a scene in answer to h, which is nil for frames that the unit
// sends first.
func (r *repetition) startTurn(sc *scene, h *liveFrame) {
	t := &turn{scene: sc, came: make(map[*step]bool), names: newNames(frame.U2C, sc.script.Protocol)}
	t.names.others = r.shared
	if h != nil {
		r.nameTasks(t, h.tasks)
		t.names.meet(&sc.cue.message, &h.message)
		r.nameTurn(t, frame.C2U, &h.message)
		r.learn(t, sc.cue, h)
		r.keepIDs(t)
	}
	if r.played[sc] || sc.script != r.repeater.script {
		r.renumber(t)
	}
	r.played[sc] = true
	if len(r.turns) >= maxTurns {
		r.retire(r.turns[0])
	}
	r.begin(t)
}

// renumber gives the unit's own requests unused ids.
func (r *repetition) renumber(t *turn) {
	for _, st := range t.steps {
		if st.dir == frame.U2C && st.opens != 0 && !st.message.ID.IsZero() {
			r.fresh++
			id := st.message.ID
			t.names.own[name{frame.U2C, id.Space, string(id.Text)}] = freshID(string(id.Text), r.fresh)
		}
	}
}

// arrive marks a step of the client as arrived in a turn.
func (r *repetition) arrive(t *turn, st *step) {
	t.came[st] = true
	r.advance(t, time.Now())
}

// noteEnd forgets the names of a turn.
func (r *repetition) noteEnd(t *turn) {
	for _, n := range t.ids {
		if r.live[n] == t {
			delete(r.live, n)
		}
	}
}

// learn learns the client's ids. They replace those of earlier clients.
func (r *repetition) learn(t *turn, st *step, h *liveFrame) {
	r.script, r.names = t.script, t.names
	for u := range idsIn(st) {
		delete(r.shared, u)
	}
	r.payloads(st, h)
	r.result.Matched++
	r.trace(frame.C2U, st.seq, h.wire(), &h.message, h.gap)
}

// handle handles a frame of the client.
func (r *repetition) handle(h *liveFrame) error {
	r.recordTasks(h)
	m := &h.message
	if t := r.turnOf(h); h.well && t != nil && m.Phase != protocol.Open {
		r.continueTurn(t, h)
		return nil
	}
	r.noteAnswer(h)
	sc, err := r.sceneFor(h)
	switch {
	case err != nil:
		return err
	case sc != nil:
		r.startTurn(sc, h)
	case h.well && m.Phase == protocol.Open:
		r.refuse(h)
	default:
		r.extra(h)
	}
	return nil
}

// extra counts a frame that is neither expected nor answered.
func (r *repetition) extra(h *liveFrame) {
	r.result.Extra++
	r.trace(frame.C2U, 0, h.wire(), &h.message, h.gap)
}

// noteAnswer notes that the client has answered a request, or cancelled a task, of turns that wait
// for it: of each scene, the oldest.
func (r *repetition) noteAnswer(h *liveFrame) {
	m, done := h.meaning(), map[*scene]bool{}
	isCancel := m.Operation.Does == protocol.Cancel
	if !isCancel && !h.inner.Phase.Ends() {
		return
	}
	for _, t := range slices.Clone(r.turns) {
		i := slices.IndexFunc(t.steps[t.next:], func(st *step) bool {
			if isCancel {
				task := taskOf(m.Operation.Of)
				return cancels(st.meaning(), m.Operation.Of) && t.names.tasks[task] == h.tasks[task]
			}
			return st.dir == frame.C2U && st.inner.Phase.Ends() && bytes.Equal(st.inner.ID.Text, m.ID.Text)
		})
		if i < 0 || t.came[t.steps[t.next+i]] || done[t.scene] {
			continue
		}
		done[t.scene] = true
		if r.arrive(t, t.steps[t.next+i]); !isCancel {
			return
		}
	}
}

// turnOf returns the turn that a frame of the client refers to, or nil. A reference without
// text matches any turn that waits for such a frame.
func (r *repetition) turnOf(h *liveFrame) *turn {
	m := &h.message
	token, opener := m.Ref, frame.U2C
	switch {
	case m.Phase == protocol.Cancel:
		opener = frame.C2U
	case r.isWeb() && m.Phase != protocol.Open: // of a streamed request
		token, opener = m.ID, frame.C2U
	case token.IsZero():
		token = m.ID
	}
	switch {
	case token.IsZero():
		return nil
	case len(token.Text) == 0:
		for _, t := range r.turns {
			if t.stepLike(h) != nil {
				return t
			}
		}
		return nil
	}
	return r.live[name{opener, token.Space, string(token.Text)}]
}

// continueTurn handles a frame of the client in a turn, which need not be as recorded.
func (r *repetition) continueTurn(t *turn, h *liveFrame) {
	if string(h.message.Kind) == kindHalfClose { // no more messages are expected
		for _, st := range t.steps {
			t.came[st] = t.came[st] || st.dir == frame.C2U && st.message.Phase == protocol.Part
		}
		r.advance(t, time.Now())
		return
	}
	st := t.stepLike(h)
	if st == nil {
		if r.extra(h); h.message.Phase == protocol.Cancel && r.isWeb() {
			r.retire(t) // nobody reads the rest
		}
		return
	}
	if st.opens != 0 { // a cancel that is answered itself
		t.names.meet(&st.message, &h.message)
		r.nameTurn(t, frame.C2U, &h.message)
	}
	r.learn(t, st, h)
	r.arrive(t, st)
}

// stepLike returns the client's step that the frame matches; nil if there is none.
func (t *turn) stepLike(h *liveFrame) *step {
	for _, st := range t.steps {
		m, l := &st.message, &h.message
		like := m.Phase == l.Phase && bytes.Equal(m.Kind, l.Kind) || m.Phase.Ends() && l.Phase.Ends()
		if !t.came[st] && st.dir == frame.C2U && like {
			return st
		}
	}
	return nil
}

// sceneFor returns the scene whose cue is the frame of the client, or nil. A request that
// was recorded several times gets one answer after the other, and then the last. A
// handshake always matches, because every client names itself, and so does an answer of the
// client, which need not be as recorded.
func (r *repetition) sceneFor(h *liveFrame) (*scene, error) {
	sum := r.repeater.digest(&h.reading)
	if list := r.repeater.alike[sum]; len(list) > 0 {
		n := min(r.times[sum], len(list)-1)
		r.times[sum]++
		return list[n], nil
	}
	if !h.well {
		return nil, nil
	}
	var kind *scene
	match := &r.options.Match
	for _, sc := range r.repeater.scenes {
		if !sc.opensLike(h) {
			continue
		}
		r.script, r.names = sc.script, newNames(frame.U2C, sc.script.Protocol)
		switch {
		case match.Form != nil:
			changes, err := r.forms(sc.cue, h)
			if err != nil || len(changes) == 0 {
				return sc, err
			}
		case h.message.Phase != protocol.Open, isHandshake(sc.cue), h.inner.Phase.Ends():
			return sc, nil
		case match.Exact:
			if len(r.differences(sc.cue, h)) == 0 {
				return sc, nil
			}
		case bytes.Equal(sc.cue.message.Label, h.message.Label):
			return sc, nil
		case kind == nil:
			kind = sc
		}
	}
	return kind, nil
}

// differences returns how a request differs from a recorded one. Empty and absent parameters are
// the same.
func (r *repetition) differences(cue *step, h *liveFrame) []Change {
	return slices.DeleteFunc(r.payloads(cue, h), func(c Change) bool {
		return c.Path == "params" && (c.Recorded == "" && c.Live == "{}" || c.Recorded == "{}" && c.Live == "")
	})
}

// opensLike reports whether the cue of a scene is of the kind of a frame.
func (sc *scene) opensLike(h *liveFrame) bool {
	return sc.cue != nil && sc.cue.message.Phase == h.message.Phase && bytes.Equal(sc.cue.message.Kind, h.message.Kind)
}

// refuse answers a request that was never recorded with an error that contains the nearest
// recorded one. If the protocol has no such error, the connection ends.
func (r *repetition) refuse(h *liveFrame) {
	r.trace(frame.C2U, 0, h.wire(), &h.message, false)
	sc, changes := r.nearest(h)
	d := Divergence{What: Unforeseen, Changes: changes, Text: h.String() + " was never recorded"}
	var cue *step
	if sc == nil {
		d.Text += r.question(h)
	} else {
		cue = sc.cue
		d.Text += "; the nearest is " + cue.String() + ", which differs in " + InWords(changes)
	}
	r.diverge(d, cue, h, true)
	if v := r.visit(); v != nil {
		v.refuse(&h.message, d.Text)
		return
	}
	if !all.IsRPC(r.repeater.script.Protocol) {
		r.stopped = true
		return
	}
	answer := refusal(h, &d, cue)
	raw, err := frame.Append(nil, r.repeater.script.Framing, answer)
	if err != nil {
		r.stopped = true
		return
	}
	var m protocol.Message
	_ = r.repeater.script.Protocol.Parse(answer, &m) // only for the trace
	r.trace(frame.U2C, 0, answer, &m, false)
	r.refused = append(r.refused, raw)
	r.full = len(r.refused) > maxRefused
}

// nearest returns the scene whose cue differs least from a request, and how it differs. One
// with the same label, such as a tool, is nearer than one without.
func (r *repetition) nearest(h *liveFrame) (best *scene, changes []Change) {
	isAbout := false
	for _, sc := range r.repeater.scenes {
		if !sc.opensLike(h) {
			continue
		}
		r.script, r.names = sc.script, newNames(frame.U2C, sc.script.Protocol)
		about, differ := bytes.Equal(sc.cue.message.Label, h.message.Label), r.differences(sc.cue, h)
		if best == nil || about && !isAbout || about == isAbout && len(differ) < len(changes) {
			best, changes, isAbout = sc, differ, about
		}
	}
	return best, changes
}

// question suggests similar kinds of requests.
func (r *repetition) question(h *liveFrame) string {
	var kinds []string
	for _, sc := range r.repeater.scenes {
		if sc.cue != nil && sc.cue.message.Phase == protocol.Open && !slices.Contains(kinds, string(sc.cue.message.Kind)) {
			kinds = append(kinds, string(sc.cue.message.Kind))
		}
	}
	if len(kinds) == 0 {
		return "; no request was"
	}
	const most = 20
	text := nearest.Question(string(h.message.Kind), kinds) + "; recorded are " + strings.Join(kinds[:min(len(kinds), most)], ", ")
	if len(kinds) > most {
		text += fmt.Sprintf(" and %d more", len(kinds)-most)
	}
	return text
}

// InWords describes the changes between a recorded request and a live one.
func InWords(changes []Change) string {
	const most = 3
	var words []string
	for _, c := range changes[:min(len(changes), most)] {
		words = append(words, cmp.Or(c.Path, "its bytes")+": "+shown(c.Recorded, maxShown)+" → "+shown(c.Live, maxShown))
	}
	if n := len(changes) - most; n > 0 {
		words = append(words, "and "+render.Count(int64(n), "more value"))
	}
	return strings.Join(words, ", ")
}

// The bounds of a refusal.
const (
	serverError  = -32000 // the first code that JSON-RPC leaves to servers
	maxNearest   = 64 << 10
	maxReasons   = 100
	maxReasonLen = 1000
)

// refusal returns a JSON-RPC error with the nearest request and the differences.
func refusal(h *liveFrame, d *Divergence, cue *step) []byte {
	b := append([]byte(`{"jsonrpc":"2.0","id":`), h.message.ID.Text...)
	b = strconv.AppendInt(append(b, `,"error":{"code":`...), serverError, 10)
	b = jsonscan.AppendQuote(append(b, `,"message":`...), []byte(d.Text))
	if cue == nil {
		return append(b, "}}"...)
	}
	b = strconv.AppendInt(append(b, `,"data":{"frame":`...), cue.seq, 10)
	if len(cue.payload) <= maxNearest {
		b = jsonscan.AppendCompact(append(b, `,"nearest":`...), cue.payload)
	}
	b = append(b, `,"differences":[`...)
	for i, c := range d.Changes[:min(len(d.Changes), maxReasons)] {
		if i > 0 {
			b = append(b, ',')
		}
		b = jsonscan.AppendQuote(append(b, `{"path":`...), []byte(c.Path))
		for _, side := range [][2]string{{"recorded", c.Recorded}, {"live", c.Live}} {
			if side[1] != "" {
				b = append(append(b, `,"`+side[0]+`":`...), value(side[1])...)
			}
		}
		b = append(b, '}')
	}
	return append(b, "]}}}"...)
}

// value returns a JSON value, or the beginning of a long one as a string.
func value(text string) []byte {
	if len(text) <= maxReasonLen {
		return jsonscan.AppendCompact(nil, []byte(text))
	}
	return jsonscan.AppendQuote(nil, []byte(strings.ToValidUTF8(text[:maxReasonLen], "")+"…"))
}

// freshID returns an unused id that looks like another.
func freshID(id string, n int64) string {
	text, isQuoted := strings.CutSuffix(id, `"`)
	switch _, err := strconv.ParseInt(id, 10, 64); {
	case err == nil:
		return strconv.FormatInt(n, 10)
	case isQuoted:
		return fmt.Sprintf(`%s-%d"`, text, n)
	}
	return fmt.Sprintf("%s-%d", id, n)
}

// Each task that a unit repeats has an id of its own, so that clients do not get each other's.
// The first has the recorded id.

// aliases are the live ids of tasks, by their recorded ones.
type aliases map[string]string

// taskOf returns the id of a task; "" if the token is not one.
func taskOf(t protocol.Token) string {
	if t.Space != protocol.SpaceTask {
		return ""
	}
	if text, ok := jsonscan.Unquote(t.Text); ok {
		return string(text)
	}
	return ""
}

// addTasks adds the tasks that a step of the scene is the first of the recording to name, if it is
// the unit's. seen has those named before.
func (sc *scene) addTasks(st *step, seen map[string]bool) {
	m := st.meaning()
	for _, t := range []protocol.Token{m.Bind, m.Operation.Of, m.Ref} {
		id := taskOf(t)
		if id == "" || seen[id] {
			continue
		}
		seen[id] = true
		if st.dir == frame.U2C && sc.cue != nil {
			sc.tasks = append(sc.tasks, id)
		}
	}
}

// nameTasks gives the tasks of a turn their live ids. Those that its request names keep theirs.
func (r *repetition) nameTasks(t *turn, named aliases) {
	t.names.tasks = aliases{}
	maps.Copy(t.names.tasks, named)
	for _, id := range t.tasks {
		live := id
		if _, again := r.recorded[id]; again {
			r.repeated++
			live = freshTask(id, r.repeated)
		}
		if len(r.recorded) >= maxTurns { // older tasks are forgotten
			clear(r.recorded)
			clear(r.clients)
		}
		t.names.tasks[id], r.recorded[live] = live, id
	}
}

// keepIDs keeps the ids that a client has just sent with the tasks of the turn, so that its later
// requests about them are answered with its ids, and not with another client's.
func (r *repetition) keepIDs(t *turn) {
	mine := map[idValue]string{}
	for _, live := range t.names.tasks {
		maps.Copy(mine, r.clients[live])
	}
	for u := range idsIn(t.cue) {
		if live, ok := r.shared[u]; ok {
			mine[u] = live
		}
	}
	for _, live := range t.names.tasks {
		r.clients[live] = mine
	}
	if len(t.names.tasks) > 0 {
		t.names.mine = mine
	}
}

var uuid = regexp.MustCompile(`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`)

// freshTask returns an unused id that looks like another.
func freshTask(id string, n int64) string {
	const digits = 12
	if uuid.MatchString(id) {
		return fmt.Sprintf("%s%0*x", id[:len(id)-digits], digits, n)
	}
	return fmt.Sprintf("%s-%d", id, n)
}

// recordTasks replaces the live ids of tasks in a frame of the client by the recorded ones.
func (r *repetition) recordTasks(h *liveFrame) {
	if len(r.recorded) == 0 || h.form == nil || r.script.Protocol.Encoding() != protocol.JSON {
		return
	}
	h.tasks = aliases{}
	var places []protocol.Place
	jsondiff.Leaves(h.payload, func(key string, at int, value []byte) {
		text := otherID(key, value, func(live string) (string, bool) {
			id, ok := r.recorded[live]
			if ok {
				h.tasks[id] = live
			}
			return id, ok && id != live
		})
		if text != nil {
			places = append(places, protocol.Place{Start: at, End: at + len(value), Text: text})
		}
	})
	if len(places) > 0 {
		h.live, h.part = h.payload, nil
		h.readPayload(protocol.AppendPlaced(nil, h.payload, places), r.script)
	}
}
