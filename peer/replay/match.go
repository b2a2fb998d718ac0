package replay

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/internal/nearest"
	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/all"
	"github.com/wirectl/wirectl/session/contract"
	"github.com/wirectl/wirectl/session/jsondiff"
)

// A Change is a member of a payload that is not as recorded. "" means absent.
type Change struct {
	Path     string `json:"path,omitempty"`
	Recorded string `json:"recorded,omitempty"`
	Live     string `json:"live,omitempty"`
}

// heard is a frame of the live peer.
type heard struct {
	reading
	raw []byte
	gap bool

	live  []byte  // the payload, if the ids of tasks were replaced in it
	tasks aliases // these tasks

	exchange int  // of the recording; 0 if there is none
	ends     bool // it ends the exchange
}

// wire returns the payload as it arrived.
func (h *heard) wire() []byte {
	if h.live != nil {
		return h.live
	}
	return h.payload
}

// isJSON reports whether text is one value of JSON.
func isJSON(text []byte) bool { return jsonscan.WellFormed(text) == nil }

// compare returns how a frame differs from its counterpart in the recording. It learns
// the live ids in any case.
func (r *run) compare(st *step, h *heard) ([]Change, error) {
	m := &r.options.Match
	changes := r.payloads(st, h)
	switch {
	case m.IgnoreChunks && st.message.Phase == protocol.Part:
		return nil, nil
	case m.Form != nil:
		return r.forms(st, h)
	case !m.Exact:
		return nil, nil
	}
	return changes, nil
}

// payloads compares two payloads as values, or as bytes if they have none.
func (r *run) payloads(st *step, h *heard) (changes []Change) {
	if st.form == nil || h.form == nil {
		if !bytes.Equal(st.payload, h.payload) && !h.gap {
			changes = append(changes, Change{"", string(st.payload), string(h.payload)})
		}
		return changes
	}
	w := jsondiff.Walk{Ignore: slices.Concat(r.script.inBody(r.options.Match.Ignore), r.script.ignore), Named: func(key string, _ []byte) bool { return key != "id" }}
	w.Reordered = func(keys []string, recorded, live []byte) {
		if !contract.IsList(keys) {
			changes = append(changes, Change{r.script.pathOf(keys), string(recorded), string(live)})
		}
	}
	w.Leaf = func(keys []string, recorded, live []byte) {
		if !r.sameLeaf(st, h, keys, recorded, live) {
			changes = append(changes, Change{r.script.pathOf(keys), string(recorded), string(live)})
		}
	}
	w.Values(st.form, h.form)
	return changes
}

// sameLeaf reports whether two values are equal. Two ids are equal if they name the same thing.
func (r *run) sameLeaf(st *step, h *heard, keys []string, recorded, live []byte) bool {
	key := ""
	if n := len(keys); n > 0 {
		key = keys[n-1]
		if _, err := strconv.Atoi(key); err == nil && n > 1 { // an index
			key = keys[n-2]
		}
	}
	if recorded != nil && live != nil && isTheirs(key, r.options.Side) {
		return r.sameCall(st, keys, recorded, live)
	}
	if recorded == nil || live == nil || !jsondiff.HoldsID(key) {
		return jsondiff.Same(recorded, live) || r.names.sameText(recorded, live)
	}
	if isProcess(st, key) {
		return true
	}
	u := utteranceOf(key, recorded)
	isToken := namesSame(st, h, recorded, live)
	learns := r.script.isName(r.options.Side, key, u) && (!isToken || jsonscan.KindOf(recorded) == jsonscan.String)
	called, known := r.names.others[u]
	switch {
	case isToken || learns && !known && isScalar(live):
		if learns {
			r.names.others[u] = string(live)
		}
		return true
	case learns && known:
		return jsondiff.Same([]byte(called), live) || jsondiff.Same(recorded, live)
	}
	return jsondiff.Same(recorded, live)
}

// sameCall reports whether two ids name the same request of the peer.
func (r *run) sameCall(st *step, keys []string, recorded, live []byte) bool {
	key := keys[len(keys)-1]
	names := len(keys) > 1 && (keys[len(keys)-2] == "id" || keys[len(keys)-2] == "progressToken")
	if names && !isTheirs(key, st.dir) && isScalar(live) {
		r.names.learnCall(st.exchange, key, recorded, live)
		return true
	}
	called, ok := r.names.callOf(st, key, recorded)
	return ok && jsondiff.Same(called, live) || jsondiff.Same(recorded, live)
}

