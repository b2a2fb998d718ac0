package commands

import (
	"github.com/urfave/cli/v2"

	"github.com/wirectl/wirectl/internal/render"
)

// quietFlag is the flag of commands that print messages on standard error.
func quietFlag() cli.Flag {
	return &cli.BoolFlag{Name: "quiet", Aliases: []string{"q"}, Usage: "print only errors on stderr"}
}

// colorFlag is the flag of commands with coloured output.
func colorFlag(what string) cli.Flag {
	return &cli.StringFlag{Name: "color", Value: "auto", Usage: "colour " + what + ": auto, always or never"}
}

// style returns the style of a command's output on a stream of the environment.
func (env Env) style(c *cli.Context, stream any) (*render.Style, error) {
	colorful, err := env.colorful(c.String("color"), stream)
	return render.Palette(colorful), err
}

// colorful decides, for a stream of the environment, whether its output has colour.
func (env Env) colorful(mode string, stream any) (bool, error) {
	colorful, err := render.Colorful(mode, env.Getenv, env.IsTerminal(stream))
	return colorful, asUsage(err)
}
