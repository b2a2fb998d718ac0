package track

import (
	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/claude"
	"github.com/wirectl/wirectl/protocol/jsonrpc"
	"github.com/wirectl/wirectl/session"
)

// A nested session is one of MCP inside a session of Claude Code, which is the client of an
// MCP server that its own client runs.
type nested struct {
	servers map[string]int  // the streams of the servers, by name
	asked   map[string]bool // the control requests whose MCP message wants an answer
	stream  int             // of the last request
}

// maxNested bounds the servers and the requests that are remembered.
const maxNested = 1 << 10

// nest feeds the tracker of MCP with the message that one of Claude Code carries.
func (f *Follower) nest(w *followed, it *decode.Item, fr session.Frame) {
	n, ok := claude.NestedIn(it.Payload)
	if !ok || w.tracker == nil {
		return
	}
	if w.nested == nil {
		w.nested = &nested{servers: map[string]int{}, asked: map[string]bool{}}
	}
	if !w.nested.passes(&n) {
		return
	}
	fr.Stream, fr.Inner, fr.Framing = w.nested.stream, true, nil
	fr.Payload, fr.Size = n.Message, len(n.Message)
	fr.Dir = fr.Dir.Opposite()
	var m protocol.Message
	if jsonrpc.MCP.Parse(n.Message, &m) != nil {
		return // the fault is one of the whole message, which was told
	}
	f.trackers.of(jsonrpc.MCP, f.oneWay()).Feed(fr, &m)
}

// passes reports whether a message is one of MCP, and notes what it tells. The answer to a
// control request with a notification holds none.
func (s *nested) passes(n *claude.Nested) bool {
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
