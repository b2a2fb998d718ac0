package commands

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/wirectl/wirectl/capture/tap"
	"github.com/wirectl/wirectl/fixtures"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/frame/carrier"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/all"
)

func listCommand(inv *invocation) *cli.Command {
	return &cli.Command{
		Name:      "list",
		Category:  about,
		Usage:     "list the framings, carriers, protocols and fixtures",
		ArgsUsage: " ",
		Description: "Lists the names that --framing, --carrier and --protocol accept, and the built-in\n" +
			"sessions.\n\n" +
			"   wirectl list",
		Action: inv.does(func(*invocation, *cli.Context) error {
			return errors.Join(
				inv.section("Framings", mapped(frame.Framings(), func(f frame.Framing) []string { return []string{f.Name(), f.About()} })),
				inv.section("\nCarriers", mapped(carrier.Kinds(), func(k carrier.Kind) []string { return []string{k.String(), k.About()} })),
				inv.section("\nProtocols", mapped(all.List(), func(p protocol.Protocol) []string { return []string{p.Name(), all.Of(p).About} })),
				inv.section("\nFixtures, for decode fixture:NAME, or fixture:NAME/FILE for one direction", mapped(fixtures.Sessions(), func(name string) []string { return []string{name, fixtureParts(name)} })))
		}),
	}
}

// fixtureParts lists the files of a session that are plain streams, after its carrier if it has
// one.
func fixtureParts(session string) string {
	var files []string
	if by := fixtures.Carrier(session); by != "" {
		files = append(files, by+", both directions")
	}
	for _, name := range fixtures.Files() {
		if file, ok := strings.CutPrefix(name, session+"/"); ok {
			files = append(files, file)
		}
	}
	return strings.Join(files, ", ")
}

func doctorCommand(inv *invocation) *cli.Command {
	return &cli.Command{
		Name:      "doctor",
		Category:  about,
		Usage:     "list the programs on this machine that wirectl can use",
		ArgsUsage: " ",
		Description: "Checks which of the programs that some endpoints and views need are installed, and\n" +
			"prints where running relays keep their taps. All programs are optional.\n\n" +
			"   wirectl doctor",
		Action: inv.does(runDoctor),
	}
}

func runDoctor(inv *invocation, c *cli.Context) error {
	return errors.Join(inv.section("Programs", mapped(helpers, func(h helper) []string { return []string{h.name, h.found(c.Context), h.use} })), inv.section("\nTaps", tapsFound(inv)))
}

func tapsFound(inv *invocation) (rows [][]string) {
	dir, err := tap.Dir(inv.Getenv)
	if err != nil {
		return [][]string{{"none can be opened: " + err.Error()}}
	}
	running, err := tap.List(dir, func(err error) { rows = append(rows, []string{dir, err.Error()}) })
	if err != nil {
		return append(rows, []string{dir, err.Error()})
	}
	return append(rows, []string{dir, fmt.Sprintf("%d running", len(running)), "wirectl taps"})
}

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

// version is set by the linker in a release.
var version string

func versionCommand(inv *invocation) *cli.Command {
	return &cli.Command{
		Name:      "version",
		Category:  about,
		Usage:     "print the version",
		ArgsUsage: " ",
		Description: "Also prints the system and the Go version that it was built for.\n\n" +
			"   wirectl version",
		Action: inv.does(func(*invocation, *cli.Context) error {
			_, err := fmt.Fprintf(inv.Stdout, "wirectl %s %s/%s %s\n", buildVersion(), runtime.GOOS, runtime.GOARCH, runtime.Version())
			return err
		}),
	}
}

// buildVersion is the version of a release, or of the module that was built.
func buildVersion() string {
	if version != "" {
		return version
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	return cmp.Or(info.Main.Version, "unknown")
}
