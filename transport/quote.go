package transport

import "strings"

// plainChars are characters that have no meaning for any shell.
const plainChars = letters + "0123456789@%+=:,./_-"

const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

// quoteWord quotes word for a POSIX shell.
func quoteWord(word string) string {
	if word != "" && strings.Trim(word, plainChars) == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

func quoteWords(words []string) string {
	var quoted []string
	for _, w := range words {
		quoted = append(quoted, quoteWord(w))
	}
	return strings.Join(quoted, " ")
}
