package stats

import (
	"strings"

	"github.com/wirectl/wirectl/session/contract"
)

// A Tool is what a server says of one: its name, and how many bytes of JSON, as they are
// written, define it.
type Tool struct {
	Name  string
	Bytes int64
}

// maxLabel is what the tracker keeps of a name, in bytes.
const maxLabel = 256

// ToolsOf returns the tools that were ever listed, in the order in which they first were.
func ToolsOf(o *contract.Offer) (tools []Tool) {
	for name, tool := range o.All() {
		label := strings.ToValidUTF8(name[:min(len(name), maxLabel)], "\ufffd")
		tools = append(tools, Tool{label, int64(tool.Bytes)})
	}
	return tools
}
