package descriptor

import (
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
)

// maxWork bounds the bytes of names that are made for one file, and the comparisons
// that the runtime's builder makes to find types, four of which count as a byte. No real
// schema comes near it; one that is made to would keep the program busy for minutes.
const maxWork = 1 << 26

// imports takes in what the file imports: the names in it are visible, and those in
// what it imports publicly.
func (b *builder) imports() error {
	b.visible[b.file.GetName()] = true
	b.enter(protoreflect.FullName(b.file.GetPackage()))
	for _, path := range b.file.GetDependency() {
		fd, err := b.known.FindFileByPath(path)
		if err != nil {
			return b.fail(b.file, All, "its import %s is not known", path)
		}
		if path == b.file.GetName() {
			return b.fail(b.file, All, "it imports itself")
		}
		b.see(fd)
	}
	return nil
}

func (b *builder) see(fd protoreflect.FileDescriptor) {
	if b.visible[fd.Path()] {
		return
	}
	b.visible[fd.Path()] = true
	b.enter(fd.Package())
	for i := range fd.Imports().Len() {
		if imported := fd.Imports().Get(i); imported.IsPublic {
			b.see(imported)
		}
	}
}

// enter makes a scope of a package and of those around it.
func (b *builder) enter(pkg protoreflect.FullName) {
	for ; pkg != "" && !b.packages[pkg]; pkg = pkg.Parent() {
		b.work += len(pkg)
		b.packages[pkg] = true
	}
}

// declareAll declares everything in the file, so that what comes first may name what
// comes later.
func (b *builder) declareAll() error {
	pkg := protoreflect.FullName(b.file.GetPackage())
	if err := b.declareTypes(pkg, b.file.GetMessageType(), b.file.GetEnumType(), b.file.GetExtension()); err != nil {
		return err
	}
	for _, service := range b.file.GetService() {
		if err := b.declare(pkg, service.GetName(), service); err != nil {
			return err
		}
		scope := pkg.Append(protoreflect.Name(service.GetName()))
		for _, method := range service.GetMethod() {
			if err := b.declare(scope, method.GetName(), method); err != nil {
				return err
			}
		}
	}
	return nil
}

func (b *builder) declareTypes(
	scope protoreflect.FullName, messages []*descriptorpb.DescriptorProto,
	enums []*descriptorpb.EnumDescriptorProto, extensions []*descriptorpb.FieldDescriptorProto,
) error {
	for _, message := range messages {
		if err := b.declareMessage(scope, message); err != nil {
			return err
		}
	}
	for _, enum := range enums {
		b.enums++
		if err := b.declare(scope, enum.GetName(), enum); err != nil {
			return err
		}
		for _, value := range enum.GetValue() { // whose scope is that of the enum
			if err := b.declare(scope, value.GetName(), value); err != nil {
				return err
			}
		}
	}
	return b.declareFields(scope, extensions)
}

func (b *builder) declareMessage(scope protoreflect.FullName, message *descriptorpb.DescriptorProto) error {
	b.messages++
	if err := b.declare(scope, message.GetName(), message); err != nil {
		return err
	}
	scope = scope.Append(protoreflect.Name(message.GetName()))
	if err := b.declareFields(scope, message.GetField()); err != nil {
		return err
	}
	for _, oneof := range message.GetOneofDecl() {
		if err := b.declare(scope, oneof.GetName(), oneof); err != nil {
			return err
		}
	}
	return b.declareTypes(scope, message.GetNestedType(), message.GetEnumType(), message.GetExtension())
}

func (b *builder) declareFields(scope protoreflect.FullName, fields []*descriptorpb.FieldDescriptorProto) error {
	for _, field := range fields {
		if err := b.declare(scope, field.GetName(), field); err != nil {
			return err
		}
	}
	return nil
}

func (b *builder) declare(scope protoreflect.FullName, name string, element proto.Message) error {
	if !protoreflect.Name(name).IsValid() {
		return b.fail(element, Name, "%q in %s is not a name", name, place(scope))
	}
	full := scope.Append(protoreflect.Name(name))
	if b.work += len(full); b.work > maxWork {
		return b.tooLarge()
	}
	if b.names[full] != nil {
		return b.fail(element, Name, "%s is declared twice%s", full, valueScope(element))
	}
	if d, err := b.known.FindDescriptorByName(full); err == nil {
		return b.fail(element, Name, "%s is declared in %s too%s; leave one of the two files out", full, d.ParentFile().Path(), valueScope(element))
	}
	b.names[full] = element
	return nil
}

