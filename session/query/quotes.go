package query

import "iter"

// Unquoted yields the positions of the bytes of a condition that are outside quotes.
func Unquoted(text string) iter.Seq[int] {
	return func(yield func(int) bool) {
		quoted := false
		for i := 0; i < len(text); i++ {
			switch {
			case quoted && text[i] == '\\':
				i++
			case text[i] == '"':
				quoted = !quoted
			case !quoted && !yield(i):
				return
			}
		}
	}
}
