package protobuf

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strconv"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/wirectl/wirectl/nearest"
	"github.com/wirectl/wirectl/protocol/jsonscan"
)

// A builder makes messages in memory of their JSON form, and knows the whole of the
// mapping: numbers in strings and with exponents, null, the names of extensions.
// The text is known to be JSON.
type builder struct {
	scan  jsonscan.Scanner
	base  int // where in the payload the text of scan begins
	types resolver
	depth int // of messages
}

// on returns a builder for a value that lies at an offset of the payload.
func (b *builder) on(raw []byte, at int) *builder {
	below := &builder{base: at, types: b.types, depth: b.depth}
	below.scan.Init(raw)
	return below
}

// offset returns where in the payload the next value is.
func (b *builder) offset() int { return b.base + b.scan.Offset() }

func (b *builder) fail(at int, format string, args ...any) error {
	return &Error{Offset: at, Msg: fmt.Sprintf(format, args...)}
}

// unfit says that the next value is not what is needed.
func (b *builder) unfit(want string) error {
	at := b.offset()
	return b.fail(at, "%s is not %s", clipped(b.scan.Value()), want)
}

// clipped returns a value as an error shows it.
func clipped(raw []byte) []byte {
	const most = 60
	if len(raw) <= most {
		return raw
	}
	return append(bytes.ToValidUTF8(slices.Clone(raw[:most]), nil), "…"...)
}

// within says of which field an error is.
func within(fd protoreflect.FieldDescriptor, err error) error {
	if e, ok := err.(*Error); ok { //nolint:errorlint // as it was made, which is not wrapped
		e.within(string(fd.Name()))
	}
	return err
}

// object hands out the members of the next value, which has to be an object. What
// each does not consume is passed over.
func (b *builder) object(each func(b *builder, key []byte, at int) error) error {
	if b.scan.Peek() != jsonscan.Object {
		return b.unfit("an object")
	}
	at := b.offset()
	if !b.scan.Object() { // it lies deeper than a scanner enters
		return b.on(b.scan.Value(), at).object(each)
	}
	for b.scan.Next() {
		if err := each(b, b.scan.Key(), b.offset()); err != nil {
			return err
		}
	}
	return b.scan.Err()
}

// array is object for the elements of an array.
func (b *builder) array(each func(b *builder) error) error {
	if b.scan.Peek() != jsonscan.Array {
		return b.unfit("an array")
	}
	at := b.offset()
	if !b.scan.Array() {
		return b.on(b.scan.Value(), at).array(each)
	}
	for b.scan.Elem() {
		if err := each(b); err != nil {
			return err
		}
	}
	return b.scan.Err()
}

// message makes the next value the content of m.
func (b *builder) message(m protoreflect.Message) error {
	return b.deeper(func() error {
		if s := specialOf(m.Descriptor()); s != nil {
			return s.build(b, m)
		}
		return b.fields(m, "")
	})
}

// deeper does something one message deeper.
func (b *builder) deeper(do func() error) error {
	if b.depth++; b.depth > maxDepth {
		return b.fail(b.offset(), tooDeep)
	}
	defer func() { b.depth-- }()
	return do()
}

// fields reads the object of an ordinary message, and passes over the member with
// the key besides.
func (b *builder) fields(m protoreflect.Message, besides string) error {
	md := m.Descriptor()
	if isMessageSet(md) {
		return b.fail(b.offset(), "%s is a message set, which JSON has no form for", md.FullName())
	}
	numbers, oneofs := map[protoreflect.FieldNumber]bool{}, map[int]bool{}
	return b.object(func(b *builder, key []byte, at int) error {
		if besides != "" && string(key) == besides {
			return nil
		}
		fd, err := b.find(md, string(key))
		switch {
		case err != nil:
			return b.fail(at, "%s", plain(err))
		case numbers[fd.Number()]:
			return b.fail(at, "the field %s stands here twice", fd.Name())
		}
		numbers[fd.Number()] = true
		if b.scan.Peek() == jsonscan.Null && !takesNull(fd) {
			return nil
		}
		if oneof := fd.ContainingOneof(); oneof != nil {
			if oneofs[oneof.Index()] {
				return b.fail(at, "%s stands beside another field of the oneof %s", fd.Name(), oneof.Name())
			}
			oneofs[oneof.Index()] = true
		}
		if err := b.field(m, fd); err != nil {
			return within(fd, err)
		}
		return nil
	})
}

// takesNull reports whether null is a value of the field: for any other it says that
// the field is absent.
func takesNull(fd protoreflect.FieldDescriptor) bool {
	if fd.Message() != nil {
		return fd.Message().FullName() == "google.protobuf.Value"
	}
	return isNull(fd)
}

