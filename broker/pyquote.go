package broker

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// PyQuote quotes s as Python's repr does: clients compare error texts.
func PyQuote(s string) string {
	quote := byte('\'')
	if strings.Contains(s, "'") && !strings.Contains(s, `"`) {
		quote = '"'
	}
	b := []byte{quote}
	for _, r := range s {
		b = appendPyRune(b, r, quote)
	}
	return string(append(b, quote))
}

func appendPyRune(b []byte, r rune, quote byte) []byte {
	switch {
	case r == '\n':
		return append(b, `\n`...)
	case r == '\r':
		return append(b, `\r`...)
	case r == '\t':
		return append(b, `\t`...)
	case r == '\\' || r == rune(quote):
		return append(b, '\\', byte(r))
	case r == ' ' || unicode.IsPrint(r):
		return utf8.AppendRune(b, r)
	case r < 0x100:
		return fmt.Appendf(b, `\x%02x`, r)
	case r < 0x10000:
		return fmt.Appendf(b, `\u%04x`, r)
	}
	return fmt.Appendf(b, `\U%08x`, r)
}