func isScalar(value []byte) bool {
	kind := jsonscan.KindOf(value)
	return kind == jsonscan.String || kind == jsonscan.Number
}

// namesSame reports whether two values are ids of their messages, and these correspond.
func namesSame(st *step, h *heard, recorded, live []byte) bool {
	r, l := &st.message, &h.message
	pairs := [][2]protocol.Token{{r.ID, l.ID}, {r.Ref, l.Ref}, {r.Bind, l.Bind}, {st.inner.Bind, h.inner.Bind}, {st.said().Context, h.said().Context}}
	for i, pair := range pairs {
		if pair[0].IsZero() || pair[0].Space == protocol.SpaceSession && i < len(pairs)-1 || pair[1].IsZero() {
			continue
		}
		if jsondiff.IsToken(recorded, string(pair[0].Text)) && jsondiff.IsToken(live, string(pair[1].Text)) {
			return true
		}
	}
	return false
}

// forms compares the results of a filter for two frames.
func (r *run) forms(st *step, h *heard) ([]Change, error) {
	recorded, err := r.options.Match.Form(r.ctx, r.object(&st.reading))
	if err != nil {
		return nil, err
	}
	live, err := r.options.Match.Form(r.ctx, r.object(&h.reading))
	if err != nil || bytes.Equal(recorded, live) {
		return nil, err
	}
	return []Change{{"", string(bytes.TrimSpace(recorded)), string(bytes.TrimSpace(live))}}, nil
}

// object is the input of a filter for a frame.
func (r *run) object(h *reading) []byte {
	m := &h.message
	b := jsonscan.AppendQuote([]byte(`{"kind":`), m.Kind)
	b = jsonscan.AppendQuote(append(b, `,"phase":`...), []byte(m.Phase.String()))
	if !m.ID.IsZero() {
		b = append(append(b, `,"id":`...), r.tokenJSON(m.ID)...)
	}
	b = append(b, `,"payload":`...)
	if h.form == nil {
		b = jsonscan.AppendQuote(b, h.payload)
	} else {
		b = append(b, h.form...)
	}
	return append(b, '}')
}

// tokenJSON returns a token as JSON. Tokens of JSON protocols are JSON already.
func (r *run) tokenJSON(t protocol.Token) []byte {
	if r.script.Protocol.Encoding() == protocol.JSON {
		return t.Text
	}
	return jsonscan.AppendQuote(nil, t.Text)
}

// counterpartOf returns the recorded frame that corresponds to a live one, or nil. If it
// is nil, instead is the frame that was expected, if any.
func (r *run) counterpartOf(h *heard) (found, instead *step) {
	switch {
	case h.gap || !h.well:
		return r.first(func(st *step) bool { return !st.well && st.frame.Gap == h.gap }), nil
	case h.message.Phase == protocol.Open:
		return r.alike(h, func(st *step) bool { return st.message.Phase == protocol.Open }), nil
	}
	if h.exchange != 0 {
		if found, instead = r.inExchange(h, h.exchange); found != nil || instead != nil {
			return found, instead
		}
	}
	// The frame belongs to no exchange, or is alone in it.
	loose := h.message.Phase == protocol.Part && all.Rules(r.script.Protocol).LooseRefs
	return r.alike(h, func(st *step) bool {
		return (st.exchange == st.opens || loose) && st.message.Phase == h.message.Phase
	}), nil
}

// alike returns the most similar missing frame for which may is true: with the same content
// and reference, the same content, the same label, or at least the same kind.
func (r *run) alike(h *heard, may func(*step) bool) *step {
	var same, about, kind *step
	for st := range r.missing {
		switch {
		case !may(st) || !bytes.Equal(st.message.Kind, h.message.Kind):
		case st.digest == h.digest && r.refersAlike(st, h):
			return st
		case same == nil && st.digest == h.digest:
			same = st
		case about == nil && bytes.Equal(st.message.Label, h.message.Label):
			about = st
		case kind == nil:
			kind = st
		}
	}
	return cmp.Or(same, about, kind)
}

