package protobuf

import (
	"cmp"
	"iter"
	"maps"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// A record is one field on the wire.
type record struct {
	num   protowire.Number
	typ   protowire.Type
	value []byte // without the length, or the end of the group
}

// records returns those of a message, as far as it can be read.
func records(wire []byte) iter.Seq[record] {
	return func(yield func(record) bool) {
		for len(wire) > 0 {
			num, typ, tag := protowire.ConsumeTag(wire)
			if tag < 0 {
				return
			}
			value, n := consumeValue(num, typ, wire[tag:])
			if n < 0 || !yield(record{num, typ, value}) {
				return
			}
			wire = wire[tag+n:]
		}
	}
}

func consumeValue(num protowire.Number, typ protowire.Type, wire []byte) (value []byte, n int) {
	switch typ {
	case protowire.BytesType:
		return protowire.ConsumeBytes(wire)
	case protowire.StartGroupType:
		return protowire.ConsumeGroup(num, wire)
	}
	n = protowire.ConsumeFieldValue(num, typ, wire)
	return wire[:max(n, 0)], n
}

// valuesOf returns the values of the records of a field in the bodies of a message.
func valuesOf(fd protoreflect.FieldDescriptor, bodies [][]byte) (values [][]byte) {
	for _, body := range bodies {
		for r := range records(body) {
			if r.num == fd.Number() && takes(fd, r.typ) {
				values = append(values, r.value)
			}
		}
	}
	return values
}

// takes is [field.takes].
func takes(fd protoreflect.FieldDescriptor, typ protowire.Type) bool {
	own := wireTypes[fd.Kind()]
	return typ == own || typ == protowire.BytesType && fd.IsList() && own != protowire.StartGroupType
}

// A member is a field that a message has. Its bodies are the values of its records:
// of the messages that are merged into one, of the elements of a list, or of the
// entries of a map. Fields of other types need none.
type member struct {
	fd     protoreflect.FieldDescriptor
	bodies [][]byte
	at     int // its place among the records of the message
}

// membersOf returns the fields that m has, in the order in which the bodies, from
// which it was read, first have them.
func membersOf(m protoreflect.Message, bodies [][]byte) []*member {
	found, at := map[protowire.Number]*member{}, 0
	m.Range(func(fd protoreflect.FieldDescriptor, _ protoreflect.Value) bool {
		found[fd.Number()] = &member{fd: fd}
		return true
	})
	for _, body := range bodies {
		for r := range records(body) {
			at++
			if of := found[r.num]; of != nil {
				of.take(r, at)
			} else if kept := found[keptInstead(m, r)]; kept != nil {
				*kept = member{fd: kept.fd}
			}
		}
	}
	return slices.SortedFunc(maps.Values(found), func(a, b *member) int { return cmp.Compare(a.at, b.at) })
}

func (f *member) take(r record, at int) {
	if !takes(f.fd, r.typ) {
		return
	}
	if f.at == 0 {
		f.at = at
	}
	if f.fd.Message() != nil {
		f.bodies = append(f.bodies, r.value)
	}
}

// keptInstead returns the number of the field that m has of the oneof in which r is, which
// displaced what there was before it; 0 if there is none.
func keptInstead(m protoreflect.Message, r record) protowire.Number {
	fd := m.Descriptor().Fields().ByNumber(r.num)
	if fd == nil || fd.ContainingOneof() == nil || !takes(fd, r.typ) {
		return 0
	}
	if kept := m.WhichOneof(fd.ContainingOneof()); kept != nil {
		return kept.Number()
	}
	return 0
}

// An entry is one of a map in memory, with the bodies of its value.
type entry struct {
	key    protoreflect.MapKey
	bodies [][]byte
}

// entriesOf returns the entries that stand in bodies, in the order in which their
// keys first do. Of several with one key the last is what counts.
func entriesOf(fd protoreflect.FieldDescriptor, bodies [][]byte) (entries []entry) {
	place := map[any]int{}
	for _, body := range bodies {
		e := entryOf(fd, body)
		if at, ok := place[e.key.Interface()]; ok {
			entries[at] = e
			continue
		}
		place[e.key.Interface()] = len(entries)
		entries = append(entries, e)
	}
	return entries
}

func entryOf(fd protoreflect.FieldDescriptor, body []byte) entry {
	e := entry{key: fd.MapKey().Default().MapKey(), bodies: valuesOf(fd.MapValue(), [][]byte{body})}
	if keys := valuesOf(fd.MapKey(), [][]byte{body}); len(keys) > 0 {
		e.key = keyOf(fd.MapKey().Kind(), keys[len(keys)-1]).MapKey()
	}
	return e
}

// keyOf returns the key of a map that a value on the wire is.
func keyOf(kind protoreflect.Kind, value []byte) protoreflect.Value {
	var bits uint64
	switch wireTypes[kind] {
	case protowire.BytesType:
		return protoreflect.ValueOfString(string(value))
	case protowire.Fixed32Type:
		word, _ := protowire.ConsumeFixed32(value)
		bits = uint64(word)
	case protowire.Fixed64Type:
		bits, _ = protowire.ConsumeFixed64(value)
	default:
		bits, _ = protowire.ConsumeVarint(value)
	}
	switch kind {
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(protowire.DecodeBool(bits))
	case protoreflect.Sint32Kind, protoreflect.Sint64Kind:
		bits = uint64(protowire.DecodeZigZag(canonical(kind, bits)))
	}
	return valueOfBits(kind, bits)
}
