package cmdline

import (
	"fmt"

	"github.com/urfave/cli/v2"
)

// A Setting is a flag whose value another package reads as text.
type Setting struct {
	Name, Alias string
	Default     string // for help
	Usage       string
	Many        bool // may be repeated
	Switch      bool // has no value
}

// SettingFlags returns the flags of settings.
func SettingFlags(settings []Setting) (list []cli.Flag) {
	for _, s := range settings {
		var aliases []string
		if s.Alias != "" {
			aliases = []string{s.Alias}
		}
		switch {
		case s.Switch:
			list = append(list, &cli.BoolFlag{Name: s.Name, Aliases: aliases, Usage: s.Usage})
		case s.Many:
			list = append(list, &cli.StringSliceFlag{Name: s.Name, Aliases: aliases, Usage: s.Usage})
		default:
			list = append(list, &cli.StringFlag{Name: s.Name, Aliases: aliases, Usage: s.Usage, DefaultText: s.Default})
		}
	}
	return list
}

// Given returns the settings on the command line.
func Given(c *cli.Context, settings []Setting) map[string][]string {
	given := map[string][]string{}
	for _, s := range settings {
		switch {
		case !c.IsSet(s.Name):
		case s.Many:
			given[s.Name] = c.StringSlice(s.Name)
		default:
			given[s.Name] = []string{fmt.Sprint(c.Value(s.Name))}
		}
	}
	return given
}
