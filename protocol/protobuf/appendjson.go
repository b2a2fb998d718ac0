package protobuf

import (
	"hash/maphash"
	"math"
	"slices"
	"sync"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/wirectl/wirectl/internal/jsonscan"
)

// AppendJSON appends the JSON form of a message to dst, as the protobuf JSON mapping defines
// it, compact and on one line. Members and map entries are in wire order. A message that takes
// the general way has them in the order of the schema and of the keys. Unknown fields are
// dropped, and required fields may be missing. Nesting deeper than [jsonscan.MaxDepth] is an
// error. AppendJSON reports whether AppendWire restores wire byte for byte from that form. On
// error it returns dst unchanged; the error is an [*Error] if a byte is at fault.
func (s *Schema) AppendJSON(dst, wire []byte) (_ []byte, exact bool, err error) {
	d := decoders.Get().(*decoder)
	defer d.release()
	d.wire, d.dst, d.exact = wire, dst, true
	if !d.message(s, len(wire), 0) {
		return dst, false, d.err.of(s)
	}
	if d.general {
		dst, err = s.appendJSONGenerally(dst, wire)
		return dst, false, err
	}
	return d.dst, d.exact && !d.padded, nil
}

// decoder writes a message as JSON while walking it. Its methods return false once the reader
// has failed.
type decoder struct {
	reader
	dst   []byte
	exact bool
	// general means that the message has to take the general way. The walk still continues
	// to the end, because only the walk can say where a fault is.
	general bool
	depth   int      // of messages and map entries
	nesting int      // of JSON objects and arrays
	keys    []uint64 // hashes of the keys of the maps being written
}

// decoders pools decoders to reuse their keys.
var decoders = sync.Pool{New: func() any { return new(decoder) }}

// release clears d and returns it to the pool.
func (d *decoder) release() {
	const most = 1024 // keys worth keeping
	keys := d.keys[:0]
	if cap(keys) > most {
		keys = nil
	}
	*d = decoder{keys: keys}
	decoders.Put(d)
}

// maxDepth is the limit of the protobuf module.
const maxDepth = protowire.DefaultRecursionLimit

const tooDeep = "messages are nested too deep"

// message writes the message that ends at end. If group is not zero, the message ends with the
// end tag of that group.
func (d *decoder) message(s *Schema, end int, group protowire.Number) bool {
	if d.depth++; d.depth > maxDepth {
		return d.fail(d.pos, tooDeep)
	}
	d.general = d.general || s.general
	read := (*decoder).object
	if s.special != nil && s.special.read != nil {
		read = s.special.read
	}
	ok := read(d, s, end, group)
	d.depth--
	return ok
}

// object writes a message as an object of its fields.
func (d *decoder) object(s *Schema, end int, group protowire.Number) bool {
	if !d.openContainer('{') {
		return false
	}
	ok := d.fields(s, end, group)
	d.closeContainer('}')
	return ok
}

// fields writes the members of a message.
func (d *decoder) fields(s *Schema, end int, group protowire.Number) bool {
	var seen slots
	for d.pos < end {
		num, typ, ok := d.tag(end)
		if !ok {
			return false
		}
		if typ == protowire.EndGroupType && num == group {
			return true
		}
		f := s.field(num)
		if f == nil || !f.takes(typ) {
			if !d.unknown(s, num, typ, end) {
				return false
			}
			continue
		}
		d.general = seen.takeSlot(f.slot) || d.general
		if !d.field(f, typ, end) {
			d.err.within(f.name)
			return false
		}
	}
	if group != 0 {
		return d.fail(end, "truncated")
	}
	return true
}

// unknown skips a field that has no JSON name, unless it is an extension.
func (d *decoder) unknown(s *Schema, num protowire.Number, typ protowire.Type, end int) bool {
	d.exact = false
	if s.md.ExtensionRanges().Has(num) {
		d.general = true
	}
	return d.skip(num, typ, end)
}

