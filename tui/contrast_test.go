package tui

import (
	"math"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// rgb returns one of the 256 colours, from number 16 on.
func rgb(t *testing.T, number string) [3]float64 {
	t.Helper()
	n, err := strconv.Atoi(number)
	if err != nil || n < 16 || n > 255 {
		t.Fatalf("colour %q is one that terminals change", number)
	}
	if n >= 232 {
		v := float64(8 + 10*(n-232))
		return [3]float64{v, v, v}
	}
	level := func(i int) float64 { return []float64{0, 95, 135, 175, 215, 255}[i] }
	return [3]float64{level((n - 16) / 36), level((n - 16) / 6 % 6), level((n - 16) % 6)}
}

// contrast returns WCAG's contrast, from 1 to 21.
func contrast(a, b [3]float64) float64 {
	luminance := func(c [3]float64) float64 {
		sum := 0.0
		for i, weight := range [3]float64{0.2126, 0.7152, 0.0722} {
			v := c[i] / 255
			if v <= 0.04045 {
				v /= 12.92
			} else {
				v = math.Pow((v+0.055)/1.055, 2.4)
			}
			sum += weight * v
		}
		return sum
	}
	x, y := luminance(a), luminance(b)
	return (max(x, y) + 0.05) / (min(x, y) + 0.05)
}

// A look is how a theme looks on the terminals that it is for.
type look struct {
	palette
	text        [3]float64
	backgrounds [][3]float64 // of common terminals
}

var looks = map[string]look{
	"dark":  {dark, [3]float64{0xd0, 0xd0, 0xd0}, [][3]float64{{0, 0, 0}, {0x1e, 0x1e, 0x1e}, {0x14, 0x17, 0x1c}}},
	"light": {light, [3]float64{0x30, 0x30, 0x30}, [][3]float64{{255, 255, 255}, {0xfa, 0xfa, 0xfa}}},
}

// Every colour has a contrast of at least 4.5 on the terminal's background, and on the
// selected row.
func TestContrast(t *testing.T) {
	for theme, l := range looks {
		p := reflect.ValueOf(l.palette)
		for i := range p.NumField() {
			switch color := p.Field(i).String(); p.Type().Field(i).Name {
			case "selection", "tab":
				CheckContrast(t, theme, "\x1b[48;5;"+color+"mtext")
			default:
				CheckContrast(t, theme, "\x1b[38;5;"+color+"mtext\x1b[48;5;"+l.selection+"mtext")
			}
		}
	}
}

var (
	colours = regexp.MustCompile(`\x1b\[([0-9;]*)m([^\x1b]*)`)
	grounds = strings.NewReplacer("38;5;", "f", "48;5;", "b")
	checked = map[string]bool{} // theme, foreground and background
)

// CheckContrast fails if text on a screen has a contrast of less than 4.5.
func CheckContrast(t *testing.T, theme, screen string) {
	t.Helper()
	var fg, bg string
	for _, run := range colours.FindAllStringSubmatch(screen, -1) {
		for code := range strings.SplitSeq(grounds.Replace(run[1]), ";") {
			switch {
			case code == "" || code == "0":
				fg, bg = "", ""
			case code[0] == 'f':
				fg = code[1:]
			case code[0] == 'b':
				bg = code[1:]
			}
		}
		pair := theme + ": " + fg + " on " + bg
		if checked[pair] || strings.TrimSpace(run[2]) == "" {
			continue
		}
		checked[pair] = true
		text, on := looks[theme].text, looks[theme].backgrounds
		if fg != "" {
			text = rgb(t, fg)
		}
		if bg != "" {
			on = [][3]float64{rgb(t, bg)}
		}
		for _, b := range on {
			if c := contrast(text, b); c < 4.5 {
				t.Errorf("%s: %.0f on %.0f has a contrast of %.2f: %q", pair, text, b, c, run[2])
			}
		}
	}
}
