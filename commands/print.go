package commands

import (
	"strings"

	"github.com/fatih/color"
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

// palette returns the colours of decoded output, all of them none if it is to
// have no colour.
func palette(colorful bool) *render.Style {
	if !colorful {
		return &render.Style{}
	}
	return &render.Style{
		Key:     paint(color.FgBlue),
		String:  paint(color.FgGreen),
		Number:  paint(color.FgCyan),
		Literal: paint(color.FgMagenta),
		Punct:   paint(color.Faint),
		Dim:     paint(color.Faint),
		Error:   paint(color.FgRed),
		Kind:    paint(color.Bold),
		ID:      paint(color.FgYellow),
		Offset:  paint(color.Faint),
	}
}

// paint returns the sequences that fatih/color puts around text.
func paint(attributes ...color.Attribute) render.Paint {
	c := color.New(attributes...)
	c.EnableColor()
	on, off, _ := strings.Cut(c.Sprint("\x00"), "\x00")
	return render.Paint{On: on, Off: off}
}
