// Package all lists the protocols and detects which one a stream speaks.
package all

import (
	"cmp"
	"slices"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/nearest"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/agui"
	"github.com/wirectl/wirectl/protocol/anthropic"
	"github.com/wirectl/wirectl/protocol/bidi"
	"github.com/wirectl/wirectl/protocol/carried"
	"github.com/wirectl/wirectl/protocol/cdp"
	"github.com/wirectl/wirectl/protocol/claude"
	"github.com/wirectl/wirectl/protocol/codexexec"
	"github.com/wirectl/wirectl/protocol/gemini"
	"github.com/wirectl/wirectl/protocol/jsonrpc"
	"github.com/wirectl/wirectl/protocol/latis"
	"github.com/wirectl/wirectl/protocol/nexus"
	"github.com/wirectl/wirectl/protocol/opaque"
	"github.com/wirectl/wirectl/protocol/openai"
	"github.com/wirectl/wirectl/protocol/opencode"
	"github.com/wirectl/wirectl/protocol/pi"
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
	&jsonrpc.CodexSpec,
	&codexexec.Spec,
	&jsonrpc.CopilotSpec,
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
	&opencode.Spec,
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

// Rules returns the rules of a protocol.
func Rules(p protocol.Protocol) *protocol.Rules { return &Of(p).Rules }

// List returns every protocol.
func List() (all []protocol.Protocol) {
	for _, s := range list {
		all = append(all, s.Protocol)
	}
	return all
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
