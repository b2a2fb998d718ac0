package protobuf

import (
	"math"
	"math/rand/v2"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// wiregen generates messages that no orderly encoder writes but every decoder must read: fields
// in any order, repeated, packed or not, unknown or of the wrong type, varints with extra
// bytes.
type wiregen struct {
	*rand.Rand
	// tidy is the chance, in percent, of writing each thing as encoders do.
	tidy int
}

func (g wiregen) messy() bool { return g.IntN(100) >= g.tidy }

func (g wiregen) message(md protoreflect.MessageDescriptor, depth int) []byte {
	var wire []byte
	fields := md.Fields()
	for i := range fields.Len() {
		fd := fields.Get(i)
		if g.messy() {
			fd = fields.Get(g.IntN(fields.Len()))
		}
		if g.IntN(4) == 0 {
			wire = g.field(wire, fd, depth)
		}
	}
	if g.messy() {
		wire = g.unknown(wire)
	}
	return wire
}

func (g wiregen) field(wire []byte, fd protoreflect.FieldDescriptor, depth int) []byte {
	if depth == 0 && fd.Message() != nil && !fd.IsMap() {
		return wire
	}
	times := 1
	if fd.Cardinality() == protoreflect.Repeated {
		times = g.IntN(4)
	}
	if fd.IsPacked() != g.messy() && fd.IsList() && wireTypes[fd.Kind()] != protowire.BytesType && fd.Message() == nil {
		return g.packed(wire, fd, times)
	}
	for range times {
		wire = g.element(wire, fd, depth)
	}
	return wire
}

func (g wiregen) packed(wire []byte, fd protoreflect.FieldDescriptor, times int) []byte {
	var body []byte
	for range times {
		body = g.scalar(body, fd)
	}
	if len(body) == 0 && !g.messy() {
		return wire
	}
	wire = g.varint(wire, protowire.EncodeTag(fd.Number(), protowire.BytesType))
	return g.bytes(wire, body)
}

func (g wiregen) element(wire []byte, fd protoreflect.FieldDescriptor, depth int) []byte {
	wire = g.varint(wire, protowire.EncodeTag(fd.Number(), wireTypes[fd.Kind()]))
	switch {
	case fd.IsMap():
		return g.bytes(wire, g.entry(fd, depth))
	case fd.Kind() == protoreflect.GroupKind:
		wire = append(wire, g.message(fd.Message(), depth-1)...)
		return g.varint(wire, protowire.EncodeTag(fd.Number(), protowire.EndGroupType))
	case fd.Message() != nil && depth > 0:
		return g.bytes(wire, g.message(fd.Message(), depth-1))
	case fd.Message() != nil:
		return g.bytes(wire, nil)
	}
	return g.scalar(wire, fd)
}

func (g wiregen) entry(fd protoreflect.FieldDescriptor, depth int) []byte {
	entry := g.element(nil, fd.MapKey(), depth)
	entry = g.element(entry, fd.MapValue(), max(depth-1, 0))
	if !g.messy() {
		return entry
	}
	switch g.IntN(6) {
	case 0:
		return g.element(nil, fd.MapKey(), depth)
	case 1:
		return g.element(nil, fd.MapValue(), 0)
	case 2:
		return g.element(entry, fd.MapKey(), depth)
	case 3:
		return g.element(entry, fd.MapValue(), 0)
	case 4:
		return g.element(g.element(nil, fd.MapValue(), 0), fd.MapKey(), 0)
	}
	return g.unknown(entry)
}

func (g wiregen) scalar(wire []byte, fd protoreflect.FieldDescriptor) []byte {
	switch wireTypes[fd.Kind()] {
	case protowire.VarintType:
		return g.varint(wire, g.number(fd))
	case protowire.Fixed32Type:
		return protowire.AppendFixed32(wire, uint32(g.orderly(fd, g.fixed())))
	case protowire.Fixed64Type:
		return protowire.AppendFixed64(wire, g.orderly(fd, g.fixed()))
	}
	return g.bytes(wire, []byte(g.text()))
}

func (g wiregen) number(fd protoreflect.FieldDescriptor) uint64 {
	bits := g.Uint64() >> g.IntN(64)
	switch {
	case g.IntN(3) == 0:
		bits = -bits
	case g.IntN(3) == 0:
		bits = g.Uint64N(3)
	}
	return g.orderly(fd, bits)
}

// orderly usually returns the bits that encoders write for the value of bits.
func (g wiregen) orderly(fd protoreflect.FieldDescriptor, bits uint64) uint64 {
	switch {
	case g.messy():
		return bits
	case fd.Enum() != nil && fd.Enum().FullName() == "google.protobuf.NullValue":
		return 0 // JSON null means this value
	}
	switch fd.Kind() {
	case protoreflect.BoolKind:
		return min(bits, 1)
	case protoreflect.Int32Kind, protoreflect.EnumKind:
		return uint64(int32(bits))
	case protoreflect.Uint32Kind, protoreflect.Sint32Kind:
		return uint64(uint32(bits))
	case protoreflect.FloatKind:
		if f := math.Float32frombits(uint32(bits)); f != f {
			return nan32
		}
	case protoreflect.DoubleKind:
		if f := math.Float64frombits(bits); f != f {
			return nan64
		}
	}
	return bits
}

// The NaNs for "NaN" in JSON.
var (
	nan32 = uint64(math.Float32bits(float32(math.NaN())))
	nan64 = math.Float64bits(math.NaN())
)

// fixed returns bits of every kind: zero, minus zero, NaNs and infinities of either size, and
// random ones.
func (g wiregen) fixed() uint64 {
	special := []uint64{
		0, 1 << 31, 1 << 63, nan32, nan64,
		uint64(math.Float32bits(float32(math.Inf(1)))), math.Float64bits(math.Inf(-1)), math.Float64bits(1.5e300),
	}
	if g.IntN(2) == 0 {
		return special[g.IntN(len(special))]
	}
	return g.Uint64() >> g.IntN(64)
}

func (g wiregen) text() string {
	texts := []string{"", "a", "key", "plain text", "\"\\/\b\x00\x7f\u2028<&>", "naïve 日本 😀", "a longer text than one byte of length tells, so that what was written has to make room: " +
		"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"}
	if g.IntN(200) == 0 && g.messy() {
		return "broken \xff\xc0"
	}
	return texts[g.IntN(len(texts))]
}

func (g wiregen) bytes(wire, b []byte) []byte {
	return append(g.varint(wire, uint64(len(b))), b...)
}

// varint sometimes uses more bytes than necessary.
func (g wiregen) varint(wire []byte, v uint64) []byte {
	wire = protowire.AppendVarint(wire, v)
	if g.messy() && g.IntN(20) == 0 && v < 1<<56 {
		wire[len(wire)-1] |= 0x80
		wire = append(wire, 0)
	}
	return wire
}

func (g wiregen) unknown(wire []byte) []byte {
	num := protowire.Number(1 + g.IntN(110))
	switch g.IntN(4) {
	case 0:
		return protowire.AppendVarint(protowire.AppendTag(wire, num, protowire.VarintType), g.Uint64())
	case 1:
		return protowire.AppendFixed32(protowire.AppendTag(wire, num, protowire.Fixed32Type), g.Uint32())
	case 2:
		wire = protowire.AppendTag(wire, num, protowire.StartGroupType)
		return protowire.AppendTag(wire, num, protowire.EndGroupType)
	}
	return protowire.AppendBytes(protowire.AppendTag(wire, num, protowire.BytesType), []byte{8, 1})
}
