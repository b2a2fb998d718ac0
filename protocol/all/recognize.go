package all

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/jsonrpc"
	"github.com/wirectl/wirectl/protocol/opaque"
	"github.com/wirectl/wirectl/protocol/protobuf"
)

// protocolOfObject returns the protocol of a payload that begins as an object and cannot be
// read whole.
func protocolOfObject(payload []byte, f frame.Framing) protocol.Protocol {
	if jsonrpc.Claims(payload) {
		return jsonrpc.Plain
	}
	return marked(payload, f, false)
}

// marked returns the protocol of JSON that shows it by a mark or, if it is whole, by its members,
// although it breaks the rules or could be of another one; otherwise JSON. A line may as well be
// the record of a log.
func marked(payload []byte, f frame.Framing, whole bool) protocol.Protocol {
	var m protocol.Message
	for _, s := range list {
		switch has := bytes.Contains(payload, []byte(s.Mark)); {
		case s.Mark == "" || f == frame.Line:
		case !whole && has, whole && s.Parse(payload, &m) == nil && m.Faults&protocol.UnknownKind == 0 && (has || m.Faults&broken == 0):
			return s.Protocol
		}
	}
	return opaque.JSON
}

// broken are the faults that speak against a protocol.
const broken = ^(protocol.DuplicateKey | protocol.UnsafeInteger | protocol.LoneSurrogate)

// Recognize returns the protocol that a payload belongs to, and why it is
// thought so: the bytes protocol if it belongs to none. Nothing is bytes too.
func Recognize(payload []byte) (p protocol.Protocol, why string) {
	payload = bytes.TrimPrefix(payload, []byte("\xef\xbb\xbf"))
	sample := firstOf(payload)
	var m protocol.Message
	var best protocol.Evidence
	for _, s := range list {
		if s.Refine != nil || s.Recognize == nil || s.Parse(sample, &m) != nil || m.Faults&broken != 0 {
			continue
		}
		if e := evidence(s, sample, &m); e.Score > best.Score {
			best, p, why = e, s.Protocol, strings.TrimSpace(fmt.Sprintf("the first message is %.60q %s", m.Kind, e.Why))
		}
	}
	if p != nil {
		return p, why
	}
	if opaque.JSON.Parse(payload, &m) == nil {
		if jsonrpc.Claims(sample) && parses(jsonrpc.Plain, sample) {
			return jsonrpc.Plain, `the first message has a member "jsonrpc"`
		}
		return opaque.JSON, fmt.Sprintf("the first payload is JSON, of the kind %s", m.Kind)
	}
	if s := (protobuf.Schemaless{}); isNoText(payload) && s.Parse(payload, &m) == nil {
		return s, "the first payload has the fields of a message"
	}
	return opaque.Bytes, "the first payload does not tell"
}

// evidence is the evidence that a message is of a protocol and no other: much JSON could be of
// several. A payload that claims to be JSON-RPC is of no protocol that is none.
func evidence(s *protocol.Spec, payload []byte, m *protocol.Message) protocol.Evidence {
	switch {
	case s.Recognize == nil:
		return protocol.Evidence{Score: protocol.Possible}
	case !IsRPC(s.Protocol) && jsonrpc.Claims(payload):
		return protocol.Evidence{}
	}
	return s.Recognize(payload, m)
}

// firstOf returns the first message of a batch, and any other payload as it is. A batch is
// known by its messages, because any array may be one.
func firstOf(payload []byte) []byte {
	for item := range protocol.Items(payload) {
		return item
	}
	return nil
}

// parses reports whether a payload is one of p's messages.
func parses(p protocol.Protocol, payload []byte) bool {
	var m protocol.Message
	return p.Parse(payload, &m) == nil && m.Faults&protocol.UnknownKind == 0
}

// Beside returns the protocol of a payload of HTTP on a wire whose protocol is p: a server
// of calls also answers plain requests, such as those of a login, and its client may ask
// other servers. JSON that does not claim to be JSON-RPC is JSON; a payload that claims to
// be JSON-RPC is of no other JSON protocol.
func Beside(p protocol.Protocol, payload []byte) protocol.Protocol {
	says := bytes.Contains(payload, []byte(`"jsonrpc"`))
	switch {
	case IsRPC(p) && !says && isNoCall(payload):
		return opaque.JSON
	case p == opaque.JSON && says && parses(jsonrpc.Plain, payload):
		return jsonrpc.Plain
	}
	return p
}

