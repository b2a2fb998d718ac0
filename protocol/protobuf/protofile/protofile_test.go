package protofile

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/types/descriptorpb"
)

// tree writes two .proto files, one of which imports the other and a standard
// one, and returns their directory.
func tree(t *testing.T) string {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "acme/v1/event.proto"), `
		syntax = "proto3";
		package acme.v1;
		import "acme/v1/common.proto";
		import "google/protobuf/timestamp.proto";
		message Event {
			google.protobuf.Timestamp at = 1;
			common.Actor actor = 2;
			map<string, string> labels = 3;
			message Detail {}
		}
		message Sub { message Detail {} }`)
	write(t, filepath.Join(dir, "acme/v1/common.proto"), `
		syntax = "proto3";
		package acme.v1.common;
		message Actor { string name = 1; }`)
	return dir
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
}

func TestLoadFromSource(t *testing.T) {
	dir := tree(t)
	event := filepath.Join(dir, "acme/v1/event.proto")
	for _, name := range []string{"acme.v1.Event", "v1.Event", "Event"} {
		md, _, err := Load(context.Background(), Source{Proto: []string{event}, ImportPaths: []string{dir}}, name)
		if err != nil {
			t.Fatal(err)
		}
		if md.FullName() != "acme.v1.Event" || md.Fields().Len() != 3 {
			t.Errorf("%s: got %s with %d fields", name, md.FullName(), md.Fields().Len())
		}
	}
}

// A file that needs no imports, or only neighbours, needs no import path.
func TestLoadWithoutImportPath(t *testing.T) {
	dir := tree(t)
	md, _, err := Load(context.Background(), Source{Proto: []string{filepath.Join(dir, "acme/v1/common.proto")}}, "Actor")
	if err != nil || md.FullName() != "acme.v1.common.Actor" {
		t.Errorf("got %v, error %v", md, err)
	}
}

// A set written without its imports still finds the standard ones.
func TestLoadFromDescriptorSet(t *testing.T) {
	dir := tree(t)
	md, _, err := Load(context.Background(), Source{Proto: []string{filepath.Join(dir, "acme/v1/event.proto")}, ImportPaths: []string{dir}}, "Event")
	if err != nil {
		t.Fatal(err)
	}
	file := md.ParentFile()
	set := &descriptorpb.FileDescriptorSet{File: []*descriptorpb.FileDescriptorProto{protodesc.ToFileDescriptorProto(file)}}
	for i := range file.Imports().Len() {
		if imported := file.Imports().Get(i); strings.HasPrefix(imported.Path(), "acme/") {
			set.File = append(set.File, protodesc.ToFileDescriptorProto(imported))
		}
	}
	data, err := proto.Marshal(set)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "set.binpb")
	write(t, path, string(data))
	for _, name := range []string{"Event", "acme.v1.common.Actor"} {
		if _, _, err := Load(context.Background(), Source{DescriptorSet: []string{path}}, name); err != nil {
			t.Error(err)
		}
	}
}

func TestLoadErrors(t *testing.T) {
	dir := tree(t)
	broken := filepath.Join(dir, "broken.proto")
	write(t, broken, "syntax = \"proto3\";\nmessage {")
	lonely := filepath.Join(dir, "lonely.proto")
	write(t, lonely, `syntax = "proto3"; import "not/there.proto";`)
	later := filepath.Join(dir, "later.proto")
	write(t, later, `edition = "2024"; message Foo {}`)
	event := filepath.Join(dir, "acme/v1/event.proto")
	tests := map[string]struct {
		source  Source
		message string
		want    string
	}{
		"no such message": {
			Source{Proto: []string{event}, ImportPaths: []string{dir}},
			"Foo",
			`message "Foo" is not in acme/v1/event.proto; it has: acme.v1.Event, acme.v1.Event.Detail, acme.v1.Sub, acme.v1.Sub.Detail`,
		},
		"two such messages": {
			Source{Proto: []string{event}, ImportPaths: []string{dir}},
			"Detail",
			`message "Detail" could be any of: acme.v1.Event.Detail, acme.v1.Sub.Detail`,
		},
		"no such file":   {Source{Proto: []string{filepath.Join(dir, "no.proto")}}, "Foo", "no.proto: no such file"},
		"no such import": {Source{Proto: []string{lonely}, ImportPaths: []string{dir}}, "Foo", "lonely.proto: not/there.proto is in none of: " + dir + ": file does not exist"},
		"syntax":         {Source{Proto: []string{broken}, ImportPaths: []string{dir}}, "Foo", "broken.proto:2:9: syntax error"},
		"later edition":  {Source{Proto: []string{later}}, "Foo", `later.proto:1:11: edition value "2024" not recognized; should be one of ["2023"]: compile it with protoc --descriptor_set_out`},
		"not a set":      {Source{DescriptorSet: []string{event}}, "Foo", "event.proto is not a descriptor set"},
		"nothing":        {Source{}, "Foo", "no .proto file or descriptor set"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, _, err := Load(context.Background(), test.source, test.message)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got error %v\nwant %s", err, test.want)
			}
		})
	}
}
