package all

import (
	"bytes"
	"slices"
	"time"

	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/jsonrpc"
	"github.com/wirectl/wirectl/protocol/nexus"
	"github.com/wirectl/wirectl/protocol/opaque"
)

// A Refiner learns from later payloads what the first one did not tell. JSON is of the
// protocol of the first payload that only one has, and in the JSON-RPC family, the first
// method that only one dialect has decides.
type Refiner struct {
	protocol protocol.Protocol
	open     bool // no payload has told any protocol
	http     bool // the payloads are bodies of HTTP
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

// family are the dialects with methods of their own.
var family = []*jsonrpc.Dialect{jsonrpc.MCP, jsonrpc.ACP, jsonrpc.A2A, jsonrpc.Copilot, jsonrpc.LSP, nexus.Protocol}

// Refine reads the next payload of the stream. It returns the protocol from this payload on
// and, if that has changed, why; done says that there is nothing more to learn.
func (r *Refiner) Refine(payload []byte) (p protocol.Protocol, why string, done bool) {
	if r.open || r.protocol == opaque.JSON {
		p, reason := Recognize(payload)
		if _, calls := p.(*jsonrpc.Dialect); r.http && !calls && p.Encoding() == protocol.JSON {
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
func only(payload []byte) (*jsonrpc.Dialect, string) {
	if !bytes.Contains(payload, []byte(`"method"`)) {
		return nil, ""
	}
	var m protocol.Message
	for item := range jsonrpc.Items(payload) {
		if jsonrpc.Plain.Parse(item, &m) != nil {
			return nil, ""
		}
		if isInitializeOfMCP(&m) {
			return jsonrpc.MCP, string(m.Kind)
		}
		if string(m.Kind) == "connect" && hasMember(m.Text, "supportedTaskKinds") {
			return jsonrpc.Copilot, string(m.Kind)
		}
		if d := knownTo(&m); d != nil {
			return d, string(m.Kind)
		}
	}
	return nil, ""
}

// First returns the dialect that the first request or notification of a session of JSON-RPC
// tells: the dialect of an initialize that names its version, or Plain if no dialect has
// such a method; nil if other messages must tell. It reports false for a payload that holds
// neither.
func First(payload []byte) (p protocol.Protocol, asks bool) {
	var m protocol.Message
	for item := range jsonrpc.Items(payload) {
		if jsonrpc.Plain.Parse(item, &m) != nil || m.Phase.Ends() || m.Faults&protocol.UnknownKind != 0 {
			return nil, false
		}
		break
	}
	switch {
	case len(m.Kind) == 0:
		return nil, false
	case isInitializeOfMCP(&m):
		return jsonrpc.MCP, true
	case slices.ContainsFunc(family, func(d *jsonrpc.Dialect) bool { return d.Knows(m.Kind) }):
		return nil, true
	}
	return jsonrpc.Plain, true
}

// isInitializeOfMCP reports whether a message is an initialize whose version is a day, like
// the versions of MCP.
func isInitializeOfMCP(m *protocol.Message) bool {
	return string(m.Kind) == "initialize" && isDate(versionIn(m.Text))
}

// versionIn returns the version of the protocol that the params of an initialize
// name, as text.
func versionIn(params []byte) string {
	var s jsonscan.Scanner
	s.Init(params)
	for ok := s.Object(); ok && s.Next(); {
		if key, value := s.Key(), s.Value(); string(key) == "protocolVersion" && jsonscan.KindOf(value) == jsonscan.String {
			version, _ := jsonscan.Unquote(value)
			return string(version)
		}
	}
	return ""
}

// ClientName returns the name that a client gives itself in a request: in an initialize, or
// since MCP 2026-07-28 in any request; "" if there is none.
func ClientName(m *protocol.Message) (name string) {
	if m.Phase != protocol.Open {
		return ""
	}
	var s jsonscan.Scanner
	s.Init(m.Text)
	text := func() (text string) {
		if value := s.Value(); jsonscan.KindOf(value) == jsonscan.String {
			unquoted, _ := jsonscan.Unquote(value)
			text = string(unquoted)
		}
		return text
	}
	info := func() {
		for ok := s.Object(); ok && s.Next(); {
			if string(s.Key()) == "name" {
				name = text()
			}
		}
	}
	initialize := string(m.Kind) == "initialize"
	for ok := s.Object(); ok && s.Next(); {
		switch key := string(s.Key()); {
		case key == "clientInfo" && initialize:
			info()
		case key == "clientName" && initialize, key == "clientID" && initialize && name == "": // DAP
			name = text()
		case key == "_meta":
			for ok := s.Object(); ok && s.Next(); {
				if string(s.Key()) == "io.modelcontextprotocol/clientInfo" {
					info()
				}
			}
		}
	}
	return name
}

// isDate reports whether a version is a day.
func isDate(version string) bool {
	_, err := time.Parse(time.DateOnly, version)
	return err == nil
}

// common are the methods that other programs than those of the family have, too, with the
// member of their params that shows the dialect, if one does.
var common = map[string]string{
	"initialize": "", "ping": "", "shutdown": "", "exit": "", "authenticate": "", "logout": "",
	"$/cancelRequest": "", "$/progress": "", "$/setTrace": "", "$/logTrace": "",
	"send": "content", "cancel": "request_id", "compact": "",
	"SendMessage": "message", "GetTask": "id", "ListTasks": "", "CancelTask": "id",
	"status.get": "", "runtime.shutdown": "", "session.event": "event", "session.send": "prompt", "session.create": "",
	"session.delete": "", "session.destroy": "", "session.detach": "", "session.list": "", "session.log": "",
	"session.resume": "", "session.shutdown": "", "session.suspend": "", "session.abort": "",
}

// isCommon reports whether the method of a request is common, and its params show no dialect.
func isCommon(m *protocol.Message) bool {
	member, ok := common[string(m.Kind)]
	return ok && (member == "" || !hasMember(m.Text, member))
}

// knownTo returns the only dialect that has the method of a request; nil if several do, or
// none. MCP and version 0.3 of A2A have the same names for requests about a task, and
// different ones for its id.
func knownTo(m *protocol.Message) *jsonrpc.Dialect {
	var found *jsonrpc.Dialect
	if isCommon(m) {
		return nil
	}
	for _, d := range family {
		if d.Knows(m.Kind) && !(d == jsonrpc.MCP && jsonrpc.A2A.Knows(m.Kind) && hasMember(m.Text, "id")) &&
			!(d == jsonrpc.A2A && jsonrpc.MCP.Knows(m.Kind) && hasMember(m.Text, "taskId")) {
			if found != nil {
				return nil
			}
			found = d
		}
	}
	return found
}

// hasMember reports whether params have a member of that name.
func hasMember(params []byte, name string) bool {
	_, ok := jsonscan.Get(params, name)
	return ok
}
