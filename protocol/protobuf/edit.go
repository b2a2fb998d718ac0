package protobuf

import (
	"slices"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/wirectl/wirectl/internal/jsonscan"
)

// An Editor decides how the values of a message change, by the names that the schema gives
// them. Hiding a value hides everything inside it.
type Editor interface {
	// Hides reports whether to hide the value with that name: that of a field, in the
	// schema or in JSON, or of its oneof; or the key of a map entry.
	Hides(name string) bool
	// Text returns the replacement for a string or bytes.
	Text(text []byte, hidden bool) []byte
	// Unknown returns the replacement for bytes that the schema does not describe: the
	// value of an unknown field, or of an unknown type.
	Unknown(value []byte, hidden bool) []byte
}

// An Edited is a protocol whose messages can be edited because their schema is known.
type Edited interface {
	// AppendEdited appends a message as edited by e. The result can be read with the same
	// schema; unchanged parts keep their bytes. On error dst is returned unchanged.
	AppendEdited(dst, wire []byte, e Editor) ([]byte, error)
}

// AppendEdited appends a message as edited by e; see [Edited]. Hidden numbers become zero;
// booleans and map keys stay.
func (s *Schema) AppendEdited(dst, wire []byte, e Editor) ([]byte, error) {
	d := editing{reader: reader{wire: wire}, editor: e, root: s, dst: dst}
	if !d.message(s.md, len(wire), 0, false) {
		return dst, d.err.of(s.md)
	}
	return d.dst, nil
}

func (t *typed) AppendEdited(dst, payload []byte, e Editor) ([]byte, error) {
	return t.schema.AppendEdited(dst, payload, e)
}

// editing writes a message while walking it. Its methods return false once the reader has
// failed.
type editing struct {
	reader
	editor Editor
	root   *Schema // knows the types that a google.protobuf.Any holds
	strict bool    // text must be UTF-8
	dst    []byte
	depth  int
}

// message edits the message that ends at end; md is nil for an unknown group. If group is not
// zero, the message ends with the end tag of that group.
func (d *editing) message(md protoreflect.MessageDescriptor, end int, group protowire.Number, hidden bool) bool {
	if d.depth++; d.depth > maxDepth {
		return d.fail(d.pos, tooDeep)
	}
	defer func() { d.depth-- }()
	inAny, inEntry := isAny(md), md != nil && md.IsMapEntry()
	var held protoreflect.MessageDescriptor // by an Any
	if inAny || inEntry && md.Fields().ByNumber(1).Kind() == protoreflect.StringKind {
		for text := range delimited(d.wire[d.pos:end], 1) { // it need not come first
			if inAny {
				held = d.root.typeOf(string(text))
			} else {
				hidden = hidden || d.editor.Hides(string(text))
			}
		}
	}
	for d.pos < end {
		num, typ, ok := d.keepTag(end, md == nil)
		start := d.pos
		var fd protoreflect.FieldDescriptor
		if md != nil && ok {
			fd = md.Fields().ByNumber(num)
		}
		switch {
		case !ok:
		case typ == protowire.EndGroupType && num == group && group != 0:
			return true
		case fd == nil, !takes(fd, typ), inAny && num > 1 && (num > 2 || held == nil):
			ok = d.unknown(num, typ, end, hidden)
		case inAny && num == 2:
			ok = d.within(end, func(stop int) bool { return d.message(held, stop, 0, hidden) })
		case (inAny || inEntry) && num == 1 && d.strict && fd.Kind() == protoreflect.StringKind:
			ok = d.text(end)
		case (inAny || inEntry) && num == 1: // a type or a key stays
			ok = d.skip(num, typ, end)
			d.keepField(start)
		case inEntry:
			ok = d.value(fd, typ, end, hidden)
		default:
			if ok = d.value(fd, typ, end, hidden || d.hides(fd)); !ok {
				d.err.within(string(fd.Name()))
			}
		}
		if !ok {
			return false
		}
	}
	return group == 0 || d.fail(end, "truncated")
}

// hides reports whether one of the names of a field is hidden.
func (d *editing) hides(fd protoreflect.FieldDescriptor) bool {
	oneof := fd.ContainingOneof()
	return d.editor.Hides(string(fd.Name())) || d.editor.Hides(fd.JSONName()) ||
		oneof != nil && !oneof.IsSynthetic() && d.editor.Hides(string(oneof.Name()))
}

// keepTag consumes and copies a tag.
func (d *editing) keepTag(end int, inGroup bool) (protowire.Number, protowire.Type, bool) {
	start, read := d.pos, d.tag
	if inGroup {
		read = d.tagInGroup
	}
	num, typ, ok := read(end)
	d.keepField(start)
	return num, typ, ok
}

// keepField copies the bytes read since start.
func (d *editing) keepField(start int) { d.dst = append(d.dst, d.wire[start:d.pos]...) }

// value edits a value of a field whose tag has been read.
func (d *editing) value(fd protoreflect.FieldDescriptor, typ protowire.Type, end int, hidden bool) bool {
	number := func(stop int) bool {
		return d.editNumber(wireTypes[fd.Kind()], stop, hidden && fd.Kind() != protoreflect.BoolKind)
	}
	switch {
	case fd.Kind() == protoreflect.GroupKind:
		return d.message(fd.Message(), end, fd.Number(), hidden)
	case fd.Kind() == protoreflect.MessageKind:
		return d.within(end, func(stop int) bool { return d.message(fd.Message(), stop, 0, hidden) })
	case fd.Kind() == protoreflect.StringKind && d.strict:
		return d.text(end)
	case fd.Kind() == protoreflect.StringKind, fd.Kind() == protoreflect.BytesKind:
		return d.replace(end, hidden, d.editor.Text)
	case typ != protowire.BytesType:
		return number(end)
	}
	return d.within(end, func(stop int) bool { // packed
		for d.pos < stop {
			if !number(stop) {
				return false
			}
		}
		return true
	})
}