// refersAlike reports whether two messages refer to the same thing, whatever its live id.
func (r *run) refersAlike(st *step, h *heard) bool {
	recorded, live := st.message.Ref, h.message.Ref
	if recorded.IsZero() || recorded.Space == protocol.SpaceID || bytes.Equal(recorded.Text, live.Text) {
		return true
	}
	called, ok := r.names.others[utteranceOf("", recorded.Text)]
	return ok && called == string(live.Text)
}

// inExchange looks for the counterpart among the missing frames of an exchange.
func (r *run) inExchange(h *heard, exchange int) (found, instead *step) {
	list := r.expected(exchange)
	part := h.message.Phase == protocol.Part
	for _, st := range list {
		if r.came[st.index] {
			continue
		}
		if st.message.Phase == h.message.Phase && bytes.Equal(st.message.Kind, h.message.Kind) {
			return st, nil
		}
		if instead == nil && (part || st.message.Phase != protocol.Part || !r.options.Match.elastic()) {
			instead = st
		}
		if !part && !r.options.Match.elastic() {
			return nil, instead
		}
	}
	if part && r.options.Match.elastic() {
		return nil, nil
	}
	if instead == nil && len(list) > 0 {
		instead = list[0] // it is missing
	}
	return nil, instead
}

// skips reports whether frames of a kind may be absent.
func (r *run) skips(kind []byte) bool {
	return slices.Contains(r.options.Match.Skip, string(kind))
}

// heardFrom handles a frame of the client.
func (r *repetition) heardFrom(a arrival) error {
	if a.last {
		r.ended = true
		return nil
	}
	h := r.hearTasks(&a.frame)
	m := &h.message
	gapped := r.gapped
	if r.gapped = h.gap; gapped && h.gap {
		return nil // further pieces of bytes that are not a frame
	}
	if t := r.turnOf(h); h.well && t != nil && m.Phase != protocol.Open {
		r.replied(t, h)
		return nil
	}
	r.answered(h)
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
func (r *repetition) extra(h *heard) {
	r.result.Extra++
	r.trace(frame.C2U, 0, h.wire(), &h.message, h.gap)
}

// answered notes that the client has answered a request, or cancelled a task, of turns that wait
// for it: of each scene, the oldest.
func (r *repetition) answered(h *heard) {
	m, done := h.said(), map[*scene]bool{}
	isCancel := m.Operation.Does == protocol.Cancel
	if !isCancel && !h.inner.Phase.Ends() {
		return
	}
	for _, t := range slices.Clone(r.turns) {
		i := slices.IndexFunc(t.steps[t.next:], func(st *step) bool {
			if isCancel {
				task := taskOf(m.Operation.Of)
				return cancels(st.said(), m.Operation.Of) && t.names.tasks[task] == h.tasks[task]
			}
			return st.dir == frame.C2U && st.inner.Phase.Ends() && bytes.Equal(st.inner.ID.Text, m.ID.Text)
		})
		if i += t.next; i < t.next || t.came[i] || done[t.scene] {
			continue
		}
		t.came[i], done[t.scene] = true, true
		if r.advance(t); !isCancel {
			return
		}
	}
}

// turnOf returns the turn that a frame of the client refers to, or nil. A reference without
// text matches any turn that waits for such a frame.
func (r *repetition) turnOf(h *heard) *turn {
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
			if t.stepLike(h) >= 0 {
				return t
			}
		}
		return nil
	}
	return r.live[name{opener, token.Space, string(token.Text)}]
}

// replied handles a frame of the client in a turn, which need not be as recorded.
func (r *repetition) replied(t *turn, h *heard) {
	i := t.stepLike(h)
	if string(h.message.Kind) == kindHalfClose { // no more messages are expected
		for i, st := range t.steps {
			t.came[i] = t.came[i] || st.dir == frame.C2U && st.message.Phase == protocol.Part
		}
		r.advance(t)
		return
	}
	if i < 0 {
		if r.extra(h); h.message.Phase == protocol.Cancel && r.isWeb() {
			r.endTurn(t) // nobody reads the rest
		}
		return
	}
	st := t.steps[i]
	t.came[i] = true
	if st.opens != 0 { // a cancel that is answered itself
		t.names.meet(&st.message, &h.message)
		r.nameTurn(t, frame.C2U, &h.message)
	}
	r.learn(t, st, h)
	r.advance(t)
}

