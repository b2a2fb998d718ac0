package render_test

import (
	"testing"

	"github.com/wirectl/wirectl/internal/render"
)

func TestCount(t *testing.T) {
	for n, want := range map[int64]string{0: "0 frames", 1: "1 frame", 2: "2 frames"} {
		if got := render.Count(n, "frame"); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}

// Text is cut between runes, and says so only if something was cut.
func TestShorten(t *testing.T) {
	for _, tt := range []struct {
		text, clipped, shortened string
		n                        int
	}{
		{"abc", "abc", "abc", 3},
		{"abcd", "abc", "abc…", 3},
		{"aé", "a", "a…", 2},
		{"é", "", "…", 1},
		{"\x80\x80", "", "…", 1},
		{"", "", "", 0},
	} {
		if got := render.Clip(tt.text, tt.n); got != tt.clipped {
			t.Errorf("%q to %d: %q, want %q", tt.text, tt.n, got, tt.clipped)
		}
		if got := render.Shorten([]byte(tt.text), tt.n); got != tt.shortened {
			t.Errorf("%q to %d: %q, want %q", tt.text, tt.n, got, tt.shortened)
		}
	}
}
