package protobuf

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/wirectl/wirectl/protocol/jsonscan"
)

// A special is a message type of google.protobuf whose form in JSON is not an object
// of its fields.
type special struct {
	// shape is what the fields numbered from 1 on are. A schema may have another type
	// by that name, which is an ordinary one.
	shape []string
	print func(p *printer, m protoreflect.Message, bodies [][]byte) error
	build func(*builder, protoreflect.Message) error
	// write, of those that may be large, writes one without building it.
	write func(*encoder, *Schema) bool
}

// specialFor returns the special of that name in google.protobuf.
func specialFor(name protoreflect.Name) *special {
	switch name {
	case "Any":
		return &special{[]string{"string", "bytes"}, (*printer).any, (*builder).any, nil}
	case "Timestamp":
		return &special{[]string{"int64", "int32"}, (*printer).timestamp, (*builder).timestamp, nil}
	case "Duration":
		return &special{[]string{"int64", "int32"}, (*printer).duration, (*builder).duration, nil}
	case "FieldMask":
		return &special{[]string{"list of string"}, (*printer).fieldMask, (*builder).fieldMask, nil}
	case "Struct":
		return &special{[]string{"map of message"}, (*printer).first, (*builder).first, (*encoder).structure}
	case "ListValue":
		return &special{[]string{"list of message"}, (*printer).first, (*builder).first, (*encoder).listValue}
	case "Value":
		return &special{[]string{"enum", "double", "string", "bool", "message", "message"}, (*printer).anyValue, (*builder).anyValue, (*encoder).anyValue}
	case "BoolValue", "Int32Value", "Int64Value", "UInt32Value", "UInt64Value", "FloatValue", "DoubleValue", "StringValue", "BytesValue":
		kind := strings.ToLower(strings.TrimSuffix(string(name), "Value"))
		return &special{[]string{kind}, (*printer).first, (*builder).first, nil}
	}
	return nil
}

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
		if fd := nth(md, i+1); fd == nil || shapeOf(fd) != want {
			return nil
		}
	}
	return s
}

func shapeOf(fd protoreflect.FieldDescriptor) string {
	switch {
	case fd.IsMap():
		return "map of " + fd.MapValue().Kind().String()
	case fd.IsList():
		return "list of " + fd.Kind().String()
	}
	return fd.Kind().String()
}

func nth(md protoreflect.MessageDescriptor, n int) protoreflect.FieldDescriptor {
	return md.Fields().ByNumber(protoreflect.FieldNumber(n))
}

// first writes the value of the one field, which is there even where it is absent.
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
	p.dst = append(p.dst, '{')
	p.key(typeKey)
	if err := p.text(url); err != nil {
		return err
	}
	p.key(valueKey)
	if err := s.print(p, inner, [][]byte{value}); err != nil {
		return err
	}
	p.dst = append(p.dst, '}')
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

// The range of a google.protobuf.Timestamp, in seconds: the years 1 to 9999.
const (
	minTimestamp = -62135596800
	maxTimestamp = 253402300799
)

// maxDuration is the range of a google.protobuf.Duration, in seconds: about 10,000
// years.
const maxDuration = 315576000000

// maxNanos is the most that may stand beside seconds.
const maxNanos = 999999999

// secondsOf returns the two fields of a Timestamp or a Duration.
func secondsOf(m protoreflect.Message) (seconds, nanos int64) {
	return m.Get(nth(m.Descriptor(), 1)).Int(), m.Get(nth(m.Descriptor(), 2)).Int()
}

func setSeconds(m protoreflect.Message, seconds, nanos int64) {
	m.Set(nth(m.Descriptor(), 1), protoreflect.ValueOfInt64(seconds))
	m.Set(nth(m.Descriptor(), 2), protoreflect.ValueOfInt32(int32(nanos)))
}

func (p *printer) timestamp(m protoreflect.Message, _ [][]byte) error {
	seconds, nanos := secondsOf(m)
	if seconds < minTimestamp || seconds > maxTimestamp || nanos < 0 || nanos > maxNanos {
		return formless("%d s and %d ns are no time in the years 1 to 9999", seconds, nanos)
	}
	return p.text(shortened(time.Unix(seconds, nanos).UTC().Format("2006-01-02T15:04:05.000000000")) + "Z")
}

