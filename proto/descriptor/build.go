package descriptor

import (
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
)

// The syntaxes of files, as their descriptors name them.
const (
	proto2   = "proto2"
	proto3   = "proto3"
	editions = "editions"
)

// A builder copies what has been understood of a file.
type builder struct {
	file  *descriptorpb.FileDescriptorProto
	known Resolver

	names    map[protoreflect.FullName]proto.Message // all that the file declares
	visible  map[string]bool                         // by path, the files whose names the file sees
	packages map[protoreflect.FullName]bool          // of those files, and the ones around them
	closed   map[protoreflect.FullName]bool          // the enums that say for themselves whether they are

	messages, enums, references int
	work                        int // see maxWork
}

func (b *builder) build() (*descriptorpb.FileDescriptorProto, error) {
	c := &descriptorpb.FileDescriptorProto{
		Name: b.file.Name, Package: b.file.Package,
		Dependency: b.file.GetDependency(), PublicDependency: b.file.GetPublicDependency(),
	}
	if err := b.head(c); err != nil {
		return nil, err
	}
	if err := b.imports(); err != nil {
		return nil, err
	}
	if err := b.declareAll(); err != nil {
		return nil, err
	}
	if err := b.content(c); err != nil {
		return nil, err
	}
	if b.work += b.references * (b.messages + b.enums) / 4; b.work > maxWork {
		return nil, b.tooLarge()
	}
	return c, nil
}

// head copies what is said of the file as a whole.
func (b *builder) head(c *descriptorpb.FileDescriptorProto) error {
	if c.GetName() == "" {
		return b.fail(b.file, All, "it has no name")
	}
	if pkg := protoreflect.FullName(c.GetPackage()); pkg != "" && !pkg.IsValid() {
		return b.fail(b.file, All, "its package %q is not a name", pkg)
	}
	switch syntax := b.file.GetSyntax(); syntax {
	case "", proto2:
		c.Syntax = proto.String(proto2)
	case proto3:
		c.Syntax = proto.String(proto3)
	case editions:
		if e := b.file.GetEdition(); e < descriptorpb.Edition_EDITION_2023 || e > descriptorpb.Edition_EDITION_2024 {
			return b.fail(b.file, All, "it is of an edition that is not known here, %v; those of 2023 and 2024 are", e)
		}
		c.Syntax, c.Edition = proto.String(editions), b.file.Edition
	default:
		return b.fail(b.file, All, "its syntax %q is not known here; proto2, proto3 and editions are", syntax)
	}
	imported := map[string]bool{}
	for _, path := range c.GetDependency() {
		if imported[path] {
			return b.fail(b.file, All, "it imports %s twice", path)
		}
		imported[path] = true
	}
	for _, i := range c.GetPublicDependency() {
		if i < 0 || int(i) >= len(c.GetDependency()) {
			return b.fail(b.file, All, "of its %d imports number %d is public", len(c.GetDependency()), i)
		}
	}
	features, err := b.features(b.file, b.file.GetOptions().GetFeatures())
	if features != nil {
		c.Options = &descriptorpb.FileOptions{Features: features}
	}
	return err
}

// content copies what the file declares.
func (b *builder) content(c *descriptorpb.FileDescriptorProto) (err error) {
	pkg := protoreflect.FullName(b.file.GetPackage())
	if c.MessageType, err = each(b.file.GetMessageType(), pkg, b.message); err != nil {
		return err
	}
	if c.EnumType, err = each(b.file.GetEnumType(), pkg, b.enum); err != nil {
		return err
	}
	if c.Extension, err = each(b.file.GetExtension(), pkg, b.extension); err != nil {
		return err
	}
	c.Service, err = each(b.file.GetService(), pkg, b.service)
	return err
}

// each copies elements that are declared in a scope.
func each[T any](elements []T, scope protoreflect.FullName, one func(protoreflect.FullName, T) (T, error)) (copies []T, err error) {
	for _, element := range elements {
		c, err := one(scope, element)
		if err != nil {
			return nil, err
		}
		copies = append(copies, c)
	}
	return copies, nil
}

