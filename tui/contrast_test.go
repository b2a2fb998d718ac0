package tui

import (
	"math"
	"reflect"
	"strconv"
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

// Every colour has a contrast of at least 4.5 on the terminal's background, on the selected
// row, and on search matches.
func TestContrast(t *testing.T) {
	for name, theme := range map[string]struct {
		palette
		text        [3]float64
		backgrounds [][3]float64 // of common terminals
	}{
		"dark":  {dark, [3]float64{0xd0, 0xd0, 0xd0}, [][3]float64{{0, 0, 0}, {0x1e, 0x1e, 0x1e}, {0x14, 0x17, 0x1c}}},
		"light": {light, [3]float64{0x30, 0x30, 0x30}, [][3]float64{{255, 255, 255}, {0xfa, 0xfa, 0xfa}}},
	} {
		p := reflect.ValueOf(theme.palette)
		on := append(theme.backgrounds, rgb(t, theme.selection))
		for i := range p.NumField() {
			field := p.Type().Field(i).Name
			if field == "selection" || field == "tab" {
				continue
			}
			for _, b := range on {
				if c := contrast(rgb(t, p.Field(i).String()), b); c < 4.5 {
					t.Errorf("%s: %s (%s) on %.0f has a contrast of %.2f", name, field, p.Field(i), b, c)
				}
			}
		}
		for _, b := range append(on, rgb(t, theme.tab)) {
			if c := contrast(theme.text, b); c < 4.5 {
				t.Errorf("%s: text on %.0f has a contrast of %.2f", name, b, c)
			}
		}
	}
}
