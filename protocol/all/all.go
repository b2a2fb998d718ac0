// Package all lists the protocols and detects which one a stream speaks.
package all

import (
	"cmp"
	"mime"
	"slices"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/nearest"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/agentlog"
	"github.com/wirectl/wirectl/protocol/agui"
	"github.com/wirectl/wirectl/protocol/aisdk"
	"github.com/wirectl/wirectl/protocol/anthropic"
	"github.com/wirectl/wirectl/protocol/bidi"
	"github.com/wirectl/wirectl/protocol/carried"
	"github.com/wirectl/wirectl/protocol/cdp"
	"github.com/wirectl/wirectl/protocol/claude"
	"github.com/wirectl/wirectl/protocol/cline"
	"github.com/wirectl/wirectl/protocol/codexexec"
	"github.com/wirectl/wirectl/protocol/copilotcli"
	"github.com/wirectl/wirectl/protocol/gemini"
	"github.com/wirectl/wirectl/protocol/geminicli"
	"github.com/wirectl/wirectl/protocol/jsonrpc"
	"github.com/wirectl/wirectl/protocol/latis"
	"github.com/wirectl/wirectl/protocol/nexus"
	"github.com/wirectl/wirectl/protocol/opaque"
	"github.com/wirectl/wirectl/protocol/openai"
	"github.com/wirectl/wirectl/protocol/opencode"
	"github.com/wirectl/wirectl/protocol/opencoderun"
	"github.com/wirectl/wirectl/protocol/pi"
	"github.com/wirectl/wirectl/protocol/process"
	"github.com/wirectl/wirectl/protocol/protobuf"
	"github.com/wirectl/wirectl/protocol/repl"
	"github.com/wirectl/wirectl/protocol/rlm"
	"github.com/wirectl/wirectl/protocol/theory"
)

// list has every protocol. To add one, write its folder and add its Spec here.
var list = []*protocol.Spec{
	&rlm.Spec,
	&repl.Spec,
	&latis.Spec,
	&theory.Spec,
	&nexus.Spec,
	&jsonrpc.MCPSpec,
	&jsonrpc.ACPSpec,
	&claude.Spec,
	&agentlog.Spec,
	&process.Spec,
	&jsonrpc.CodexSpec,
	&codexexec.Spec,
	&jsonrpc.CopilotSpec,
	&copilotcli.Spec,
	&geminicli.Spec,
	&cline.Spec,
	&pi.Spec,
	&jsonrpc.A2ASpec,
	&openai.Spec,
	&openai.RealtimeSpec,
	&anthropic.Spec,
	&gemini.Spec,
	&gemini.LiveSpec,
	&cdp.Spec,
	&bidi.Spec,
	&agui.Spec,
	&aisdk.Spec,
	&opencode.Spec,
	&opencoderun.Spec,
	&jsonrpc.LSPSpec,
	&jsonrpc.DAPSpec,
	&jsonrpc.PlainSpec,
	&opaque.JSONSpec,
	&protobuf.Spec,
	&opaque.BytesSpec,
}

// specs are those of the list and of carriers, by name.
var specs = func() map[string]*protocol.Spec {
	byName := map[string]*protocol.Spec{}
	for _, s := range slices.Concat(list, carried.Specs) {
		byName[s.Name()] = s
	}
	return byName
}()

// Of returns the spec of a protocol, or that of bytes for nil. A protocol with a name that is not of
// the list has no more than its parser.
func Of(p protocol.Protocol) *protocol.Spec {
	if p == nil {
		return &opaque.BytesSpec
	}
	if s := specs[p.Name()]; s != nil {
		return s
	}
	return &protocol.Spec{Protocol: p}
}

// SpecNamed returns the spec of the protocol of that name; an empty one if there is none.
func SpecNamed(name string) *protocol.Spec {
	if s := specs[name]; s != nil {
		return s
	}
	return &protocol.Spec{}
}

