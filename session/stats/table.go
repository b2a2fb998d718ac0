package stats

import (
	"bytes"
	"strings"

	"github.com/wirectl/wirectl/internal/render"
)

// A table has rows of text, each with a bar. The first column has names, which are cut if the
// table is too wide; the others are numbers.
type table struct {
	titles []string
	rows   []row
}

// A row's bar is full up to solid, and shaded up to shade, of 1.
type row struct {
	cells        []string
	solid, shade float64
}

func (t *table) addRow(solid, shade float64, cells ...string) {
	cells[0] = render.Safe(cells[0])
	t.rows = append(t.rows, row{cells, solid, shade})
}

const (
	space     = "  " // between columns
	minName   = 12   // cells
	maxName   = 40
	minBar    = 4
	maxBar    = 24
	shadeCell = "░"
)

// append appends a blank line and the table, no wider than width unless that is 0. It appends
// nothing for a table without rows.
func (t *table) append(b []byte, width int, style *render.Style) []byte {
	if len(t.rows) == 0 {
		return b
	}
	widths := t.widths()
	rest := 0
	for _, w := range widths[1:] {
		rest += len(space) + w
	}
	bar := maxBar
	if width > 0 {
		widths[0] = min(widths[0], max(width-rest, minName), maxName)
		bar = min(width-rest-widths[0]-len(space), maxBar)
	}

	b = append(b, '\n')
	b = append(b, style.Dim.On...)
	b = appendCells(b, t.titles, widths)
	b = append(append(b, style.Dim.Off...), '\n')
	for _, r := range t.rows {
		b = appendCells(b, r.cells, widths)
		if text := barOf(r.solid, r.shade, bar); bar >= minBar && text != "" {
			b = append(b, space...)
			b = style.Number.Append(b, text)
		} else {
			b = bytes.TrimRight(b, " ")
		}
		b = append(b, '\n')
	}
	return b
}

// widths returns the natural widths of the columns, in cells.
func (t *table) widths() []int {
	widths := make([]int, len(t.titles))
	for i, title := range t.titles {
		widths[i] = len(title)
		for _, r := range t.rows {
			widths[i] = max(widths[i], render.Cells([]byte(r.cells[i])))
		}
	}
	return widths
}

func appendCells(b []byte, cells []string, widths []int) []byte {
	for i, cell := range cells {
		if i == 0 {
			start := len(b)
			b = render.AppendFitPath(b, []byte(cell), widths[0])
			b = pad(b, widths[0]-render.Cells(b[start:]))
			continue
		}
		b = pad(b, len(space)+widths[i]-render.Cells([]byte(cell)))
		b = append(b, cell...)
	}
	return b
}

func pad(b []byte, n int) []byte { return append(b, strings.Repeat(" ", max(n, 0))...) }

// eighths are the blocks that fill a part of a cell.
var eighths = []string{"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"}

// barOf draws a bar in so many cells. Anything more than zero is visible.
func barOf(solid, shade float64, cells int) string {
	n := int(solid*float64(cells)*8 + .5)
	if solid > 0 {
		n = max(n, 1)
	}
	bar := strings.Repeat("█", n/8) + eighths[n%8]
	if used := (n + 7) / 8; used < int(shade*float64(cells)+.5) {
		bar += strings.Repeat(shadeCell, int(shade*float64(cells)+.5)-used)
	}
	return bar
}
