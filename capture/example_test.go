package capture_test

import (
	"fmt"
	"log"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/frame"
)

// A shown is a writer that prints the records it gets.
type shown struct{}

func (shown) Write(r *capture.Record) error {
	_, err := fmt.Printf("%v: %s%s", r.Kind, r.Raw, r.Text)
	return err
}

// Secrets are removed before a session is stored, and frames remain valid frames.
func ExampleRedact() {
	session := capture.Session{Protocol: "mcp", Framing: "line"}
	known := capture.Secrets()
	fmt.Println("redacted:", known.Session(session).Redacted)

	line := []byte(`{"jsonrpc":"2.0","id":1,"method":"login","params":{"user":"ann","password":"hunter2"}}` + "\n")
	w := capture.Redact(shown{}, &session, known)
	for _, r := range []capture.Record{
		{Kind: capture.Frame, Frame: frame.Frame{Raw: line, End: len(line) - 1, Dir: frame.C2U}},
		{Kind: capture.Stderr, Text: []byte("logged in, token=abc\n")},
	} {
		if err := w.Write(&r); err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// redacted: true
	// frame: {"jsonrpc":"2.0","id":1,"method":"login","params":{"user":"ann","password":"[redacted]"}}
	// stderr: logged in, token=[redacted]
}
