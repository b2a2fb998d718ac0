package diff

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// pieces aligns two texts by letter and returns the aligned pieces.
func pieces(a, b string) (list []string) {
	same := func(i, j int) bool { return a[i] == b[j] }
	Alignments(len(a), len(b), same, func(a0, a1, b0, b1 int) { list = append(list, a[a0:a1]+"|"+b[b0:b1]) })
	return list
}

func TestAlignments(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want []string
	}{
		{"", "", nil},
		{"abc", "abc", []string{"a|a", "b|b", "c|c"}},
		{"abc", "abxc", []string{"a|a", "b|b", "|x", "c|c"}}, // one extra letter is one difference
		{"abc", "bc", []string{"a|", "b|b", "c|c"}},
		{"abc", "axc", []string{"a|a", "b|x", "c|c"}},
		{"ab", "", []string{"ab|"}},
		{"abcd", "xyz", []string{"abcd|xyz"}},
	} {
		if got := pieces(tt.a, tt.b); !slices.Equal(got, tt.want) {
			t.Errorf("%q and %q: %q, want %q", tt.a, tt.b, got, tt.want)
		}
	}
}

// Elements that one measure does not match are aligned by the next.
func TestAlign(t *testing.T) {
	a, b := "aAbc", "Xaabc"
	exact := func(i, j int) bool { return a[i] == b[j] }
	folded := func(i, j int) bool { return a[i]|0x20 == b[j]|0x20 }
	var got []string
	align(len(a), len(b), func(a0, a1, b0, b1 int) { got = append(got, a[a0:a1]+"|"+b[b0:b1]) }, exact, folded)
	if want := []string{"|X", "a|a", "A|a", "b|b", "c|c"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// As many elements are paired as a longest common subsequence has, and the joined pieces are
// the lists.
func TestAlignmentsAreLongest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOfN(rapid.RuneFrom([]rune("abc")), 0, 12, -1)
		a, b := text.Draw(t, "a"), text.Draw(t, "b")
		paired, x, y := 0, 0, 0
		same := func(i, j int) bool { return a[i] == b[j] }
		Alignments(len(a), len(b), same, func(a0, a1, b0, b1 int) {
			if a0 != x || b0 != y {
				t.Fatalf("a piece begins at %d and %d, and the one before ended at %d and %d", a0, b0, x, y)
			}
			if x, y = a1, b1; a1-a0 == 1 && b1-b0 == 1 && same(a0, b0) {
				paired++
			}
		})
		if x != len(a) || y != len(b) {
			t.Fatalf("the pieces end at %d and %d", x, y)
		}
		if want := longest(a, b); paired != want {
			t.Fatalf("%d pairs, want %d", paired, want)
		}
	})
}

// longest returns the length of a longest common subsequence.
func longest(a, b string) int {
	switch {
	case a == "" || b == "":
		return 0
	case a[0] == b[0]:
		return 1 + longest(a[1:], b[1:])
	}
	return max(longest(a[1:], b), longest(a, b[1:]))
}

// Lists that differ too much are compared in place, in bounded memory.
func TestAlignmentsAreBounded(t *testing.T) {
	n := 2 * maxEdits
	paired := 0
	Alignments(n, n, func(i, j int) bool { return i == j && i%2 == 1 }, func(a0, a1, b0, b1 int) {
		if a0%2 == 1 && a1-a0 == 1 && a0 == b0 {
			paired++
		}
	})
	if paired != n/2 {
		t.Errorf("%d pairs, want %d", paired, n/2)
	}
}
