package protobuf

import (
	"math"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/wirectl/wirectl/protocol/jsonscan"
)

// A special is a message type of google.protobuf whose form in JSON is not an object
// of its fields.
type special struct {
	// shape is what the fields numbered from 1 on are. A schema may have another type
	// by that name, which is an ordinary one.
	shape []string
	// read and write are for one walk. They are nil where the general way is taken.
	read  func(d *decoder, s *Schema, end int, group protowire.Number) (wireEnd int, ok bool)
	write func(*encoder, *Schema) bool
	// print and build are for the general way.
	print func(p *printer, m protoreflect.Message, bodies [][]byte) error
	build func(*builder, protoreflect.Message) error
}

// specialFor returns the special of that name in google.protobuf.
func specialFor(name protoreflect.Name) *special {
	switch name {
	case "Any":
		return &special{[]string{"string", "bytes"}, nil, nil, (*printer).any, (*builder).any}
	case "Timestamp":
		return &special{secondsShape, (*decoder).timestamp, (*encoder).timestamp, (*printer).timestamp, (*builder).timestamp}
	case "Duration":
		return &special{secondsShape, (*decoder).duration, (*encoder).duration, (*printer).duration, (*builder).duration}
	case "FieldMask":
		return &special{[]string{"list of string"}, nil, nil, (*printer).fieldMask, (*builder).fieldMask}
	case "Struct":
		return &special{[]string{"map of string to google.protobuf.Value"}, (*decoder).first, (*encoder).structure, (*printer).first, (*builder).first}
	case "ListValue":
		return &special{[]string{"list of google.protobuf.Value"}, (*decoder).first, (*encoder).listValue, (*printer).first, (*builder).first}
	case "Value":
		return &special{valueShape, (*decoder).anyValue, (*encoder).anyValue, (*printer).anyValue, (*builder).anyValue}
	case "BoolValue", "Int32Value", "Int64Value", "UInt32Value", "UInt64Value", "FloatValue", "DoubleValue", "StringValue", "BytesValue":
		kind := strings.ToLower(strings.TrimSuffix(string(name), "Value"))
		return &special{[]string{kind}, (*decoder).first, (*encoder).wrapped, (*printer).first, (*builder).first}
	}
	return nil
}

var (
	secondsShape = []string{"int64", "int32"}
	valueShape   = []string{
		"kind: google.protobuf.NullValue", "kind: double", "kind: string", "kind: bool",
		"kind: google.protobuf.Struct", "kind: google.protobuf.ListValue",
	}
)

// specialOf returns how the messages of a type are written; nil if they are ordinary.
func specialOf(md protoreflect.MessageDescriptor) *special {
	if md.FullName().Parent() != "google.protobuf" {
		return nil
	}
	s := specialFor(md.Name())
	if s == nil || md.Fields().Len() != len(s.shape) {
		return nil
	}
	for i, want := range s.shape {
		fd := nth(md, i+1)
		if fd == nil || shapeOf(fd) != want {
			return nil
		}
		if !fd.IsList() && !fd.IsMap() && fd.Message() != nil && specialOf(fd.Message()) == nil {
			return nil
		}
	}
	return s
}

// shapeOf says of a field what the form of the message around it hangs on.
func shapeOf(fd protoreflect.FieldDescriptor) string {
	what := fd.Kind().String()
	switch {
	case fd.IsMap():
		return "map of " + fd.MapKey().Kind().String() + " to " + shapeOf(fd.MapValue())
	case fd.Kind() == protoreflect.MessageKind:
		what = string(fd.Message().FullName())
	case fd.Enum() != nil:
		what = string(fd.Enum().FullName())
	}
	switch {
	case fd.IsList():
		return "list of " + what
	case fd.ContainingOneof() != nil:
		return string(fd.ContainingOneof().Name()) + ": " + what
	case fd.HasPresence() && fd.Message() == nil:
		return "optional " + what
	}
	return what
}

func nth(md protoreflect.MessageDescriptor, n int) protoreflect.FieldDescriptor {
	return md.Fields().ByNumber(protoreflect.FieldNumber(n))
}

// first writes the value of the one field, which is there even where it is absent.
func (d *decoder) first(s *Schema, end int, group protowire.Number) (int, bool) {
	start := len(d.dst)
	stop, ok := d.fields(s, end, group)
	if len(d.dst) == start {
		d.dst = appendZero(d.dst, s.field(1))
	}
	return stop, ok
}