func (p *printer) duration(m protoreflect.Message, _ [][]byte) error {
	seconds, nanos := secondsOf(m)
	if min(seconds, -seconds) < -maxDuration || min(nanos, -nanos) < -maxNanos || seconds > 0 && nanos < 0 || seconds < 0 && nanos > 0 {
		return formless("%d s and %d ns are no duration", seconds, nanos)
	}
	sign := ""
	if seconds < 0 || nanos < 0 {
		sign, seconds, nanos = "-", -seconds, -nanos
	}
	return p.text(shortened(fmt.Sprintf("%s%d.%09d", sign, seconds, nanos)) + "s")
}

// shortened leaves 9, 6, 3 or no digits of a fraction of 9.
func shortened(s string) string {
	for range 2 {
		s = strings.TrimSuffix(s, "000")
	}
	return strings.TrimSuffix(s, ".000")
}

func (b *builder) timestamp(m protoreflect.Message) error {
	at := b.offset()
	raw := b.scan.Value()
	text, ok := unquoted(raw)
	t, err := time.Parse(time.RFC3339Nano, string(text))
	if !ok || err != nil || t.Unix() < minTimestamp || t.Unix() > maxTimestamp || fractionDigits(string(text)) > 9 {
		return b.fail(at, `%s is no time, such as "2026-01-31T12:00:00Z"`, clipped(raw))
	}
	setSeconds(m, t.Unix(), int64(t.Nanosecond()))
	return nil
}

// fractionDigits returns how many digits stand behind the point of a time.
func fractionDigits(s string) int {
	_, fraction, _ := strings.Cut(s, ".")
	return max(strings.IndexAny(fraction, "Z+-"), 0)
}

func (b *builder) duration(m protoreflect.Message) error {
	at := b.offset()
	raw := b.scan.Value()
	text, ok := unquoted(raw)
	seconds, nanos, valid := parseDuration(string(text))
	if !ok || !valid {
		return b.fail(at, `%s is no duration, such as "1.5s"`, clipped(raw))
	}
	setSeconds(m, seconds, nanos)
	return nil
}

// parseDuration reads seconds, with at most nine digits of a fraction and an s behind
// them. One side of the point may be empty.
func parseDuration(s string) (seconds, nanos int64, ok bool) {
	s, ok = strings.CutSuffix(s, "s")
	sign := int64(1)
	switch {
	case strings.HasPrefix(s, "-"):
		s, sign = s[1:], -1
	case strings.HasPrefix(s, "+"):
		s = s[1:]
	}
	whole, fraction, _ := strings.Cut(s, ".")
	if !ok || s == "" || len(fraction) > 9 || len(whole) > 1 && whole[0] == '0' || strings.Trim(whole+fraction, "0123456789") != "" {
		return 0, 0, false
	}
	if whole != "" {
		var err error
		if seconds, err = strconv.ParseInt(whole, 10, 64); err != nil || seconds > maxDuration {
			return 0, 0, false
		}
	}
	nanos, _ = strconv.ParseInt(fraction+"000000000"[len(fraction):], 10, 32) // of nine digits
	return sign * seconds, sign * nanos, true
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

func (p *printer) anyValue(m protoreflect.Message, bodies [][]byte) error {
	set := membersOf(m, bodies)
	if len(set) == 0 {
		return formless("a Value has no value, and JSON cannot say that")
	}
	v := m.Get(set[0].fd)
	if f, ok := v.Interface().(float64); ok && (math.IsNaN(f) || math.IsInf(f, 0)) {
		return formless("a Value cannot be %v in JSON", f)
	}
	return p.field(v, set[0])
}

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

func (e *encoder) anyValue(s *Schema) bool {
	kind := e.scan.Peek()
	f := s.field(armFor(kind))
	if kind == jsonscan.Null {
		e.tag(f)
		e.number(f, 0)
		return e.scan.Skip()
	}
	_, ok := e.value(f)
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
