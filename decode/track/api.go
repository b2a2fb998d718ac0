package track

import (
	"strings"

	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/frame"
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
func (f *Follower) apiCall(of *frame.Frame) (_ apiCall, whole bool) {
	c := f.apis.Call(of)
	if c == nil {
		return nil, false
	}
	head := of.Meta.Head
	switch api := c.Spec.API; {
	case api.Fail != nil:
		return &agentCall{Call: c}, of.Meta.Signal == frame.NoSignal || !c.GRPC && (c.Bare || !strings.Contains(head.Start, "HTTP/2"))
	case api.IsEvent != nil:
		return &codingCall{c}, !c.Listens && !bodyFollows(of)
	}
	call := &modelCall{Call: c, to: head.Get("Host") + head.Get(":authority") + " " + head.Target()}
	if runs := c.Spec.API.Runs; runs != nil {
		if f.runs[c.Spec] == nil {
			f.runs[c.Spec] = runs()
		}
		call.runs = f.runs[c.Spec]
		call.event = call.runs.Begin()
	}
	return call, !bodyFollows(of)
}

// ask passes the request of e to the tracker once.
func (f *Follower) ask(e *exchange, it *decode.Item) {
	if !e.asked {
		e.asked = true
		e.call.ask(f, e, it)
	}
}
