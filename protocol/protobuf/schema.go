package protobuf

import (
	"encoding/json"
	"sync"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
)

// A Schema is a message type, compiled to tables for transcoding between the wire format and
// JSON. It is immutable and so safe for concurrent use.
type Schema struct {
	md      protoreflect.MessageDescriptor
	name    string
	special *special // set if the type is a special one
	// general means that every message of this type takes the general way; see general.go.
	general bool

	dense  []*field // by number, for numbers below denseNumbers
	sparse map[protowire.Number]*field
	byName map[string]*field // by JSON name and by name in the source

	types func() resolver // for the general way
}

// denseNumbers bounds the table of fields by number.
const denseNumbers = 256

// field is one field of a message, or the key or value of a map.
type field struct {
	num    protowire.Number
	name   string   // as in the source
	names  []string // all its names, including those in JSON and of its oneof
	member []byte   // the quoted name of the JSON member with the colon; nil if it has none
	kind   protoreflect.Kind
	wire   protowire.Type // of one element
	slot   int            // shared with fields that displace this one
	// implicit means that the field is absent if it has its zero value.
	implicit bool
	// takesNull means that null is a value of the field.
	takesNull bool
	null      bool // of google.protobuf.NullValue
	finite    bool // cannot be infinite or NaN in JSON

	repeated bool
	packed   bool // written packed
	packable bool // may be read packed

	message  *Schema // of messages and groups
	enum     *enum
	mapKey   *field // of maps, whose kind is also message
	mapValue *field
}

// enum holds the names of an enumeration.
type enum struct {
	names   map[int32][]byte // as JSON strings
	numbers map[string]int32
}

var compiled struct {
	sync.Mutex
	schemas map[protoreflect.MessageDescriptor]*Schema
	empty   []*Schema // all schemas that have no fields yet
}

// Compile returns the schema of md, always the same one.
//
// Extensions, and the types inside a google.protobuf.Any, are searched for in the file of
// md and its imports.
func Compile(md protoreflect.MessageDescriptor) *Schema {
	compiled.Lock()
	defer compiled.Unlock()
	if compiled.schemas == nil {
		compiled.schemas = make(map[protoreflect.MessageDescriptor]*Schema)
	}
	s := enter(md)
	for n := len(compiled.empty); n > 0; n = len(compiled.empty) {
		next := compiled.empty[n-1]
		compiled.empty = compiled.empty[:n-1]
		next.fill()
	}
	return s
}

// enter returns the schema of md, whose fields may be filled in later: messages may contain
// themselves, and nest others to any depth.
func enter(md protoreflect.MessageDescriptor) *Schema {
	if s := compiled.schemas[md]; s != nil {
		return s
	}
	form := specialOf(md)
	s := &Schema{
		md:      md,
		name:    string(md.FullName()),
		special: form,
		general: form != nil && form.write == nil || isMessageSet(md) || slotCount(md) > maxSlots,
		byName:  make(map[string]*field),
		types:   sync.OnceValue(func() resolver { return typesIn(md.ParentFile()) }),
	}
	compiled.schemas[md] = s
	compiled.empty = append(compiled.empty, s)
	return s
}

// takesNull reports whether null is a value of the field. For other fields null means absent.
func takesNull(fd protoreflect.FieldDescriptor) bool {
	if fd.Message() != nil {
		return fd.Message().FullName() == "google.protobuf.Value"
	}
	return isNull(fd)
}

// isNull reports whether fd is of the enum google.protobuf.NullValue.
func isNull(fd protoreflect.FieldDescriptor) bool {
	if fd.IsMap() {
		fd = fd.MapValue()
	}
	return fd.Enum() != nil && fd.Enum().FullName() == "google.protobuf.NullValue"
}

// isMessageSet reports whether md is a message set, an older kind of message whose extensions
// may have higher numbers than fields.
func isMessageSet(md protoreflect.MessageDescriptor) bool {
	options, ok := md.Options().(*descriptorpb.MessageOptions)
	return ok && options.GetMessageSetWireFormat()
}

// fill builds the tables of a schema.
func (s *Schema) fill() {
	fields := s.md.Fields()
	for i := range fields.Len() {
		s.addField(fields.Get(i))
	}
	for i := range fields.Len() {
		// A JSON name takes precedence over another field's name in the source.
		s.byName[fields.Get(i).JSONName()] = s.field(fields.Get(i).Number())
	}
}

func (s *Schema) addField(fd protoreflect.FieldDescriptor) {
	f := compileField(fd)
	f.slot = slotOf(fd)
	s.byName[fd.TextName()] = f
	if s.special != nil {
		f.member = nil
		f.finite = s.md.Name() == "Value" && f.kind == protoreflect.DoubleKind
	}
	if f.num >= denseNumbers {
		if s.sparse == nil {
			s.sparse = make(map[protowire.Number]*field)
		}
		s.sparse[f.num] = f
		return
	}
	for len(s.dense) <= int(f.num) {
		s.dense = append(s.dense, nil)
	}
	s.dense[f.num] = f
}

func compileField(fd protoreflect.FieldDescriptor) *field {
	f := &field{
		num:       fd.Number(),
		name:      string(fd.Name()),
		member:    append(quote(fd.JSONName()), ':'),
		kind:      fd.Kind(),
		wire:      wireTypes[fd.Kind()],
		implicit:  !fd.HasPresence() && !fd.IsList() && !fd.IsMap(),
		takesNull: takesNull(fd),
		null:      isNull(fd),
		repeated:  fd.IsList(),
		packed:    fd.IsPacked(),
	}
	f.names = []string{f.name}
	if fd.JSONName() != f.name {
		f.names = append(f.names, fd.JSONName())
	}
	if oneof := fd.ContainingOneof(); oneof != nil && !oneof.IsSynthetic() {
		f.names = append(f.names, string(oneof.Name()))
	}
	f.packable = f.repeated && f.wire != protowire.BytesType && f.wire != protowire.StartGroupType
	switch {
	case fd.IsMap():
		f.mapKey, f.mapValue = compileField(fd.MapKey()), compileField(fd.MapValue())
	case fd.Message() != nil:
		f.message = enter(fd.Message())
	case fd.Enum() != nil:
		f.enum = compileEnum(fd.Enum())
	}
	return f
}

// compileEnum lists the names of ed. If a number has several names, JSON uses the first.
func compileEnum(ed protoreflect.EnumDescriptor) *enum {
	e := &enum{names: make(map[int32][]byte), numbers: make(map[string]int32)}
	values := ed.Values()
	for i := range values.Len() {
		name, number := string(values.Get(i).Name()), int32(values.Get(i).Number())
		e.numbers[name] = number
		if e.names[number] == nil {
			e.names[number] = quote(name)
		}
	}
	return e
}

// quote returns a name from a schema as a JSON string.
func quote(name string) []byte {
	quoted, _ := json.Marshal(name) // cannot fail for a string
	return quoted
}

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

// field returns the field with the given number, or nil.
func (s *Schema) field(num protowire.Number) *field {
	if int(num) < len(s.dense) {
		return s.dense[num]
	}
	return s.sparse[num]
}

// takes reports whether a value of wire type typ belongs to the field. Otherwise the protobuf
// specification makes it an unknown field.
func (f *field) takes(typ protowire.Type) bool {
	return typ == f.wire || f.packable && typ == protowire.BytesType
}
