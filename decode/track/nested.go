package track

import (
	"bytes"

	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/session"
)

// A nested session is one inside another: the client of the outer one runs the server, and the
// unit is the client of that server.
type nested struct {
	servers map[string]int  // server streams, by name
	asked   map[string]bool // outer requests whose message expects an answer
	stream  int             // of the last request
}

// maxNested limits the remembered servers and requests.
const maxNested = 1 << 10

// nest feeds a tracker with the message inside a message.
func (f *Follower) nest(w *followed, n *protocol.Nested, fr session.Frame) {
	if n == nil || w.tracker == nil {
		return
	}
	if w.nested == nil {
		w.nested = &nested{servers: map[string]int{}, asked: map[string]bool{}}
	}
	if !w.nested.passes(n) {
		return
	}
	fr.Stream, fr.Inner, fr.Framing = w.nested.stream, true, nil
	fr.Payload, fr.Size = n.Message, len(n.Message)
	fr.Dir = fr.Dir.Opposite()
	var m protocol.Message
	if n.Protocol.Parse(n.Message, &m) != nil {
		return // the fault of the whole message was reported already
	}
	fr.Blank = fr.Masked && bytes.HasPrefix(m.Kind, []byte("*")) // early outlines kept nothing so deep
	f.trackers.of(n.Protocol, f.oneWay()).Feed(fr, &m)
}

// passes reports whether a message contains another, and notes its ids. The answer to an
// outer request with a notification contains none.
func (s *nested) passes(n *protocol.Nested) bool {
	if n.Answer {
		asked := s.asked[string(n.Request)]
		delete(s.asked, string(n.Request))
		return asked && n.Message != nil
	}
	stream := s.servers[string(n.Server)]
	if stream == 0 {
		if len(s.servers) >= maxNested {
			return false
		}
		stream = -len(s.servers) - 1
		s.servers[string(n.Server)] = stream
	}
	s.stream = stream
	if n.Asks {
		if len(s.asked) >= maxNested {
			clear(s.asked)
		}
		s.asked[string(n.Request)] = true
	}
	return true
}
