package protobuf

import (
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
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
	if !d.message(s, len(wire), 0, false) {
		return dst, d.err.of(s)
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
	dst    []byte
	depth  int
}

// noSchema is the schema of an unknown group.
var noSchema = &Schema{}

// message edits the message that ends at end. If group is not zero, the message ends with the
// end tag of that group.
func (d *editing) message(s *Schema, end int, group protowire.Number, hidden bool) bool {
	if d.depth++; d.depth > maxDepth {
		return d.fail(d.pos, tooDeep)
	}
	defer func() { d.depth-- }()
	if s.name == "google.protobuf.Any" {
		return d.any(end, hidden)
	}
	for d.pos < end {
		num, typ, ok := d.keepTag(s, end)
		switch {
		case !ok:
			return false
		case typ == protowire.EndGroupType && num == group && group != 0:
			return true
		}
		if f := s.field(num); f == nil || !f.takes(typ) {
			ok = d.unknown(num, typ, end, hidden)
		} else if ok = d.value(f, typ, end, hidden || f.hidden(d.editor)); !ok {
			d.err.within(f.name)
		}
		if !ok {
			return false
		}
	}
	return group == 0 || d.fail(end, "truncated")
}

// hidden reports whether one of the names of a field is hidden.
func (f *field) hidden(e Editor) bool {
	return slices.ContainsFunc(f.names, e.Hides)
}

// keepTag consumes and copies a tag.
func (d *editing) keepTag(s *Schema, end int) (protowire.Number, protowire.Type, bool) {
	start, read := d.pos, d.tag
	if s == noSchema {
		read = d.tagInGroup
	}
	num, typ, ok := read(end)
	d.keepField(start)
	return num, typ, ok
}

// keepField copies the bytes read since start.
func (d *editing) keepField(start int) { d.dst = append(d.dst, d.wire[start:d.pos]...) }

// value edits a value of a field whose tag has been read.
func (d *editing) value(f *field, typ protowire.Type, end int, hidden bool) bool {
	switch {
	case f.mapKey != nil:
		return d.within(end, func(stop int) bool { return d.entry(f, stop, hidden) })
	case f.kind == protoreflect.GroupKind:
		return d.message(f.message, end, f.num, hidden)
	case f.kind == protoreflect.MessageKind:
		return d.within(end, func(stop int) bool { return d.message(f.message, stop, 0, hidden) })
	case f.kind == protoreflect.StringKind, f.kind == protoreflect.BytesKind:
		return d.replace(end, hidden, d.editor.Text)
	case typ == protowire.BytesType:
		return d.within(end, func(stop int) bool {
			for d.pos < stop {
				if !d.editNumber(f.wire, stop, hidden && f.kind != protoreflect.BoolKind) {
					return false
				}
			}
			return true
		})
	}
	return d.editNumber(typ, end, hidden && f.kind != protoreflect.BoolKind)
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

// entry edits an entry of the map f.
func (d *editing) entry(f *field, end int, hidden bool) bool {
	if f.mapKey.kind == protoreflect.StringKind {
		for key := range delimited(d.wire[d.pos:end], f.mapKey.num) {
			hidden = hidden || d.editor.Hides(string(key))
		}
	}
	return d.pair(f.mapKey, f.mapValue, end, hidden, func(typ protowire.Type) bool {
		return d.value(f.mapValue, typ, end, hidden)
	})
}

// pair edits a pair of a key, which stays, and a value, which edit edits unless edit is nil.
// The key need not come first.
func (d *editing) pair(key, value *field, end int, hidden bool, edit func(typ protowire.Type) bool) bool {
	for d.pos < end {
		num, typ, ok := d.keepTag(nil, end)
		switch {
		case !ok:
			return false
		case num == key.num && key.takes(typ):
			start := d.pos
			ok = d.skip(num, typ, end)
			d.keepField(start)
		case num == value.num && value.takes(typ) && edit != nil:
			ok = edit(typ)
		default:
			ok = d.unknown(num, typ, end, hidden)
		}
		if !ok {
			return false
		}
	}
	return true
}

// unknown edits a field that the schema lacks and whose tag has been read.
func (d *editing) unknown(num protowire.Number, typ protowire.Type, end int, hidden bool) bool {
	switch typ {
	case protowire.BytesType:
		return d.replace(end, hidden, d.editor.Unknown)
	case protowire.StartGroupType:
		return d.message(noSchema, end, num, hidden)
	case protowire.VarintType, protowire.Fixed32Type, protowire.Fixed64Type:
		return d.editNumber(typ, end, hidden)
	}
	return d.skip(num, typ, end)
}

// The fields of a google.protobuf.Any.
var (
	anyURL   = &field{num: 1, wire: protowire.BytesType}
	anyValue = &field{num: 2, wire: protowire.BytesType}
)

// any edits a google.protobuf.Any that ends at end. Its content is a message of the type that
// it names.
func (d *editing) any(end int, hidden bool) bool {
	var held *Schema
	for url := range delimited(d.wire[d.pos:end], anyURL.num) {
		held = d.root.typeOf(string(url))
	}
	var edit func(protowire.Type) bool
	if held != nil {
		edit = func(protowire.Type) bool {
			return d.within(end, func(stop int) bool { return d.message(held, stop, 0, hidden) })
		}
	}
	return d.pair(anyURL, anyValue, end, hidden, edit)
}

// typeOf returns the schema of the type named by a google.protobuf.Any, or nil if it is
// unknown.
func (s *Schema) typeOf(url string) *Schema {
	name := protoreflect.FullName(url[strings.LastIndexByte(url, '/')+1:])
	t, err := s.types().FindMessageByName(name)
	if err != nil {
		return nil
	}
	return Compile(t.Descriptor())
}
