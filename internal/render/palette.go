package render

import (
	"fmt"
	"strings"

	"github.com/fatih/color"
)

// Colorful decides whether output has colour, by the value of --color, the environment
// and whether the output goes to a terminal. It is the only place that does.
func Colorful(mode string, getenv func(string) string, isTerminal bool) (bool, error) {
	switch mode {
	case "always":
		return true, nil
	case "never":
		return false, nil
	case "auto":
	default:
		return false, fmt.Errorf("invalid --color %q: want auto, always or never", mode)
	}
	if getenv("NO_COLOR") != "" {
		return false, nil
	}
	if force := getenv("FORCE_COLOR"); force != "" && force != "0" {
		return true, nil
	}
	return isTerminal && getenv("TERM") != "dumb", nil
}

// Palette returns the colours of decoded output; no colours if colorful is false.
func Palette(colorful bool) *Style {
	if !colorful {
		return &Style{}
	}
	return &Style{
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
func paint(attributes ...color.Attribute) Paint {
	c := color.New(attributes...)
	c.EnableColor()
	on, off, _ := strings.Cut(c.Sprint("\x00"), "\x00")
	return Paint{On: on, Off: off}
}
