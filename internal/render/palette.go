package render

import (
	"strings"

	"github.com/fatih/color"
)

// Palette returns the colours of decoded output, all of them none if it is to
// have no colour.
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
