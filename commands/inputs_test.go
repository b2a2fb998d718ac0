package commands

import (
	"bytes"
	"slices"
	"testing"
)

// Progress is shown where the bar can stand undisturbed.
func TestWhereProgressIsShown(t *testing.T) {
	var stdout, stderr bytes.Buffer
	for _, tt := range []struct {
		why          string
		terminals    []any
		reportsAtEnd bool
		want         bool
	}{
		{"nothing else is written there", []any{&stderr}, false, true},
		{"the output comes at the end", []any{&stderr, &stdout}, true, true},
		{"the output is on the same terminal", []any{&stderr, &stdout}, false, false},
		{"no terminal", nil, true, false},
	} {
		inv := &invocation{reportsAtEnd: tt.reportsAtEnd, Env: Env{
			Stdout: &stdout, Stderr: &stderr,
			IsTerminal: func(stream any) bool { return slices.Contains(tt.terminals, stream) },
		}}
		if got := inv.opener().Meter != nil; got != tt.want {
			t.Errorf("%s: shown is %v", tt.why, got)
		}
	}
}
