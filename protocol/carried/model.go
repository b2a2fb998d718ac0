package carried

import (
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/agui"
	"github.com/wirectl/wirectl/protocol/anthropic"
	"github.com/wirectl/wirectl/protocol/gemini"
	"github.com/wirectl/wirectl/protocol/internal/modelapi"
	"github.com/wirectl/wirectl/protocol/openai"
	"github.com/wirectl/wirectl/protocol/opencode"
)

// ModelCall is a request to the API of a model.
type ModelCall = modelapi.Call

// A ModelJudge is a protocol of the API of a model, and ModelTools is its state.
type (
	ModelJudge = modelapi.Judge
	ModelTools = modelapi.Tools
)

// AsksModel returns the request that a frame makes to the API of a model, or to an agent by
// AG-UI or opencode; nil for any other frame. It decides by the head and, if other APIs
// have such paths too, by the body, if that is in the frame and not compressed.
func AsksModel(f *frame.Frame) *ModelCall {
	if f.Gap || f.Meta == nil || f.Meta.Framing != frame.HTTP || f.Meta.Head.Method() == "" {
		return nil
	}
	var body []byte
	if f.Meta.Signal == frame.NoSignal && !f.Compressed {
		body = f.Payload()
	}
	head := f.Meta.Head
	if c := anthropic.Call(head, body); c != nil {
		return c
	}
	if c := gemini.Call(head); c != nil {
		return c
	}
	if c := agui.Call(head, body); c != nil {
		return c
	}
	if c := opencode.CallOf(head); c != nil {
		return &c.Call
	}
	return openai.Call(head, body)
}

// IsLive reports whether a model is asked in p over a WebSocket.
func IsLive(p protocol.Protocol) bool {
	return p == openai.RealtimeSpec.Protocol || p == gemini.LiveSpec.Protocol
}

func isModel(p protocol.Protocol) bool {
	return p == openai.Spec.Protocol || p == anthropic.Spec.Protocol || p == gemini.Spec.Protocol || p == agui.Spec.Protocol || p == opencode.Spec.Protocol
}

// joinModel sets the members of a message of the API of a model that its head tells.
func joinModel(f *frame.Frame, m *protocol.Message) {
	if f.Meta.Framing != frame.HTTP {
		return
	}
	status := f.Meta.Head.Status()
	call := AsksModel(f)
	switch {
	case call != nil:
		call.Open(m)
	case f.Dir == frame.C2U && m.Phase != protocol.Open: // its head came before
		m.Phase, m.From = protocol.Open, frame.C2U
	case status == "":
	case Failed(status):
		m.Phase = protocol.Fail
	case m.Phase == protocol.Part: // the whole answer
		m.Phase, m.Empty = protocol.Close, false
	}
}
