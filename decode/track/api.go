package track

import (
	"strings"

	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/protocol/agui"
	"github.com/wirectl/wirectl/protocol/carried"
	"github.com/wirectl/wirectl/protocol/opencode"
)

// An apiCall is a request to an API and the state of its answer. Its exchange is the HTTP
// stream.
type apiCall interface {
	// ask passes the request of e to the tracker. The item may contain the body.
	ask(f *Follower, e *exchange, it *decode.Item)
	// answer handles an item of the answer, or a reset of the stream by either side. It
	// returns false if the call turns out not to be one of this API.
	answer(f *Follower, e *exchange, it *decode.Item) bool
}

// api handles an item of a call to an API. It reports whether it belongs to one.
func (f *Follower) api(it *decode.Item) bool {
	of := it.Frame
	if of.Gap || of.Meta == nil {
		return false
	}
	if of.Meta.Head.Method() != "" {
		call, whole := f.apiCall(of)
		if call == nil {
			return false
		}
		e := f.begin(it, f.carried(it))
		e.call = call
		if whole {
			f.ask(e, it)
		}
		return true
	}
	e := f.web.of(of)
	switch {
	case e == nil || e.call == nil:
		return false
	case of.Dir != frame.C2U || of.Meta.Signal == frame.Reset:
		return e.call.answer(f, e, it)
	case of.Meta.Signal == frame.NoSignal:
		f.ask(e, it)
	}
	return true
}

// apiCall returns the call that a head begins, or nil if it calls no API, and whether its
// whole request is known.
func (f *Follower) apiCall(of *frame.Frame) (call apiCall, whole bool) {
	head := of.Meta.Head
	if call := f.agents.Call(head); call != nil {
		return &agentCall{Call: call}, of.Meta.Signal == frame.NoSignal || !call.GRPC && (!call.Message || !strings.Contains(head.Start, "HTTP/2"))
	}
	if !isHTTP(of) {
		return nil, false
	}
	if call := opencode.CallOf(head); call != nil {
		return &codingCall{call}, !opencode.WantsEvents(call.Kind) && !bodyFollows(of)
	}
	asked := carried.AsksModel(of)
	if asked == nil {
		return nil, false
	}
	c := &modelCall{ModelCall: asked, to: head.Get("Host") + head.Get(":authority") + " " + head.Target()}
	if asked.Protocol == agui.Spec.Protocol {
		c.run = &agui.Run{}
	}
	return c, !bodyFollows(of)
}

// ask passes the request of e to the tracker once.
func (f *Follower) ask(e *exchange, it *decode.Item) {
	if !e.asked {
		e.asked = true
		e.call.ask(f, e, it)
	}
}