func appendZero(dst []byte, f *field) []byte {
	switch {
	case f.mapKey != nil:
		return append(dst, "{}"...)
	case f.repeated:
		return append(dst, "[]"...)
	case f.wire == protowire.BytesType:
		return append(dst, `""`...)
	}
	return appendNumber(dst, f, 0)
}

// wrapped writes the one field, which is left out where it is zero.
func (e *encoder) wrapped(s *Schema) bool {
	start := len(e.dst)
	zero, ok := e.value(s.field(1))
	if zero {
		e.dst = e.dst[:start]
	}
	return ok
}

func (e *encoder) structure(s *Schema) bool {
	if !e.scan.Object() {
		return e.generally(s)
	}
	return e.entries(s.field(1))
}

func (e *encoder) listValue(s *Schema) bool {
	if !e.scan.Array() {
		return e.generally(s)
	}
	return e.elements(s.field(1))
}

func (p *printer) first(m protoreflect.Message, bodies [][]byte) error {
	fd := nth(m.Descriptor(), 1)
	return p.field(m.Get(fd), &member{fd: fd, bodies: valuesOf(fd, bodies)})
}

func (b *builder) first(m protoreflect.Message) error { return b.field(m, nth(m.Descriptor(), 1)) }

// typeKey is the key of the URL of the type of what a google.protobuf.Any holds, and
// valueKey that of a value whose type is special.
const (
	typeKey  = "@type"
	valueKey = "value"
)

func (p *printer) any(m protoreflect.Message, _ [][]byte) error {
	url, value := m.Get(nth(m.Descriptor(), 1)).String(), m.Get(nth(m.Descriptor(), 2)).Bytes()
	switch {
	case url == "" && len(value) == 0:
		p.dst = append(p.dst, "{}"...)
		return nil
	case url == "":
		return formless("an Any has a value, and no type_url to say what it is")
	}
	held, err := p.types.FindMessageByURL(url)
	if err != nil {
		return formless("the type %q of an Any: %s", url, plain(err))
	}
	inner := held.New()
	if err := unmarshal(value, inner.Interface(), p.types); err != nil {
		return formless("an Any of type %q: %s", url, plain(err))
	}
	s := specialOf(inner.Descriptor())
	if s == nil {
		return p.object(inner, [][]byte{value}, url)
	}
	if err := p.open('{'); err != nil {
		return err
	}
	p.key(typeKey)
	if err := p.text(url); err != nil {
		return err
	}
	p.key(valueKey)
	if err := s.print(p, inner, [][]byte{value}); err != nil {
		return err
	}
	p.close('}')
	return nil
}

func (b *builder) any(m protoreflect.Message) error {
	if b.scan.Peek() != jsonscan.Object {
		return b.unfit("an object")
	}
	at := b.offset()
	raw := b.scan.Value()
	url, err := b.on(raw, at).typeURL()
	if err != nil || url == "" {
		return err
	}
	held, err := b.types.FindMessageByURL(url)
	if err != nil {
		return b.fail(at, "the type %q: %s", url, plain(err))
	}
	inner := held.New()
	if err := b.on(raw, at).held(inner); err != nil {
		return err
	}
	value, err := marshal.Marshal(inner.Interface())
	if err != nil {
		return b.fail(at, "%s", plain(err))
	}
	m.Set(nth(m.Descriptor(), 1), protoreflect.ValueOfString(url))
	m.Set(nth(m.Descriptor(), 2), protoreflect.ValueOfBytes(value))
	return nil
}

// typeURL returns the URL in the object of an Any, which is empty if the object is.
func (b *builder) typeURL() (url string, err error) {
	start, members := b.offset(), 0
	err = b.object(func(b *builder, key []byte, at int) error {
		members++
		switch {
		case string(key) != typeKey:
			return nil
		case url != "":
			return b.fail(at, "%s stands here twice", typeKey)
		}
		raw := b.scan.Value()
		text, ok := unquoted(raw)
		if url = string(text); !ok || url == "" {
			return b.fail(at, `%s is no type, such as "type.googleapis.com/acme.v1.Event"`, clipped(raw))
		}
		return nil
	})
	if err == nil && members > 0 && url == "" {
		err = b.fail(start, "an Any needs %s", typeKey)
	}
	return url, err
}

