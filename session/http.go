package session

import (
	"net/url"
	"strings"

	"github.com/wirectl/wirectl/frame"
)

// Scopes finds the scope of the ids in a frame from a carrier. For gRPC it is a stream, for
// HTTP a request and its response. For MCP over HTTP it is a session, which may use any number
// of connections. The zero Scopes is ready to use.
type Scopes struct {
	sessions  map[string]int
	exchanges map[exchange]int    // the number of its session; 0 if none
	addresses map[exchange]string // the address of a request without a session
	given     map[address]bool    // where sessions have begun
	starts    map[exchange]int    // the number of the session that a response begins
}

// An exchange is an HTTP request with its response.
type exchange struct {
	conn   int
	stream int64
}

// An address is the destination of a connection.
type address struct {
	conn   int
	target string
}

// maxExchanges bounds the remembered exchanges and sessions.
const maxExchanges = 1 << 16

// Of returns Conn and Stream for a [Frame]. An MCP session is a stream with a negative number
// on connection 0.
func (s *Scopes) Of(f *frame.Frame) (conn, stream int) {
	if f.Meta == nil || f.Meta.Framing != frame.HTTP {
		return f.Conn, int(f.Stream)
	}
	at := exchange{f.Conn, f.Stream}
	if f.Meta.Head.Method() != "" {
		delete(s.starts, at)
	}
	s.noteGiven(at, f.Meta.Head)
	number, known := s.exchanges[at]
	if id, tells := sessionID(f, known); tells {
		number = s.session(id)
		s.remember(at, number)
	}
	if number != 0 {
		return 0, -number
	}
	return f.Conn, int(f.Stream)
}

// noteGiven records that the response to a request assigns it a session.
func (s *Scopes) noteGiven(at exchange, h *frame.Head) {
	if h == nil {
		return
	}
	id := h.Get("Mcp-Session-Id")
	switch target, asked := s.addresses[at]; {
	case h.Method() != "" && id == "":
		if s.addresses == nil || len(s.addresses) >= maxExchanges {
			s.addresses = map[exchange]string{}
		}
		s.addresses[at] = strings.Clone(h.Target())
	case h.Method() == "" && asked:
		delete(s.addresses, at)
		if id == "" {
			return
		}
		if s.given == nil || len(s.given) >= maxExchanges {
			s.given = map[address]bool{}
		}
		s.given[address{at.conn, target}] = true
		if s.starts == nil || len(s.starts) >= maxExchanges {
			s.starts = map[exchange]int{}
		}
		s.starts[at] = s.session(id)
	}
}

// Begins returns the Stream of the session that the response of f begins; 0 if it begins none.
func (s *Scopes) Begins(f *frame.Frame) int { return -s.starts[exchange{f.Conn, f.Stream}] }

// Lacks reports whether a request names no session, although its connection was given one for
// the same address.
func (s *Scopes) Lacks(f *frame.Frame) bool {
	h := f.Meta.Head
	return h.Get("Mcp-Session-Id") == "" && s.given[address{f.Conn, h.Target()}]
}

// IsOlder reports whether a request is of the older SSE transport.
func IsOlder(h *frame.Head) bool {
	return h.Get("Mcp-Session-Id") == "" && inQuery(h.Target()) != ""
}

// sessionID returns the id of the session that a frame names for its exchange; "" if none. A
// request tells the session, and so does a response whose request was not seen: the request
// that begins a session has no id yet.
func sessionID(f *frame.Frame, known bool) (id string, tells bool) {
	h := f.Meta.Head
	switch {
	case f.Meta.Event == "endpoint": // of the older SSE transport
		return inQuery(string(f.Payload())), true
	case h == nil:
		return "", false
	case h.Method() != "":
		if id = h.Get("Mcp-Session-Id"); id == "" {
			id = inQuery(h.Target())
		}
		return id, true
	}
	id = h.Get("Mcp-Session-Id")
	return id, !known && id != ""
}

// inQuery returns the session id in the query of an address.
func inQuery(address string) string {
	u, err := url.Parse(strings.TrimSpace(address))
	if err != nil {
		return ""
	}
	for _, name := range []string{"sessionId", "session_id"} {
		if id := u.Query().Get(name); id != "" {
			return id
		}
	}
	return ""
}

// session returns the number of a session, from 1, or 0 if there is none.
func (s *Scopes) session(id string) int {
	if id == "" {
		return 0
	}
	number := s.sessions[id]
	if number == 0 {
		if s.sessions == nil {
			s.sessions = map[string]int{}
		}
		if len(s.sessions) >= maxExchanges {
			clear(s.sessions)
		}
		number = len(s.sessions) + 1
		s.sessions[strings.Clone(id)] = number
	}
	return number
}

func (s *Scopes) remember(at exchange, number int) {
	if s.exchanges == nil {
		s.exchanges = map[exchange]int{}
	}
	if len(s.exchanges) >= maxExchanges {
		clear(s.exchanges)
	}
	s.exchanges[at] = number
}
