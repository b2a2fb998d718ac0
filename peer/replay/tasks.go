package replay

import (
	"fmt"
	"maps"
	"regexp"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/session/jsondiff"
)

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
	m := st.said()
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
	mine := map[utterance]string{}
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

// hearTasks reads a frame of the client as if it had the recorded ids of tasks.
func (r *repetition) hearTasks(f *frame.Frame) *heard {
	h := r.hear(f)
	if len(r.recorded) == 0 || h.form == nil || r.script.Protocol.Encoding() != protocol.JSON {
		return h
	}
	named := aliases{}
	places := idPlaces(h.payload, func(live string) (string, bool) {
		id, ok := r.recorded[live]
		if ok {
			named[id] = live
		}
		return id, ok && id != live
	})
	if h.tasks = named; len(places) == 0 {
		return h
	}
	plain := framed(f, r.script.Framing, protocol.AppendPlaced(nil, h.payload, places))
	again := r.hear(&plain)
	again.live, again.tasks = h.payload, named
	return again
}

// idPlaces returns the changes to the ids in a payload that have others.
func idPlaces(payload []byte, other func(id string) (string, bool)) (list []protocol.Place) {
	jsondiff.Leaves(payload, func(key string, at int, value []byte) {
		var text []byte
		switch id, isText := jsonscan.Unquote(value); {
		case holdsResource(key):
			text = renameSegments(value, other)
		case isText && jsondiff.HoldsID(key):
			if with, ok := other(string(id)); ok {
				text = jsonscan.AppendQuote(nil, []byte(with))
			}
		}
		if text != nil {
			list = append(list, protocol.Place{Start: at, End: at + len(value), Text: text})
		}
	})
	return list
}
