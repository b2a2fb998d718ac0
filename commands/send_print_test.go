package commands

import (
	"bytes"
	"flag"
	"testing"

	"github.com/urfave/cli/v2"

	"github.com/wirectl/wirectl/peer/client"
)

// What is told beside an answer has a line of its own where both are on the screen,
// and elsewhere leaves the answer as it is.
func TestAsideHasItsLine(t *testing.T) {
	for _, tt := range []struct {
		terminal bool
		want     string
	}{
		{true, "one \nwirectl: progress 5\ntwo\n"},
		{false, "one wirectl: progress 5\ntwo\n"},
	} {
		var screen bytes.Buffer
		s := &sending{
			invocation: &invocation{Env: Env{Stdout: &screen, Stderr: &screen, IsTerminal: func(any) bool { return tt.terminal }}},
			c:          cli.NewContext(nil, flag.NewFlagSet("", flag.ContinueOnError), nil),
		}
		p := s.printer()
		p.part(client.Part{Text: "one "})
		p.part(client.Part{Aside: true, Name: "progress", JSON: []byte("5")})
		p.part(client.Part{Text: "two"})
		if err := p.finish(); err != nil || screen.String() != tt.want {
			t.Errorf("%q, %v, want %q", screen.String(), err, tt.want)
		}
	}
}