// field writes the member for a field whose first tag has been read.
func (d *decoder) field(f *field, typ protowire.Type, end int) bool {
	start := len(d.dst)
	if f.member != nil {
		d.comma()
		d.dst = append(d.dst, f.member...)
	}
	switch {
	case f.mapKey != nil:
		return d.entries(f, end)
	case f.repeated:
		empty, ok := d.elements(f, typ, end)
		if empty {
			d.omit(start)
		}
		return ok
	}
	zero, ok := d.value(f, end)
	if zero && f.implicit {
		d.omit(start)
	}
	return ok
}

// omit removes the member that was begun at start: its field counts as absent, though it is on
// the wire.
func (d *decoder) omit(start int) {
	d.dst = d.dst[:start]
	d.exact = false
}

// elements writes the array for a repeated field from its adjacent records, and reports whether
// it is empty.
func (d *decoder) elements(f *field, typ protowire.Type, end int) (empty, ok bool) {
	if !d.openContainer('[') {
		return false, false
	}
	start := len(d.dst)
	for first := true; ; first = false {
		d.exact = d.exact && (typ == protowire.BytesType && f.packable) == f.packed && (first || !f.packed)
		if f.packable && typ == protowire.BytesType {
			ok = d.pack(f, end)
		} else {
			d.comma()
			_, ok = d.value(f, end)
		}
		if !ok {
			return false, false
		}
		if typ, ok = d.again(f, end); !ok {
			break
		}
	}
	empty = len(d.dst) == start
	d.closeContainer(']')
	return empty, true
}

// pack writes the elements of one packed record, if there are any.
func (d *decoder) pack(f *field, end int) bool {
	stop, ok := d.length(end)
	if !ok {
		return false
	}
	d.exact = d.exact && d.pos < stop
	for d.pos < stop {
		d.comma()
		if _, ok := d.value(f, stop); !ok {
			return false
		}
	}
	return true
}

// again consumes the next tag if it belongs to the same repeated field.
func (d *decoder) again(f *field, end int) (protowire.Type, bool) {
	before := d.reader
	typ, ok := d.nextTag(f.num, end)
	if ok && !f.takes(typ) {
		d.reader = before
		return 0, false
	}
	return typ, ok
}

// entries writes the object for a map from its adjacent entries.
func (d *decoder) entries(f *field, end int) bool {
	if d.depth++; d.depth > maxDepth {
		return d.fail(d.pos, tooDeep)
	}
	outer := len(d.keys)
	if !d.openContainer('{') {
		return false
	}
	for more := true; more; _, more = d.again(f, end) {
		stop, ok := d.length(end)
		if !ok || !d.entry(f, stop) {
			return false
		}
	}
	d.closeContainer('}')
	d.depth--
	d.general = hasDuplicate(d.keys[outer:]) || d.general
	d.keys = d.keys[:outer]
	return true
}

// hasDuplicate sorts hashes and reports whether two are equal. If different keys have equal
// hashes, the message takes the general way needlessly; nothing else happens.
func hasDuplicate(hashes []uint64) bool {
	slices.Sort(hashes)
	for i := 1; i < len(hashes); i++ {
		if hashes[i] == hashes[i-1] {
			return true
		}
	}
	return false
}

// entry writes the map entry that ends at end. An entry is a message with the
// key as field 1 and the value as field 2; encoders write both, in this order.
func (d *decoder) entry(f *field, end int) bool {
	key, value, ok := d.findEntry(f, end)
	if !ok {
		return false
	}
	d.general = d.general || key == 0 || value == 0
	d.exact = d.exact && key < value
	d.comma()
	if d.pos = key; key != 0 && !d.key(f.mapKey, end) {
		return false
	}
	d.dst = append(d.dst, ':')
	if d.pos = value; value != 0 {
		_, ok = d.value(f.mapValue, end)
	}
	d.pos = end
	return ok
}

