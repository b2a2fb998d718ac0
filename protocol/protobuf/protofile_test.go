package protobuf

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

// tree writes two .proto files and returns their directory. One imports the other and a
// standard file.
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
		md, _, err := LoadSchema(context.Background(), SchemaSource{Proto: []string{event}, ImportPaths: []string{dir}}, name)
		if err != nil {
			t.Fatal(err)
		}
		if md.FullName() != "acme.v1.Event" || md.Fields().Len() != 3 {
			t.Errorf("%s: got %s with %d fields", name, md.FullName(), md.Fields().Len())
		}
	}
}

// A type that a file imports, directly or indirectly, is found by its full name.
func TestLoadWhatIsImported(t *testing.T) {
	dir := tree(t)
	service := filepath.Join(dir, "service.proto")
	write(t, service, `syntax = "proto3"; import "acme/v1/event.proto";`)
	for _, name := range []string{"acme.v1.Event", "acme.v1.Sub.Detail", "acme.v1.common.Actor", "google.protobuf.Timestamp"} {
		md, _, err := LoadSchema(context.Background(), SchemaSource{Proto: []string{service}, ImportPaths: []string{dir}}, name)
		if err != nil || string(md.FullName()) != name {
			t.Errorf("%s: got %v, error %v", name, md, err)
		}
	}
}

// A file that needs no imports, or only neighbours, needs no import path.
func TestLoadWithoutImportPath(t *testing.T) {
	dir := tree(t)
	md, _, err := LoadSchema(context.Background(), SchemaSource{Proto: []string{filepath.Join(dir, "acme/v1/common.proto")}}, "Actor")
	if err != nil || md.FullName() != "acme.v1.common.Actor" {
		t.Errorf("got %v, error %v", md, err)
	}
}

// A set written without its imports still finds the standard ones.
func TestLoadFromDescriptorSet(t *testing.T) {
	dir := tree(t)
	md, _, err := LoadSchema(context.Background(), SchemaSource{Proto: []string{filepath.Join(dir, "acme/v1/event.proto")}, ImportPaths: []string{dir}}, "Event")
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
		if _, _, err := LoadSchema(context.Background(), SchemaSource{DescriptorSet: []string{path}}, name); err != nil {
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
		source  SchemaSource
		message string
		want    string
	}{
		"no such message": {
			SchemaSource{Proto: []string{event}, ImportPaths: []string{dir}},
			"Foo",
			`message "Foo" is not in acme/v1/event.proto; it has: acme.v1.Event, acme.v1.Event.Detail, acme.v1.Sub, acme.v1.Sub.Detail`,
		},
		"two such messages": {
			SchemaSource{Proto: []string{event}, ImportPaths: []string{dir}},
			"Detail",
			`message "Detail" could be any of: acme.v1.Event.Detail, acme.v1.Sub.Detail`,
		},
		"no such file":   {SchemaSource{Proto: []string{filepath.Join(dir, "no.proto")}}, "Foo", "no.proto: no such file"},
		"no such import": {SchemaSource{Proto: []string{lonely}, ImportPaths: []string{dir}}, "Foo", "lonely.proto:1:27: not/there.proto is in none of: " + dir + ": file does not exist"},
		"syntax":         {SchemaSource{Proto: []string{broken}, ImportPaths: []string{dir}}, "Foo", "broken.proto:2:9: syntax error"},
		"later edition":  {SchemaSource{Proto: []string{later}}, "Foo", `later.proto:1:11: edition value "2024" not recognized; should be one of ["2023"]: compile it with protoc --descriptor_set_out`},
		"not a set":      {SchemaSource{DescriptorSet: []string{event}}, "Foo", "event.proto is not a descriptor set"},
		"nothing":        {SchemaSource{}, "Foo", "no .proto file or descriptor set"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, _, err := LoadSchema(context.Background(), test.source, test.message)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got error %v\nwant %s", err, test.want)
			}
		})
	}
}

