package commands

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/urfave/cli/v2"
)

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
