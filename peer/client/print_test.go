package client_test

import (
	"bytes"
	"testing"

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
		p := &client.Printer{Stdout: &screen, Stderr: &screen, Terminal: tt.terminal, Beside: tt.terminal}
		p.Part(client.Part{Text: "one "})
		p.Part(client.Part{Aside: true, Name: "progress", JSON: []byte("5")})
		p.Part(client.Part{Text: "two"})
		if err := p.Finish(); err != nil || screen.String() != tt.want {
			t.Errorf("%q, %v, want %q", screen.String(), err, tt.want)
		}
	}
}
