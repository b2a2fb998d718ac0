// Package nearest finds the name that a misspelt name was meant to be.
package nearest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/xrash/smetrics"
)

// likely is the least similarity, from 0 to 1, of a name that was probably meant.
const likely = 0.8

// Of returns the name that is most similar to typed, ignoring case; "" if no name is
// similar enough. A short name with the same letters in another order is.
func Of(typed string, names []string) string {
	best, score := "", likely
	for _, n := range names {
		if s := smetrics.JaroWinkler(strings.ToLower(typed), strings.ToLower(n), 0.7, 4); s > score {
			best, score = n, s
		}
	}
	if best == "" {
		for _, n := range names {
			if len(n) > 2 && letters(n) == letters(typed) {
				return n
			}
		}
	}
	return best
}

// letters returns the letters of a name in the order of the alphabet.
func letters(name string) string {
	return string(slices.Sorted(slices.Values([]rune(strings.ToLower(name)))))
}

// Question returns " (did you mean NAME?)" with the name of [Of], or "" if none is or typed is itself one.
func Question(typed string, names []string) string {
	if name := Of(typed, names); name != "" && name != typed {
		return " (did you mean " + name + "?)"
	}
	return ""
}

// Named returns the element of all with that name. The error has the kind of the elements, and the
// name that was probably meant, and all names unless these are many and one of them was meant.
func Named[T any](kind, name string, all []T, nameOf func(T) string) (found T, err error) {
	var names []string
	for _, one := range all {
		if nameOf(one) == name {
			return one, nil
		}
		names = append(names, nameOf(one))
	}
	meant := Question(name, names)
	if meant != "" && len(names) > 12 {
		return found, fmt.Errorf("unknown %s %q%s", kind, name, meant)
	}
	return found, fmt.Errorf("unknown %s %q%s; there are: %s", kind, name, meant, strings.Join(names, ", "))
}
