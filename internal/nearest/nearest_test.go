package nearest_test

import (
	"testing"

	"github.com/wirectl/wirectl/internal/nearest"
)

func TestOf(t *testing.T) {
	names := []string{"decode", "encode", "list", "mcp", "--framing", "--from", "kind"}
	for typed, want := range map[string]string{
		"decod":    "decode",
		"dcode":    "decode",
		"--framin": "--framing",
		"knd":      "kind",
		"LIST":     "list",
		"lsti":     "list",
		"mpc":      "mcp",
		"relay":    "",
		"":         "",
		"x":        "",
	} {
		if got := nearest.Of(typed, names); got != want {
			t.Errorf("Of(%q) = %q, want %q", typed, got, want)
		}
	}
}

func TestQuestionAsksForNoNameAsTyped(t *testing.T) {
	names := []string{"claude", "codex"}
	for typed, want := range map[string]string{"claud": " (did you mean claude?)", "claude": "", "vim": ""} {
		if got := nearest.Question(typed, names); got != want {
			t.Errorf("Question(%q) = %q, want %q", typed, got, want)
		}
	}
}
