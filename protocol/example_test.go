package protocol_test

import (
	"fmt"

	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/all"
)

// A message says what it does, and to which exchange. Its tokens are as they
// were written.
func ExampleProtocol() {
	acp, err := all.Named("acp")
	if err != nil {
		fmt.Println(err)
		return
	}
	var m protocol.Message
	for _, payload := range []string{
		`{"jsonrpc":"2.0","id":2,"method":"session/prompt","params":{"sessionId":"s-1","prompt":[]}}`,
		`{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"s-1"}}`,
		`{"jsonrpc":"2.0","id":2,"result":{"stopReason":"cancelled"}}`,
	} {
		if err := acp.Parse([]byte(payload), &m); err != nil {
			fmt.Println(err)
		}
		fmt.Printf("%s: %v id=%s ref=%s bind=%s\n", m.Kind, m.Phase, m.ID.Text, m.Ref.Text, m.Bind.Text)
	}
	// Output:
	// session/prompt: open id=2 ref= bind="s-1"
	// session/cancel: cancel id= ref="s-1" bind=
	// result: cancelled id=2 ref= bind=
}
