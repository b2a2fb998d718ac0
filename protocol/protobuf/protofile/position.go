package protofile

import (
	"errors"
	"fmt"

	"github.com/bufbuild/protocompile/ast"
	"github.com/bufbuild/protocompile/parser"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/wirectl/wirectl/proto/descriptor"
)

// positioned says where in its source a file is wrong.
func positioned(parsed parser.Result, err error) error {
	wrong := (*descriptor.Error)(nil)
	if !errors.As(err, &wrong) {
		return err
	}
	node := nodeOf(parsed, wrong)
	if node == nil {
		return err
	}
	return at(parsed, node, "%s", wrong.Reason)
}

// at is an error at a node of a file: "acme/event.proto:5:3: …".
func at(parsed parser.Result, node ast.Node, format string, args ...any) error {
	return fmt.Errorf("%v: %s", parsed.FileNode().NodeInfo(node).Start(), fmt.Sprintf(format, args...))
}

// nodeOf returns the node of what is wrong; nil if it is the file.
func nodeOf(parsed parser.Result, wrong *descriptor.Error) ast.Node {
	switch element := wrong.Element.(type) {
	case *descriptorpb.FieldDescriptorProto:
		return fieldNode(parsed.FieldNode(element), wrong.Aspect)
	case *descriptorpb.DescriptorProto:
		return parsed.MessageNode(element).MessageName()
	case *descriptorpb.OneofDescriptorProto:
		return parsed.OneofNode(element).OneofName()
	case *descriptorpb.EnumValueDescriptorProto:
		return parsed.EnumValueNode(element).GetName()
	case *descriptorpb.MethodDescriptorProto:
		return methodNode(parsed.MethodNode(element), wrong.Aspect)
	case *descriptorpb.EnumDescriptorProto, *descriptorpb.ServiceDescriptorProto:
		return nameNode(parsed.Node(element))
	}
	return nil
}

func fieldNode(node ast.FieldDeclNode, aspect descriptor.Aspect) ast.Node {
	switch aspect {
	case descriptor.Number:
		return node.FieldTag()
	case descriptor.Type:
		return node.FieldType()
	case descriptor.Extendee:
		return node.FieldExtendee()
	}
	return node.FieldName()
}

func methodNode(node ast.RPCDeclNode, aspect descriptor.Aspect) ast.Node {
	switch aspect {
	case descriptor.Type:
		return node.GetInputType()
	case descriptor.Answer:
		return node.GetOutputType()
	}
	return node.GetName()
}

func nameNode(node ast.Node) ast.Node {
	switch node := node.(type) {
	case *ast.EnumNode:
		return node.Name
	case *ast.ServiceNode:
		return node.Name
	}
	return node
}
