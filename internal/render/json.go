package render

// maxIndented is the depth of nesting up to which each value has its own line. Deeper values
// share a line, so that the indentation of a hostile payload stays small.
const maxIndented = 32

// AppendJSON appends valid JSON with a line for each element or member. Every line begins
// with prefix and with indent for each level of nesting, and ends in a line feed; values that
// are nested very deep share a line. Only white space is changed: numbers, repeated keys and
// escapes stay as they are. Characters inside strings that are not safe to show become JSON
// escapes, so that the result is still the same JSON value.
//
// Text that is not valid JSON is shown as safely, with an arbitrary layout. A nil Style paints
// nothing.
func AppendJSON(dst, text []byte, indent, prefix string, st *Style) []byte {
	if st == nil {
		st = &Style{}
	}
	p := printer{dst: append(dst, prefix...), text: text, indent: indent, prefix: prefix, style: st}
	for i := 0; i < len(text); {
		i = p.token(i)
	}
	return append(p.dst, '\n')
}

// A printer lays out one JSON text. It needs no stack: a string before a colon is a key.
type printer struct {
	dst, text      []byte
	indent, prefix string
	style          *Style
	depth          int
}

// token appends the token at i and returns the offset after it.
func (p *printer) token(i int) int {
	switch c := p.text[i]; c {
	case ' ', '\t', '\n', '\r':
		return i + 1
	case '{', '[':
		return p.openBracket(i)
	case '}', ']':
		inner := p.depth
		p.depth = max(0, p.depth-1)
		p.newline(inner)
		p.punct(string(c))
		return i + 1
	case ',':
		p.punct(",")
		p.newline(p.depth)
		return i + 1
	case ':':
		p.punct(":")
		p.dst = append(p.dst, ' ')
		return i + 1
	case '"':
		return p.string(i)
	}
	return p.scalar(i)
}

// openBracket appends the opening bracket at i. If the container is empty, it appends the
// closing one as well.
func (p *printer) openBracket(i int) int {
	c := p.text[i]
	end := skipSpace(p.text, i+1)
	if end < len(p.text) && p.text[end] == c+2 { // in ASCII, ] and } are two after [ and {
		p.punct(string([]byte{c, c + 2}))
		return end + 1
	}
	p.punct(string(c))
	p.depth++
	p.newline(p.depth)
	return i + 1
}

// newline begins a line, if it is in at most maxIndented containers.
func (p *printer) newline(inner int) {
	if inner > maxIndented {
		return
	}
	p.dst = append(p.dst, '\n')
	p.dst = append(p.dst, p.prefix...)
	for range p.depth {
		p.dst = append(p.dst, p.indent...)
	}
}

func (p *printer) punct(s string) { p.dst = p.style.Punct.Append(p.dst, s) }

func (p *printer) string(i int) int {
	end := stringEnd(p.text, i)
	paint := p.style.String
	if next := skipSpace(p.text, end); next < len(p.text) && p.text[next] == ':' {
		paint = p.style.Key
	}
	p.painted(paint, p.text[i:end], escapeJSON)
	return end
}

// scalar appends the number or literal at i.
func (p *printer) scalar(i int) int {
	end := i + 1
	for end < len(p.text) && !isDelimiter(p.text[end]) {
		end++
	}
	paint := p.style.Literal
	if c := p.text[i]; c == '-' || c >= '0' && c <= '9' {
		paint = p.style.Number
	}
	p.painted(paint, p.text[i:end], escapeText)
	return end
}

func (p *printer) painted(paint Paint, token []byte, escape escaper) {
	p.dst = append(p.dst, paint.On...)
	p.dst, _ = appendSafe(p.dst, token, noBond, escape)
	p.dst = append(p.dst, paint.Off...)
}

// stringEnd returns the offset after the string that begins at i.
func stringEnd(text []byte, i int) int {
	for i++; i < len(text); i++ {
		switch text[i] {
		case '"':
			return i + 1
		case '\\':
			i++
		}
	}
	return len(text)
}

func skipSpace(text []byte, i int) int {
	for i < len(text) && isSpace(text[i]) {
		i++
	}
	return i
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }

func isDelimiter(c byte) bool {
	switch c {
	case '{', '}', '[', ']', ',', ':', '"':
		return true
	}
	return isSpace(c)
}
