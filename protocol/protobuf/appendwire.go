package protobuf

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/internal/nearest"
)

// AppendWire appends the message described by its JSON form. Fields and map entries are written
// in the order of the JSON. A message that takes the general way has them ordered by number and
// by key. Each number is in its shortest form. Repeated fields are packed as the schema says,
// and zero fields without presence are omitted. Members are named by their JSON names or their
// names in the schema. Required fields may be missing. On error dst is returned unchanged.
func (s *Schema) AppendWire(dst, json []byte) ([]byte, error) {
	e := encoder{dst: dst}
	e.scan.Init(json)
	direct := e.message(s)
	if err := e.scan.End(); err != nil {
		return dst, err
	}
	if e.err != nil {
		return dst, e.err.of(s)
	}
	if _, _, duplicate := e.scan.Duplicate(); !direct || duplicate {
		return s.appendWireGenerally(dst, json)
	}
	return e.dst, nil
}

// encoder writes a message while walking its JSON form. Its methods return false for anything
// wrong or merely unusual. AppendWire then takes the general way, which handles the whole
// mapping.
type encoder struct {
	scan jsonscan.Scanner
	dst  []byte
	err  *Error // a name that is certainly wrong
}

func (e *encoder) message(s *Schema) bool {
	switch {
	case s.special != nil && s.special.write != nil:
		return s.special.write(e, s)
	case s.general || !e.scan.Object():
		return false
	}
	var seen slots
	for e.scan.Next() {
		f := s.byName[string(e.scan.Key())]
		switch {
		case f == nil:
			return e.noField(s)
		case seen.takeSlot(f.slot):
			return false
		case !e.field(f):
			e.err.within(f.name)
			return false
		}
	}
	return e.scan.Err() == nil
}

// noField returns false. It records that the message has no field of the current name, unless
// that is the name of an extension.
func (e *encoder) noField(s *Schema) bool {
	if name := string(e.scan.Key()); !strings.HasPrefix(name, "[") {
		e.err = &Error{Offset: e.scan.Offset(), Msg: fmt.Sprintf("%s has no field %q%s", s.name, name, nearest.Question(name, slices.Sorted(maps.Keys(s.byName))))}
	}
	return false
}

func (e *encoder) field(f *field) bool {
	if e.scan.Peek() == jsonscan.Null && !f.takesNull {
		return e.scan.Skip() // the field is absent
	}
	switch {
	case f.mapKey != nil:
		return e.scan.Object() && e.entries(f)
	case f.packed:
		return e.scan.Array() && e.pack(f)
	case f.repeated:
		return e.scan.Array() && e.elements(f)
	}
	start := len(e.dst)
	zero, ok := e.value(f)
	if zero && f.implicit {
		e.dst = e.dst[:start]
	}
	return ok
}

// elements writes the elements of the array just entered.
func (e *encoder) elements(f *field) bool {
	for e.scan.Elem() {
		if _, ok := e.value(f); !ok {
			return false
		}
	}
	return e.scan.Err() == nil
}

// pack is elements as one packed record.
func (e *encoder) pack(f *field) bool {
	start := len(e.dst)
	body := e.beginValue(f)
	for e.scan.Elem() {
		bits, ok := parseNumber(f, e.scan.Value())
		if !ok {
			return false
		}
		e.writeNumber(f, bits)
	}
	if len(e.dst) == body {
		e.dst = e.dst[:start]
		return e.scan.Err() == nil
	}
	e.endValue(body)
	return e.scan.Err() == nil
}

// entries writes the entries of a map, the members of the object just entered.
func (e *encoder) entries(f *field) bool {
	for e.scan.Next() {
		body := e.beginValue(f)
		if !e.key(f.mapKey) {
			return false
		}
		if _, ok := e.value(f.mapValue); !ok {
			return false
		}
		e.endValue(body)
	}
	return e.scan.Err() == nil
}

// key writes the key of the current member of a map.
func (e *encoder) key(f *field) bool {
	text := e.scan.Key()
	switch f.kind {
	case protoreflect.StringKind:
		e.tag(f)
		e.dst = protowire.AppendBytes(e.dst, text)
		return true
	case protoreflect.BoolKind:
		e.tag(f)
		e.writeNumber(f, protowire.EncodeBool(string(text) == "true"))
		return string(text) == "true" || string(text) == "false"
	}
	bits, ok := parseInteger(f.kind, text)
	e.tag(f)
	e.writeNumber(f, bits)
	return ok
}

// value writes the tag of a field and the next value, and reports whether the value is the zero
// value of its type.
func (e *encoder) value(f *field) (zero, ok bool) {
	switch f.kind {
	case protoreflect.MessageKind:
		body := e.beginValue(f)
		ok = e.message(f.message)
		e.endValue(body)
		return false, ok
	case protoreflect.GroupKind:
		e.tag(f)
		ok = e.message(f.message)
		e.dst = protowire.AppendTag(e.dst, f.num, protowire.EndGroupType)
		return false, ok
	case protoreflect.StringKind:
		text, ok := jsonscan.Unquote(e.scan.Value())
		e.tag(f)
		e.dst = protowire.AppendBytes(e.dst, text)
		return len(text) == 0, ok
	case protoreflect.BytesKind:
		return e.bytes(f)
	}
	bits, ok := parseNumber(f, e.scan.Value())
	e.tag(f)
	e.writeNumber(f, bits)
	return bits == 0, ok
}

func (e *encoder) bytes(f *field) (zero, ok bool) {
	text, ok := jsonscan.Unquote(e.scan.Value())
	if !ok {
		return false, false
	}
	body := e.beginValue(f)
	e.dst, ok = appendFromBase64(e.dst, text)
	zero = len(e.dst) == body
	e.endValue(body)
	return zero, ok
}

func (e *encoder) tag(f *field) { e.dst = protowire.AppendTag(e.dst, f.num, f.wire) }

func (e *encoder) writeNumber(f *field, bits uint64) {
	switch f.wire {
	case protowire.Fixed32Type:
		e.dst = protowire.AppendFixed32(e.dst, uint32(bits))
	case protowire.Fixed64Type:
		e.dst = protowire.AppendFixed64(e.dst, bits)
	default:
		e.dst = protowire.AppendVarint(e.dst, bits)
	}
}

// beginValue begins a length-delimited value of f and returns where its body begins. It
// reserves one byte for the length, which is usually enough.
func (e *encoder) beginValue(f *field) (body int) {
	e.dst = protowire.AppendTag(e.dst, f.num, protowire.BytesType)
	e.dst = append(e.dst, 0)
	return len(e.dst)
}

// endValue ends the value whose body begins at body. It moves the body if the length needs more
// than one byte.
func (e *encoder) endValue(body int) {
	length := len(e.dst) - body
	if more := protowire.SizeVarint(uint64(length)) - 1; more > 0 {
		e.dst = append(e.dst, make([]byte, more)...)
		copy(e.dst[body+more:], e.dst[body:])
	}
	binary.PutUvarint(e.dst[body-1:], uint64(length))
}