// Rules returns the rules of a protocol.
func Rules(p protocol.Protocol) *protocol.Rules { return &Of(p).Rules }

// List returns every protocol.
func List() (all []protocol.Protocol) {
	for _, s := range list {
		all = append(all, s.Protocol)
	}
	return all
}

// Kinds returns the usual kinds of requests, of all protocols that have a fixed list of them.
func Kinds() (kinds []string) {
	for _, spec := range list {
		if p, ok := spec.Protocol.(interface{ Kinds() []string }); ok {
			kinds = append(kinds, p.Kinds()...)
		}
	}
	slices.Sort(kinds)
	return slices.Compact(kinds)
}

// Names returns the names of every protocol, and of the protocols of carriers themselves.
func Names() (names []string) {
	for _, s := range slices.Concat(list, carried.Specs) {
		names = append(names, s.Name())
	}
	return names
}

// Named returns the protocol of that name.
func Named(name string) (protocol.Protocol, error) {
	return nearest.Named("protocol", name, List(), protocol.Protocol.Name)
}

// Has reports whether p is the protocol that Named finds under its name, and
// not one that was made at run time.
func Has(p protocol.Protocol) bool {
	return slices.ContainsFunc(list, func(s *protocol.Spec) bool { return s.Protocol == p })
}

// Limit returns the largest payload, in bytes, that peers accept of a protocol.
func Limit(p protocol.Protocol) int { return cmp.Or(Of(p).Limit, frame.DefaultLimit) }

// Depth ranks protocols by how much they tell: all but the last may turn out to be another.
func Depth(p protocol.Protocol) int {
	if i := slices.Index([]protocol.Protocol{opaque.Bytes, opaque.JSON, jsonrpc.Plain}, p); i >= 0 {
		return i
	}
	return Told
}

// The depths of protocols.
const (
	Bytes = iota
	JSON
	RPC
	Told
)

// Dialects are the protocols that JSON-RPC may turn out to be.
func Dialects() (dialects []protocol.Protocol) {
	for _, s := range list {
		if s.Refine != nil {
			dialects = append(dialects, s.Protocol)
		}
	}
	return dialects
}

// IsRPC reports whether the messages of a protocol are those of JSON-RPC, which come in batches.
func IsRPC(p protocol.Protocol) bool {
	_, is := p.(*jsonrpc.Dialect)
	return is
}

// Calls gives the types of the messages of a gRPC call by its path.
type Calls struct {
	// Known are the methods whose messages are always known, and Schema those of a given
	// schema; either may be nil.
	Known, Schema *protobuf.Methods
}

// Of returns the protocols of a call's messages, those of the client and those of the
// server. known is false for a method that is not described anywhere: its messages are
// protobuf without a schema. Both are nil if there is no path, or the messages are in
// another encoding.
func (c *Calls) Of(head *frame.Head) (request, answer protocol.Protocol, known bool) {
	switch kind, _, _ := mime.ParseMediaType(head.Get("Content-Type")); kind {
	case "application/grpc", "application/grpc+proto":
	default:
		return nil, nil, false
	}
	path := head.Target()
	if c != nil {
		for _, methods := range []*protobuf.Methods{c.Schema, c.Known} {
			if methods == nil {
				continue
			}
			if request, answer, known = methods.Messages(path); known {
				return request, answer, true
			}
		}
	}
	for _, s := range list {
		if s.Messages == nil {
			continue
		}
		if request, answer, known = s.Messages(path); known {
			return request, answer, true
		}
	}
	return protobuf.Schemaless{}, protobuf.Schemaless{}, false
}

// APIs recognize the calls of a session to APIs by the heads of its requests, in their order. The
// zero APIs is ready to use.
type APIs struct {
	calls map[*protocol.Spec]func(head *frame.Head, body []byte) *protocol.Call
}

