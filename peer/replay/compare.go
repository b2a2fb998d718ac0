package replay

import (
	"bytes"
	"slices"
	"strconv"

	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/session/contract"
	"github.com/wirectl/wirectl/session/jsondiff"
)

// A Change is a member of a payload that is not as recorded. "" means absent.
type Change struct {
	Path     string `json:"path,omitempty"`
	Recorded string `json:"recorded,omitempty"`
	Live     string `json:"live,omitempty"`
}

// A liveFrame is a frame of the live peer.
type liveFrame struct {
	reading
	gap bool

	live  []byte  // the payload, if the ids of tasks were replaced in it
	tasks aliases // these tasks

	exchange int  // of the recording; 0 if there is none
	ends     bool // it ends the exchange
}

// wire returns the payload as it arrived.
func (h *liveFrame) wire() []byte {
	if h.live != nil {
		return h.live
	}
	return h.payload
}

// isJSON reports whether text is one value of JSON.
func isJSON(text []byte) bool { return jsonscan.WellFormed(text) == nil }

// compare returns how a frame differs from its counterpart in the recording. It learns
// the live ids in any case.
func (r *run) compare(st *step, h *liveFrame) ([]Change, error) {
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
func (r *run) payloads(st *step, h *liveFrame) (changes []Change) {
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
func (r *run) sameLeaf(st *step, h *liveFrame, keys []string, recorded, live []byte) bool {
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
	u := idValueOf(key, recorded)
	isToken := namesSame(st, h, recorded, live)
	learns := r.script.isName(r.options.Side, key, u) && (!isToken || jsonscan.KindOf(recorded) == jsonscan.String)
	called, isLearned := r.names.others[u]
	switch {
	case isToken || learns && !isLearned && isScalar(live):
		if learns {
			r.names.others[u] = string(live)
		}
		return true
	case learns && isLearned:
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
func namesSame(st *step, h *liveFrame, recorded, live []byte) bool {
	r, l := &st.message, &h.message
	pairs := [][2]protocol.Token{{r.ID, l.ID}, {r.Ref, l.Ref}, {r.Bind, l.Bind}, {st.inner.Bind, h.inner.Bind}, {st.meaning().Context, h.meaning().Context}}
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
func (r *run) forms(st *step, h *liveFrame) ([]Change, error) {
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

// skips reports whether frames of a kind may be absent.
func (r *run) skips(kind []byte) bool {
	return slices.Contains(r.options.Match.Skip, string(kind))
}

// Changes returns how two JSON values differ.
func Changes(recorded, live []byte) (changes []Change) {
	w := jsondiff.Walk{Leaf: func(keys []string, recorded, live []byte) {
		if !jsondiff.Same(recorded, live) {
			changes = append(changes, Change{jsondiff.Join(keys), string(recorded), string(live)})
		}
	}}
	w.Values(recorded, live)
	return changes
}
