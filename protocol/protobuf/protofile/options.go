package protofile

import (
	"slices"
	"strings"

	"github.com/bufbuild/protocompile/ast"
	"github.com/bufbuild/protocompile/parser"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
)

// interpret makes options of what the parser has left as it is written, those by
// which messages are read: how fields are packed and named in JSON, and the features
// of editions. Others, such as the rules of validators, change nothing here, and need
// not even be known.
func interpret(parsed parser.Result) error {
	i := interpreter{parsed}
	file := parsed.FileDescriptorProto()
	if o := file.GetOptions(); o != nil {
		features, err := i.features(file.GetOptions().GetUninterpretedOption(), descriptorpb.FieldOptions_TARGET_TYPE_FILE)
		if err != nil {
			return err
		}
		o.Features = features
	}
	if err := i.messages(file.GetMessageType()); err != nil {
		return err
	}
	if err := i.enums(file.GetEnumType()); err != nil {
		return err
	}
	return i.fields(file.GetExtension())
}

type interpreter struct{ parser.Result }

func (i interpreter) messages(messages []*descriptorpb.DescriptorProto) error {
	for _, message := range messages {
		if err := i.message(message); err != nil {
			return err
		}
	}
	return nil
}

func (i interpreter) message(message *descriptorpb.DescriptorProto) (err error) {
	if o := message.GetOptions(); o != nil {
		if o.Features, err = i.features(o.GetUninterpretedOption(), descriptorpb.FieldOptions_TARGET_TYPE_MESSAGE); err != nil {
			return err
		}
		if set := named(o.GetUninterpretedOption(), "message_set_wire_format"); set != nil {
			if o.MessageSetWireFormat, err = i.bool(set); err != nil {
				return err
			}
		}
	}
	if err := i.fields(message.GetField()); err != nil {
		return err
	}
	if err := i.enums(message.GetEnumType()); err != nil {
		return err
	}
	if err := i.fields(message.GetExtension()); err != nil {
		return err
	}
	if err := i.messages(message.GetNestedType()); err != nil {
		return err
	}
	inherit(message)
	return nil
}

// inherit gives the features of a map to its keys and values.
func inherit(message *descriptorpb.DescriptorProto) {
	for _, entry := range message.GetNestedType() {
		for _, field := range message.GetField() {
			if features := field.GetOptions().GetFeatures(); features != nil && entry.GetOptions().GetMapEntry() && field.GetTypeName() == entry.GetName() {
				for _, part := range entry.GetField() {
					part.Options = &descriptorpb.FieldOptions{Features: features}
				}
			}
		}
	}
}

func (i interpreter) enums(enums []*descriptorpb.EnumDescriptorProto) (err error) {
	for _, enum := range enums {
		if o := enum.GetOptions(); o != nil {
			if o.Features, err = i.features(o.GetUninterpretedOption(), descriptorpb.FieldOptions_TARGET_TYPE_ENUM); err != nil {
				return err
			}
		}
	}
	return nil
}

func (i interpreter) fields(fields []*descriptorpb.FieldDescriptorProto) error {
	for _, field := range fields {
		if err := i.field(field); err != nil {
			return err
		}
	}
	return nil
}

func (i interpreter) field(field *descriptorpb.FieldDescriptorProto) (err error) {
	o := field.GetOptions()
	if o == nil {
		return nil
	}
	if o.Features, err = i.features(o.GetUninterpretedOption(), descriptorpb.FieldOptions_TARGET_TYPE_FIELD); err != nil {
		return err
	}
	if packed := named(o.GetUninterpretedOption(), "packed"); packed != nil {
		if o.Packed, err = i.bool(packed); err != nil {
			return err
		}
	}
	if name := named(o.GetUninterpretedOption(), "json_name"); name != nil {
		if name.StringValue == nil {
			return at(i, i.OptionNode(name).GetValue(), "the name in JSON has to be a string")
		}
		field.JsonName = proto.String(string(name.StringValue))
	}
	return nil
}

