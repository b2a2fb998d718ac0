// Package all lists the protocols and detects which one a stream speaks.
package all

import (
	"fmt"
	"slices"
	"strings"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/nearest"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/jsonrpc"
	"github.com/wirectl/wirectl/protocol/latis"
	"github.com/wirectl/wirectl/protocol/nexus"
	"github.com/wirectl/wirectl/protocol/opaque"
	"github.com/wirectl/wirectl/protocol/protobuf"
	"github.com/wirectl/wirectl/protocol/rlm"
	"github.com/wirectl/wirectl/protocol/theory"
)

// List returns every protocol. To add one, write its package and add it here.
func List() []protocol.Protocol { return slices.Clone(list) }

var list = []protocol.Protocol{
	rlm.Protocol, latis.Protocol, theory.Protocol, nexus.Protocol,
	jsonrpc.MCP, jsonrpc.ACP, jsonrpc.LSP, jsonrpc.DAP, jsonrpc.Plain,
	opaque.JSON,
	protobuf.Schemaless{},
	opaque.Bytes,
}

// Named returns the protocol of that name.
func Named(name string) (protocol.Protocol, error) {
	var names []string
	for _, p := range list {
		if p.Name() == name {
			return p, nil
		}
		names = append(names, p.Name())
	}
	return nil, fmt.Errorf("unknown protocol %q%s; there are: %s", name, nearest.Question(name, names), strings.Join(names, ", "))
}

// Has reports whether p is the protocol that Named finds under its name, and
// not one that was made at run time.
func Has(p protocol.Protocol) bool { return slices.Contains(list, p) }

// Limit returns the largest payload, in bytes, that peers accept of protocol p
// in a framing.
func Limit(p protocol.Protocol, f frame.Framing) int {
	if p == rlm.Protocol {
		return rlm.Limit
	}
	return frame.DefaultLimit
}
