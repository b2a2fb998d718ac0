// Package protobuf reads payloads in the protobuf wire format, with or without a schema, and loads
// schemas.
//
// With a schema, a [Schema] turns a message into its JSON form and back. Without one, a view
// shows what the wire reveals: field numbers, wire types, and guesses at text and nested
// messages. [Message] and [Schemaless] offer the two as protocols.
package protobuf

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/bufbuild/protocompile"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

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

// Error describes a fault in the wire format or JSON form of a message, and its place.
type Error struct {
	// Path names the field, from the outermost message inwards, by the names of the schema
	// or, without a schema, by numbers. A long path begins with an ellipsis. If no field is
	// at fault, it is the name of the message itself. It may be empty.
	Path   string
	Offset int // in the payload; negative if no byte is at fault
	Msg    string
}

func (e *Error) Error() string {
	switch {
	case e.Offset < 0:
		return fmt.Sprintf("%s: %s", e.Path, e.Msg)
	case e.Path == "":
		return fmt.Sprintf("byte %d: %s", e.Offset, e.Msg)
	}
	return fmt.Sprintf("%s at byte %d: %s", e.Path, e.Offset, e.Msg)
}

// WireError describes an error code of package protowire at an offset.
func WireError(at, code int) *Error {
	e := &Error{Offset: at}
	switch err := protowire.ParseError(code); {
	case errors.Is(err, io.ErrUnexpectedEOF):
		e.Msg = "truncated"
	case errors.Is(err, protowire.ParseError(math.MinInt)): // an error code without a text of its own
		e.Msg = fmt.Sprintf("groups nested deeper than %d", protowire.DefaultRecursionLimit)
	default:
		e.Msg = plain(err)
	}
	return e
}

// plain returns the text of an error of the protobuf module without its prefix. The module
// deliberately varies the white space of that prefix from build to build.
func plain(err error) string {
	text := strings.ReplaceAll(err.Error(), "\u00a0", " ")
	return strings.TrimPrefix(text, "proto: ")
}

// maxPath bounds a path, in bytes. The fields nearest to the fault are kept.
const maxPath = 200

// within prepends the name of the faulty field, if there is one, to the path of e.
func (e *Error) within(field string) {
	switch {
	case e == nil, strings.HasPrefix(e.Path, cut):
		return
	case len(e.Path)+len(field) >= maxPath:
		field = cut
	case e.Path != "":
		field += "."
	}
	e.Path = field + e.Path
}

// cut replaces the omitted fields of a path.
const cut = "…."

// of names the message if no field is named.
func (e *Error) of(md protoreflect.MessageDescriptor) *Error {
	if e.Path == "" {
		e.Path = string(md.FullName())
	}
	return e
}

// names are the files of google/protobuf that protocompile includes.
var names = []string{
	"any", "api", "compiler/plugin", "cpp_features", "descriptor", "duration", "empty", "field_mask", "go_features",
	"java_features", "source_context", "struct", "timestamp", "type", "wrappers",
}

// KnownFiles returns the included files.
var KnownFiles = sync.OnceValue(func() *protoregistry.Files {
	resolver := protocompile.WithStandardImports(protocompile.CompositeResolver{})
	files := &protoregistry.Files{}
	for _, name := range names {
		found, err := resolver.FindFileByPath("google/protobuf/" + name + ".proto")
		if err = errors.Join(err, files.RegisterFile(found.Desc)); err != nil {
			panic(err) // the names are constants
		}
	}
	return files
})

// Methods holds the methods of the services in schemas, by the paths of their gRPC calls:
// "/acme.v1.Jobs/Start". It is safe for concurrent use.
type Methods struct {
	files       []protoreflect.FileDescriptor
	descriptors map[string]protoreflect.MethodDescriptor

	mu       sync.Mutex
	messages map[protoreflect.FullName]protocol.Transcoder // compiled on first use
}

// NewMethods returns the methods of the services in files.
func NewMethods(files ...protoreflect.FileDescriptor) *Methods {
	m := &Methods{
		files:       files,
		descriptors: map[string]protoreflect.MethodDescriptor{},
		messages:    map[protoreflect.FullName]protocol.Transcoder{},
	}
	for _, file := range files {
		for i := range file.Services().Len() {
			service := file.Services().Get(i)
			for j := range service.Methods().Len() {
				method := service.Methods().Get(j)
				m.descriptors["/"+string(service.FullName())+"/"+string(method.Name())] = method
			}
		}
	}
	return m
}

// Messages returns the protocols of the requests and answers of calls to that path, or false if
// no service has it.
func (m *Methods) Messages(path string) (request, answer protocol.Protocol, ok bool) {
	method := m.descriptors[path]
	if method == nil {
		return nil, nil, false
	}
	return m.message(method.Input()), m.message(method.Output()), true
}