// text checks that a string is UTF-8: JSON cannot represent any other.
func (d *editing) text(end int) bool {
	text, ok := d.bytes(end)
	if !ok || jsonscan.ValidUTF8(text) {
		return ok
	}
	valid := 0
	for r, size := utf8.DecodeRune(text); r != utf8.RuneError || size > 1; r, size = utf8.DecodeRune(text[valid:]) {
		valid += size
	}
	return d.fail(d.pos-len(text)+valid, "invalid UTF-8")
}

// within edits the content of a length-delimited value up to its end, and writes the new
// length.
func (d *editing) within(end int, edit func(stop int) bool) bool {
	start, at := d.pos, len(d.dst)
	stop, ok := d.length(end)
	if !ok {
		return false
	}
	d.keepField(start)
	size, body := stop-d.pos, len(d.dst)
	if !edit(stop) {
		return false
	}
	if n := len(d.dst) - body; n != size {
		d.dst = slices.Replace(d.dst, at, body, protowire.AppendVarint(nil, uint64(n))...)
	}
	return true
}

// replace edits a string or bytes.
func (d *editing) replace(end int, hidden bool, with func(value []byte, hidden bool) []byte) bool {
	return d.within(end, func(stop int) bool {
		d.dst = append(d.dst, with(d.wire[d.pos:stop], hidden)...)
		d.pos = stop
		return true
	})
}

// editNumber edits a value that has no length.
func (d *editing) editNumber(typ protowire.Type, end int, hidden bool) bool {
	start := d.pos
	if !d.skip(0, typ, end) {
		return false
	}
	switch {
	case !hidden:
		d.keepField(start)
	case typ == protowire.VarintType:
		d.dst = append(d.dst, 0)
	default:
		d.dst = append(d.dst, make([]byte, d.pos-start)...)
	}
	return true
}

// unknown edits a field that the schema lacks and whose tag has been read.
func (d *editing) unknown(num protowire.Number, typ protowire.Type, end int, hidden bool) bool {
	switch typ {
	case protowire.BytesType:
		return d.replace(end, hidden, d.editor.Unknown)
	case protowire.StartGroupType:
		return d.message(nil, end, num, hidden)
	case protowire.VarintType, protowire.Fixed32Type, protowire.Fixed64Type:
		return d.editNumber(typ, end, hidden)
	}
	return d.skip(num, typ, end)
}

// isAny reports whether md is google.protobuf.Any, and no other type with its name.
func isAny(md protoreflect.MessageDescriptor) bool {
	if md == nil || md.FullName() != "google.protobuf.Any" {
		return false
	}
	url, value := md.Fields().ByNumber(1), md.Fields().ByNumber(2)
	return url != nil && value != nil && url.Kind() == protoreflect.StringKind && value.Kind() == protoreflect.BytesKind
}

// typeOf returns the type named by a google.protobuf.Any, or nil if it is unknown.
func (s *Schema) typeOf(url string) protoreflect.MessageDescriptor {
	name := protoreflect.FullName(url[strings.LastIndexByte(url, '/')+1:])
	t, err := s.types().FindMessageByName(name)
	if err != nil {
		return nil
	}
	return t.Descriptor()
}

// takes reports whether a value of wire type typ belongs to a field. Otherwise the protobuf
// specification makes it an unknown field.
func takes(fd protoreflect.FieldDescriptor, typ protowire.Type) bool {
	want := wireTypes[fd.Kind()]
	packable := fd.IsList() && want != protowire.BytesType && want != protowire.StartGroupType
	return typ == want || packable && typ == protowire.BytesType
}

// wireTypes are the wire types of one value of each kind.
var wireTypes = [...]protowire.Type{
	protoreflect.BoolKind:     protowire.VarintType,
	protoreflect.EnumKind:     protowire.VarintType,
	protoreflect.Int32Kind:    protowire.VarintType,
	protoreflect.Sint32Kind:   protowire.VarintType,
	protoreflect.Uint32Kind:   protowire.VarintType,
	protoreflect.Int64Kind:    protowire.VarintType,
	protoreflect.Sint64Kind:   protowire.VarintType,
	protoreflect.Uint64Kind:   protowire.VarintType,
	protoreflect.Sfixed32Kind: protowire.Fixed32Type,
	protoreflect.Fixed32Kind:  protowire.Fixed32Type,
	protoreflect.FloatKind:    protowire.Fixed32Type,
	protoreflect.Sfixed64Kind: protowire.Fixed64Type,
	protoreflect.Fixed64Kind:  protowire.Fixed64Type,
	protoreflect.DoubleKind:   protowire.Fixed64Type,
	protoreflect.StringKind:   protowire.BytesType,
	protoreflect.BytesKind:    protowire.BytesType,
	protoreflect.MessageKind:  protowire.BytesType,
	protoreflect.GroupKind:    protowire.StartGroupType,
}
