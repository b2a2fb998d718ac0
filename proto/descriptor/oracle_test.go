package descriptor_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	_ "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	_ "google.golang.org/protobuf/types/gofeaturespb"

	_ "github.com/wirectl/wirectl/proto/latis/v1"

	"github.com/wirectl/wirectl/proto/descriptor"
)

// describe writes down all that a descriptor says of how messages are read.
func describe(fd protoreflect.FileDescriptor) string {
	return (&description{all: true}).file(fd)
}

func (d *description) file(fd protoreflect.FileDescriptor) string {
	d.line("file %s package %s %v", fd.Path(), fd.Package(), fd.Syntax())
	for i := range fd.Imports().Len() {
		imported := fd.Imports().Get(i)
		d.line("import %s public %t placeholder %t", imported.Path(), imported.IsPublic, imported.IsPlaceholder())
	}
	d.types(fd)
	for i := range fd.Services().Len() {
		d.service(fd.Services().Get(i))
	}
	return d.String()
}

type description struct {
	strings.Builder
	all bool // also what protocompile does not tell, or not of the features of editions
}

func (d *description) line(format string, args ...any) { fmt.Fprintf(d, format+"\n", args...) }

func (d *description) types(in interface {
	Messages() protoreflect.MessageDescriptors
	Enums() protoreflect.EnumDescriptors
	Extensions() protoreflect.ExtensionDescriptors
},
) {
	for i := range in.Messages().Len() {
		d.message(in.Messages().Get(i))
	}
	for i := range in.Enums().Len() {
		d.enum(in.Enums().Get(i))
	}
	for i := range in.Extensions().Len() {
		d.field(in.Extensions().Get(i))
	}
}

func (d *description) message(md protoreflect.MessageDescriptor) {
	d.line("message %s in %s map entry %t message set %t", md.FullName(), md.Parent().FullName(),
		md.IsMapEntry(), isMessageSet(md))
	if d.all {
		d.line("required %v", listOf(md.RequiredNumbers()))
	}
	d.line("reserved %v %v extensions %v", listOf(md.ReservedNames()), listOf(md.ReservedRanges()), listOf(md.ExtensionRanges()))
	for i := range md.Fields().Len() {
		d.field(md.Fields().Get(i))
	}
	for i := range md.Oneofs().Len() {
		od := md.Oneofs().Get(i)
		d.line("oneof %s synthetic %t: %d fields", od.FullName(), od.IsSynthetic(), od.Fields().Len())
	}
	d.types(md)
}

func (d *description) field(fd protoreflect.FieldDescriptor) {
	d.line("field %s = %d in %s: %v %v, extension %t packed %t list %t map %t, presence %t optional keyword %t, json %q (%t), text %q",
		fd.FullName(), fd.Number(), fd.ContainingMessage().FullName(), fd.Cardinality(), fd.Kind(),
		fd.IsExtension(), fd.IsPacked(), fd.IsList(), fd.IsMap(), fd.HasPresence(), fd.HasOptionalKeyword(),
		fd.JSONName(), fd.HasJSONName(), fd.TextName())
	if validates, known := validatesUTF8(fd); known && d.all {
		d.line("- validates UTF-8 %t", validates)
	}
	if md := fd.Message(); md != nil {
		d.line("- message %s of %s placeholder %t", md.FullName(), md.ParentFile().Path(), md.IsPlaceholder())
	}
	if ed := fd.Enum(); ed != nil {
		d.line("- enum %s of %s placeholder %t", ed.FullName(), ed.ParentFile().Path(), ed.IsPlaceholder())
	}
	if od := fd.ContainingOneof(); od != nil {
		d.line("- oneof %s", od.FullName())
	}
	if fd.IsMap() {
		d.line("- from %s to %s", fd.MapKey().FullName(), fd.MapValue().FullName())
	}
}

