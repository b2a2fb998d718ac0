package protobuf_test

import (
	"testing"

	"github.com/wirectl/wirectl/protocol/protobuf"
)

// All files that protoc includes and schemas import are present.
func TestFiles(t *testing.T) {
	for _, name := range []string{
		"any", "api", "compiler/plugin", "cpp_features", "descriptor", "duration", "empty", "field_mask", "go_features", "java_features", "source_context",
		"struct", "timestamp", "type", "wrappers",
	} {
		if _, err := protobuf.KnownFiles().FindFileByPath("google/protobuf/" + name + ".proto"); err != nil {
			t.Error(err)
		}
	}
}
