package latis_test

import (
	"bytes"
	"testing"

	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/latis"
)

type renamer interface {
	AppendRenamed(dst, payload []byte, name func(protocol.Token) []byte) []byte
}

// Ids change wherever they stand; what is not known stays, byte for byte.
func TestAppendRenamed(t *testing.T) {
	longer := func(token protocol.Token) []byte {
		switch {
		case string(token.Text) == "stays":
			return nil
		case token.Space == protocol.SpaceSession:
			return append([]byte("session-"), token.Text...)
		}
		return append([]byte("new-"), token.Text...)
	}
	for _, tt := range []struct{ json, want string }{
		{`{"id":"1","responseChunk":{"requestId":"1","content":"1","sequence":3}}`, `{"id":"new-1","responseChunk":{"requestId":"new-1","content":"1","sequence":3}}`},
		{`{"id":"2","promptCancel":{"targetId":"1"}}`, `{"id":"new-2","promptCancel":{"targetId":"new-1"}}`},
		{`{"id":"2","sessionResume":{"sessionId":"s"}}`, `{"id":"new-2","sessionResume":{"sessionId":"session-s"}}`},
		{`{"id":"2","ack":{"requestId":"2","sessionId":"s"}}`, `{"id":"new-2","ack":{"requestId":"new-2","sessionId":"session-s"}}`},
		{`{"id":"2","sessionDestroy":{"sessionId":"stays"}}`, `{"id":"new-2","sessionDestroy":{"sessionId":"stays"}}`},
	} {
		wire, err := latis.Protocol.AppendPayload(nil, []byte(tt.json))
		if err != nil {
			t.Fatal(err)
		}
		unknown := "\xfa\x07\x01x" // field 127
		renamed := latis.Protocol.(renamer).AppendRenamed(nil, append(wire, unknown...), longer)
		want, _ := latis.Protocol.AppendPayload(nil, []byte(tt.want))
		if string(renamed) != string(want)+unknown {
			t.Errorf("%s became %q, want %q", tt.json, renamed, string(want)+unknown)
		}
		same := latis.Protocol.(renamer).AppendRenamed(nil, wire, func(protocol.Token) []byte { return nil })
		if string(same) != string(wire) {
			t.Errorf("%s changed to %q", tt.json, same)
		}
	}
}

// Other ids, and the first ones again, give the same payload; and what does not
// parse stays.
func FuzzAppendRenamed(f *testing.F) {
	f.Add([]byte("\x0a\x01\x31\x5a\x03\x0a\x01\x31"))
	f.Add([]byte("\x0a\x01\x31\xca\x01\x06\x0a\x01\x31\x12\x01\x73\xfa\x07\x01x"))
	f.Fuzz(func(t *testing.T, payload []byte) {
		r := latis.Protocol.(renamer)
		written := func(token protocol.Token) []byte { return token.Text } // anew, in the shortest way
		there := func(token protocol.Token) []byte { return append([]byte("some other "), token.Text...) }
		back := func(token protocol.Token) []byte { return token.Text[len("some other "):] }
		same := r.AppendRenamed(nil, payload, written)
		var m protocol.Message
		if latis.Protocol.Parse(payload, &m) != nil {
			return
		}
		if again := r.AppendRenamed(nil, r.AppendRenamed(nil, payload, there), back); !bytes.Equal(again, same) {
			t.Errorf("%q became %q, want %q", payload, again, same)
		}
	})
}
