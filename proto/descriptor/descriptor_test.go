package descriptor_test

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/protoutil"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/wirectl/wirectl/proto/descriptor"
	"github.com/wirectl/wirectl/protocol/protobuf/known"
	"github.com/wirectl/wirectl/protocol/protobuf/protofile"
)

// sources are files that say everything that a .proto file can say of how messages
// are read.
func sources(t testing.TB) map[string]string {
	all := map[string]string{}
	paths, err := filepath.Glob("../../protocol/protobuf/protofile/testdata/*.proto")
	more, _ := filepath.Glob("../../protocol/protobuf/testdata/*.proto")
	if err != nil || len(paths) == 0 || len(more) == 0 {
		t.Fatal("there are no sources", err)
	}
	for _, path := range append(paths, more...) {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		all[filepath.Base(path)] = string(data)
	}
	return all
}

// corpus returns the sources as protocompile compiles them, each after what it imports.
func corpus(t testing.TB) (files []protoreflect.FileDescriptor) {
	all := sources(t)
	compiler := protocompile.Compiler{Resolver: protocompile.WithStandardImports(&protocompile.SourceResolver{
		Accessor: protocompile.SourceAccessorFromMap(all),
	})}
	done := map[string]bool{}
	var add func(protoreflect.FileDescriptor)
	add = func(fd protoreflect.FileDescriptor) {
		if done[fd.Path()] || strings.HasPrefix(fd.Path(), "google/") {
			return
		}
		done[fd.Path()] = true
		for i := range fd.Imports().Len() {
			add(fd.Imports().Get(i).FileDescriptor)
		}
		files = append(files, fd)
	}
	for name := range all {
		compiled, err := compiler.Compile(context.Background(), name)
		if err != nil {
			t.Fatal(err)
		}
		add(compiled[0])
	}
	return files
}

