package all

import (
	"mime"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/carried"
	"github.com/wirectl/wirectl/protocol/protobuf"
)

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
type APIs struct{ list []api }

type api struct {
	spec *protocol.Spec
	call func(head *frame.Head, body []byte) *protocol.Call
}

// Call returns the call that a frame begins; nil if it begins none. If other APIs have such paths, too,
// the body decides, if it is in the frame and not compressed.
func (a *APIs) Call(f *frame.Frame) (found *protocol.Call) {
	if f.Gap || f.Meta == nil || f.Meta.Head.Method() == "" {
		return nil
	}
	if a.list == nil {
		for _, s := range list {
			if s.API != nil {
				a.list = append(a.list, api{s, s.API.Calls()})
			}
		}
	}
	body := carried.BodyOf(f)
	for _, at := range a.list {
		if f.Meta.Framing != frame.HTTP && at.spec.Messages == nil {
			continue
		}
		if c := at.call(f.Meta.Head, body); c != nil {
			if c.Spec = at.spec; !c.Vague {
				return c
			}
			found = c
		}
	}
	return found
}