// findEntry returns the positions of the key and the value in the entry, or 0 for a missing
// one.
func (d *decoder) findEntry(f *field, end int) (key, value int, ok bool) {
	for d.pos < end {
		num, typ, ok := d.tag(end)
		if !ok {
			return 0, 0, false
		}
		at := d.pos
		switch {
		case num == f.mapKey.num && typ == f.mapKey.wire:
			d.general = d.general || key != 0
			key = at
		case num == f.mapValue.num && typ == f.mapValue.wire:
			d.general = d.general || value != 0
			value = at
		default:
			d.exact = false
		}
		if !d.skip(num, typ, end) {
			return 0, 0, false
		}
	}
	return key, value, true
}

var seed = maphash.MakeSeed()

// key writes the key of a map entry, which JSON always writes as a string.
func (d *decoder) key(f *field, end int) bool {
	start := len(d.dst)
	bare := f.kind == protoreflect.BoolKind || is32(f.kind)
	if bare {
		d.dst = append(d.dst, '"')
	}
	if _, ok := d.value(f, end); !ok {
		return false
	}
	if bare {
		d.dst = append(d.dst, '"')
	}
	d.keys = append(d.keys, maphash.Bytes(seed, d.dst[start:]))
	return true
}

// value writes one value of a field and reports whether it is the zero value
// of its type.
func (d *decoder) value(f *field, end int) (zero, ok bool) {
	switch f.wire {
	case protowire.VarintType:
		bits, ok := d.varint(end)
		return d.writeNumber(f, bits), ok
	case protowire.Fixed32Type:
		bits, ok := d.fixed32(end)
		return d.writeNumber(f, uint64(bits)), ok
	case protowire.Fixed64Type:
		bits, ok := d.fixed64(end)
		return d.writeNumber(f, bits), ok
	case protowire.StartGroupType:
		return false, d.message(f.message, end, f.num)
	}
	if f.message != nil {
		stop, ok := d.length(end)
		return false, ok && d.message(f.message, stop, 0)
	}
	b, ok := d.bytes(end)
	if !ok {
		return false, false
	}
	if f.kind == protoreflect.BytesKind {
		d.dst = appendBase64(d.dst, b)
		return len(b) == 0, true
	}
	return len(b) == 0, d.text(b)
}

// writeNumber writes the value represented by bits and reports whether it is zero.
func (d *decoder) writeNumber(f *field, bits uint64) (zero bool) {
	v := canonical(f.kind, bits)
	d.exact = d.exact && v == bits && (v == 0 || !f.null)
	d.general = d.general || f.finite && !isFinite(math.Float64frombits(v))
	d.dst = appendNumber(d.dst, f, v)
	return v == 0
}

// text writes a string, which must be UTF-8 in every syntax: JSON cannot represent any other.
func (d *decoder) text(b []byte) bool {
	var ok bool
	if d.dst, ok = jsonscan.AppendQuoteUTF8(d.dst, b); !ok {
		return d.fail(d.pos-len(b)+validPrefix(b), "invalid UTF-8")
	}
	return true
}

// validPrefix returns how much of b is UTF-8.
func validPrefix(b []byte) int {
	n := 0
	for n < len(b) {
		r, size := utf8.DecodeRune(b[n:])
		if r == utf8.RuneError && size == 1 {
			break
		}
		n += size
	}
	return n
}

// openContainer begins an object or array. It fails if readers of JSON would reject the
// nesting.
func (d *decoder) openContainer(bracket byte) bool {
	d.dst = append(d.dst, bracket)
	// Beyond the depth to which the scanner can enter containers, AppendWire takes the
	// general way and so chooses the order of the fields itself.
	if d.nesting++; d.nesting > jsonscan.MaxEntered {
		d.exact = false
	}
	return d.nesting <= jsonscan.MaxDepth || d.fail(d.pos, tooDeep)
}

func (d *decoder) closeContainer(bracket byte) {
	d.dst = append(d.dst, bracket)
	d.nesting--
}

func (d *decoder) comma() { d.dst = appendComma(d.dst) }

// appendComma appends a comma if an item precedes.
func appendComma(dst []byte) []byte {
	switch dst[len(dst)-1] {
	case '{', '[':
		return dst
	}
	return append(dst, ',')
}