// message returns the same protocol each time for a message type, so that methods with equal
// types have equal protocols.
func (m *Methods) message(md protoreflect.MessageDescriptor) protocol.Protocol {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.messages[md.FullName()]
	if p == nil {
		p = Message(md, m.files...)
		m.messages[md.FullName()] = p
	}
	return p
}

// reader walks the wire format. Its methods read at pos, but nothing from end on. Once they
// fail, err says why and the reader must not be used again.
type reader struct {
	wire []byte
	pos  int
	err  *Error
}

// fail records the fault at an offset and returns false.
func (r *reader) fail(at int, what string) bool {
	r.err = &Error{Offset: at, Msg: what}
	return false
}

// failCode records an error code of package protowire.
func (r *reader) failCode(at, code int) bool {
	r.err = WireError(at, code)
	return false
}

func (r *reader) varint(end int) (uint64, bool) {
	if r.pos < end && r.wire[r.pos] < 0x80 {
		r.pos++
		return uint64(r.wire[r.pos-1]), true
	}
	return r.longVarint(end)
}

func (r *reader) longVarint(end int) (uint64, bool) {
	v, n := protowire.ConsumeVarint(r.wire[r.pos:end])
	if n < 0 {
		return 0, r.failCode(r.pos, n)
	}
	r.pos += n
	return v, true
}

func (r *reader) tag(end int) (protowire.Number, protowire.Type, bool) {
	return r.tagUpTo(protowire.MaxValidNumber, end)
}

// tagInGroup is tag for fields in an unknown group. There the protobuf module, like
// [reader.skip], accepts every number that fits 31 bits.
func (r *reader) tagInGroup(end int) (protowire.Number, protowire.Type, bool) {
	return r.tagUpTo(math.MaxInt32, end)
}

func (r *reader) tagUpTo(limit protowire.Number, end int) (protowire.Number, protowire.Type, bool) {
	at := r.pos
	v, ok := r.varint(end)
	if !ok {
		return 0, 0, false
	}
	num, typ := protowire.DecodeTag(v)
	if num < protowire.MinValidNumber || num > limit {
		return 0, 0, r.fail(at, "invalid field number")
	}
	return num, typ, true
}

func (r *reader) fixed32(end int) (uint32, bool) {
	if end-r.pos < 4 {
		return 0, r.fail(r.pos, "truncated")
	}
	r.pos += 4
	return binary.LittleEndian.Uint32(r.wire[r.pos-4:]), true
}

func (r *reader) fixed64(end int) (uint64, bool) {
	if end-r.pos < 8 {
		return 0, r.fail(r.pos, "truncated")
	}
	r.pos += 8
	return binary.LittleEndian.Uint64(r.wire[r.pos-8:]), true
}

// length consumes a length and returns where the value that follows ends.
func (r *reader) length(end int) (int, bool) {
	at := r.pos
	n, ok := r.varint(end)
	if !ok {
		return 0, false
	}
	if n > uint64(end-r.pos) {
		return 0, r.fail(at, "truncated")
	}
	return r.pos + int(n), true
}

// bytes consumes a length-delimited value and returns it without its length.
func (r *reader) bytes(end int) ([]byte, bool) {
	stop, ok := r.length(end)
	if !ok {
		return nil, false
	}
	start := r.pos
	r.pos = stop
	return r.wire[start:stop:stop], true
}

// skip consumes the value of a field of any type.
func (r *reader) skip(num protowire.Number, typ protowire.Type, end int) bool {
	n := protowire.ConsumeFieldValue(num, typ, r.wire[r.pos:end])
	if n < 0 {
		return r.failCode(r.pos, n)
	}
	r.pos += n
	return true
}

// maxGuessDepth is the depth down to which appendFields looks into messages.
const maxGuessDepth = 64

// appendFields appends what the wire format alone reveals about a message, on one line: an
// array with an object for each field, in order.
//
//	{"field":1,"wire":"varint","value":150}
//	{"field":2,"wire":"len","text":"hello"}
//	{"field":3,"wire":"len","message":[…]}
//	{"field":4,"wire":"len","bytes":"3q2+7w=="}
//	{"field":5,"wire":"group","message":[…]}
//	{"field":6,"wire":"i64","value":"9223372036854775808"}
//
// Values are the unsigned integers on the wire, as strings beyond 2^53-1. The content of a
// length-delimited field is a guess: text if all of it is printable; else a message if it is a
// sequence of fields; else text if it is printable except for line breaks and tabs. On error,
// an [*Error], dst is returned unchanged.
func appendFields(dst, wire []byte) ([]byte, error) {
	v := viewer{reader: reader{wire: wire}, dst: dst}
	if !v.fields(len(wire), 0, 0) {
		if v.err.Path != "" {
			v.err.Path = "field " + v.err.Path
		}
		return dst, v.err
	}
	return v.dst, nil
}

