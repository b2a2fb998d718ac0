package protobuf_test

import (
	"fmt"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/protobuf"
	"google.golang.org/protobuf/reflect/protodesc"
)

// told returns a server reflection answer with the given files.
func told(t testing.TB, files ...*descriptorpb.FileDescriptorProto) []byte {
	t.Helper()
	var response []byte
	for _, file := range files {
		data, err := proto.Marshal(file)
		if err != nil {
			t.Fatal(err)
		}
		response = protowire.AppendBytes(protowire.AppendTag(response, 1, protowire.BytesType), data)
	}
	return protowire.AppendBytes(protowire.AppendTag([]byte("\x0a\x01x"), 4, protowire.BytesType), response)
}

func message(name string) *descriptorpb.DescriptorProto {
	return &descriptorpb.DescriptorProto{Name: &name, Field: []*descriptorpb.FieldDescriptorProto{{
		Name: proto.String("name"), Number: proto.Int32(1),
		Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(), Type: descriptorpb.FieldDescriptorProto_TYPE_STRING.Enum(),
	}}}
}

// jobs returns a service and the separate file with its messages.
func jobs() (service, types *descriptorpb.FileDescriptorProto) {
	service = &descriptorpb.FileDescriptorProto{
		Name: proto.String("jobs.proto"), Package: proto.String("acme.v1"), Syntax: proto.String("proto3"), Dependency: []string{"job.proto"},
		Service: []*descriptorpb.ServiceDescriptorProto{{Name: proto.String("Jobs"), Method: []*descriptorpb.MethodDescriptorProto{{
			Name: proto.String("Start"), InputType: proto.String(".acme.v1.Job"), OutputType: proto.String(".acme.v1.Status"),
		}}}},
	}
	types = &descriptorpb.FileDescriptorProto{
		Name: proto.String("job.proto"), Package: proto.String("acme.v1"), Syntax: proto.String("proto3"),
		MessageType: []*descriptorpb.DescriptorProto{message("Job"), message("Status")},
	}
	return service, types
}

// A schema is known once all its imports have arrived, in any order. Answers without a schema
// have no effect.
func TestLearned(t *testing.T) {
	var l protobuf.Learned
	service, types := jobs()
	const path = "/acme.v1.Jobs/Start"
	for _, answer := range [][]byte{nil, []byte("garbage"), told(t), told(t, service), told(t, service)} {
		l.Learn(answer)
		if _, _, ok := l.Messages(path); ok {
			t.Fatal("the messages are known before their types")
		}
	}
	l.Learn(told(t, types))
	request, answer, ok := l.Messages(path)
	if !ok {
		t.Fatal("the method is not known")
	}
	for _, p := range []protocol.Protocol{request, answer} {
		json, _, err := p.(protocol.Transcoder).AppendJSON(nil, []byte("\x0a\x03abc"))
		if err != nil || string(json) != `{"name":"abc"}` {
			t.Errorf("a message reads %s, %v", json, err)
		}
	}
}

// A server also sends well-known files: the built-in versions take precedence.
func TestLearnedWithKnown(t *testing.T) {
	var l protobuf.Learned
	service, _ := jobs()
	service.Dependency = []string{"google/protobuf/timestamp.proto"}
	service.Service[0].Method[0].InputType = proto.String(".google.protobuf.Timestamp")
	service.Service[0].Method[0].OutputType = proto.String(".google.protobuf.Timestamp")
	theirs := &descriptorpb.FileDescriptorProto{
		Name: proto.String("google/protobuf/timestamp.proto"), Package: proto.String("google.protobuf"), Syntax: proto.String("proto3"),
		MessageType: []*descriptorpb.DescriptorProto{message("Timestamp")},
	}
	l.Learn(told(t, service, theirs))
	request, _, ok := l.Messages("/acme.v1.Jobs/Start")
	if !ok {
		t.Fatal("the method is not known")
	}
	json, _, err := request.(protocol.Transcoder).AppendJSON(nil, []byte("\x08\x01"))
	if err != nil || string(json) != `"1970-01-01T00:00:01Z"` {
		t.Errorf("a time reads %s, %v", json, err)
	}
}

