// Package nearest finds the name that was meant by a misspelt one.
package nearest

import (
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
