package schema_test

import (
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"

	latisv1 "github.com/wirectl/wirectl/proto/latis/v1"
	"github.com/wirectl/wirectl/proto/latis/v1/schema"
)

// The schema is that of the generated messages.
func TestFile(t *testing.T) {
	want := protodesc.ToFileDescriptorProto(latisv1.File_latis_v1_latis_proto)
	if got := schema.Proto(); !proto.Equal(got, want) {
		t.Errorf("the file as compiled:\n%v\nin the generated code:\n%v", got, want)
	}
	messages := schema.File().Messages()
	if got, want := messages.Len(), latisv1.File_latis_v1_latis_proto.Messages().Len(); got != want {
		t.Errorf("%d messages, want %d", got, want)
	}
}
