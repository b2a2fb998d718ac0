package track

import (
	"bytes"

	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/claude"
	"github.com/wirectl/wirectl/protocol/jsonrpc"
	"github.com/wirectl/wirectl/session"
)

// A nested session is an MCP session inside a Claude Code session. Claude Code's client runs
// the MCP server, and Claude Code is the client of that server.
type nested struct {
	servers map[string]int  // server streams, by name
	asked   map[string]bool // control requests whose MCP message expects an answer
	stream  int             // of the last request
}

// maxNested limits the remembered servers and requests.
const maxNested = 1 << 10

// nest feeds the MCP tracker with the message inside a message of Claude Code.
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
		return // the fault of the whole message was reported already
	}
	fr.Blank = fr.Masked && bytes.HasPrefix(m.Kind, []byte("*")) // early outlines kept nothing so deep
	f.trackers.of(jsonrpc.MCP, f.oneWay()).Feed(fr, &m)
}

// passes reports whether a message contains one of MCP, and notes its ids. The answer to a
// control request with a notification contains none.
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