// find returns the field or extension that a key names.
func (b *builder) find(md protoreflect.MessageDescriptor, key string) (protoreflect.FieldDescriptor, error) {
	if len(key) > 1 && key[0] == '[' && key[len(key)-1] == ']' {
		return b.findExtension(md, protoreflect.FullName(key[1:len(key)-1]))
	}
	fd := md.Fields().ByJSONName(key)
	if fd == nil {
		fd = md.Fields().ByTextName(key)
	}
	if fd == nil {
		return nil, fmt.Errorf("%s has no field %q%s", md.FullName(), key, nearest.Question(key, jsonNames(md)))
	}
	return fd, nil
}

func jsonNames(md protoreflect.MessageDescriptor) []string {
	names := make([]string, md.Fields().Len())
	for i := range names {
		names[i] = md.Fields().Get(i).JSONName()
	}
	return names
}

func (b *builder) findExtension(md protoreflect.MessageDescriptor, name protoreflect.FullName) (protoreflect.FieldDescriptor, error) {
	xt, err := b.types.FindExtensionByName(name)
	switch {
	case err == protoregistry.NotFound: //nolint:errorlint // the value itself, as the interface has it
		return nil, fmt.Errorf("there is no extension %q", name)
	case err != nil:
		return nil, err
	}
	fd := xt.TypeDescriptor()
	if fd.ContainingMessage().FullName() != md.FullName() || !md.ExtensionRanges().Has(fd.Number()) {
		return nil, fmt.Errorf("%s is no extension of %s", name, md.FullName())
	}
	return fd, nil
}

func (b *builder) field(m protoreflect.Message, fd protoreflect.FieldDescriptor) error {
	switch {
	case fd.IsList():
		return b.list(m.Mutable(fd).List(), fd)
	case fd.IsMap():
		return b.entries(m.Mutable(fd).Map(), fd)
	}
	v, err := b.value(fd, func() protoreflect.Value { return m.NewField(fd) })
	if err == nil {
		m.Set(fd, v)
	}
	return err
}

func (b *builder) list(l protoreflect.List, fd protoreflect.FieldDescriptor) error {
	return b.array(func(b *builder) error {
		v, err := b.value(fd, l.NewElement)
		if err == nil {
			l.Append(v)
		}
		return err
	})
}

func (b *builder) entries(m protoreflect.Map, fd protoreflect.FieldDescriptor) error {
	return b.object(func(b *builder, key []byte, at int) error {
		k, ok := mapKey(fd.MapKey().Kind(), string(key))
		switch {
		case !ok:
			return b.fail(at, "%q is no key of kind %s", key, fd.MapKey().Kind())
		case m.Has(k):
			return b.fail(at, "the key %q stands here twice", key)
		}
		v, err := b.value(fd.MapValue(), m.NewValue)
		if err == nil {
			m.Set(k, v)
		}
		return err
	})
}

// mapKey returns the key that a name in JSON stands for.
func mapKey(kind protoreflect.Kind, name string) (k protoreflect.MapKey, ok bool) {
	v := protoreflect.ValueOfString(name)
	ok = true
	switch {
	case kind == protoreflect.BoolKind:
		v, ok = protoreflect.ValueOfBool(name == "true"), name == "true" || name == "false"
	case kind != protoreflect.StringKind:
		v, ok = parseWhole(name, kind)
	}
	return v.MapKey(), ok
}

// value returns the value that comes next; fresh makes the message that it is to be.
func (b *builder) value(fd protoreflect.FieldDescriptor, fresh func() protoreflect.Value) (protoreflect.Value, error) {
	if fd.Message() != nil {
		v := fresh()
		return v, b.message(v.Message())
	}
	at := b.offset()
	raw := b.scan.Value()
	v, ok := scalar(fd, raw)
	if !ok {
		return v, b.fail(at, "%s is no %s", clipped(raw), kindName(fd))
	}
	return v, nil
}

// kindName names what a value of fd is in an error.
func kindName(fd protoreflect.FieldDescriptor) string {
	if fd.Enum() != nil {
		return "value of " + string(fd.Enum().FullName())
	}
	return fd.Kind().String()
}

// scalar returns the value of a field, neither message nor group, that raw is.
func scalar(fd protoreflect.FieldDescriptor, raw []byte) (v protoreflect.Value, ok bool) {
	token := jsonscan.KindOf(raw)
	text, isText := unquoted(raw)
	switch kind := fd.Kind(); kind {
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(token == jsonscan.True), token == jsonscan.True || token == jsonscan.False
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(string(text)), isText
	case protoreflect.BytesKind:
		decoded, valid := appendFromBase64(nil, text)
		return protoreflect.ValueOfBytes(decoded), isText && valid
	case protoreflect.EnumKind:
		return enumValue(fd, raw)
	case protoreflect.FloatKind, protoreflect.DoubleKind:
		return floatValue(kind, raw)
	default:
		number, ok := numberText(raw)
		if !ok {
			return v, false
		}
		return wholeValue(number, kind)
	}
}

