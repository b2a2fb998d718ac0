package fence

import (
	"strings"
	"unicode"
)

// A Marker is a final answer that a model gave in its text.
type Marker struct {
	// Variable says that Arg is the name of the variable with the answer.
	Variable bool
	Arg      string // without white space around it; may be empty
	// Open says that no parenthesis matches. If the text was cut, so was the answer.
	Open bool
}

// Final returns the final answer of a text. It looks for FINAL_VAR(name) and then for
// FINAL(text). Of several, it takes the last one if that begins its line, else the first
// that begins a line. Markers inside fences do not count; words are those of [Blocks].
//
// The argument ends at the matching parenthesis, with regard to quotes and backslashes. If
// there is none, such as after an apostrophe, it ends at the last closing parenthesis.
func Final(text string, words []string) (Marker, bool) {
	fenced := scan(text, words).fenced
	if name, open, ok := argument(text, fenced, "FINAL_VAR("); ok {
		return Marker{true, strings.Trim(strings.Trim(name, `"`), "'"), open}, true
	}
	if answer, open, ok := argument(text, fenced, "FINAL("); ok {
		return Marker{false, answer, open}, true
	}
	return Marker{}, false
}

// Unwrap returns the answer in a reply if there is no code: the text of FINAL, or the whole
// reply, also if that was cut within FINAL. There are no variables for FINAL_VAR.
func Unwrap(reply string, cut bool) string {
	if answer, open, ok := argument(reply, scan(reply, nil).fenced, "FINAL("); ok && !(open && cut) {
		return answer
	}
	return reply
}

// argument returns the text between a marker such as FINAL( and its end. It is open if no
// parenthesis matches.
func argument(text string, fenced []span, marker string) (arg string, open, ok bool) {
	start := find(text, fenced, marker)
	if start < 0 {
		return "", false, false
	}
	text = text[start:]
	end := balance(text)
	if open = end < 0; open {
		end = strings.LastIndexByte(text, ')')
	}
	if end < 0 {
		return "", true, false
	}
	return strings.TrimSpace(text[:end]), open, true
}

// find returns where the argument of the marker that counts begins, or -1.
func find(text string, fenced []span, marker string) int {
	first, last := -1, -1
	for pos := 0; pos < len(text); {
		if len(fenced) > 0 && pos >= fenced[0].start {
			pos, fenced = max(pos, fenced[0].end), fenced[1:]
			continue
		}
		line, next := lineAt(text, pos)
		if len(fenced) > 0 {
			line = line[:min(len(line), fenced[0].start-pos)]
		}
		if at := strings.LastIndex(line, marker); at >= 0 {
			indent := len(line) - len(strings.TrimLeftFunc(line, unicode.IsSpace))
			begins := strings.HasPrefix(line[indent:], marker)
			if begins && first < 0 {
				first = pos + indent + len(marker)
			}
			last = -1
			if begins && at == indent {
				last = pos + at + len(marker)
			}
		}
		pos = next
	}
	if last >= 0 {
		return last
	}
	return first
}

// balance returns the offset of the parenthesis that closes the one before text, or -1.
func balance(text string) int {
	depth, quote := 1, byte(0)
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case quote != 0 && c == '\\':
			i++
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '\'' || c == '"':
			quote = c
		case c == '(':
			depth++
		case c == ')':
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return -1
}
