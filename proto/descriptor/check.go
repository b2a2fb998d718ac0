package descriptor

import (
	"google.golang.org/protobuf/reflect/protoreflect"
)

// check checks what can only be told when types are resolved and features inherited.
// It makes the runtime resolve them, so that a resolver which learns more later changes
// nothing.
func (b *builder) check(fd protoreflect.FileDescriptor) error {
	if err := b.checkMessages(fd.Messages()); err != nil {
		return err
	}
	return b.checkExtensions(fd.Extensions())
}

func (b *builder) checkMessages(messages protoreflect.MessageDescriptors) error {
	for i := range messages.Len() {
		md := messages.Get(i)
		for j := range md.Fields().Len() {
			if err := b.checkField(md.Fields().Get(j)); err != nil {
				return err
			}
		}
		if err := b.checkMessages(md.Messages()); err != nil {
			return err
		}
		if err := b.checkExtensions(md.Extensions()); err != nil {
			return err
		}
	}
	return nil
}

func (b *builder) checkField(fd protoreflect.FieldDescriptor) error {
	switch {
	case fd.ContainingOneof() != nil && fd.Cardinality() != protoreflect.Optional:
		return b.fail(b.names[fd.FullName()], All, "%s is in a oneof, whose fields can neither be repeated nor be required", fd.FullName())
	case fd.Message() != nil && fd.Message().IsMapEntry() && !isMap(fd):
		return b.fail(b.names[fd.FullName()], All, "%s is not a map as it should be, for %s is an entry of one", fd.FullName(), fd.Message().FullName())
	}
	return nil
}

// isMap reports whether the field and its type, an entry, make up a map: a list of
// messages with a key and a value, and the type belongs to the field.
func isMap(fd protoreflect.FieldDescriptor) bool {
	entry := fd.Message()
	if fd.Cardinality() != protoreflect.Repeated || entry.Parent() != fd.Parent() || entry.Fields().Len() != 2 {
		return false
	}
	key, value := entry.Fields().ByNumber(1), entry.Fields().ByNumber(2)
	return isPart(key) && isKey(key.Kind()) && isPart(value)
}

func isPart(fd protoreflect.FieldDescriptor) bool {
	return fd != nil && fd.Cardinality() == protoreflect.Optional && fd.ContainingOneof() == nil
}

func isKey(kind protoreflect.Kind) bool {
	switch kind {
	case protoreflect.FloatKind, protoreflect.DoubleKind, protoreflect.BytesKind,
		protoreflect.EnumKind, protoreflect.MessageKind, protoreflect.GroupKind:
		return false
	}
	return true
}

func (b *builder) checkExtensions(extensions protoreflect.ExtensionDescriptors) error {
	for i := range extensions.Len() {
		xd := extensions.Get(i)
		switch {
		case xd.Message() != nil && xd.Message().IsMapEntry():
			return b.fail(b.names[xd.FullName()], Type, "%s has the type %s, which is an entry of a map", xd.FullName(), xd.Message().FullName())
		case !xd.ContainingMessage().ExtensionRanges().Has(xd.Number()), !xd.Number().IsValid() && !IsMessageSet(xd.ContainingMessage()):
			return b.fail(b.names[xd.FullName()], Number, "%s has the number %d, which %s leaves to no extension",
				xd.FullName(), xd.Number(), xd.ContainingMessage().FullName())
		}
	}
	return nil
}

// IsMessageSet reports whether md, one of [New]'s or of generated code, is a message set:
// of an older kind, whose extensions may have higher numbers than fields can have.
func IsMessageSet(md protoreflect.MessageDescriptor) bool {
	set, ok := md.(interface{ IsMessageSet() bool })
	return ok && set.IsMessageSet()
}
