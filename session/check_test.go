package session_test

import (
	"testing"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/jsonrpc"
	"github.com/wirectl/wirectl/session"
)

// After a gap the beginning of the session is unknown.
func TestOpeningNotSeen(t *testing.T) {
	payload := []byte(`{"id":1,"method":"thread/list","params":{}}`)
	for gap, want := range map[bool]string{false: "missing-request @ 7", true: ""} {
		tr := session.New(jsonrpc.Codex, session.Options{})
		if gap {
			tr.Forget()
		}
		var m protocol.Message
		if err := jsonrpc.Codex.Parse(payload, &m); err != nil {
			t.Fatal(err)
		}
		tr.Feed(session.Frame{Seq: 7, Dir: frame.C2U, Framing: frame.Line, Payload: payload}, &m)
		if got := found(tr); got != want {
			t.Errorf("gap %t: found %q, want %q", gap, got, want)
		}
	}
}