// viewer writes fields while walking them. Each guess depends only on the span and is final, so
// the work is bounded by the depth times the size.
type viewer struct {
	reader
	dst []byte
}

// fields writes the fields up to end, or if group is not zero, up to the end of that group.
func (v *viewer) fields(end int, group protowire.Number, depth int) bool {
	tag := v.tag
	if group != 0 {
		tag = v.tagInGroup
	}
	v.dst = append(v.dst, '[')
	for first := true; v.pos < end; first = false {
		num, typ, ok := tag(end)
		if !ok {
			return false
		}
		if typ == protowire.EndGroupType && num == group {
			v.dst = append(v.dst, ']')
			return true
		}
		if !first {
			v.dst = append(v.dst, ',')
		}
		if !v.field(num, typ, end, depth) {
			v.err.within(strconv.Itoa(int(num)))
			return false
		}
	}
	v.dst = append(v.dst, ']')
	return group == 0 || v.fail(end, "truncated")
}

func (v *viewer) field(num protowire.Number, typ protowire.Type, end, depth int) bool {
	v.dst = append(v.dst, `{"field":`...)
	v.dst = strconv.AppendInt(v.dst, int64(num), 10)
	ok := false
	switch typ {
	case protowire.VarintType:
		var n uint64
		n, ok = v.varint(end)
		v.value("varint", n)
	case protowire.Fixed32Type:
		var n uint32
		n, ok = v.fixed32(end)
		v.value("i32", uint64(n))
	case protowire.Fixed64Type:
		var n uint64
		n, ok = v.fixed64(end)
		v.value("i64", n)
	case protowire.StartGroupType:
		ok = v.group(num, end, depth)
	case protowire.BytesType:
		ok = v.delimited(end, depth)
	default:
		return v.skip(num, typ, end) // it describes the fault
	}
	v.dst = append(v.dst, '}')
	return ok
}

const maxSafeInteger = 1<<53 - 1

func (v *viewer) value(wire string, n uint64) {
	v.dst = append(v.dst, `,"wire":"`...)
	v.dst = append(v.dst, wire...)
	v.dst = append(v.dst, `","value":`...)
	if n <= maxSafeInteger {
		v.dst = strconv.AppendUint(v.dst, n, 10)
		return
	}
	v.dst = append(v.dst, '"')
	v.dst = strconv.AppendUint(v.dst, n, 10)
	v.dst = append(v.dst, '"')
}

func (v *viewer) group(num protowire.Number, end, depth int) bool {
	v.dst = append(v.dst, `,"wire":"group",`...)
	if depth < maxGuessDepth {
		v.dst = append(v.dst, `"message":`...)
		return v.fields(end, num, depth+1)
	}
	body, n := protowire.ConsumeGroup(num, v.wire[v.pos:end])
	if n < 0 {
		return v.failCode(v.pos, n)
	}
	v.pos += n
	v.bytesMember(body)
	return true
}

func (v *viewer) delimited(end, depth int) bool {
	b, ok := v.bytes(end)
	if !ok {
		return false
	}
	v.dst = append(v.dst, `,"wire":"len",`...)
	switch {
	case isPrintable(b, ""):
		v.text(b)
	case depth < maxGuessDepth && isFields(b):
		v.dst = append(v.dst, `"message":`...)
		v.pos -= len(b)
		return v.fields(v.pos+len(b), 0, depth+1)
	case isPrintable(b, "\t\n\r"):
		v.text(b)
	default:
		v.bytesMember(b)
	}
	return true
}

func (v *viewer) text(b []byte) {
	v.dst = append(v.dst, `"text":`...)
	v.dst = jsonscan.AppendQuote(v.dst, b)
}

func (v *viewer) bytesMember(b []byte) {
	v.dst = append(v.dst, `"bytes":`...)
	v.dst = append(base64.StdEncoding.AppendEncode(append(v.dst, '"'), b), '"')
}

// isPrintable reports whether b is UTF-8 text with only printable characters and characters in
// also.
func isPrintable(b []byte, also string) bool {
	for len(b) > 0 {
		r, size := utf8.DecodeRune(b)
		if r == utf8.RuneError && size == 1 {
			return false
		}
		if !unicode.IsPrint(r) && !strings.ContainsRune(also, r) {
			return false
		}
		b = b[size:]
	}
	return true
}

// isFields reports whether b is a sequence of fields.
func isFields(b []byte) bool {
	r := reader{wire: b}
	for r.pos < len(b) {
		if _, _, ok := r.skipField(len(b)); !ok {
			return false
		}
	}
	return true
}