// Call returns the call that a frame begins; nil if it begins none. If other APIs have such paths, too,
// the body decides, if it is in the frame and not compressed.
func (a *APIs) Call(f *frame.Frame) (found *protocol.Call) {
	if f.Gap || f.Meta == nil || f.Meta.Head.Method() == "" {
		return nil
	}
	if a.calls == nil {
		a.calls = map[*protocol.Spec]func(*frame.Head, []byte) *protocol.Call{}
	}
	body := carried.BodyOf(f)
	for _, s := range list {
		if s.API == nil || f.Meta.Framing != frame.HTTP && s.Messages == nil {
			continue
		}
		if a.calls[s] == nil {
			a.calls[s] = s.API.Calls()
		}
		if c := a.calls[s](f.Meta.Head, body); c != nil {
			if c.Spec = s; !c.Vague {
				return c
			}
			found = c
		}
	}
	return found
}

// OpenCalls remember the gRPC calls of a session and the requests to APIs of models, and
// say by them in which protocol the messages on their streams are, so that a connection
// may carry any number of protocols. A server's answers to reflection tell it what the messages
// of later calls are. A session can name any number of calls: those that began
// long ago are forgotten.
type OpenCalls struct {
	// Known are the calls that are described; nil knows only Latis.
	Known *Calls
	// Lacking, if not nil, is told the path of each call that is not described.
	Lacking func(path string)

	apis       APIs
	learned    protobuf.Learned
	young, old map[callKey]call
}

type callKey struct {
	conn   int
	stream int64
}

type call struct {
	request, answer protocol.Protocol
	reflection      bool // the answers contain schemas
	events          bool // the answers are events, and isEvent tells whether they are of the protocol
	isEvent         func(payload []byte) bool
}

// maxYoung is how many calls begin before older ones are forgotten.
const maxYoung = 1 << 15

// Protocol returns the protocol of a message of a call; nil for any other frame, and if the
// path of the call does not tell. It also tracks the heads of calls.
func (o *OpenCalls) Protocol(f *frame.Frame) protocol.Protocol {
	m := f.Meta
	if m == nil || f.Gap {
		return nil
	}
	at := callKey{f.Conn, f.Stream}
	if m.Framing == frame.HTTP && m.Head.Method() != "" {
		if c := o.apis.Call(f); c != nil && !c.GRPC {
			bodies, api := c.Spec.Bodies(), c.Spec.API
			o.remember(at, call{request: bodies, answer: bodies, isEvent: api.IsEvent, events: c.Listens})
			if m.Signal == frame.NoSignal && (api.Fail == nil || len(f.Payload()) > 0) {
				return bodies
			}
			return nil
		}
		delete(o.young, at)
		delete(o.old, at)
	}
	switch {
	case m.Signal == frame.Request:
		o.openCall(at, m.Head)
	case m.Signal == frame.NoSignal && (m.Framing == frame.GRPC.Name() || m.Framing == frame.HTTP):
		c, young := o.young[at]
		if !young {
			c = o.old[at]
		}
		switch f.Dir {
		case frame.C2U:
			return c.request
		case frame.U2C:
			if c.reflection {
				o.learned.Learn(f.Payload())
			}
			if c.events && !c.isEvent(f.Payload()) {
				return nil // from another server
			}
			return c.answer
		}
	}
	return nil
}

// openCall handles a head that may begin a call.
func (o *OpenCalls) openCall(at callKey, head *frame.Head) {
	request, answer, known := o.Known.Of(head)
	if request == nil {
		return
	}
	path := head.Target()
	if !known {
		if learnt, too, ok := o.learned.Messages(path); ok {
			request, answer, known = learnt, too, true
		}
	}
	if !known && o.Lacking != nil {
		o.Lacking(path)
	}
	o.remember(at, call{request: request, answer: answer, reflection: path == "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo" ||
		path == "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"})
}

func (o *OpenCalls) remember(at callKey, c call) {
	if o.young == nil || len(o.young) == maxYoung {
		o.young, o.old = map[callKey]call{}, o.young
	}
	o.young[at] = c
}
