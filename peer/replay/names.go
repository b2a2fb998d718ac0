package replay

import (
	"bytes"
	"cmp"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/all"
	"github.com/wirectl/wirectl/session/jsondiff"
)

// An idValue is an id in a message. A string means the same under any key, a number only
// under the same key.
type idValue struct{ key, value string }

func idValueOf(key string, value []byte) idValue {
	if text, ok := jsonscan.Unquote(value); ok {
		return idValue{value: string(text)}
	}
	return idValue{key, string(value)}
}

// idsIn yields the ids in a step.
func idsIn(st *step) iter.Seq[idValue] {
	return func(yield func(idValue) bool) {
		if st.form == nil {
			return
		}
		more := true
		jsondiff.Leaves(st.form, func(key string, _ int, value []byte) {
			switch {
			case !more:
			case jsondiff.HoldsID(key):
				more = yield(idValueOf(key, value))
			case holdsResource(key):
				for _, segment := range segments(value) {
					more = more && yield(idValue{value: segment})
				}
			}
		})
	}
}

// holdsResource reports whether a key holds resource names, as in gRPC: tasks/ID.
func holdsResource(key string) bool { return key == "name" || key == "parent" }

// segments returns the segments of a resource name; nil for any other text.
func segments(value []byte) []string {
	text, ok := jsonscan.Unquote(value)
	if !ok || !bytes.Contains(text, []byte("/")) || bytes.ContainsAny(text, " :") {
		return nil
	}
	return strings.Split(string(text), "/")
}

// noteIDs records the ids in a step.
func (s *Script) noteIDs(st *step) {
	for u := range idsIn(st) {
		by := s.idUsers[u]
		by[st.dir] = true
		s.idUsers[u] = by
	}
}

// isName reports whether the value under a key in a frame of the peer is an id to learn: our
// side uses it, or the peer made it up.
func (s *Script) isName(side frame.Dir, key string, u idValue) bool {
	return s.idUsers[u][side] || slices.Contains(all.Of(s.messageProtocol()).Invented, key)
}

// names maps ids of the recording to live ids.
type names struct {
	side   frame.Dir // ours
	isWeb  bool      // the ids are in parts
	tokens map[name]string
	own    map[name]string    // our own ids
	others map[idValue]string // as written in JSON
	calls  map[callID]string  // those of the peer's requests over HTTP, as written in JSON
	tasks  aliases            // our own
	mine   map[idValue]string // others, of the client whose turn it is
}

// A callID is the id of a JSON-RPC request in an HTTP exchange. Exchange 0 stands for the
// latest request with that id.
type callID struct {
	exchange int
	key, id  string
}

// learnCall records the live peer's id of one of its requests.
func (n *names) learnCall(exchange int, key string, recorded, live []byte) {
	n.calls[callID{exchange, key, string(recorded)}] = string(live)
	n.calls[callID{0, key, string(recorded)}] = string(live)
	if jsonscan.KindOf(recorded) == jsonscan.String {
		n.others[idValueOf("", recorded)] = string(live)
	}
}

// callOf returns the live peer's id of the request that a step refers to.
func (n *names) callOf(st *step, key string, recorded []byte) (live []byte, ok bool) {
	called, ok := n.calls[callID{st.exchange, key, string(recorded)}]
	if !ok {
		called, ok = n.calls[callID{0, key, string(recorded)}]
	}
	return []byte(called), ok
}

// sameText reports whether two strings are equal once the first has the live ids.
func (n *names) sameText(recorded, live []byte) bool {
	was, ok := jsonscan.Unquote(recorded)
	is, isText := jsonscan.Unquote(live)
	if !ok || !isText {
		return false
	}
	var pairs []string
	for _, u := range slices.SortedFunc(maps.Keys(n.others), func(a, b idValue) int { return cmp.Compare(b.value, a.value) }) { // longer ones before their beginnings
		if text, ok := jsonscan.Unquote([]byte(n.others[u])); ok && u.key == "" && u.value != "" {
			pairs = append(pairs, u.value, string(text))
		}
	}
	return strings.NewReplacer(pairs...).Replace(string(was)) == string(is)
}

func newNames(side frame.Dir, p protocol.Protocol) *names {
	_, isWeb := p.(web)
	return &names{side: side, isWeb: isWeb, tokens: make(map[name]string), own: make(map[name]string), others: make(map[idValue]string), calls: make(map[callID]string)}
}

// meet learns the names that the peer gave to an exchange that it opens.
func (n *names) meet(recorded, live *protocol.Message) {
	for _, pair := range [][2]protocol.Token{{recorded.ID, live.ID}, {recorded.Bind, live.Bind}} {
		if r, l := pair[0], pair[1]; !r.IsZero() && r.Space == l.Space {
			n.tokens[name{n.side.Opposite(), r.Space, string(r.Text)}] = string(l.Text)
		}
	}
}