func (b *builder) message(scope protoreflect.FullName, m *descriptorpb.DescriptorProto) (c *descriptorpb.DescriptorProto, err error) {
	full := scope.Append(protoreflect.Name(m.GetName()))
	c = &descriptorpb.DescriptorProto{Name: m.Name, ReservedName: m.GetReservedName()}
	if c.Options, err = b.messageOptions(m); err != nil {
		return nil, err
	}
	b.ranges(m, c)
	for _, r := range c.GetExtensionRange() {
		if r.GetStart() < 1 || r.GetEnd() <= r.GetStart() {
			return nil, b.fail(m, All, "%s has a range of extensions from %d to before %d", full, r.GetStart(), r.GetEnd())
		}
	}
	if err := b.oneofs(full, m); err != nil {
		return nil, err
	}
	for _, oneof := range m.GetOneofDecl() {
		c.OneofDecl = append(c.OneofDecl, &descriptorpb.OneofDescriptorProto{Name: oneof.Name})
	}
	if c.Field, err = each(m.GetField(), full, b.field); err != nil {
		return nil, err
	}
	if err := b.numbers(full, m.GetField()); err != nil {
		return nil, err
	}
	if c.NestedType, err = each(m.GetNestedType(), full, b.message); err != nil {
		return nil, err
	}
	if c.EnumType, err = each(m.GetEnumType(), full, b.enum); err != nil {
		return nil, err
	}
	c.Extension, err = each(m.GetExtension(), full, b.extension)
	return c, err
}

func (b *builder) messageOptions(m *descriptorpb.DescriptorProto) (*descriptorpb.MessageOptions, error) {
	if m.GetOptions() == nil {
		return nil, nil
	}
	features, err := b.features(m, m.GetOptions().GetFeatures())
	return &descriptorpb.MessageOptions{
		MapEntry: m.GetOptions().MapEntry, MessageSetWireFormat: m.GetOptions().MessageSetWireFormat, Features: features,
	}, err
}

func (b *builder) ranges(m, c *descriptorpb.DescriptorProto) {
	for _, r := range m.GetReservedRange() {
		c.ReservedRange = append(c.ReservedRange, &descriptorpb.DescriptorProto_ReservedRange{Start: r.Start, End: r.End})
	}
	for _, r := range m.GetExtensionRange() {
		c.ExtensionRange = append(c.ExtensionRange, &descriptorpb.DescriptorProto_ExtensionRange{Start: r.Start, End: r.End})
	}
}

// oneofs checks which fields are in which oneof.
func (b *builder) oneofs(full protoreflect.FullName, m *descriptorpb.DescriptorProto) error {
	members := make([]int, len(m.GetOneofDecl()))
	for _, f := range m.GetField() {
		if f.OneofIndex == nil {
			continue
		}
		i := f.GetOneofIndex()
		if i < 0 || int(i) >= len(members) {
			return b.fail(f, All, "%s.%s is in oneof %d of %d", full, f.GetName(), i, len(members))
		}
		members[i]++
	}
	for i, n := range members {
		if n == 0 {
			oneof := m.GetOneofDecl()[i]
			return b.fail(oneof, Name, "%s.%s is a oneof without fields", full, oneof.GetName())
		}
	}
	return nil
}

// numbers checks that no two fields have the same number.
func (b *builder) numbers(full protoreflect.FullName, fields []*descriptorpb.FieldDescriptorProto) error {
	names := make(map[int32]string, len(fields))
	for _, f := range fields {
		if name := names[f.GetNumber()]; name != "" {
			return b.fail(f, Number, "%s and %s of %s both have the number %d", name, f.GetName(), full, f.GetNumber())
		}
		names[f.GetNumber()] = f.GetName()
	}
	return nil
}