// valueScope says of an enum's value what surprises about its scope.
func valueScope(element proto.Message) string {
	if _, value := element.(*descriptorpb.EnumValueDescriptorProto); value {
		return ": the values of an enum are in the scope around it"
	}
	return ""
}

func place(scope protoreflect.FullName) string {
	if scope == "" {
		return "the file"
	}
	return string(scope)
}

func (b *builder) tooLarge() error {
	return b.fail(b.file, All, "it declares more than can be taken in: split it into several files")
}

// What a name can stand for.
type meaning int

const (
	nothing meaning = iota
	message
	enum
	scope // a package or service
	other
)

// isType reports whether fields can be of it.
func (m meaning) isType() bool { return m == message || m == enum }

// lookup returns what a full name stands for in the file and in what it sees.
func (b *builder) lookup(name protoreflect.FullName) meaning {
	b.work += len(name)
	switch b.names[name].(type) {
	case nil:
	case *descriptorpb.DescriptorProto:
		return message
	case *descriptorpb.EnumDescriptorProto:
		return enum
	case *descriptorpb.ServiceDescriptorProto:
		return scope
	default:
		return other
	}
	if b.packages[name] {
		return scope
	}
	d, err := b.known.FindDescriptorByName(name)
	if err != nil || !b.visible[d.ParentFile().Path()] {
		return nothing
	}
	switch d.(type) {
	case protoreflect.MessageDescriptor:
		return message
	case protoreflect.EnumDescriptor:
		return enum
	case protoreflect.ServiceDescriptor:
		return scope
	}
	return other
}

// resolve returns the type that a name stands for in a scope. The innermost scope that
// has the first part of the name has to have the rest of it. Of what is wrong it
// returns the end of a sentence.
func (b *builder) resolve(in protoreflect.FullName, name string) (full protoreflect.FullName, is meaning, wrong string) {
	if rest, absolute := strings.CutPrefix(name, "."); absolute {
		in, name = "", rest
		if full = protoreflect.FullName(rest); full.IsValid() {
			is = b.lookup(full)
		}
	} else if protoreflect.FullName(name).IsValid() {
		full, is = b.resolveIn(in, name)
	}
	switch {
	case is.isType():
		return full, is, ""
	case is != nothing:
		return "", nothing, string(full) + ", which is not a type"
	case full != "" && string(full) != name:
		if wrong = b.elsewhere(full); wrong == "" {
			wrong = string(full) + ", which is not declared; if another is meant, write its full name behind a dot"
		}
		return "", nothing, wrong
	}
	return "", nothing, b.unknown(in, name)
}

// resolveIn returns nothing and a name if the name does stand for something that is
// not declared.
func (b *builder) resolveIn(in protoreflect.FullName, name string) (full protoreflect.FullName, is meaning) {
	first, _, compound := strings.Cut(name, ".")
	for outer := false; !outer && b.work <= maxWork; in = in.Parent() {
		outer = in == ""
		switch found := b.lookup(join(in, first)); {
		case found == nothing, compound && found == other:
		case compound:
			full = join(in, name)
			return full, b.lookup(full)
		case found.isType():
			return join(in, name), found
		case is == nothing: // to be told if there is no better one
			full, is = join(in, name), found
		}
	}
	return full, is
}

// unknown says of a type that cannot be seen what may be known about it.
func (b *builder) unknown(in protoreflect.FullName, name string) string {
	for outer := false; !outer && b.work <= maxWork; in = in.Parent() {
		outer = in == ""
		if wrong := b.elsewhere(join(in, name)); wrong != "" {
			return wrong
		}
	}
	return name + ", which is declared neither here nor in a file that is imported"
}

// elsewhere says of a name that a file which is not imported declares it.
func (b *builder) elsewhere(full protoreflect.FullName) string {
	b.work += len(full)
	d, err := b.known.FindDescriptorByName(full)
	if err != nil {
		return ""
	}
	return string(full) + ", which is declared in " + d.ParentFile().Path() + ": import that"
}

func join(scope protoreflect.FullName, name string) protoreflect.FullName {
	if scope == "" {
		return protoreflect.FullName(name)
	}
	return scope + "." + protoreflect.FullName(name)
}