// What comes of the sources is what protocompile makes of them, also by way of their
// descriptors.
func TestSources(t *testing.T) {
	dir := t.TempDir()
	for name, text := range sources(t) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	known := overlay{&protoregistry.Files{}}
	for _, want := range corpus(t) {
		t.Run(want.Path(), func(t *testing.T) {
			got, err := protofile.Files(t.Context(), protofile.Source{
				Proto: []string{filepath.Join(dir, want.Path())}, ImportPaths: []string{dir},
			})
			if err != nil {
				t.Fatal(err)
			}
			same(t, (&description{}).file(got[0]), (&description{}).file(want))
			agree(t, protoutil.ProtoFromFileDescriptor(want), known, got[0])
		})
		t.Run(want.Path()+" as compiled", func(t *testing.T) {
			file := protoutil.ProtoFromFileDescriptor(want)
			got, err := descriptor.New(file, known)
			if err != nil {
				t.Fatal(err)
			}
			same(t, (&description{}).file(got), (&description{}).file(want))
			agree(t, file, known, got)
			if err := known.RegisterFile(got); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// An overlay has files besides those that everybody has.
type overlay struct{ *protoregistry.Files }

func (o overlay) FindFileByPath(path string) (protoreflect.FileDescriptor, error) {
	if fd, err := o.Files.FindFileByPath(path); err == nil {
		return fd, nil
	}
	return known.Files().FindFileByPath(path)
}

func (o overlay) FindDescriptorByName(name protoreflect.FullName) (protoreflect.Descriptor, error) {
	if d, err := o.Files.FindDescriptorByName(name); err == nil {
		return d, nil
	}
	return known.Files().FindDescriptorByName(name)
}

// The edition of 2024 has no compiler here. Its files differ in the features that they
// begin with.
func TestEdition2024(t *testing.T) {
	tested := 0
	for _, fd := range corpus(t) {
		if fd.Syntax() != protoreflect.Editions {
			continue
		}
		tested++
		file := proto.CloneOf(protoutil.ProtoFromFileDescriptor(fd))
		file.Edition = descriptorpb.Edition_EDITION_2024.Enum()
		got, err := descriptor.New(file, known.Files())
		if err != nil {
			t.Fatal(err)
		}
		want, err := protodesc.NewFile(file, known.Files())
		if err != nil {
			t.Fatal(err)
		}
		same(t, describe(got), describe(want))
	}
	if tested == 0 {
		t.Error("there is none")
	}
}

// What no compiler writes, but a peer may tell, is refused for what it is.
func TestRefused(t *testing.T) {
	field := func(change func(*descriptorpb.FieldDescriptorProto)) *descriptorpb.FileDescriptorProto {
		f := &descriptorpb.FieldDescriptorProto{
			Name: proto.String("f"), Number: proto.Int32(1), Type: descriptorpb.FieldDescriptorProto_TYPE_INT32.Enum(),
		}
		change(f)
		return &descriptorpb.FileDescriptorProto{Name: proto.String("a.proto"), MessageType: []*descriptorpb.DescriptorProto{{
			Name: proto.String("M"), Field: []*descriptorpb.FieldDescriptorProto{f},
		}}}
	}
	for _, tt := range []struct {
		file *descriptorpb.FileDescriptorProto
		want string
	}{
		{&descriptorpb.FileDescriptorProto{}, ": it has no name"},
		{field(func(f *descriptorpb.FieldDescriptorProto) { f.Name = proto.String("a.b") }), `a.proto: "a.b" in M is not a name`},
		{field(func(f *descriptorpb.FieldDescriptorProto) { f.Number = proto.Int32(1 << 29) }), "a.proto: M.f has the number 536870912, which no field can have"},
		{field(func(f *descriptorpb.FieldDescriptorProto) {
			f.Type = descriptorpb.FieldDescriptorProto_Type(256 + 11).Enum()
		}), "a.proto: M.f has a type that is not known, 267"},
		{field(func(f *descriptorpb.FieldDescriptorProto) {
			f.Label = descriptorpb.FieldDescriptorProto_Label(257).Enum()
		}), "a.proto: M.f has a label that is not known, 257"},
		{field(func(f *descriptorpb.FieldDescriptorProto) { f.TypeName = proto.String(".M") }), "a.proto: M.f has two types"},
		{field(func(f *descriptorpb.FieldDescriptorProto) { f.OneofIndex = proto.Int32(0) }), "a.proto: M.f is in oneof 0 of 0"},
		{field(func(f *descriptorpb.FieldDescriptorProto) { f.Proto3Optional = proto.Bool(true) }), "a.proto: M.f is optional as in proto3, in a file that is not of it"},
		{field(func(f *descriptorpb.FieldDescriptorProto) { f.Extendee = proto.String(".M") }), "a.proto: M.f is a field of a message and extends another"},
		{field(func(f *descriptorpb.FieldDescriptorProto) {
			f.Options = &descriptorpb.FieldOptions{Features: &descriptorpb.FeatureSet{}}
		}), "a.proto: it has features, which only files of an edition have"},
		{&descriptorpb.FileDescriptorProto{Name: proto.String("a.proto"), Dependency: []string{"b.proto"}}, "a.proto: its import b.proto is not known"},
		{&descriptorpb.FileDescriptorProto{Name: proto.String("a.proto"), PublicDependency: []int32{0}}, "a.proto: of its 0 imports number 0 is public"},
		{&descriptorpb.FileDescriptorProto{Name: proto.String("a.proto"), Syntax: proto.String("proto4")}, `a.proto: its syntax "proto4" is not known here; proto2, proto3 and editions are`},
		{&descriptorpb.FileDescriptorProto{Name: proto.String("a.proto"), Syntax: proto.String("editions"), Edition: descriptorpb.Edition_EDITION_MAX.Enum()}, "a.proto: it is of an edition that is not known here, EDITION_MAX; those of 2023 and 2024 are"},
	} {
		if _, err := descriptor.New(tt.file, nil); err == nil || err.Error() != tt.want {
			t.Errorf("the error is %v and not %s", err, tt.want)
		}
	}
}

// A file that is made to keep its reader busy is refused before it does.
func TestTooLarge(t *testing.T) {
	const want = "a.proto: it declares more than can be taken in: split it into several files"
	names := &descriptorpb.FileDescriptorProto{Name: proto.String("a.proto"), Package: proto.String(strings.Repeat("a", 1<<20))}
	types := &descriptorpb.FileDescriptorProto{Name: proto.String("a.proto")}
	for i := range 20000 { // each with the name of the package, and looked for among all
		name := "M" + strconv.Itoa(i)
		names.MessageType = append(names.MessageType, &descriptorpb.DescriptorProto{Name: &name})
		types.MessageType = append(types.MessageType, &descriptorpb.DescriptorProto{
			Name: &name, Field: []*descriptorpb.FieldDescriptorProto{{Name: proto.String("f"), Number: proto.Int32(1), TypeName: proto.String(".M0")}},
		})
	}
	deep := &descriptorpb.DescriptorProto{Name: proto.String("m")}
	for i := range 1000 {
		deep.Field = append(deep.Field, &descriptorpb.FieldDescriptorProto{
			Name: proto.String("f" + strconv.Itoa(i)), Number: proto.Int32(int32(i + 1)), TypeName: proto.String("Top"),
		})
	}
	for range 2000 {
		deep = &descriptorpb.DescriptorProto{Name: proto.String("m"), NestedType: []*descriptorpb.DescriptorProto{deep}}
	}
	scopes := &descriptorpb.FileDescriptorProto{
		Name: proto.String("a.proto"), MessageType: []*descriptorpb.DescriptorProto{deep, {Name: proto.String("Top")}},
	}
	for what, file := range map[string]*descriptorpb.FileDescriptorProto{"names": names, "scopes": scopes, "types": types} {
		if _, err := descriptor.New(file, nil); err == nil || err.Error() != want {
			t.Errorf("%s: the error is %.200v", what, err)
		}
	}
}