// held reads what an Any holds into m: the other members of the object or, where the
// type is special, the value of one.
func (b *builder) held(m protoreflect.Message) error {
	name := m.Descriptor().FullName()
	isEmpty := name == "google.protobuf.Empty"
	if specialOf(m.Descriptor()) == nil && !isEmpty {
		return b.deeper(func() error { return b.fields(m, typeKey) })
	}
	start, found := b.offset(), false
	err := b.object(func(b *builder, key []byte, at int) error {
		switch {
		case string(key) == typeKey:
			return nil
		case string(key) != valueKey:
			return b.fail(at, "an Any of %s has no %q", name, key)
		case found:
			return b.fail(at, "%s stands here twice", valueKey)
		}
		found = true
		return b.message(m)
	})
	if err == nil && !found && !isEmpty {
		err = b.fail(start, "an Any of %s needs %q", name, valueKey)
	}
	return err
}

func (p *printer) fieldMask(m protoreflect.Message, _ [][]byte) error {
	list := m.Get(nth(m.Descriptor(), 1)).List()
	paths := make([]string, list.Len())
	for i := range paths {
		path := list.Get(i).String()
		if paths[i] = camel(path); !protoreflect.FullName(path).IsValid() || snake(paths[i]) != path {
			return formless("%q is no path of a FieldMask that JSON can write", path)
		}
	}
	return p.text(strings.Join(paths, ","))
}

func (b *builder) fieldMask(m protoreflect.Message) error {
	at := b.offset()
	raw := b.scan.Value()
	text, ok := unquoted(raw)
	if !ok {
		return b.fail(at, `%s is no FieldMask, such as "user.displayName,photo"`, clipped(raw))
	}
	paths := strings.TrimSpace(string(text))
	if paths == "" {
		return nil
	}
	list := m.Mutable(nth(m.Descriptor(), 1)).List()
	for path := range strings.SplitSeq(paths, ",") {
		name := snake(path)
		if strings.Contains(path, "_") || !protoreflect.FullName(name).IsValid() {
			return b.fail(at, "%q is no path of fields", path)
		}
		list.Append(protoreflect.ValueOfString(name))
	}
	return nil
}

// camel writes a path of fields as JSON does: without underscores, the letter behind
// each in upper case.
func camel(path string) string {
	out := make([]byte, 0, len(path))
	under := false
	for _, c := range []byte(path) {
		if under && 'a' <= c && c <= 'z' {
			c -= 'a' - 'A'
		}
		if under = c == '_'; !under {
			out = append(out, c)
		}
	}
	return string(out)
}

// snake is what [camel] was made of.
func snake(path string) string {
	out := make([]byte, 0, len(path))
	for _, c := range []byte(path) {
		if 'A' <= c && c <= 'Z' {
			out = append(out, '_')
			c += 'a' - 'A'
		}
		out = append(out, c)
	}
	return string(out)
}

// The numbers of the fields of a google.protobuf.Value, of which one is set.
const (
	nullArm = iota + 1
	numberArm
	textArm
	boolArm
	objectArm
	arrayArm
)

// armFor returns the number of the field of a Value that a kind of JSON goes to.
func armFor(kind jsonscan.Kind) protoreflect.FieldNumber {
	switch kind {
	case jsonscan.Null:
		return nullArm
	case jsonscan.Number:
		return numberArm
	case jsonscan.String:
		return textArm
	case jsonscan.Object:
		return objectArm
	case jsonscan.Array:
		return arrayArm
	}
	return boolArm
}

func (d *decoder) anyValue(s *Schema, end int, group protowire.Number) (int, bool) {
	start := len(d.dst)
	stop, ok := d.fields(s, end, group)
	if len(d.dst) == start { // which JSON cannot say: the general way has the words for it
		d.general = true
		d.dst = append(d.dst, "null"...)
	}
	return stop, ok
}

func (e *encoder) anyValue(s *Schema) bool {
	_, ok := e.value(s.field(armFor(e.scan.Peek())))
	return ok
}

func (p *printer) anyValue(m protoreflect.Message, bodies [][]byte) error {
	set := membersOf(m, bodies)
	if len(set) == 0 {
		return formless("a Value has no value, and JSON cannot say that")
	}
	v := m.Get(set[0].fd)
	if f, ok := v.Interface().(float64); ok && !isFinite(f) {
		return formless("a Value cannot be %v in JSON", f)
	}
	return p.field(v, set[0])
}

func (b *builder) anyValue(m protoreflect.Message) error {
	kind := b.scan.Peek()
	fd := nth(m.Descriptor(), int(armFor(kind)))
	if kind == jsonscan.Null {
		m.Set(fd, protoreflect.ValueOfEnum(0))
		b.scan.Skip()
		return nil
	}
	return b.field(m, fd)
}

func isFinite(f float64) bool { return !math.IsNaN(f) && !math.IsInf(f, 0) }
