package jsonscan

import "bytes"

// maxOpen bounds the depth of what [Close] keeps.
const maxOpen = 64

// Close returns the beginning of a JSON text as a text of its own: with null for the value of a
// member that is cut, and its arrays and objects closed. It returns nil if data does not begin an
// object.
func Close(data []byte) []byte {
	var open, closers [maxOpen]byte // what is open here, and at end
	depth, end, kept := 0, 0, 0
	key := false // a key comes next
	value := ""  // is missing at end
	keep := func(at int, missing string) { end, kept, closers, value = at, depth, open, missing }
	closed := func() []byte {
		text := append(data[:end:end], value...)
		for i := kept - 1; i >= 0; i-- {
			text = append(text, closers[i])
		}
		if kept == 0 || WellFormed(text) != nil {
			return nil
		}
		return text
	}
	for i := 0; i < len(data); {
		switch c := data[i]; c {
		case ' ', '\t', '\r', '\n':
			i++
			continue
		case ':':
			i++
			keep(i, "null")
			continue
		case ',':
			key = depth > 0 && open[depth-1] == '}'
			i++
			continue
		case '{', '[':
			if depth == maxOpen || depth == 0 && c == '[' {
				return closed()
			}
			open[depth] = c + 2 // in ASCII
			depth++
			key = c == '{'
			i++
		case '}', ']':
			if depth--; depth <= 0 {
				return closed()
			}
			key = false
			i++
		case '"':
			n := passSurrogates(data, stringEnd(data, i))
			if n < 0 {
				return closed()
			}
			if i = n; key {
				key = false
				continue
			}
		default:
			n := i
			for n < len(data) && isWord(data[n]) {
				n++
			}
			if n == i || n == len(data) {
				return closed()
			}
			i = n
		}
		if depth > 0 {
			keep(i, "")
		}
	}
	return closed()
}

// isWord reports whether c may be in a number or a literal.
func isWord(c byte) bool {
	return c-'0' <= 9 || c|0x20 >= 'a' && c|0x20 <= 'z' || c == '-' || c == '+' || c == '.'
}

// Last returns the members at the end of an object of which data is the end, as far back as their
// values are numbers, literals and strings without escapes: `"jsonrpc":"2.0","id":1`.
func Last(data []byte) []byte {
	const blank = " \t\r\n"
	data, ok := bytes.CutSuffix(bytes.TrimRight(data, blank), []byte("}"))
	first := len(data)
	// token returns where the token at the end of text begins.
	token := func(text []byte) int {
		at := len(text)
		if quoted, is := bytes.CutSuffix(text, []byte(`"`)); is {
			if at = bytes.LastIndexByte(quoted, '"'); at > 0 && text[at-1] == '\\' {
				return -1
			}
			return at
		}
		for at > 0 && isWord(text[at-1]) {
			at--
		}
		if at == len(text) {
			return -1
		}
		return at
	}
	for rest := data; ok; {
		rest = bytes.TrimRight(rest, blank)
		value := token(rest)
		if value <= 0 {
			break
		}
		name, isMember := bytes.CutSuffix(bytes.TrimRight(rest[:value], blank), []byte(":"))
		name = bytes.TrimRight(name, blank)
		at := token(name)
		if !isMember || at < 0 || name[at] != '"' {
			break
		}
		first = at
		rest, ok = bytes.CutSuffix(bytes.TrimRight(name[:at], blank), []byte(","))
	}
	members := data[first:]
	if WellFormed([]byte("{"+string(members)+"}")) != nil {
		return nil
	}
	return members
}
