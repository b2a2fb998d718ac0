package all

import (
	"bytes"

	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/jsonrpc"
	"github.com/wirectl/wirectl/protocol/opaque"
)

// A Refiner learns from later payloads what the first one did not tell. JSON is of the
// protocol of the first payload that only one has, and in the JSON-RPC family, the first
// method that only one dialect has decides.
type Refiner struct {
	protocol protocol.Protocol
	open     bool // no payload has told any protocol
	http     bool // the payloads are bodies of HTTP
	done     bool // there is nothing more to learn
	looked   int  // how many payloads were JSON of no protocol
}

// maxLooked bounds looked.
const maxLooked = 64

// NewRefiner returns a Refiner for unknown payloads, such as bodies of HTTP: they are bytes
// until one tells.
func NewRefiner(http bool) *Refiner { return &Refiner{protocol: opaque.Bytes, open: true, http: http} }

// Refiner returns the Refiner of the guess; nil if nothing is open.
func (g *Guess) Refiner() *Refiner {
	if g.open || g.Protocol == protocol.Protocol(jsonrpc.Plain) || g.Protocol == opaque.JSON && g.guessed {
		return &Refiner{protocol: g.Protocol, open: g.open}
	}
	return nil
}

// Refine reads the next payload of the stream. It returns the protocol from this payload on
// and, if that has changed, why; done says that there is nothing more to learn.
func (r *Refiner) Refine(payload []byte) (p protocol.Protocol, why string, done bool) {
	if !r.done {
		r.protocol, why, r.done = r.refine(payload)
	}
	return r.protocol, why, r.done
}

func (r *Refiner) refine(payload []byte) (p protocol.Protocol, why string, done bool) {
	if r.open || r.protocol == opaque.JSON {
		p, reason := Recognize(payload)
		if r.http && !IsRPC(p) && p.Encoding() == protocol.JSON {
			p, reason = opaque.JSON, "the first payload is JSON" // other protocols have streams of messages
		}
		switch {
		case r.open && p == opaque.Bytes:
			return r.protocol, "", false
		case r.open || p != opaque.Bytes && p != opaque.JSON && p.Encoding() == protocol.JSON:
			r.open, r.protocol, why = false, p, reason
		}
		if r.protocol == opaque.JSON {
			r.looked++
			return r.protocol, why, r.looked >= maxLooked
		}
	}
	if r.protocol != protocol.Protocol(jsonrpc.Plain) {
		return r.protocol, why, true
	}
	if d, method := only(payload); d != nil {
		return d, "the method " + method, true
	}
	return r.protocol, why, false
}

// only returns the first method in a payload that only one dialect has, or an initialize
// with the version of one, and that dialect; nil if there is none.
func only(payload []byte) (protocol.Protocol, string) {
	if !bytes.Contains(payload, []byte(`"method"`)) {
		return nil, ""
	}
	var m protocol.Message
	for item := range protocol.Items(payload) {
		if jsonrpc.Plain.Parse(item, &m) != nil {
			return nil, ""
		}
		if p, score := refine(&m); p != nil && score >= protocol.Likely {
			return p, string(m.Kind)
		}
	}
	return nil, ""
}

// Asks reports whether a payload has a request of JSON-RPC.
func Asks(payload []byte) bool {
	for item := range protocol.Items(payload) {
		var m protocol.Message
		if jsonrpc.Plain.Parse(item, &m) == nil && m.Phase == protocol.Open {
			return true
		}
	}
	return false
}

// refine returns the dialect for which a message is the strongest evidence, and how strong that
// is; nil if several dialects have the same, or none has any.
func refine(m *protocol.Message) (p protocol.Protocol, best protocol.Score) {
	for _, s := range list {
		if s.Refine == nil {
			continue
		}
		switch score := s.Refine(m).Score; {
		case score > best:
			best, p = score, s.Protocol
		case score == best:
			p = nil
		}
	}
	return p, best
}

// First returns the dialect that the first request or notification of a session of JSON-RPC
// tells: the dialect of an initialize that names its version, or Plain if no dialect has
// such a method; nil if other messages must tell. It reports false for a payload that holds
// neither.
func First(payload []byte) (p protocol.Protocol, asks bool) {
	var m protocol.Message
	for item := range protocol.Items(payload) {
		if jsonrpc.Plain.Parse(item, &m) != nil || m.Phase.Ends() || m.Faults&protocol.UnknownKind != 0 {
			return nil, false
		}
		break
	}
	if len(m.Kind) == 0 {
		return nil, false
	}
	switch p, score := refine(&m); score {
	case protocol.NoScore:
		return jsonrpc.Plain, true
	case protocol.Certain:
		return p, true
	}
	return nil, true
}

// ClientName returns the name that a client gives itself in a request: in an initialize, or
// since MCP 2026-07-28 in any request; "" if there is none.
func ClientName(m *protocol.Message) string {
	if m.Phase != protocol.Open {
		return ""
	}
	paths := [][]string{{"_meta", "io.modelcontextprotocol/clientInfo", "name"}}
	if string(m.Kind) == "initialize" {
		paths = append(paths, []string{"clientInfo", "name"}, []string{"clientName"}, []string{"clientID"}) // the last two of DAP
	}
	for _, path := range paths {
		raw, _ := jsonscan.Get(m.Text, path...)
		if name, ok := jsonscan.Unquote(raw); ok && len(name) > 0 {
			return string(name)
		}
	}
	return ""
}