func (b *builder) field(scope protoreflect.FullName, f *descriptorpb.FieldDescriptorProto) (*descriptorpb.FieldDescriptorProto, error) {
	if f.Extendee != nil {
		return nil, b.fail(f, Extendee, "%s.%s is a field of a message and extends another", scope, f.GetName())
	}
	if n := protowire.Number(f.GetNumber()); !n.IsValid() {
		return nil, b.fail(f, Number, "%s.%s has the number %d, which no field can have", scope, f.GetName(), n)
	}
	if f.GetProto3Optional() && b.file.GetSyntax() != proto3 {
		return nil, b.fail(f, All, "%s.%s is optional as in proto3, in a file that is not of it", scope, f.GetName())
	}
	c, err := b.anyField(scope, f)
	if err != nil {
		return nil, err
	}
	c.OneofIndex = f.OneofIndex
	return c, nil
}

// extension copies a field that the message of its scope does not have.
func (b *builder) extension(scope protoreflect.FullName, f *descriptorpb.FieldDescriptorProto) (*descriptorpb.FieldDescriptorProto, error) {
	full := scope.Append(protoreflect.Name(f.GetName()))
	if f.OneofIndex != nil || f.GetLabel() == descriptorpb.FieldDescriptorProto_LABEL_REQUIRED {
		return nil, b.fail(f, All, "%s is an extension, which can neither be required nor be in a oneof", full)
	}
	extendee, err := b.reference(scope, f, Extendee, full, f.GetExtendee())
	if err != nil {
		return nil, err
	}
	c, err := b.anyField(scope, f)
	if err != nil {
		return nil, err
	}
	c.Extendee = &extendee
	return c, nil
}

// anyField copies what fields and extensions have in common.
func (b *builder) anyField(scope protoreflect.FullName, f *descriptorpb.FieldDescriptorProto) (*descriptorpb.FieldDescriptorProto, error) {
	full := scope.Append(protoreflect.Name(f.GetName()))
	c := &descriptorpb.FieldDescriptorProto{
		Name: f.Name, Number: f.Number, Label: f.GetLabel().Enum(), JsonName: f.JsonName, Proto3Optional: f.Proto3Optional,
	}
	if l := c.GetLabel(); l < descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL || l > descriptorpb.FieldDescriptorProto_LABEL_REPEATED {
		return nil, b.fail(f, All, "%s has a label that is not known, %d", full, c.GetLabel())
	}
	if err := b.fieldType(scope, f, c); err != nil {
		return nil, err
	}
	if f.GetOptions() == nil {
		return c, nil
	}
	features, err := b.features(f, f.GetOptions().GetFeatures())
	if features != nil && f.GetOptions().Packed != nil {
		features.RepeatedFieldEncoding = nil // the option is the closer of the two
	}
	c.Options = &descriptorpb.FieldOptions{Packed: f.GetOptions().Packed, Features: features}
	return c, err
}

// fieldType copies the type of a field. Whether one that is named is a message or an
// enum need not be said.
func (b *builder) fieldType(scope protoreflect.FullName, f, c *descriptorpb.FieldDescriptorProto) error {
	full := scope.Append(protoreflect.Name(f.GetName()))
	if t := f.GetType(); f.Type != nil && (t < descriptorpb.FieldDescriptorProto_TYPE_DOUBLE || t > descriptorpb.FieldDescriptorProto_TYPE_SINT64) {
		return b.fail(f, Type, "%s has a type that is not known, %d", full, f.GetType())
	}
	var want meaning
	switch f.GetType() {
	case descriptorpb.FieldDescriptorProto_TYPE_MESSAGE, descriptorpb.FieldDescriptorProto_TYPE_GROUP:
		want = message
	case descriptorpb.FieldDescriptorProto_TYPE_ENUM:
		want = enum
	default:
		if f.Type == nil {
			break
		}
		if f.GetTypeName() != "" {
			return b.fail(f, Type, "%s has two types", full)
		}
		c.Type = f.Type
		return nil
	}
	if f.GetTypeName() == "" {
		return b.fail(f, Type, "%s has no type", full)
	}
	name, is, wrong := b.resolve(scope, f.GetTypeName())
	b.references++
	switch {
	case b.work > maxWork:
		return b.tooLarge()
	case wrong != "":
		return b.fail(f, Type, "%s has the type %s", full, wrong)
	case want != nothing && want != is:
		return b.fail(f, Type, "%s has the type %s, which is not what the field says that it is", full, name)
	case f.Type != nil:
		c.Type = f.Type
	case is == enum:
		c.Type = descriptorpb.FieldDescriptorProto_TYPE_ENUM.Enum()
	default:
		c.Type = descriptorpb.FieldDescriptorProto_TYPE_MESSAGE.Enum()
	}
	c.TypeName = proto.String("." + string(name))
	return nil
}

