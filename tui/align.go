package tui

import "github.com/wirectl/wirectl/session/diff"

// A pair is two lines side by side; one of them may be missing.
type pair struct{ a, b string }

// align puts the lines of two texts side by side, equal ones together.
func align(a, b []string) (list []pair) {
	same := func(i, j int) bool { return a[i] == b[j] }
	diff.Alignments(len(a), len(b), same, func(a0, a1, b0, b1 int) {
		list = append(list, beside(a[a0:a1], b[b0:b1])...)
	})
	return list
}

// beside pairs lines one by one.
func beside(a, b []string) []pair {
	list := make([]pair, max(len(a), len(b)))
	for i := range a {
		list[i].a = a[i]
	}
	for i := range b {
		list[i].b = b[i]
	}
	return list
}
