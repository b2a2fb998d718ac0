package replay

import (
	"bytes"
	"fmt"
	"io"
	"iter"
	"net/http"
	"slices"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/frame/carrier"
	"github.com/wirectl/wirectl/internal/inflate"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/all"
	"github.com/wirectl/wirectl/protocol/carried"
	"github.com/wirectl/wirectl/protocol/opaque"
	"github.com/wirectl/wirectl/protocol/protobuf"
)

// gRPC calls are exchanges too. The first message of a call is in the part of its request, unless
// its method streams requests: then every message is a part of its own. Messages are in their JSON
// form, if their schema is known.

// kindHalfClose is the end of the client's messages. The recording does not show it.
const kindHalfClose = "half-close"

// kindHead is the head of an answer. A server that fails at once may send none.
const kindHead = "head"

// A callMethod holds what the recording, or a schema, tells about a method.
type callMethod struct {
	request, answer protocol.Protocol // nil if unknown
	streams         bool              // the client sends any number of messages
}

// callMethods are the methods by path.
type callMethods struct{ recorded map[string]*callMethod }

func (c *callMethods) of(path string) callMethod {
	if m := c.recorded[path]; m != nil {
		return *m
	}
	head := frame.Head{Start: "POST " + path + " HTTP/2", Fields: []frame.Field{{Name: "Content-Type", Value: "application/grpc"}}}
	if request, answer, isKnown := new(all.Calls).Of(&head); isKnown {
		return callMethod{request: request, answer: answer}
	}
	return callMethod{}
}

// A callShape is what a recorded call has on the client's side.
type callShape struct {
	method   *callMethod
	messages int
	left     bool // the client cancelled it
}

// survey fills in the methods, and returns the shape of each call.
func (c *callMethods) survey(records []Record) map[line]*callShape {
	c.recorded = map[string]*callMethod{}
	shapes := map[line]*callShape{}
	for _, r := range records {
		f := r.Frame
		if f.Gap {
			continue
		}
		at, head := line{f.Conn, f.Stream}, f.Meta.Head
		if head.Method() != "" && carrier.IsGRPC(head) && carried.IsGRPC(head) {
			path := head.Target()
			if c.recorded[path] == nil {
				c.recorded[path] = new(callMethod)
			}
			shapes[at] = &callShape{method: c.recorded[path]}
			continue
		}
		shape := shapes[at]
		switch {
		case shape == nil:
		case f.Dir == frame.C2U && f.Meta.Signal == frame.Reset:
			shape.left = true
		case f.Meta.Signal != frame.NoSignal:
		case f.Dir == frame.C2U:
			shape.messages++
			shape.method.request = r.Protocol
		default:
			shape.method.answer = r.Protocol
		}
	}
	for _, shape := range shapes {
		shape.method.streams = shape.method.streams || shape.messages > 1 || shape.messages == 0 && !shape.left
	}
	return shapes
}

// maxUntyped bounds messages without a schema that are shown by their fields.
const maxUntyped = 64 << 10

// setMessage sets the body of a line to the JSON form of a message. One of ours is kept as
// bytes if that form does not restore them.
func (p *part) setMessage(as protocol.Protocol, message []byte, from, side frame.Dir) {
	t, ok := as.(protocol.Transcoder)
	if as == protocol.Protocol(protobuf.Schemaless{}) && len(message) > maxUntyped {
		ok = false
	}
	if ok {
		if form, exact, err := t.AppendJSON(nil, message); err == nil && (exact || from != side) && isJSON(form) {
			p.setContent(form, from, false)
			return
		}
	}
	p.Bytes = message
}

// messageAt returns the frame of the message in a line, for a unit with that origin.
func (p *part) messageAt(as protocol.Protocol, origin string) (message []byte, err error) {
	message = p.Bytes
	if t, ok := as.(protocol.Transcoder); ok && p.Body != nil {
		if message, err = t.AppendPayload(nil, p.content(origin)); err != nil {
			return nil, err
		}
	}
	return frame.Append(nil, frame.GRPC, message)
}

// callMessages yields the messages of a body, and then its error, unless it ends well.
func callMessages(body io.Reader, h http.Header) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		s := frame.NewScanner(body, frame.GRPC)
		s.SetLimit(maxWebBody)
		for s.Scan() {
			message, err := messageIn(s.Frame(), h.Get("Grpc-Encoding"))
			if !yield(message, err) || err != nil {
				return
			}
		}
		if s.Err() != nil {
			yield(nil, s.Err())
		}
	}
}

func messageIn(f *frame.Frame, encoding string) ([]byte, error) {
	switch {
	case f.Gap:
		return nil, fmt.Errorf("the body is not gRPC: %w", f.Flaw)
	case !f.Compressed:
		return bytes.Clone(f.Payload()), nil
	}
	plain, err := inflate.Open(encoding, bytes.NewReader(f.Payload()))
	if err != nil {
		return nil, fmt.Errorf("a message cannot be decompressed: %w", err)
	}
	defer plain.Close()
	return inflate.ReadAll(plain, maxWebBody, errWebBody)
}

// readGRPC sets the properties of a part of a call.
func (p *part) readGRPC(m *protocol.Message) {
	m.From, m.Phase = frame.U2C, protocol.Part
	switch {
	case p.Method != "":
		m.Kind, m.Phase, m.From = []byte(p.name()), protocol.Open, frame.C2U
	case p.More:
		m.Kind, m.From = []byte("message"), frame.C2U
	case p.Last:
		m.Kind, m.Phase, m.From = []byte(kindHalfClose), protocol.Note, frame.C2U
	case p.End == callStatus+"0":
		m.Kind, m.Phase = []byte(p.End), protocol.Close
	case p.End != "":
		m.Kind, m.Phase, m.Text = []byte(p.End), protocol.Fail, []byte(p.Text)
	case p.Event != nil:
		m.Kind = []byte("message")
	default:
		m.Kind = []byte(kindHead)
	}
}

// GRPCScripts returns the scripts for a peer over gRPC. A session of latis has one for each
// call, in len32 framing, which the transport carries. The calls of any other services are one
// script.
func (s *Session) GRPCScripts(side frame.Dir) []*Script {
	others := false
	for _, c := range s.conns {
		others = others || c.Framing == frame.GRPC && !all.Of(c.Protocol).Rewrapped
	}
	if others {
		s.conns = slices.DeleteFunc(s.conns, func(c *Script) bool { return c.Framing == frame.GRPC || c.isHTTP })
		s.conns = append([]*Script{s.webScript(web{Protocol: opaque.JSON, grpc: new(callMethods)}, side)}, s.conns...)
		s.carried, s.bare, s.overHTTP = nil, nil, nil
	}
	for _, c := range s.conns {
		if c.Framing != frame.GRPC {
			continue
		}
		c.Framing = frame.Len32
		for _, st := range c.steps {
			if !st.frame.Gap {
				st.frame = framed(&st.frame, c.Framing, st.frame.Payload())
			}
		}
	}
	return s.Scripts(side)
}