func (d *description) enum(ed protoreflect.EnumDescriptor) {
	d.line("enum %s in %s closed %t reserved %v %v", ed.FullName(), ed.Parent().FullName(), ed.IsClosed(),
		listOf(ed.ReservedNames()), listOf(ed.ReservedRanges()))
	for i := range ed.Values().Len() {
		d.line("value %s = %d", ed.Values().Get(i).FullName(), ed.Values().Get(i).Number())
	}
}

func (d *description) service(sd protoreflect.ServiceDescriptor) {
	d.line("service %s", sd.FullName())
	for i := range sd.Methods().Len() {
		md := sd.Methods().Get(i)
		d.line("method %s takes %s returns %s, streams %t %t", md.FullName(), md.Input().FullName(), md.Output().FullName(),
			md.IsStreamingClient(), md.IsStreamingServer())
	}
}

// isMessageSet and validatesUTF8 ask what only the descriptors of the protobuf module
// tell; those of protocompile do not.
func isMessageSet(md protoreflect.MessageDescriptor) bool {
	if set, ok := md.(interface{ IsMessageSet() bool }); ok {
		return set.IsMessageSet()
	}
	return md.Options().(*descriptorpb.MessageOptions).GetMessageSetWireFormat()
}

func validatesUTF8(fd protoreflect.FieldDescriptor) (validates, known bool) {
	if utf8, ok := fd.(interface{ EnforceUTF8() bool }); ok {
		return utf8.EnforceUTF8(), true
	}
	return false, false
}

func listOf[T any](list interface {
	Len() int
	Get(i int) T
},
) (all []T) {
	for i := range list.Len() {
		all = append(all, list.Get(i))
	}
	return all
}

// The schemas of all generated code that is linked here come out as protodesc makes
// them.
func TestGenerated(t *testing.T) {
	ours := &protoregistry.Files{}
	files := 0
	var add func(protoreflect.FileDescriptor)
	add = func(fd protoreflect.FileDescriptor) {
		if _, err := ours.FindFileByPath(fd.Path()); err == nil {
			return
		}
		for i := range fd.Imports().Len() {
			add(fd.Imports().Get(i).FileDescriptor)
		}
		files++
		got, err := descriptor.New(protodesc.ToFileDescriptorProto(fd), ours)
		if err != nil {
			t.Fatal(err)
		}
		if err := ours.RegisterFile(got); err != nil {
			t.Fatal(err)
		}
		want, err := protodesc.NewFile(protodesc.ToFileDescriptorProto(fd), protoregistry.GlobalFiles)
		if err != nil {
			t.Fatal(err)
		}
		same(t, describe(got), describe(want))
	}
	protoregistry.GlobalFiles.RangeFiles(func(fd protoreflect.FileDescriptor) bool {
		add(fd)
		return true
	})
	if files < 5 {
		t.Errorf("there were only %d", files)
	}
}

func same(t *testing.T, got, want string) {
	t.Helper()
	if got == want {
		return
	}
	theirs := strings.Split(want, "\n")
	for i, line := range strings.Split(got, "\n") {
		if i >= len(theirs) || line != theirs[i] {
			t.Fatalf("line %d is\n%s\nand not\n%s", i+1, line, slices.Concat(theirs, make([]string, i))[i])
		}
	}
	t.Fatalf("the description ends early: it is\n%s\nand not\n%s", got, want)
}

// agree fails if protodesc makes something else of the file. It may refuse what we
// take in.
func agree(t *testing.T, file *descriptorpb.FileDescriptorProto, known descriptor.Resolver, got protoreflect.FileDescriptor) {
	t.Helper()
	description := describe(got)
	want, err := protodesc.NewFile(proto.CloneOf(file), known)
	if err == nil && typed(file) {
		same(t, description, describe(want))
	}
}

// typed reports whether all fields say what they are. Where one does not, and is a
// message, protodesc forgets that the file may delimit messages as groups.
func typed(file *descriptorpb.FileDescriptorProto) bool {
	u := mutator{}
	u.collect(file.ProtoReflect())
	return !slices.ContainsFunc(u.messages, func(m protoreflect.Message) bool {
		field, ok := m.Interface().(*descriptorpb.FieldDescriptorProto)
		return ok && field.Type == nil
	})
}