// unquoted returns the text of a value that is a string.
func unquoted(raw []byte) ([]byte, bool) {
	if jsonscan.KindOf(raw) != jsonscan.String {
		return nil, false
	}
	return jsonscan.Unquote(raw)
}

func enumValue(fd protoreflect.FieldDescriptor, raw []byte) (v protoreflect.Value, ok bool) {
	switch jsonscan.KindOf(raw) {
	case jsonscan.Null:
		return protoreflect.ValueOfEnum(0), isNull(fd)
	case jsonscan.String:
		text, _ := jsonscan.Unquote(raw)
		if named := fd.Enum().Values().ByName(protoreflect.Name(text)); named != nil {
			return protoreflect.ValueOfEnum(named.Number()), true
		}
	case jsonscan.Number:
		n, ok := wholeValue(raw, protoreflect.Int32Kind)
		return protoreflect.ValueOfEnum(protoreflect.EnumNumber(n.Int())), ok
	}
	return v, false
}

// numberText returns the number that raw is, or that stands in it as a string.
func numberText(raw []byte) ([]byte, bool) {
	text, isText := unquoted(raw)
	if !isText {
		return raw, jsonscan.KindOf(raw) == jsonscan.Number
	}
	ok := jsonscan.KindOf(text) == jsonscan.Number && jsonscan.Valid(text) == nil && text[len(text)-1] > ' '
	return text, ok
}

func floatValue(kind protoreflect.Kind, raw []byte) (v protoreflect.Value, ok bool) {
	text, token := raw, jsonscan.KindOf(raw)
	if number, ok := numberText(raw); ok {
		text, token = number, jsonscan.Number
	} else if name, ok := unquoted(raw); ok {
		text = name
	}
	bits, ok := parseFloat(kind, text, token)
	return valueOfBits(kind, bits), ok
}

// wholeValue returns the integer that a number in JSON is, however it is written.
func wholeValue(number []byte, kind protoreflect.Kind) (v protoreflect.Value, ok bool) {
	digits, ok := wholeDigits(number)
	if !ok {
		return valueOfBits(kind, 0), false
	}
	return parseWhole(digits, kind)
}

// parseWhole reads an integer of a kind, in digits and with a sign.
func parseWhole(digits string, kind protoreflect.Kind) (protoreflect.Value, bool) {
	size := 64
	if is32(kind) {
		size = 32
	}
	if isUnsigned(kind) {
		n, err := strconv.ParseUint(digits, 10, size)
		return valueOfBits(kind, n), err == nil
	}
	n, err := strconv.ParseInt(digits, 10, size)
	return valueOfBits(kind, uint64(n)), err == nil
}

// wholeDigits writes a number without fraction and exponent.
func wholeDigits(number []byte) (string, bool) {
	const most = 20 // digits of an integer of 64 bits
	mantissa, power, _ := bytes.Cut(bytes.ToLower(number), []byte("e"))
	whole, fraction, _ := bytes.Cut(bytes.TrimPrefix(mantissa, []byte("-")), []byte("."))
	whole, fraction = bytes.TrimLeft(whole, "0"), bytes.TrimRight(fraction, "0")
	digits := slices.Concat(whole, fraction)
	if len(digits) == 0 {
		return "0", true
	}
	exponent := int64(0)
	if len(power) > 0 {
		var err error
		if exponent, err = strconv.ParseInt(string(power), 10, 32); err != nil {
			return "", false
		}
	}
	shift := exponent - int64(len(fraction))
	switch kept := int64(len(digits)) + shift; {
	case kept <= 0 || kept > most && shift > 0:
		return "", false
	case shift > 0:
		digits = append(digits, bytes.Repeat([]byte("0"), int(shift))...)
	default:
		if len(bytes.Trim(digits[kept:], "0")) > 0 {
			return "", false
		}
		digits = digits[:kept]
	}
	if mantissa[0] == '-' {
		return "-" + string(digits), true
	}
	return string(digits), true
}

// valueOfBits returns the number of a kind that has these bits, those of an integer in
// two's complement.
func valueOfBits(kind protoreflect.Kind, bits uint64) protoreflect.Value {
	switch kind {
	case protoreflect.FloatKind:
		return protoreflect.ValueOfFloat32(math.Float32frombits(uint32(bits)))
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(math.Float64frombits(bits))
	}
	switch small := is32(kind); {
	case isUnsigned(kind) && small:
		return protoreflect.ValueOfUint32(uint32(bits))
	case isUnsigned(kind):
		return protoreflect.ValueOfUint64(bits)
	case small:
		return protoreflect.ValueOfInt32(int32(bits))
	}
	return protoreflect.ValueOfInt64(int64(bits))
}
