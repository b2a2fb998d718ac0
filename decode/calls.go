package decode

import (
	"errors"
	"fmt"
	"slices"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/all"
	"github.com/wirectl/wirectl/protocol/carried"
)

// calls are the gRPC calls of a capture and the requests to APIs of models. Their paths
// name the types of their messages.
type calls struct {
	open     all.OpenCalls
	named    bool // the protocol is given, whatever the paths say
	readings map[protocol.Protocol]*reading
	told     map[string]bool // paths that the schema lacks
}

func newCalls(cfg *Config) calls {
	return calls{open: all.OpenCalls{Known: cfg.Calls}, named: cfg.Protocol != nil}
}

// maxTold bounds the unknown methods that are reported.
const maxTold = 16

// readingOf returns the reading for the frame of a call whose path names its messages; nil for
// any other frame.
func (c *captured) readingOf(f *frame.Frame) *reading {
	if c.calls.named {
		return nil
	}
	p := c.calls.open.Protocol(f)
	if p == nil {
		return nil
	}
	r := c.calls.readings[p]
	if r == nil {
		r = &reading{framing: frame.GRPC, protocol: p}
		if f.Meta.Framing == frame.HTTP {
			r.framing = onlyCarried{unframed{frame.Line}, frame.HTTP}
			c.tellModel(f, p)
		}
		if c.calls.readings == nil {
			c.calls.readings = map[protocol.Protocol]*reading{}
		}
		c.calls.readings[p] = r
	}
	return r
}

// tellModel reports, once for each protocol, that requests go to the API of a model.
func (c *captured) tellModel(f *frame.Frame, p protocol.Protocol) {
	if c.cfg.Notice == nil || slices.Contains(c.refined, p) {
		return
	}
	c.refined = append(c.refined, p)
	c.cfg.Notice(fmt.Sprintf("%s over http: the first request is %q", p.Name(), carried.Asked(f.Meta.Head)))
}

// lacks reports, once, a method that the given schema does not have.
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

// hasSchema reports whether a schema was given without a message, so that the paths of
// calls name the messages.
func (c *calls) hasSchema() bool {
	return !c.named && c.open.Known != nil && c.open.Known.Schema != nil
}

// ErrNoMessage is the error for a stream that is to be read by a schema, when nothing says
// which message of the schema the payloads are.
var ErrNoMessage = errors.New("a schema has many messages, and only gRPC calls name theirs: name the message with --message NAME")