// stepLike returns the index of the client's step that the frame matches; -1 if none.
func (t *turn) stepLike(h *heard) int {
	for i, st := range t.steps {
		m, l := &st.message, &h.message
		like := m.Phase == l.Phase && bytes.Equal(m.Kind, l.Kind) || m.Phase.Ends() && l.Phase.Ends()
		if !t.came[i] && st.dir == frame.C2U && like {
			return i
		}
	}
	return -1
}

// sceneFor returns the scene whose cue is the frame of the client, or nil. A request that
// was recorded several times gets one answer after the other, and then the last. A
// handshake always matches, because every client names itself, and so does an answer of the
// client, which need not be as recorded.
func (r *repetition) sceneFor(h *heard) (*scene, error) {
	sum := r.book.digest(&h.reading)
	if list := r.book.alike[sum]; len(list) > 0 {
		n := min(r.times[sum], len(list)-1)
		r.times[sum]++
		return list[n], nil
	}
	if !h.well {
		return nil, nil
	}
	var kind *scene
	match := &r.options.Match
	for _, sc := range r.book.scenes {
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
		case h.message.Phase != protocol.Open, begins(sc.cue), h.inner.Phase.Ends():
			return sc, nil
		case match.Exact:
			if len(r.asks(sc.cue, h)) == 0 {
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

// asks returns how a request differs from a recorded one. Empty and absent parameters are
// the same.
func (r *repetition) asks(cue *step, h *heard) []Change {
	return slices.DeleteFunc(r.payloads(cue, h), func(c Change) bool {
		return c.Path == "params" && (c.Recorded == "" && c.Live == "{}" || c.Recorded == "{}" && c.Live == "")
	})
}

// opensLike reports whether the cue of a scene is of the kind of a frame.
func (sc *scene) opensLike(h *heard) bool {
	return sc.cue != nil && sc.cue.message.Phase == h.message.Phase && bytes.Equal(sc.cue.message.Kind, h.message.Kind)
}

// refuse answers a request that was never recorded with an error that contains the nearest
// recorded one. If the protocol has no such error, the connection ends.
func (r *repetition) refuse(h *heard) {
	r.trace(frame.C2U, 0, h.wire(), &h.message, false)
	sc, changes := r.nearest(h)
	d := Divergence{What: Unforeseen, Changes: changes, Text: h.String() + " was never recorded"}
	var cue *step
	if sc == nil {
		d.Text += r.question(h)
	} else {
		cue = sc.cue
		d.Text += "; the nearest is " + cue.String() + ", which differs in " + inWords(changes)
	}
	r.diverge(d, cue, h, true)
	if v := r.visit(); v != nil {
		v.refuse(&h.message, d.Text)
		return
	}
	if !all.IsRPC(r.book.script.Protocol) {
		r.stopped = true
		return
	}
	answer := refusal(h, &d, cue)
	raw, err := frame.Append(nil, r.book.script.Framing, answer)
	if err != nil {
		r.stopped = true
		return
	}
	var m protocol.Message
	_ = r.book.script.Protocol.Parse(answer, &m) // only for the trace
	r.trace(frame.U2C, 0, answer, &m, false)
	r.refused = append(r.refused, raw)
}

// nearest returns the scene whose cue differs least from a request, and how it differs. One
// with the same label, such as a tool, is nearer than one without.
func (r *repetition) nearest(h *heard) (best *scene, changes []Change) {
	isAbout := false
	for _, sc := range r.book.scenes {
		if !sc.opensLike(h) {
			continue
		}
		r.script, r.names = sc.script, newNames(frame.U2C, sc.script.Protocol)
		about, differ := bytes.Equal(sc.cue.message.Label, h.message.Label), r.asks(sc.cue, h)
		if best == nil || about && !isAbout || about == isAbout && len(differ) < len(changes) {
			best, changes, isAbout = sc, differ, about
		}
	}
	return best, changes
}

// question suggests similar kinds of requests.
func (r *repetition) question(h *heard) string {
	var kinds []string
	for _, sc := range r.book.scenes {
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

// inWords describes the changes between a recorded request and a live one.
func inWords(changes []Change) string {
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
func refusal(h *heard, d *Divergence, cue *step) []byte {
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
