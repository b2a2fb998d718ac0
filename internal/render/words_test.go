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
