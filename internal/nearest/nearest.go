// Package nearest finds the name that was meant by a misspelt one.
package nearest

import (
	"fmt"
	"strings"

	"github.com/xrash/smetrics"
)

// likely is the similarity, from 0 to 1, from which on a name is taken to have
// been meant.
const likely = 0.8

// Of returns the name that is most like typed, in whatever case, or "" if none is
// like it.
func Of(typed string, names []string) string {
	best, score := "", likely
	for _, n := range names {
		if s := smetrics.JaroWinkler(strings.ToLower(typed), strings.ToLower(n), 0.7, 4); s > score {
			best, score = n, s
		}
	}
	return best
}

// Question returns " (did you mean NAME?)" with the name that is most like
// typed, or "" if none is like it.
func Question(typed string, names []string) string {
	if name := Of(typed, names); name != "" {
		return " (did you mean " + name + "?)"
	}
	return ""
}

// Named returns that of all whose name it is. The error says of which kind they are, what
// there is, and what may have been meant.
func Named[T any](kind, name string, all []T, nameOf func(T) string) (found T, err error) {
	var names []string
	for _, one := range all {
		if nameOf(one) == name {
			return one, nil
		}
		names = append(names, nameOf(one))
	}
	return found, fmt.Errorf("unknown %s %q%s; there are: %s", kind, name, Question(name, names), strings.Join(names, ", "))
}