// named returns the option of that name; nil if there is none.
func named(options []*descriptorpb.UninterpretedOption, name string) *descriptorpb.UninterpretedOption {
	for _, option := range options {
		if len(option.GetName()) == 1 && !option.GetName()[0].GetIsExtension() && option.GetName()[0].GetNamePart() == name {
			return option
		}
	}
	return nil
}

func (i interpreter) bool(option *descriptorpb.UninterpretedOption) (*bool, error) {
	switch option.GetIdentifierValue() {
	case "true":
		return proto.Bool(true), nil
	case "false":
		return proto.Bool(false), nil
	}
	return nil, at(i, i.OptionNode(option).GetValue(), "%s has to be true or false", option.GetName()[0].GetNamePart())
}

// features returns those that options of an element of that kind set; nil if none
// does.
func (i interpreter) features(
	options []*descriptorpb.UninterpretedOption, target descriptorpb.FieldOptions_OptionTargetType,
) (set *descriptorpb.FeatureSet, err error) {
	for _, option := range options {
		name := option.GetName()
		if name[0].GetIsExtension() || name[0].GetNamePart() != "features" {
			continue
		}
		if set == nil {
			set = &descriptorpb.FeatureSet{}
		}
		node := i.OptionNode(option)
		switch {
		case len(name) == 1:
			err = i.literal(set, node.GetValue(), target)
		case len(name) == 2 && !name[1].GetIsExtension(): // the features of one language are extensions
			err = i.feature(set, node.GetName(), name[1].GetNamePart(), node.GetValue(), target)
		}
		if err != nil {
			return nil, err
		}
	}
	return set, nil
}

// literal sets what is written in braces.
func (i interpreter) literal(set *descriptorpb.FeatureSet, value ast.ValueNode, target descriptorpb.FieldOptions_OptionTargetType) error {
	fields, ok := value.Value().([]*ast.MessageFieldNode)
	if !ok {
		return at(i, value, "features have to be a message: { field_presence: IMPLICIT }")
	}
	for _, field := range fields {
		if field.Name.IsExtension() {
			continue
		}
		if err := i.feature(set, field.Name, string(field.Name.Name.AsIdentifier()), field.Val, target); err != nil {
			return err
		}
	}
	return nil
}

// feature sets one of them.
func (i interpreter) feature(
	set *descriptorpb.FeatureSet, node ast.Node, name string, value ast.ValueNode, target descriptorpb.FieldOptions_OptionTargetType,
) error {
	all := set.ProtoReflect().Descriptor().Fields()
	fd := all.ByName(protoreflect.Name(name))
	switch {
	case fd == nil:
		return at(i, node, "there is no feature %s; there are: %s", name, names(all))
	case set.ProtoReflect().Has(fd):
		return at(i, node, "the feature %s is set twice", name)
	case !slices.Contains(fd.Options().(*descriptorpb.FieldOptions).GetTargets(), target):
		return at(i, node, "the feature %s cannot be set for one %s", name, strings.ToLower(strings.TrimPrefix(target.String(), "TARGET_TYPE_")))
	}
	identifier, _ := value.Value().(ast.Identifier)
	chosen := fd.Enum().Values().ByName(protoreflect.Name(identifier))
	if chosen == nil {
		return at(i, value, "the feature %s has to be one of: %s", name, names(fd.Enum().Values()))
	}
	set.ProtoReflect().Set(fd, protoreflect.ValueOfEnum(chosen.Number()))
	return nil
}

// names lists those of descriptors.
func names[D protoreflect.Descriptor](descriptors interface {
	Len() int
	Get(i int) D
},
) string {
	all := make([]string, descriptors.Len())
	for i := range all {
		all[i] = string(descriptors.Get(i).Name())
	}
	return strings.Join(all, ", ")
}