// reference returns the full name of the message that an element names, as the
// runtime's builder wants it.
func (b *builder) reference(
	scope protoreflect.FullName, element proto.Message, aspect Aspect, full protoreflect.FullName, name string,
) (string, error) {
	found, is, wrong := b.resolve(scope, name)
	b.references++
	switch {
	case b.work > maxWork:
		return "", b.tooLarge()
	case wrong == "" && is != message:
		wrong = string(found) + ", which is not a message"
	}
	if wrong != "" {
		return "", b.fail(element, aspect, "%s %s %s", full, verbs[aspect], wrong)
	}
	return "." + string(found), nil
}

// verbs say what a reference is for.
var verbs = map[Aspect]string{Extendee: "extends", Type: "takes", Answer: "returns"}

func (b *builder) enum(scope protoreflect.FullName, e *descriptorpb.EnumDescriptorProto) (*descriptorpb.EnumDescriptorProto, error) {
	full := scope.Append(protoreflect.Name(e.GetName()))
	c := &descriptorpb.EnumDescriptorProto{Name: e.Name, ReservedName: e.GetReservedName()}
	if len(e.GetValue()) == 0 {
		return nil, b.fail(e, All, "%s is an enum without values", full)
	}
	for _, v := range e.GetValue() {
		c.Value = append(c.Value, &descriptorpb.EnumValueDescriptorProto{Name: v.Name, Number: v.Number})
	}
	for _, r := range e.GetReservedRange() {
		c.ReservedRange = append(c.ReservedRange, &descriptorpb.EnumDescriptorProto_EnumReservedRange{Start: r.Start, End: r.End})
	}
	features, err := b.features(e, e.GetOptions().GetFeatures())
	if features != nil && features.EnumType != nil {
		b.closed[full] = features.GetEnumType() != descriptorpb.FeatureSet_OPEN
	}
	return c, err
}

func (b *builder) service(scope protoreflect.FullName, s *descriptorpb.ServiceDescriptorProto) (c *descriptorpb.ServiceDescriptorProto, err error) {
	full := scope.Append(protoreflect.Name(s.GetName()))
	c = &descriptorpb.ServiceDescriptorProto{Name: s.Name}
	c.Method, err = each(s.GetMethod(), full, b.method)
	return c, err
}

func (b *builder) method(scope protoreflect.FullName, m *descriptorpb.MethodDescriptorProto) (*descriptorpb.MethodDescriptorProto, error) {
	full := scope.Append(protoreflect.Name(m.GetName()))
	input, err := b.reference(scope, m, Type, full, m.GetInputType())
	if err != nil {
		return nil, err
	}
	output, err := b.reference(scope, m, Answer, full, m.GetOutputType())
	return &descriptorpb.MethodDescriptorProto{
		Name: m.Name, InputType: &input, OutputType: &output,
		ClientStreaming: m.ClientStreaming, ServerStreaming: m.ServerStreaming,
	}, err
}

// features copies those that every language knows. Of others the runtime's builder
// knows nothing, and panics.
func (b *builder) features(element proto.Message, f *descriptorpb.FeatureSet) (*descriptorpb.FeatureSet, error) {
	if f == nil {
		return nil, nil
	}
	if b.file.GetSyntax() != editions {
		return nil, b.fail(element, All, "it has features, which only files of an edition have")
	}
	return &descriptorpb.FeatureSet{
		FieldPresence: f.FieldPresence, EnumType: f.EnumType, RepeatedFieldEncoding: f.RepeatedFieldEncoding,
		Utf8Validation: f.Utf8Validation, MessageEncoding: f.MessageEncoding, JsonFormat: f.JsonFormat,
	}, nil
}
