package commands

import (
	"github.com/urfave/cli/v2"

	"github.com/wirectl/wirectl/internal/render"
)

// quietFlag is of the commands that say on standard error what they do.
func quietFlag() cli.Flag {
	return &cli.BoolFlag{Name: "quiet", Aliases: []string{"q"}, Usage: "say nothing on standard error but errors"}
}

// colorFlag is of the commands that colour what is named.
func colorFlag(what string) cli.Flag {
	return &cli.StringFlag{Name: "color", Value: "auto", Usage: "colour " + what + ": auto, always or never"}
}

// style is that of what a command prints to a stream of the environment.
func (env Env) style(c *cli.Context, stream any) (*render.Style, error) {
	colorful, err := env.colorful(c.String("color"), stream)
	return render.Palette(colorful), err
}

// colorful decides, for a stream of the environment, whether its output has
// colour. It is the only place that does.
func (env Env) colorful(mode string, stream any) (bool, error) {
	switch mode {
	case "always":
		return true, nil
	case "never":
		return false, nil
	case "auto":
	default:
		return false, usagef("--color is auto, always or never, and not %q", mode)
	}
	if env.Getenv("NO_COLOR") != "" {
		return false, nil
	}
	if force := env.Getenv("FORCE_COLOR"); force != "" && force != "0" {
		return true, nil
	}
	return env.IsTerminal(stream) && env.Getenv("TERM") != "dumb", nil
}
