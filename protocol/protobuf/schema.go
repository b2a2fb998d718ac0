package protobuf

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protopath"
	"google.golang.org/protobuf/reflect/protorange"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/internal/nearest"
	"github.com/wirectl/wirectl/protocol"
)

// A Schema is a message type, for going between the wire format and JSON. It is safe for
// concurrent use.
type Schema struct {
	md    protoreflect.MessageDescriptor
	types func() resolver
}

// Compile returns the schema of md. Extensions, and the types inside a google.protobuf.Any, are
// searched for in the file of md and its imports, and in more.
func Compile(md protoreflect.MessageDescriptor, more ...protoreflect.FileDescriptor) *Schema {
	return &Schema{md: md, types: sync.OnceValue(func() resolver { return typesIn(append(more, md.ParentFile())...) })}
}

// AppendJSON appends the JSON form of a message to dst, as the protobuf JSON mapping defines
// it, compact and on one line. Members are in the order of the schema, and map entries in that
// of their keys. Unknown fields are dropped, and required fields may be missing. Nesting deeper
// than [jsonscan.MaxDepth] is an error. AppendJSON reports whether AppendWire restores wire byte
// for byte from that form. On error it returns dst unchanged; the error is an [*Error].
func (s *Schema) AppendJSON(dst, wire []byte) (_ []byte, exact bool, err error) {
	usual := canonical{reader: reader{wire: wire}, dst: dst}
	if usual.message(s.md, len(wire), 0) {
		return usual.dst, true, nil
	}
	check := editing{reader: reader{wire: wire}, editor: keeper{}, root: s, strict: true}
	if !check.message(s.md, len(wire), 0, false) {
		return dst, false, check.err.of(s.md)
	}
	form, err := s.form(wire)
	if err != nil {
		return dst, false, &Error{Path: string(s.md.FullName()), Offset: -1, Msg: plain(err)}
	}
	back, err := s.AppendWire(nil, form)
	return append(dst, form...), err == nil && bytes.Equal(back, wire), nil
}

// keeper keeps everything as it is.
type keeper struct{}

func (keeper) Hides(string) bool                   { return false }
func (keeper) Text(text []byte, _ bool) []byte     { return text }
func (keeper) Unknown(value []byte, _ bool) []byte { return value }

// form returns the JSON form of a message.
func (s *Schema) form(wire []byte) (form []byte, err error) {
	defer recovered(&err)
	m := dynamicpb.NewMessage(s.md)
	if err := (proto.UnmarshalOptions{AllowPartial: true, Resolver: s.types()}).Unmarshal(wire, m); err != nil {
		return nil, err
	}
	if err := s.checkDepth(m); err != nil {
		return nil, err
	}
	text, err := protojson.MarshalOptions{AllowPartial: true, Resolver: lenient{s.types()}}.Marshal(m)
	if err != nil {
		return nil, err
	}
	if jsonscan.Valid(text) != nil { // it is nested too deep for readers of JSON
		return nil, errTooDeep
	}
	var compact bytes.Buffer
	err = json.Compact(&compact, text)
	return compact.Bytes(), err
}

// AppendWire appends the message described by its JSON form. Fields are in the order of
// their numbers, map entries in that of their keys, and each number is in its shortest form.
// Members are named by their JSON names or their names in the schema. Required fields may be
// missing. On error dst is returned unchanged.
func (s *Schema) AppendWire(dst, text []byte) ([]byte, error) {
	if err := jsonscan.Valid(text); err != nil {
		return dst, err
	}
	out, err := s.wire(dst, text)
	if err == nil {
		return out, nil
	}
	var scan jsonscan.Scanner
	scan.Init(text)
	if named := misnamed(&scan, s.md); named != nil {
		return dst, named.of(s.md)
	}
	return dst, &Error{Path: string(s.md.FullName()), Offset: -1, Msg: plain(err)}
}

func (s *Schema) wire(dst, text []byte) (_ []byte, err error) {
	defer recovered(&err)
	m := dynamicpb.NewMessage(s.md)
	if err := (protojson.UnmarshalOptions{AllowPartial: true, Resolver: lenient{s.types()}}).Unmarshal(text, m); err != nil {
		return nil, err
	}
	start := len(dst)
	out, err := proto.MarshalOptions{AllowPartial: true, Deterministic: true}.MarshalAppend(dst, m)
	if err == nil {
		sortFields(out[start:], s.md)
	}
	return out, err
}

// sortFields puts the fields of a message, and of those in it, in the order of their numbers. Most
// encoders write them so; the Go module writes those of a oneof last.
func sortFields(wire []byte, md protoreflect.MessageDescriptor) {
	type extent struct {
		num      protowire.Number
		from, to int
	}
	var fields []extent
	r := reader{wire: wire}
	for r.pos < len(wire) {
		from := r.pos
		num, value, ok := r.skipField(len(wire))
		if !ok {
			return
		}
		fields = append(fields, extent{num, from, r.pos})
		if fd := md.Fields().ByNumber(num); value != nil && fd != nil && fd.Kind() == protoreflect.MessageKind {
			sortFields(value, fd.Message())
		}
	}
	byNumber := func(a, b extent) int { return cmp.Compare(a.num, b.num) }
	if slices.IsSortedFunc(fields, byNumber) {
		return
	}
	slices.SortStableFunc(fields, byNumber)
	old := slices.Clone(wire)
	for _, f := range fields {
		wire = wire[copy(wire, old[f.from:f.to]):]
	}
}

