package session_test

import (
	"fmt"
	"time"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/jsonrpc"
	"github.com/wirectl/wirectl/session"
)

// A call is cancelled, but answered anyway, too late to have crossed.
func ExampleTracker() {
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	script := []struct {
		at   time.Duration
		dir  frame.Dir
		text string
	}{
		{0, frame.C2U, `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"index"}}`},
		{time.Second, frame.C2U, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`},
		{3 * time.Second, frame.U2C, `{"jsonrpc":"2.0","id":7,"result":{}}`},
	}
	t := session.New(jsonrpc.MCP, session.Options{})
	for i, s := range script {
		var m protocol.Message
		if err := jsonrpc.MCP.Parse([]byte(s.text), &m); err != nil {
			fmt.Println(err)
		}
		t.Feed(session.Frame{Seq: int64(i + 1), Time: start.Add(s.at), Dir: s.dir, Payload: []byte(s.text)}, &m)
	}
	t.End(0, start.Add(4*time.Second))

	for e := range t.Exchanges() {
		fmt.Printf("%s %s: %v after %v\n", e.Kind, e.ID.Text, e.Outcome, e.Latency())
	}
	for c := range t.Cancels() {
		fmt.Printf("the cancel of %s is %v\n", c.Target.Text, c.Class)
	}
	for f := range t.Findings() {
		fmt.Printf("%v %s in frames %v: %s\n", f.Severity, f.Name, f.Frames, f.Message)
	}
	// Output:
	// tools/call 7: done after 3s
	// the cancel of 7 is late-result
	// warning late-result in frames [1 2 3]: the cancelled tools/call 7 was answered 2s after the cancel
}
