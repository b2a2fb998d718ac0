package commands

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os/exec"
	"strings"
)

// A helper is a program that wirectl can work with.
type helper struct {
	name    string
	version []string // the arguments for which it prints its version
	use     string
}

var helpers = []helper{
	{"ssh", []string{"-V"}, "wirectl relay ssh HOST CMD"},
	{"docker", []string{"--version"}, "wirectl relay container NAME CMD"},
	{"podman", []string{"--version"}, "wirectl relay container NAME CMD"},
	{"tshark", []string{"--version"}, "tshark -r CAPTURE"},
	{"wireshark", []string{"--version"}, "wirectl relay --capture - … | wireshark -k -i -"},
	{"jq", []string{"--version"}, "wirectl decode -o ndjson FILE | jq"},
}

// Write writes the rows of a table: each program, its version and what it is for.
func Write(ctx context.Context, w io.Writer) {
	for _, h := range helpers {
		fmt.Fprintf(w, "  %s\t%s\t%s\n", h.name, h.found(ctx), h.use)
	}
}

// found returns the version of a helper that is installed.
func (h helper) found(ctx context.Context) string {
	path, err := exec.LookPath(h.name)
	if err != nil {
		return "not found"
	}
	var stdout, stderr strings.Builder
	cmd := exec.CommandContext(ctx, path, h.version...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "found, but it does not run: " + err.Error()
	}
	line, _, _ := strings.Cut(cmp.Or(stdout.String(), stderr.String()), "\n")
	return strings.TrimSpace(line)
}
