package replay

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/session/jsondiff"
)

// In a line of HTTP, the id of a JSON-RPC request, and its progress token, are in an object.
// The key of the object says which side chose them. Both sides count from 0, so the number
// alone is ambiguous.
const (
	clientKey   = "id of the client"
	serverKey   = "id of the server"
	clientToken = "token of the client"
	serverToken = "token of the server"
)

// undigested are the paths of ids, and of values derived from them, which do not distinguish
// requests.
var undigested = []jsondiff.Path{
	{"body", "id", clientKey},
	{"body", "*", "id", clientKey},
	{"body", "params", "_meta", "progressToken", clientToken},
	{"body", "params", "requestId", clientKey},
	{"body", "params", "message", "messageId"}, // of A2A
}

// callKey returns the key for an id that a side chose.
func callKey(owner frame.Dir) string {
	if owner == frame.C2U {
		return clientKey
	}
	return serverKey
}

// tokenKey returns the key for a progress token that a side chose.
func tokenKey(owner frame.Dir) string {
	if owner == frame.C2U {
		return clientToken
	}
	return serverToken
}

// isTheirs reports whether the peer of a side chooses the value under a key.
func isTheirs(key string, side frame.Dir) bool {
	return key == callKey(side.Opposite()) || key == tokenKey(side.Opposite())
}

// callIDs returns the positions of request ids in a body sent by one side. It calls text for
// the replacement of each.
func callIDs(body []byte, from frame.Dir, text func(value []byte, key string) []byte) (places []protocol.Place) {
	add := func(at int, value []byte, key string) {
		if value == nil {
			return
		}
		if with := text(value, key); with != nil {
			places = append(places, protocol.Place{Start: at, End: at + len(value), Text: with})
		}
	}
	var s jsonscan.Scanner
	s.Init(body)
	if jsonscan.KindOf(bytes.TrimSpace(body)) != jsonscan.Array {
		callIDsOf(body, 0, from, add)
	}
	for ok := s.Array(); ok && s.Elem(); {
		at := s.Offset()
		callIDsOf(s.Value(), at, from, add)
	}
	slices.SortFunc(places, func(a, b protocol.Place) int { return a.Start - b.Start })
	return places
}

func callIDsOf(message []byte, base int, from frame.Dir, add func(at int, value []byte, key string)) {
	id, method := memberOf(message, "id"), memberOf(message, "method")
	owner := from
	if method.value == nil {
		owner = from.Opposite()
	}
	add(base+id.at, id.value, callKey(owner))
	for _, key := range []string{"params", "result"} {
		content := memberOf(message, key)
		at := base + content.at
		switch string(method.value) {
		case `"notifications/cancelled"`:
			m := memberOf(content.value, "requestId")
			add(at+m.at, m.value, callKey(from))
		case `"notifications/progress"`:
			m := memberOf(content.value, "progressToken")
			add(at+m.at, m.value, tokenKey(from.Opposite()))
		}
		meta := memberOf(content.value, "_meta")
		m := memberOf(meta.value, "io.modelcontextprotocol/subscriptionId")
		add(at+meta.at+m.at, m.value, clientKey)
		if m = memberOf(meta.value, "progressToken"); method.value != nil {
			add(at+meta.at+m.at, m.value, tokenKey(from))
		}
	}
}

type placed struct {
	at    int
	value []byte
}

// member returns a member of an object; its value is nil if there is none.
func (p placed) member(key string) placed {
	m := memberOf(p.value, key)
	m.at += p.at
	return m
}

// memberOf returns a member of an object; the zero value if there is none.
func memberOf(object []byte, key string) (m placed) {
	var s jsonscan.Scanner
	s.Init(object)
	for ok := len(object) > 0 && s.Object(); ok && s.Next(); {
		if string(s.Key()) == key {
			m.at = s.Offset()
			m.value = s.Value()
		}
	}
	return m
}

// markIDs wraps the ids of a body in objects that say which side chose them.
func markIDs(body []byte, from frame.Dir) []byte {
	return protocol.AppendPlaced(nil, body, callIDs(body, from, func(value []byte, key string) []byte {
		if !isScalar(value) {
			return nil
		}
		return fmt.Appendf(nil, `{%q:%s}`, key, value)
	}))
}

// unmarkIDs reverses markIDs.
func unmarkIDs(body []byte) []byte {
	return protocol.AppendPlaced(nil, body, callIDs(body, frame.C2U, func(value []byte, _ string) []byte {
		for _, key := range []string{clientKey, serverKey, clientToken, serverToken} {
			if id := memberOf(value, key).value; id != nil {
				return id
			}
		}
		return nil
	}))
}

// setContent sets the body of a line. It marks the URLs of a card, and the ids if the body may
// contain calls.
func (l *webLine) setContent(body []byte, from frame.Dir, calls bool) {
	if l.setBody(body); l.Body == nil {
		return
	}
	if calls {
		l.Body = markIDs(l.Body, from)
	}
	if from == frame.U2C {
		l.Body = markCard(l.Body)
	}
}

// content returns the body as it is on the wire.
func (l *webLine) content() []byte { return l.contentAt("") }

// contentAt is content for a unit with that origin.
func (l *webLine) contentAt(origin string) []byte {
	if l.Body != nil {
		return unmarkIDs(unmarkCard(l.Body, origin))
	}
	return l.body()
}

// readInner parses the JSON-RPC message in a line of HTTP, if there is one.
func (s *Script) readInner(payload []byte, m *protocol.Message) {
	if w, isWeb := s.Protocol.(web); isWeb && (w.calls || w.rest) {
		_, _ = w.content(lineOf(payload), m)
	}
}

// inBody adds paths into the body of an HTTP line to paths of a message.
func (s *Script) inBody(paths []jsondiff.Path) []jsondiff.Path {
	if w, isWeb := s.Protocol.(web); !isWeb || !w.calls && w.grpc == nil {
		return paths
	}
	all := slices.Clone(paths)
	for _, p := range paths {
		all = append(all, append(jsondiff.Path{"body"}, p...))
	}
	return all
}

// pathOf returns the path of a place in a message as text.
func (s *Script) pathOf(keys []string) string {
	if w, isWeb := s.Protocol.(web); isWeb && (w.calls || w.grpc != nil) && len(keys) > 1 && keys[0] == "body" {
		keys = keys[1:]
	}
	return jsondiff.Join(keys)
}
