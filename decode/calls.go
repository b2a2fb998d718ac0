package decode

import (
	"errors"
	"fmt"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/protocol/all"
)

// calls are the gRPC calls of a capture. What their messages are is told by their
// paths, so that a connection may carry any number of protocols.
type calls struct {
	known *all.Calls
	named bool // the protocol is given, whatever the paths say
	wires [3]wires
	told  map[string]bool // paths that the schema lacks
}

func newCalls(cfg *Config) calls { return calls{known: cfg.Calls, named: cfg.Protocol != nil} }

// maxTold bounds the methods that are told of as unknown.
const maxTold = 16

// call returns how the frame of a call is to be read, if its path tells; nil of
// any other.
func (c *captured) call(f *frame.Frame) *reading {
	m := f.Meta
	if m == nil || f.Gap || c.calls.named {
		return nil
	}
	at := wire{f.Conn, f.Stream}
	switch {
	case m.Signal == frame.Request:
		c.beginCall(at, m.Head)
	case m.Signal == frame.NoSignal && m.Framing == frame.GRPC.Name():
		return c.calls.wires[f.Dir].readings[at]
	}
	return nil
}

// beginCall takes in the head of what may be a call.
func (c *captured) beginCall(at wire, head *frame.Head) {
	request, answer, known := c.calls.known.Of(head)
	if request == nil {
		return
	}
	if !known {
		c.lacks(head.Target())
	}
	c.calls.wires[frame.C2U].set(at, &reading{framing: frame.GRPC, protocol: request})
	c.calls.wires[frame.U2C].set(at, &reading{framing: frame.GRPC, protocol: answer})
}

// lacks tells, once, of a method that the schema does not have, if one was given.
func (c *captured) lacks(path string) {
	if !c.calls.hasSchema() || c.cfg.Notice == nil || c.calls.told[path] || len(c.calls.told) >= maxTold {
		return
	}
	if c.calls.told == nil {
		c.calls.told = map[string]bool{}
	}
	c.calls.told[path] = true
	c.cfg.Notice(fmt.Sprintf("the schema has no method %q: give the --proto FILE that has it, or name the messages with --message", path))
}

// hasSchema reports whether a schema is given, but no message: paths of calls are
// to tell.
func (c *calls) hasSchema() bool { return !c.named && c.known != nil && c.known.Schema != nil }

// ErrNoMessage is the error of a stream that is to be read by a schema, where
// nothing tells which of its messages the payloads are.
var ErrNoMessage = errors.New("a schema has many messages, and only calls of gRPC name theirs: say with --message NAME which one the payloads are")
