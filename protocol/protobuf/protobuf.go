// Package protobuf reads payloads in the protobuf wire format, with or without a schema.
//
// With a schema, a [Schema] turns a message into its JSON form and back. Without one, a view shows what the wire reveals: field
// numbers, wire types, and guesses at text and nested messages. [Message] and [Schemaless]
// offer the two as protocols.
//
// Package protofile loads schemas. The meaning of a protocol's messages is left to the package
// of that protocol.
package protobuf

import (
	"errors"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/protocol"
)

const name = "protobuf"

// Schemaless is the protocol of messages without a known schema.
type Schemaless struct{}

var _ protocol.Transcoder = Schemaless{}

// Spec is protobuf without a known schema.
var Spec = protocol.Spec{Protocol: Schemaless{}, About: "any other protobuf, with a schema (--proto) or without"}

var schemalessKind = []byte("message")

func (Schemaless) Name() string                { return name }
func (Schemaless) Encoding() protocol.Encoding { return protocol.Protobuf }

// Parse checks that payload is a sequence of fields. It does not look into
// nested messages.
func (Schemaless) Parse(payload []byte, m *protocol.Message) error {
	m.Reset()
	m.Kind = schemalessKind
	r := reader{wire: payload}
	for r.pos < len(payload) {
		if _, _, ok := r.skipField(len(payload)); !ok {
			return r.err
		}
	}
	return nil
}

// AppendJSON appends what the wire format alone reveals, an object for each field. The payload
// cannot be restored from it.
func (Schemaless) AppendJSON(dst, payload []byte) ([]byte, bool, error) {
	dst, err := appendFields(dst, payload)
	return dst, false, err
}

var errNoSchema = errors.New("a schema is needed: --proto FILE --message NAME")

// AppendPayload always fails: names and types mean nothing without a schema.
func (Schemaless) AppendPayload(dst, _ []byte) ([]byte, error) { return dst, errNoSchema }

// Message returns a protocol whose payloads are all messages of type md. Extensions, and the
// types inside a google.protobuf.Any, are also searched for in more.
func Message(md protoreflect.MessageDescriptor, more ...protoreflect.FileDescriptor) protocol.Transcoder {
	return &typed{schema: Compile(md, more...), kind: []byte(md.FullName())}
}

type typed struct {
	schema *Schema
	kind   []byte
}

func (*typed) Name() string                { return name }
func (*typed) Encoding() protocol.Encoding { return protocol.Protobuf }

// Parse checks that payload is a sequence of fields; its text is the first
// string among them.
func (t *typed) Parse(payload []byte, m *protocol.Message) error {
	m.Reset()
	m.Kind = t.kind
	r := reader{wire: payload}
	for r.pos < len(payload) {
		num, value, ok := r.skipField(len(payload))
		if !ok {
			return r.err.of(t.schema.md)
		}
		fd := t.schema.md.Fields().ByNumber(num)
		if m.Text == nil && fd != nil && fd.Kind() == protoreflect.StringKind && jsonscan.ValidUTF8(value) {
			m.Text = value
		}
	}
	return nil
}

// skipField moves past one field, which must not end after end. For a length-delimited field it
// returns the value without its length, for any other nil.
func (r *reader) skipField(end int) (num protowire.Number, value []byte, ok bool) {
	num, typ, ok := r.tag(end)
	if ok && typ == protowire.BytesType {
		value, ok = r.bytes(end)
	} else if ok {
		ok = r.skip(num, typ, end)
	}
	return num, value, ok
}

func (t *typed) AppendJSON(dst, payload []byte) ([]byte, bool, error) {
	return t.schema.AppendJSON(dst, payload)
}

func (t *typed) AppendPayload(dst, json []byte) ([]byte, error) {
	return t.schema.AppendWire(dst, json)
}
