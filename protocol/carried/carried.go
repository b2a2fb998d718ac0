// Package carried gives a meaning to the frames of carriers themselves: the heads of
// requests and responses, pings, resets. Such frames hold no message of the protocol that
// is carried.
package carried

import (
	"errors"
	"net/url"
	"strconv"
	"strings"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/frame/carrier"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/internal/modelapi"
	"github.com/wirectl/wirectl/protocol/opaque"
)

// HTTP and WS are the protocols of such frames, and GRPC is that of calls, which consist of
// such frames and the messages between them. They are in no list: nobody can choose them,
// because they are not in the payload.
var (
	HTTP protocol.Protocol = named("http")
	WS   protocol.Protocol = named("ws")
	GRPC protocol.Protocol = named("grpc")
)

// Specs are those of HTTP, WS and GRPC.
var Specs = []*protocol.Spec{{Protocol: HTTP, Rules: rules}, {Protocol: WS}, {Protocol: GRPC, Rules: rules}}

// rules of an exchange of HTTP, and of a gRPC call: the stream is the exchange, and nothing
// may come after its reset.
var rules = protocol.Rules{
	UniqueIDs:      true,
	Streamed:       true,
	MayLeave:       true,
	LeavingCancels: true,
	Reset:          kindReset,
	IsProbe:        isProbe,
	Cancels:        []protocol.CancelRule{{Target: protocol.MustNotAnswer}},
}

// isProbe: agents and authorization servers may have the documents in /.well-known/ that clients
// look for, and servers of gRPC reflection in one of its two versions.
func isProbe(asked, _, code string, _ protocol.Features) bool {
	switch code {
	case "404", "405", "410":
		return strings.HasPrefix(asked, "GET ") && strings.Contains(asked, "/.well-known/")
	case "grpc-status 12": // UNIMPLEMENTED
		return strings.HasPrefix(asked, "/grpc.reflection.")
	}
	return false
}

type named string

func (n named) Name() string              { return string(n) }
func (named) Encoding() protocol.Encoding { return protocol.Opaque }

var errPayload = errors.New("data of the carrier is not in the payload")

// Parse always fails: see [Parse].
func (named) Parse(_ []byte, m *protocol.Message) error {
	m.Reset()
	return errPayload
}

// Of returns the protocol of a frame that is a signal; nil for any other, and for a gap.
func Of(f *frame.Frame) protocol.Protocol {
	switch {
	case f.Gap || f.Meta == nil || f.Meta.Signal == frame.NoSignal:
		return nil
	case f.Meta.Framing == frame.WS:
		return WS
	}
	return HTTP
}

// Parse reads a frame that is a signal into m. The kind is the method and path of a
// request, the status of a response, the type of an event, or the name of the signal. A
// gRPC call is an exchange, whose id is the number of its stream.
func Parse(f *frame.Frame, m *protocol.Message) {
	m.Reset()
	meta := f.Meta
	m.Kind, m.Label, m.Text = []byte(meta.Signal), []byte(meta.Text), f.Payload()
	switch meta.Signal {
	case frame.Request:
		m.Kind, m.Label = Asked(meta.Head), []byte(meta.Head.Target())
		if IsGRPC(meta.Head) {
			m.Kind, m.Label = m.Label, nil
			m.Phase, m.ID = protocol.Open, Token(f)
		}
	case frame.Response:
		m.Kind, m.Label = []byte(meta.Head.Status()), []byte(meta.Head.Get("Content-Type"))
		if IsGRPC(meta.Head) {
			m.ID = Token(f)
			ended(m, f)
		}
	case frame.Trailers:
		ended(m, f)
	case frame.Event:
		if meta.Event != "" {
			m.Kind = []byte(meta.Event)
		}
	case frame.Close:
		if meta.Code != 0 {
			m.Label, m.Text = strconv.AppendUint(nil, uint64(meta.Code), 10), []byte(meta.Text)
		}
	case frame.Reset:
		reset(m, f)
	}
}

// Join gives a message without a meaning of its own the meaning of its carrier: it belongs
// to a gRPC call, in which messages of the server are parts of the answer, or to an
// exchange of HTTP. s is the spec of p.
func Join(f *frame.Frame, p protocol.Protocol, s *protocol.Spec, m *protocol.Message) {
	switch {
	case IsOfCall(f, p, s):
		m.ID = Token(f)
		if f.Dir == frame.U2C {
			m.Phase = protocol.Part
		}
	case s.API != nil && s.API.Fail == nil:
		m.ID = Token(f)
		joinAPI(f, s, m)
	case f.Meta != nil && f.Meta.Framing == frame.HTTP && (p == opaque.JSON || s.API != nil && p == s.API.Bodies):
		m.ID = Token(f)
		joinHTTP(f, m)
	}
}