// isNoCall reports whether a payload is JSON, and no message of JSON-RPC even if
// that had left out its version.
func isNoCall(payload []byte) bool {
	var m protocol.Message
	if jsonrpc.Plain.Parse(payload, &m) != nil {
		return false
	}
	const others = protocol.UnknownKind | protocol.MissingField | protocol.NoAnswer
	return m.Faults&others != 0 || bytes.HasPrefix(bytes.TrimLeft(payload, " \t\r\n"), []byte("["))
}

// Plausible returns a function that reports whether bytes may be a payload of p or, if they
// are not whole, the beginning of one.
func Plausible(p protocol.Protocol) func(payload []byte, whole bool) bool {
	return func(payload []byte, whole bool) bool {
		switch p.Encoding() {
		case protocol.JSON:
			return (p == opaque.JSON || isContainer(payload)) && isJSON(payload, whole)
		case protocol.Protobuf:
			return whole && parses(p, payload) || !whole && beginsFields(p, payload, math.MaxInt)
		default:
			return true
		}
	}
}

// isContainer reports whether a JSON text begins as an object or an array.
func isContainer(text []byte) bool {
	var s jsonscan.Scanner
	s.Init(text)
	kind := s.Peek()
	return kind == jsonscan.Object || kind == jsonscan.Array
}

// isJSON reports whether text is JSON or, unless it is whole, how some begins.
func isJSON(text []byte, whole bool) bool {
	return jsonscan.WellFormed(text) == nil || !whole && jsonscan.IsCut(text)
}

// beginsFields reports whether a message of p, of no more than size bytes, may
// begin with wire.
func beginsFields(p protocol.Protocol, wire []byte, size int) bool {
	for len(wire) > 0 {
		num, typ, n := protowire.ConsumeTag(wire)
		if n < 0 {
			return isCut(n)
		}
		if has := Of(p).HasField; has != nil && !has(int32(num)) {
			return false
		}
		value := protowire.ConsumeFieldValue(num, typ, wire[n:])
		if value < 0 {
			return isCut(value) && fits(typ, wire[n:], size-n)
		}
		wire = wire[n+value:]
		size -= n + value
	}
	return true
}

// fits reports whether a field's value that is cut can end within size bytes.
func fits(typ protowire.Type, value []byte, size int) bool {
	if typ != protowire.BytesType {
		return true
	}
	length, n := protowire.ConsumeVarint(value)
	return n < 0 || length <= uint64(size-n)
}

// isCut reports whether an error code of package protowire says that bytes are
// missing, rather than wrong.
func isCut(code int) bool { return errors.Is(protowire.ParseError(code), io.ErrUnexpectedEOF) }

// maxInside bounds how many places of a line are searched for a message.
const maxInside = 64

// Inside returns the messages of p in a line that is not one as a whole: several, or one among
// words. Before is the text before the first. Why says what to change, or is "" if there is no
// message.
func Inside(p protocol.Protocol, line []byte) (messages [][]byte, before []byte, why string) {
	if p.Encoding() != protocol.JSON {
		return nil, nil, ""
	}
	words := false
	at := 0 // the end of the last message, or of what was searched
	for range maxInside {
		i := bytes.IndexByte(line[at:], '{')
		if i < 0 {
			break
		}
		start := at + i
		words = words || len(bytes.TrimSpace(line[at:start])) > 0
		var s jsonscan.Scanner
		s.Init(line[start:])
		value := s.Value()
		end := start + len(value)
		switch {
		case value == nil:
			words, at = true, start+1
			continue
		case !isMessage(p, value) || jsonscan.IsCut(line[:end]): // or it is a value of JSON that is broken elsewhere
			words = true
		default:
			if messages = append(messages, value); len(messages) == 1 {
				before = line[:start]
			}
		}
		at = end
	}
	words = words || len(bytes.TrimSpace(line[at:])) > 0
	switch {
	case len(messages) == 0, p == opaque.JSON && (words || len(messages) == 1):
		return nil, nil, ""
	case len(messages) > 1:
		return messages, before, fmt.Sprintf("%d messages are on one line: write a line feed after each", len(messages))
	}
	return messages, before, "a message is on one line with other text: write that to stderr, or end it with a line feed"
}

// isMessage reports whether JSON is a message that only p has.
func isMessage(p protocol.Protocol, value []byte) bool {
	var m protocol.Message
	return p.Parse(value, &m) == nil && m.Faults&protocol.UnknownKind == 0 && evidence(Of(p), value, &m).Score != protocol.NoScore
}