// Learning terminates for any schema that a peer sends.
func FuzzLearn(f *testing.F) {
	service, types := jobs()
	f.Add(told(f, service, types))
	f.Add(told(f, types, service))
	f.Add([]byte("\x22\x02\x0a\x00"))
	f.Fuzz(func(t *testing.T, answer []byte) {
		var l protobuf.Learned
		l.Learn(answer)
		l.Learn(answer)
		if request, _, ok := l.Messages("/acme.v1.Jobs/Start"); ok {
			_, _, _ = request.(protocol.Transcoder).AppendJSON(nil, []byte("\x0a\x03abc"))
		}
	})
}

// An answer with nothing new costs nothing, however many files still wait for their imports.
func TestLearnedAlready(t *testing.T) {
	var l protobuf.Learned
	var answers [][]byte
	for i := range 100 {
		service, _ := jobs()
		service.Name = proto.String(fmt.Sprintf("jobs%d.proto", i))
		answers = append(answers, told(t, service))
		l.Learn(answers[i])
	}
	if n := testing.AllocsPerRun(10, func() { l.Learn(answers[0]) }); n > 100 {
		t.Errorf("it takes %v pieces of memory", n)
	}
}

// A file designed to keep its reader busy is not learned.
func TestLearnedTooLarge(t *testing.T) {
	long, _ := jobs()
	long.Package, long.Dependency = proto.String(strings.Repeat("a", 1<<20)), nil
	for i := range 2000 { // each with the name of the package
		long.MessageType = append(long.MessageType, message("M"+strconv.Itoa(i)))
	}
	long.Service[0].Method[0].InputType, long.Service[0].Method[0].OutputType = proto.String("M0"), proto.String("M0")
	inner := message("m")
	for i := range 1000 { // each looked up in all the scopes
		inner.Field = append(inner.Field, &descriptorpb.FieldDescriptorProto{
			Name: proto.String("f" + strconv.Itoa(i)), Number: proto.Int32(int32(i + 2)), TypeName: proto.String("Job"),
			Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(), Type: descriptorpb.FieldDescriptorProto_TYPE_MESSAGE.Enum(),
		})
	}
	for range 2000 {
		inner = &descriptorpb.DescriptorProto{Name: proto.String("m"), NestedType: []*descriptorpb.DescriptorProto{inner}}
	}
	deep, types := jobs()
	deep.Dependency, deep.MessageType = nil, append(types.MessageType, inner)
	for path, file := range map[string]*descriptorpb.FileDescriptorProto{"/" + long.GetPackage() + ".Jobs/Start": long, "/acme.v1.Jobs/Start": deep} {
		var l protobuf.Learned
		l.Learn(told(t, file))
		if _, _, ok := l.Messages(path); ok {
			t.Errorf("%.20s…: it was learned", path)
		}
	}
}

// Types in a peer's schema may be nested to any depth.
func TestDeepTypes(t *testing.T) {
	defer debug.SetMaxStack(debug.SetMaxStack(1 << 20))
	const depth = 4000
	file := &descriptorpb.FileDescriptorProto{Name: proto.String("deep.proto"), Syntax: proto.String("proto3")}
	for i := range depth {
		inner := &descriptorpb.FieldDescriptorProto{
			Name: proto.String("inner"), Number: proto.Int32(1), TypeName: proto.String(fmt.Sprintf(".M%d", (i+1)%depth)),
			Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(), Type: descriptorpb.FieldDescriptorProto_TYPE_MESSAGE.Enum(),
		}
		file.MessageType = append(file.MessageType, &descriptorpb.DescriptorProto{
			Name: proto.String(fmt.Sprintf("M%d", i)), Field: []*descriptorpb.FieldDescriptorProto{inner},
		})
	}
	fd, err := protodesc.NewFile(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	got, exact, err := protobuf.Compile(fd.Messages().Get(0)).AppendJSON(nil, []byte{0x0a, 0x02, 0x0a, 0x00})
	if string(got) != `{"inner":{"inner":{}}}` || !exact || err != nil {
		t.Errorf("%s, %v, %v", got, exact, err)
	}
}