// rename returns the payload of a step of ours with the live ids. If they are the same, it
// returns the recorded payload itself.
func (n *names) rename(st *step, p protocol.Protocol) []byte {
	if !st.well || len(n.tokens)+len(n.own)+len(n.others)+len(n.calls)+len(n.tasks) == 0 && !isHandshake(st) {
		return st.payload
	}
	if r, ok := p.(protocol.Renamer); ok {
		return r.AppendRenamed(nil, st.payload, func(t protocol.Token) []byte { return n.token(&st.message, t) })
	}
	if p.Encoding() != protocol.JSON {
		return st.payload
	}
	places := n.places(st)
	if len(places) == 0 {
		return st.payload
	}
	return protocol.AppendPlaced(nil, st.payload, places)
}

// isProcess reports whether the key holds the process id of an LSP client. The recorded
// process is gone, and a server ends when its client's process does, so it gets null.
func isProcess(st *step, key string) bool { return key == "processId" && isHandshake(st) }

func isHandshake(st *step) bool { return string(st.message.Kind) == "initialize" }

// token returns the live token for a token in a message of ours; nil if it is the same.
func (n *names) token(m *protocol.Message, t protocol.Token) []byte {
	if t.Space == protocol.SpaceSession {
		if live, ok := n.others[idValue{value: string(t.Text)}]; ok {
			text, _ := jsonscan.Unquote([]byte(live))
			return text
		}
	}
	if n.isOurs(m, t) {
		if called, ok := n.own[name{n.side, t.Space, string(t.Text)}]; ok {
			return []byte(called)
		}
		return nil
	}
	if live, ok := n.tokens[name{n.side.Opposite(), t.Space, string(t.Text)}]; ok {
		return []byte(live)
	}
	return nil
}

// isOurs reports whether we chose a token in a message of ours.
func (n *names) isOurs(m *protocol.Message, t protocol.Token) bool {
	answers := m.Phase == protocol.Part || m.Phase.Ends() || n.isWeb && m.Phase == protocol.Note
	return !answers || !m.Ref.IsZero() && protocol.SameToken(t, m.ID) // an answer can have its own number
}

// places returns the changes to a JSON payload.
func (n *names) places(st *step) (list []protocol.Place) {
	jsondiff.Leaves(st.payload, func(key string, at int, value []byte) {
		if live := n.liveValue(st, key, value); live != nil {
			list = append(list, protocol.Place{Start: at, End: at + len(value), Text: live})
		}
	})
	return list
}

// liveValue returns what takes the place of a value in a message of ours; nil if it stays.
func (n *names) liveValue(st *step, key string, value []byte) []byte {
	task := otherID(key, value, func(id string) (string, bool) {
		live, ok := n.tasks[id]
		return live, ok
	})
	switch {
	case task != nil:
		return task
	case isProcess(st, key):
		return []byte("null")
	case isTheirs(key, n.side):
		if live, ok := n.callOf(st, key, value); ok {
			return live
		}
		return nil
	case holdsResource(key):
		return renameSegments(value, func(id string) (string, bool) {
			live, _ := n.other(idValue{value: id})
			text, ok := jsonscan.Unquote([]byte(live))
			return string(text), ok
		})
	case !jsondiff.HoldsID(key):
		return nil
	}
	if t, ok := tokenAt(&st.message, value); ok && t.Space != protocol.SpaceSession {
		if live := n.token(&st.message, t); live != nil || !protocol.SameToken(t, st.message.Ref) {
			return live
		}
	}
	if live, ok := n.other(idValueOf(key, value)); ok {
		return []byte(live)
	}
	return nil
}

// otherID returns the value under a key with other ids; nil if it has none that other knows.
func otherID(key string, value []byte, other func(id string) (string, bool)) []byte {
	if holdsResource(key) {
		return renameSegments(value, other)
	}
	id, isText := jsonscan.Unquote(value)
	if !isText || !jsondiff.HoldsID(key) {
		return nil
	}
	if with, ok := other(string(id)); ok {
		return jsonscan.AppendQuote(nil, []byte(with))
	}
	return nil
}

// other returns the live peer's id, as written in JSON.
func (n *names) other(u idValue) (live string, ok bool) {
	if live, ok = n.mine[u]; !ok {
		live, ok = n.others[u]
	}
	return live, ok
}

// renameSegments returns a resource name whose ids are replaced by others; nil if it has none.
func renameSegments(value []byte, other func(id string) (string, bool)) []byte {
	list, changed := segments(value), false
	for i, segment := range list {
		if with, ok := other(segment); ok {
			list[i], changed = with, true
		}
	}
	if !changed {
		return nil
	}
	return jsonscan.AppendQuote(nil, []byte(strings.Join(list, "/")))
}

// tokenAt returns the token of m whose text is this slice of the payload.
func tokenAt(m *protocol.Message, value []byte) (protocol.Token, bool) {
	for _, t := range []protocol.Token{m.ID, m.Ref, m.Bind} {
		if protocol.SameToken(t, protocol.Token{Text: value}) {
			return t, true
		}
	}
	return protocol.Token{}, false
}