// recovered turns a panic into an error. The protobuf module (1.36) panics on two inputs: a map
// entry in which the number of the key or value repeats with another wire type, and a type that
// has the name of a special one but other fields.
func recovered(err *error) {
	if recover() != nil {
		*err = errOdd
	}
}

var (
	errOdd     = errors.New("a map entry or a type of google.protobuf has fields of the wrong type")
	errTooDeep = errors.New(tooDeep)
)

const tooDeep = "messages are nested too deep"

// maxDepth is the limit of the protobuf module.
const maxDepth = protowire.DefaultRecursionLimit

// misnamed returns an error for the first member that names no field of its message, or nil.
func misnamed(s *jsonscan.Scanner, md protoreflect.MessageDescriptor) *Error {
	if md == nil || md.FullName().Parent() == "google.protobuf" { // these have forms of their own
		return nil
	}
	for ok := s.Object(); ok && s.Next(); {
		name := string(s.Key())
		fd := md.Fields().ByJSONName(name)
		if fd == nil {
			fd = md.Fields().ByTextName(name)
		}
		if fd == nil && strings.HasPrefix(name, "[") {
			continue // an extension
		}
		if fd == nil {
			var names []string
			for i := range md.Fields().Len() {
				names = append(names, md.Fields().Get(i).JSONName())
			}
			return &Error{Offset: s.Offset(), Msg: fmt.Sprintf("%s has no field %q%s", md.FullName(), name, nearest.Question(name, names))}
		}
		var e *Error
		switch {
		case fd.IsMap():
			for ok := s.Object(); ok && e == nil && s.Next(); {
				e = misnamed(s, fd.MapValue().Message())
			}
		case fd.IsList():
			for ok := s.Array(); ok && e == nil && s.Elem(); {
				e = misnamed(s, fd.Message())
			}
		default:
			e = misnamed(s, fd.Message())
		}
		if e != nil {
			e.within(string(fd.Name()))
			return e
		}
	}
	return nil
}

// maxAnys bounds how deep google.protobuf.Any may be nested. Each one copies its content,
// and protojson has no limit.
const maxAnys = 100

// checkDepth rejects a message nested so deep that reading it would take very long, or exhaust
// the stack.
func (s *Schema) checkDepth(m *dynamicpb.Message) error {
	anys := 0
	return protorange.Options{Resolver: s.types()}.Range(m.ProtoReflect(), func(at protopath.Values) error {
		if at.Index(-1).Step.Kind() == protopath.AnyExpandStep {
			anys++
		}
		const steps = 3 // at most, per object or array in JSON
		if anys > maxAnys || len(at.Path) > steps*jsonscan.MaxDepth {
			return errTooDeep
		}
		return nil
	}, func(at protopath.Values) error {
		if at.Index(-1).Step.Kind() == protopath.AnyExpandStep {
			anys--
		}
		return nil
	})
}

// resolver finds extensions, and the types inside a google.protobuf.Any.
type resolver interface {
	protoregistry.ExtensionTypeResolver
	protoregistry.MessageTypeResolver
}

// typesIn returns the types in files and their imports.
func typesIn(files ...protoreflect.FileDescriptor) resolver {
	all := new(protoregistry.Files)
	for _, file := range files {
		register(all, file)
	}
	return dynamicpb.NewTypes(all)
}

func register(files *protoregistry.Files, file protoreflect.FileDescriptor) {
	if file.IsPlaceholder() || files.RegisterFile(file) != nil { // already registered
		return
	}
	imports := file.Imports()
	for i := range imports.Len() {
		register(files, imports.Get(i).FileDescriptor)
	}
}

// lenient finds a type for any content of a google.protobuf.Any. A type that no schema has is
// no fault of the message: it has no known fields, and JSON omits unknown ones.
type lenient struct{ resolver }

func (l lenient) FindMessageByURL(url string) (protoreflect.MessageType, error) {
	t, err := l.resolver.FindMessageByURL(url)
	if err == protoregistry.NotFound { //nolint:errorlint // the value itself, as the interface asks for
		return unknown(), nil
	}
	return t, err
}

// unknown is a message type without fields.
var unknown = sync.OnceValue(func() protoreflect.MessageType {
	file := &descriptorpb.FileDescriptorProto{
		Name: proto.String("unknown.proto"), Syntax: proto.String("proto3"),
		MessageType: []*descriptorpb.DescriptorProto{{Name: proto.String("Unknown")}},
	}
	fd, err := protodesc.NewFile(file, nil)
	if err != nil {
		panic(err) // the file is ours
	}
	return dynamicpb.NewMessageType(fd.Messages().Get(0))
})

// maxLearned bounds the learned files, and those that wait for their imports.
const maxLearned = 4096