// Linker errors include the position of the fault.
func TestLinkErrors(t *testing.T) {
	tests := map[string]struct {
		text string // of a.proto, which may import the rest
		want string
	}{
		"an unknown type": {
			`syntax = "proto3"; package p;
message M {
  Nope n = 1;
}`,
			"a.proto:3:3: field p.M.n: unknown type Nope",
		},
		"a type of a file that is not imported": {
			`syntax = "proto3"; package p; import "c.proto";
message M { other.Thing t = 1; }`,
			"a.proto:2:13: field p.M.t: unknown type other.Thing",
		},
		"a name that an inner scope takes": {
			`syntax = "proto3"; package p; import "b.proto";
message M { message other {} other.Thing t = 1; }`,
			"a.proto:2:30: field p.M.t: unknown type other.Thing; resolved to p.M.other.Thing which is not defined; consider using a leading dot",
		},
		"a type that is none": {
			`syntax = "proto3"; package p;
message M { int32 n = 1; n m = 2; }`,
			"a.proto:2:26: field p.M.m: invalid type: p.M.n is a field, not a message or enum",
		},
		"one name in two files": {
			`syntax = "proto3"; package other; import "b.proto";
message A {} message Thing {}`,
			"a.proto:2:22: symbol \"other.Thing\" already defined at b.proto:1:43",
		},
		"one name twice": {
			`syntax = "proto3"; enum A { ZERO = 0; }
enum B { ZERO = 0; }`,
			"a.proto:2:10: symbol \"ZERO\" already defined at a.proto:1:29; protobuf uses C++ scoping rules",
		},
		"a method of enums": {
			`syntax = "proto3"; enum E { ZERO = 0; } message M {}
service S { rpc F(M) returns (stream E); }`,
			"a.proto:2:38: method S.F: invalid response type: E is an enum, not a message",
		},
		"an extension of nothing": {
			`syntax = "proto2";
extend Nope { optional int32 n = 1; }`,
			"a.proto:2:8: unknown extendee type Nope",
		},
		"an extension with a number that is not for it": {
			`syntax = "proto2"; message M { extensions 5; }
extend M { optional int32 n = 4; }`,
			"a.proto:2:31: extension n: tag 4 is not in valid range for extended type M",
		},
		"a feature that there is not": {
			`edition = "2023";
message M { int32 n = 1 [features.presence = IMPLICIT]; }`,
			"a.proto:2:35: field M.n: option features.presence: field presence of google.protobuf.FeatureSet does not exist",
		},
		"a feature in the wrong place": {
			`edition = "2023";
message M { option features.field_presence = IMPLICIT; }`,
			"a.proto:2:29: field \"google.protobuf.FeatureSet.field_presence\" is allowed on [field,file], not on message",
		},
		"a feature of the wrong kind": {
			`edition = "2023";
option features = { field_presence: IMPLICITLY };`,
			"a.proto:2:37: option features: enum google.protobuf.FeatureSet.FieldPresence has no value named IMPLICITLY",
		},
		"a feature twice": {
			`edition = "2023";
option features = { field_presence: IMPLICIT field_presence: EXPLICIT };`,
			"a.proto:2:46: option features: non-repeated option field field_presence already set",
		},
		"an option that is neither true nor false": {
			`syntax = "proto2";
message M { repeated int32 n = 1 [packed = 5]; }`,
			"a.proto:2:44: field M.n: option packed: expecting bool, got integer",
		},
		"a JSON name that is not text": {
			`syntax = "proto2";
message M { repeated int32 n = 1 [json_name = 5]; }`,
			"a.proto:2:47: field M.n: expecting string value for json_name option",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			a := filepath.Join(dir, "a.proto")
			write(t, a, test.text)
			write(t, filepath.Join(dir, "b.proto"), `syntax = "proto3"; package other; message Thing {}`)
			write(t, filepath.Join(dir, "c.proto"), `syntax = "proto3"; import "b.proto";`)
			_, err := SchemaFiles(t.Context(), SchemaSource{Proto: []string{a}, ImportPaths: []string{dir}})
			if err == nil || !strings.HasPrefix(err.Error(), test.want) {
				t.Errorf("got error %v\nwant %s", err, test.want)
			}
		})
	}
}

// SchemaFiles that import each other are an error, whichever is compiled first.
func TestImportCycle(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a.proto"), `syntax = "proto3"; import "b.proto";`)
	write(t, filepath.Join(dir, "b.proto"), `syntax = "proto3"; import "a.proto";`)
	_, err := SchemaFiles(t.Context(), SchemaSource{Proto: []string{filepath.Join(dir, "a.proto")}})
	if err == nil || !strings.Contains(err.Error(), ".proto:1:27: cycle found in imports: ") {
		t.Error(err)
	}
}

// Custom options are ignored, even if their definitions are missing.
func TestCustomOptions(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.proto")
	write(t, path, `syntax = "proto3";
option (acme.file) = { owner: "a" };
message M {
  option (acme.rules).strict = true;
  string name = 1 [(acme.rule) = { min_len: 1 [acme.more]: { n: 5 } }, debug_redact = true];
  oneof either { option (acme.required) = true; int32 n = 2; }
}
enum E { option (acme.closed) = true; ZERO = 0 [(acme.value) = "x"]; }
service S { option (acme.host) = "h"; rpc F(M) returns (M) { option (acme.http) = { get: "/f" }; } }`)
	files, err := SchemaFiles(t.Context(), SchemaSource{Proto: []string{path}})
	if err != nil || files[0].Messages().Get(0).Fields().Len() != 2 {
		t.Error(files, err)
	}
}

// An edition that the compiler does not support is read from a descriptor set.
func TestEdition2024(t *testing.T) {
	set := &descriptorpb.FileDescriptorSet{File: []*descriptorpb.FileDescriptorProto{{
		Name: proto.String("a.proto"), Syntax: proto.String("editions"), Edition: descriptorpb.Edition_EDITION_2024.Enum(),
		MessageType: []*descriptorpb.DescriptorProto{{Name: proto.String("M"), Field: []*descriptorpb.FieldDescriptorProto{{
			Name: proto.String("n"), Number: proto.Int32(1), Type: descriptorpb.FieldDescriptorProto_TYPE_INT32.Enum(),
			Label: descriptorpb.FieldDescriptorProto_LABEL_REPEATED.Enum(),
		}}}},
	}}}
	data, err := proto.Marshal(set)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "set.binpb")
	write(t, path, string(data))
	md, _, err := LoadSchema(t.Context(), SchemaSource{DescriptorSet: []string{path}}, "M")
	if err != nil || !md.Fields().Get(0).IsPacked() {
		t.Errorf("got %v, error %v", md, err)
	}
}

// An invalid descriptor set is rejected with the name of its file.
func TestWrongSet(t *testing.T) {
	set := &descriptorpb.FileDescriptorSet{File: []*descriptorpb.FileDescriptorProto{{
		Name: proto.String("a.proto"), MessageType: []*descriptorpb.DescriptorProto{{
			Name: proto.String("M"), Field: []*descriptorpb.FieldDescriptorProto{{Name: proto.String("n"), Number: proto.Int32(1)}},
		}},
	}}}
	data, err := proto.Marshal(set)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "set.binpb")
	write(t, path, string(data))
	if _, err := SchemaFiles(t.Context(), SchemaSource{DescriptorSet: []string{path}}); err == nil || !strings.Contains(err.Error(), "a.proto: ") || !strings.Contains(err.Error(), `"M.n" cannot resolve type`) {
		t.Error(err)
	}
}
