package stats

import (
	"strings"

	"github.com/wirectl/wirectl/session/contract"
)

// A Tool is the name of a tool and the size of its definition.
type Tool struct {
	Protocol, Name string
	Bytes          int64
}

// maxLabel is how much of a name the tracker keeps, in bytes.
const maxLabel = 256

// ToolsOf returns the tools that were ever listed, in the order in which they first were.
func ToolsOf(o *contract.Offer) (tools []Tool) {
	for name, tool := range o.All() {
		label := strings.ToValidUTF8(name[:min(len(name), maxLabel)], "\ufffd")
		tools = append(tools, Tool{tool.Protocol.Name(), label, int64(tool.Bytes)})
	}
	return tools
}
