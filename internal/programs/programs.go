// Package programs finds the programs on this machine that wirectl can work with.
package programs

import (
	"cmp"
	"context"
	"os/exec"
	"strings"
)

// A program may be installed.
type program struct {
	name    string
	version string // the argument for which it prints its version
	use     string
}

var list = []program{
	{"ssh", "-V", "wirectl relay ssh HOST CMD"},
	{"docker", "--version", "wirectl relay container NAME CMD"},
	{"podman", "--version", "wirectl relay container NAME CMD"},
	{"tshark", "--version", "tshark -r CAPTURE"},
	{"wireshark", "--version", "wirectl relay --capture - … | wireshark -k -i -"},
	{"jq", "--version", "wirectl decode -o ndjson FILE | jq"},
}

// List returns each program's name, the version that is installed, and what it can be used for.
func List(ctx context.Context) (rows [][]string) {
	for _, p := range list {
		rows = append(rows, []string{p.name, p.find(ctx), p.use})
	}
	return rows
}

// find returns the version that is installed.
func (p program) find(ctx context.Context) string {
	path, err := exec.LookPath(p.name)
	if err != nil {
		return "not found"
	}
	var stdout, stderr strings.Builder
	cmd := exec.CommandContext(ctx, path, p.version)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "found, but it does not run: " + err.Error()
	}
	line, _, _ := strings.Cut(cmp.Or(stdout.String(), stderr.String()), "\n")
	return strings.TrimSpace(line)
}
