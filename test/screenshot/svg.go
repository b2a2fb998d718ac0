package main

import (
	"fmt"
	"html"
	"strconv"
	"strings"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/charmbracelet/x/ansi"
)

// The measures of the picture, in pixels.
const (
	cellWidth  = 8.4
	cellHeight = 19
	margin     = 16
	bar        = 30 // of the window, above the terminal
)

// The colours of the window.
const (
	background = "#14171c"
	foreground = "#d7dce2"
)

// A pen holds the colours of text.
type pen struct {
	fg, bg        string
	bold, reverse bool
}

// picture returns a picture of a terminal of that size.
func picture(screen string, size tea.WindowSizeMsg) []byte {
	b := window(size)
	for row, line := range strings.Split(screen, "\n") {
		drawLine(b, line, row)
	}
	b.WriteString("</svg>\n")
	return []byte(b.String())
}

// window begins a picture: an empty window of a terminal.
func window(size tea.WindowSizeMsg) *strings.Builder {
	width, height := float64(size.Width)*cellWidth+2*margin, float64(size.Height)*cellHeight+2*margin+bar
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" width="%.0f" font-family="ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace" font-size="14">`+"\n", width, height, width)
	fmt.Fprintf(&b, `<rect width="100%%" height="100%%" rx="10" fill="%s"/>`+"\n", background)
	for i, color := range []string{"#f47067", "#daaa3f", "#6bc46d"} {
		fmt.Fprintf(&b, `<circle cx="%d" cy="%d" r="6" fill="%s"/>`, 22+20*i, 20, color)
	}
	b.WriteByte('\n')
	return &b
}

// drawLine draws a row of the terminal, run by run.
func drawLine(b *strings.Builder, line string, row int) {
	var p pen
	column := 0
	for line != "" {
		if strings.HasPrefix(line, "\x1b[") {
			end := strings.IndexByte(line, 'm')
			p.set(line[2:end])
			line = line[end+1:]
			continue
		}
		end := strings.IndexByte(line, '\x1b')
		if end < 0 {
			end = len(line)
		}
		column += drawRun(b, line[:end], row, column, p)
		line = line[end:]
	}
}

// drawRun draws text of one paint and returns how many cells it takes.
func drawRun(b *strings.Builder, text string, row, column int, p pen) int {
	n := ansi.StringWidth(text)
	x, y := margin+float64(column)*cellWidth, margin+bar+float64(row)*cellHeight
	fg, bg := p.fg, p.bg
	if fg == "" {
		fg = foreground
	}
	if p.reverse {
		fg, bg = background, fg
	}
	if bg != "" {
		fmt.Fprintf(b, `<rect x="%.1f" y="%.0f" width="%.1f" height="%d" fill="%s"/>`+"\n", x, y, float64(n)*cellWidth, cellHeight, bg)
	}
	if strings.TrimSpace(text) == "" {
		return n
	}
	if i := strings.Index("▁▂▃▄▅▆▇█", text); i >= 0 && n == 1 {
		high := float64(i/3+1) / 8 * (cellHeight - 5)
		fmt.Fprintf(b, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s"/>`+"\n", x+0.7, y+cellHeight-2.5-high, cellWidth-1.4, high, fg)
		return n
	}
	weight := ""
	if p.bold {
		weight = ` font-weight="600"`
	}
	// Each word is placed by itself, so that no font can move the words after it.
	for at, word := range words(text) {
		fmt.Fprintf(b, `<text x="%.1f" y="%.1f" textLength="%.1f" lengthAdjust="spacingAndGlyphs" fill="%s"%s>%s</text>`+"\n",
			x+float64(at)*cellWidth, y+14, float64(ansi.StringWidth(word))*cellWidth, fg, weight, html.EscapeString(word))
	}
	return n
}

// words yields the words of a text and the cells that they begin at.
func words(text string) func(yield func(int, string) bool) {
	return func(yield func(int, string) bool) {
		at := 0
		for _, word := range strings.SplitAfter(text, " ") {
			if trimmed := strings.TrimRight(word, " "); trimmed != "" && !yield(at, trimmed) {
				return
			}
			at += ansi.StringWidth(word)
		}
	}
}

// set handles a sequence that selects colours.
func (p *pen) set(codes string) {
	list := strings.Split(codes, ";")
	for i := 0; i < len(list); i++ {
		switch list[i] {
		case "", "0":
			*p = pen{}
		case "1":
			p.bold = true
		case "7":
			p.reverse = true
		case "38", "48":
			if i+2 >= len(list) {
				return
			}
			if list[i] == "38" {
				p.fg = color(list[i+2])
			} else {
				p.bg = color(list[i+2])
			}
			i += 2
		}
	}
}

// color returns one of the 256 colours.
func color(number string) string {
	n, _ := strconv.Atoi(number)
	r, g, b, _ := ansi.IndexedColor(n).RGBA()
	return fmt.Sprintf("#%02x%02x%02x", r>>8, g>>8, b>>8)
}