// maxNames bounds the bytes of names that are built to link learned files. No real schema comes
// near it. A malicious file of a few kilobytes could exceed it and keep the program busy for
// minutes.
const maxNames = 1 << 28

// Learned holds the methods of services whose schemas appear in the stream itself, as a
// server's answers to reflection requests. The zero value is empty.
type Learned struct {
	seen    map[string]bool // names of files that are known or waiting
	waiting []*descriptorpb.FileDescriptorProto
	names   int64 // see maxNames
	files   protoregistry.Files
	methods []*Methods
}

// Learn adds the schemas in an answer of gRPC's server reflection, a
// ServerReflectionResponse. Unreadable ones are skipped: the peer judges them.
func (l *Learned) Learn(answer []byte) {
	const filesNumber, fileNumber = 4, 1
	news := false
	for response := range delimited(answer, filesNumber) {
		for data := range delimited(response, fileNumber) {
			file := &descriptorpb.FileDescriptorProto{}
			if proto.Unmarshal(data, file) == nil && l.isNew(file) {
				l.waiting = append(l.waiting, file)
				news = true
			}
		}
	}
	for news {
		news = l.settle()
	}
}

// isNew reports whether a file should be learned, and remembers it.
func (l *Learned) isNew(file *descriptorpb.FileDescriptorProto) bool {
	_, err := l.FindFileByPath(file.GetName())
	if err == nil || l.seen[file.GetName()] || len(l.seen) >= maxLearned {
		return false
	}
	if l.names += namesToLink(file); l.names > maxNames {
		return false
	}
	if l.seen == nil {
		l.seen = map[string]bool{}
	}
	l.seen[file.GetName()] = true
	return true
}

// namesToLink estimates how many bytes of names are built to link a file.
func namesToLink(file *descriptorpb.FileDescriptorProto) int64 {
	scope, depth := int64(len(file.GetPackage())), int64(strings.Count(file.GetPackage(), ".")+1)
	n := namesInScope(scope, depth, file.GetMessageType(), file.GetEnumType(), file.GetExtension())
	for _, service := range file.GetService() {
		n += scope * depth * int64(len(service.GetMethod()))
	}
	return n
}

// namesInScope is namesToLink for the declarations in a scope whose name has the given length
// and depth parts. A relative name is looked up in each of the enclosing scopes.
func namesInScope(
	scope, depth int64, messages []*descriptorpb.DescriptorProto,
	enums []*descriptorpb.EnumDescriptorProto, fields []*descriptorpb.FieldDescriptorProto,
) (n int64) {
	for _, field := range fields {
		n += scope
		for _, name := range []string{field.GetTypeName(), field.GetExtendee()} {
			if name != "" && name[0] != '.' {
				n += depth * (scope + int64(len(name)))
			}
		}
	}
	for _, enum := range enums {
		n += scope * int64(len(enum.GetValue())+1)
	}
	for _, message := range messages {
		inner := scope + int64(len(message.GetName())) + 1
		n += inner + namesInScope(inner, depth+1, message.GetNestedType(), message.GetEnumType(), slices.Concat(message.GetField(), message.GetExtension()))
	}
	return n
}

// settle links the files whose imports are all known, and reports whether there were any.
// Invalid files are discarded.
func (l *Learned) settle() (any bool) {
	waiting := l.waiting
	l.waiting = nil
	for _, file := range waiting {
		if slices.ContainsFunc(file.GetDependency(), func(path string) bool { _, err := l.FindFileByPath(path); return err != nil }) {
			l.waiting = append(l.waiting, file)
			continue
		}
		fd, err := protodesc.NewFile(file, l)
		if err != nil || l.files.RegisterFile(fd) != nil {
			continue
		}
		any = true
		if fd.Services().Len() > 0 {
			l.methods = append(l.methods, NewMethods(fd))
		}
	}
	return any
}

// FindFileByPath finds an import: a learned file, or a well-known one.
func (l *Learned) FindFileByPath(path string) (protoreflect.FileDescriptor, error) {
	if fd, err := l.files.FindFileByPath(path); err == nil {
		return fd, nil
	}
	return KnownFiles().FindFileByPath(path)
}

// FindDescriptorByName is FindFileByPath for declarations in files.
func (l *Learned) FindDescriptorByName(name protoreflect.FullName) (protoreflect.Descriptor, error) {
	if d, err := l.files.FindDescriptorByName(name); err == nil {
		return d, nil
	}
	return KnownFiles().FindDescriptorByName(name)
}

// Messages is like [Methods.Messages].
func (l *Learned) Messages(path string) (request, answer protocol.Protocol, ok bool) {
	for _, m := range l.methods {
		if request, answer, ok = m.Messages(path); ok {
			return request, answer, true
		}
	}
	return nil, nil, false
}

// delimited yields the values of a length-delimited field.
func delimited(message []byte, want protowire.Number) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		r := reader{wire: message}
		for r.pos < len(message) {
			num, value, ok := r.skipField(len(message))
			if !ok || num == want && value != nil && !yield(value) {
				return
			}
		}
	}
}
