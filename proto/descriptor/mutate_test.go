package descriptor_test

import (
	"math/rand/v2"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// A mutator changes messages at random, in ways that leave most of them what they
// were: so it gets behind the checks that bytes at random would not pass.
type mutator struct {
	*rand.Rand
	messages []protoreflect.Message
	texts    []string
}

// mutate changes a message in up to three places.
func mutate(m proto.Message, seed uint64) {
	u := mutator{Rand: rand.New(rand.NewPCG(seed, 0)), texts: []string{"", ".", "a.b", ".seed", "key", "value", "\xff"}}
	for range u.IntN(4) {
		u.messages = nil
		u.collect(m.ProtoReflect())
		u.change(u.messages[u.IntN(len(u.messages))])
	}
}

// collect lists the message and all in it, and their texts.
func (u *mutator) collect(m protoreflect.Message) {
	u.messages = append(u.messages, m)
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case fd.IsList() && fd.Message() != nil:
			for i := range v.List().Len() {
				u.collect(v.List().Get(i).Message())
			}
		case fd.IsList(), fd.IsMap():
		case fd.Message() != nil:
			u.collect(v.Message())
		case fd.Kind() == protoreflect.StringKind:
			u.texts = append(u.texts, v.String())
		}
		return true
	})
}

func (u *mutator) change(m protoreflect.Message) {
	fd := m.Descriptor().Fields().Get(u.IntN(m.Descriptor().Fields().Len()))
	switch {
	case u.IntN(4) == 0:
		m.Clear(fd)
	case fd.IsList():
		u.changeList(m.Mutable(fd).List(), fd)
	case fd.Message() != nil:
		m.Mutable(fd)
	default:
		m.Set(fd, u.value(fd))
	}
}

func (u *mutator) changeList(list protoreflect.List, fd protoreflect.FieldDescriptor) {
	switch n := list.Len(); {
	case fd.Message() == nil:
		list.Append(u.value(fd))
	case n == 0:
		list.AppendMutable()
	case u.IntN(3) == 0:
		i, j := u.IntN(n), u.IntN(n)
		a, b := list.Get(i), list.Get(j)
		list.Set(i, b)
		list.Set(j, a)
	default: // two of the same, one of which may change next
		list.Append(protoreflect.ValueOfMessage(proto.Clone(list.Get(u.IntN(n)).Message().Interface()).ProtoReflect()))
	}
}

func (u *mutator) value(fd protoreflect.FieldDescriptor) protoreflect.Value {
	number := []int32{0, 1, 2, 3, 10, 11, 14, 18, 19, 100, 998, 999, 1000, 1001, 9999, 19000, 1<<29 - 1, 1 << 29, 1<<31 - 1, -1, -1 << 31, 257, 256 + 11}[u.IntN(23)]
	switch fd.Kind() {
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(u.texts[u.IntN(len(u.texts))])
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes([]byte(u.texts[u.IntN(len(u.texts))]))
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(u.IntN(2) == 0)
	case protoreflect.EnumKind:
		if values := fd.Enum().Values(); u.IntN(8) > 0 {
			number = int32(values.Get(u.IntN(values.Len())).Number())
		}
		return protoreflect.ValueOfEnum(protoreflect.EnumNumber(number))
	case protoreflect.Int64Kind:
		return protoreflect.ValueOfInt64(int64(number))
	case protoreflect.Uint64Kind:
		return protoreflect.ValueOfUint64(uint64(number))
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(float64(number))
	}
	return protoreflect.ValueOfInt32(number)
}