// joinHTTP sets the kind and phase of a message by the body or the event of HTTP that holds
// it. In HTTP/1.1 a head comes with the body.
func joinHTTP(f *frame.Frame, m *protocol.Message) {
	head := f.Meta.Head
	status := head.Status()
	switch {
	case status != "":
		m.Kind, m.Phase = []byte(status), protocol.Close
		if Failed(status) {
			m.Phase = protocol.Fail
		}
	case head.Method() != "":
		m.Kind, m.Phase = Asked(head), protocol.Open
	case f.Dir == frame.U2C:
		m.Phase = protocol.Part
	}
	if event := f.Meta.Event; event != "" {
		m.Kind = []byte(event)
	}
}

// Failed reports whether a status says that the request failed.
func Failed(status string) bool { return status >= "400" }

// Asked returns the name of a request: its method, and its path, after the host if the line
// has that. It leaves out the query, which may be different each time, and secret.
func Asked(h *frame.Head) []byte {
	target, _, _ := strings.Cut(h.Target(), "?")
	if _, rest, full := strings.Cut(target, "://"); full {
		target = rest
	}
	return []byte(h.Method() + " " + target)
}

// IsOfCall reports whether a frame carries a message of a gRPC call, in protocol
// p of spec s, that has no exchanges of its own.
func IsOfCall(f *frame.Frame, p protocol.Protocol, s *protocol.Spec) bool {
	return !f.Gap && f.Meta != nil && f.Meta.Signal == frame.NoSignal && f.Meta.Framing == frame.GRPC.Name() &&
		p.Encoding() == protocol.Protobuf && (p != s.Protocol || s.Messages == nil)
}

// IsGRPC reports whether a head is that of a gRPC call, or of its answer.
func IsGRPC(h *frame.Head) bool {
	return h != nil && strings.Contains(h.Start, "HTTP/2") && carrier.IsGRPC(h)
}

// Token is the id of the exchange that a frame of HTTP belongs to: its stream.
func Token(f *frame.Frame) protocol.Token {
	return protocol.Token{Space: protocol.SpaceID, Text: strconv.AppendInt(nil, f.Stream, 10)}
}

// Unescaped returns the text of a Grpc-Message, which is percent-encoded.
func Unescaped(message string) []byte {
	if text, err := url.PathUnescape(message); err == nil {
		message = text
	}
	return []byte(message)
}

// ended reads the status of a gRPC call, if the head has one.
func ended(m *protocol.Message, f *frame.Frame) {
	head := f.Meta.Head
	status := head.Get("Grpc-Status")
	if status == "" {
		return
	}
	m.ID, m.Phase = Token(f), protocol.Close
	m.Label, m.Text = []byte("grpc-status "+status), Unescaped(head.Get("Grpc-Message"))
	switch status {
	case "0":
	case "1":
		m.Phase = protocol.Cancelled
	default:
		m.Phase = protocol.Fail
	}
}

const kindReset = "RST_STREAM"

// reset reads a RST_STREAM.
func reset(m *protocol.Message, f *frame.Frame) {
	m.Kind = []byte(kindReset)
	switch {
	case f.Meta.Code == 0:
	case f.Dir == frame.C2U, f.Dir == frame.DirUnknown && f.Meta.Code == carrier.Cancel:
		m.Phase, m.Ref = protocol.Cancel, Token(f)
	default:
		m.Phase, m.ID = protocol.Fail, Token(f)
	}
}

// A ModelJudge is a protocol of the API of a model, and ModelTools is its state. A ModelJoiner joins
// the events of an answer.
type (
	ModelJudge  = modelapi.Judge
	ModelTools  = modelapi.Tools
	ModelJoiner = modelapi.Joiner
)

// joinAPI sets the members of a message of an API that its head tells.
func joinAPI(f *frame.Frame, s *protocol.Spec, m *protocol.Message) {
	if f.Meta.Framing != frame.HTTP {
		return
	}
	status := f.Meta.Head.Status()
	var call *protocol.Call
	if f.Meta.Head.Method() != "" {
		call = s.API.Calls()(f.Meta.Head, BodyOf(f))
	}
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

// BodyOf returns the body in the frame of a request; nil if it is unknown.
func BodyOf(f *frame.Frame) []byte {
	if f.Meta.Signal == frame.NoSignal && !f.Compressed {
		return f.Payload()
	}
	return nil
}
