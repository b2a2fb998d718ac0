package latis_test

import (
	"testing"

	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/latis"
)

// Ids change wherever they stand; what is not known stays, byte for byte.
func TestAppendRenamed(t *testing.T) {
	longer := func(token protocol.Token) []byte {
		if token.Space == protocol.SpaceSession {
			return nil
		}
		return append([]byte("new-"), token.Text...)
	}
	for _, tt := range []struct{ json, want string }{
		{`{"id":"1","responseChunk":{"requestId":"1","content":"1","sequence":3}}`, `{"id":"new-1","responseChunk":{"requestId":"new-1","content":"1","sequence":3}}`},
		{`{"id":"2","promptCancel":{"targetId":"1"}}`, `{"id":"new-2","promptCancel":{"targetId":"new-1"}}`},
		{`{"id":"2","sessionResume":{"sessionId":"s"}}`, `{"id":"new-2","sessionResume":{"sessionId":"s"}}`},
	} {
		wire, err := latis.Protocol.AppendPayload(nil, []byte(tt.json))
		if err != nil {
			t.Fatal(err)
		}
		unknown := "\xfa\x07\x01x" // field 127
		renamed := latis.Protocol.(interface {
			AppendRenamed(dst, payload []byte, name func(protocol.Token) []byte) []byte
		}).AppendRenamed(nil, append(wire, unknown...), longer)
		want, _ := latis.Protocol.AppendPayload(nil, []byte(tt.want))
		if string(renamed) != string(want)+unknown {
			t.Errorf("%s became %q, want %q", tt.json, renamed, string(want)+unknown)
		}
		same := latis.Protocol.(interface {
			AppendRenamed(dst, payload []byte, name func(protocol.Token) []byte) []byte
		}).AppendRenamed(nil, wire, func(protocol.Token) []byte { return nil })
		if string(same) != string(wire) {
			t.Errorf("%s changed to %q", tt.json, same)
		}
	}
}
