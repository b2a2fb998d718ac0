package query

import (
	"bytes"
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/internal/nearest"
)

// A SyntaxError describes where and why an expression is not a condition.
type SyntaxError struct {
	Column int // of the invalid character, from 1
	Msg    string
}

func (e *SyntaxError) Error() string { return fmt.Sprintf("column %d: %s", e.Column, e.Msg) }

// Fields describes the fields of records.
type Fields struct {
	Names []string // of all
	// Flags are fields that are either true or absent. They may stand alone.
	Flags []string
	// Values has the possible values of fields that are limited to a few words.
	Values map[string][]string
}

// values returns the possible values of a field; nil for any.
func (f *Fields) values(name string) []string {
	if slices.Contains(f.Flags, name) {
		return []string{"true"}
	}
	return f.Values[name]
}

// Parse reads a condition on records that have the given fields. The error is a
// [*SyntaxError].
func Parse(expr string, fields Fields) (*Where, error) {
	p := parser{expr: expr, fields: fields}
	w := new(Where)
	for {
		t, err := p.term()
		if err != nil {
			return nil, err
		}
		w.terms = append(w.terms, t)
		p.space()
		if p.at == len(expr) {
			return w, nil
		}
		if err := p.and(); err != nil {
			return nil, err
		}
	}
}

// A parser reads an expression from left to right.
type parser struct {
	expr   string
	fields Fields
	at     int
}

func (p *parser) term() (term, error) {
	var t term
	if err := p.field(&t); err != nil {
		return t, err
	}
	if p.standsAlone(&t) {
		t.alone, t.text = true, []byte("true")
		return t, nil
	}
	if err := p.operator(&t); err != nil {
		return t, err
	}
	return t, p.value(&t)
}

func (p *parser) field(t *term) error {
	p.space()
	start := p.at
	name := p.word(func(c byte) bool { return isSpace(c) || strings.IndexByte(`=!~<>"`, c) >= 0 })
	if name == "" {
		return p.unexpected(start, "a field ("+strings.Join(p.fields.Names, ", ")+")")
	}
	first, rest, dotted := strings.Cut(name, ".")
	if !slices.Contains(p.fields.Names, first) {
		return p.fail(start, p.unknownField(first))
	}
	t.field = first
	if !dotted {
		return nil
	}
	t.path = strings.Split(rest, ".")
	if slices.Contains(t.path, "") {
		return p.fail(start, fmt.Sprintf("%q has an empty key: two dots, or one at the end", name))
	}
	return nil
}

// standsAlone reports whether the field just read is a flag that ends its term.
func (p *parser) standsAlone(t *term) bool {
	if len(t.path) > 0 || !slices.Contains(p.fields.Flags, t.field) {
		return false
	}
	p.space()
	_, compared := leadingOp(p.expr[p.at:])
	return !compared
}

func (p *parser) unknownField(name string) string {
	return fmt.Sprintf("no field %q%s; there are: %s", name, nearest.Question(name, p.fields.Names), strings.Join(p.fields.Names, ", "))
}

func (p *parser) operator(t *term) error {
	p.space()
	found, ok := leadingOp(p.expr[p.at:])
	if !ok {
		return p.unexpected(p.at, "an operator ("+strings.Join(operators[:], " ")+")")
	}
	t.op = found
	p.at += len(found.String())
	return nil
}

func (p *parser) value(t *term) error {
	p.space()
	start := p.at
	switch {
	case strings.HasPrefix(p.expr[p.at:], `"`):
		if err := p.quoted(t); err != nil {
			return err
		}
	case strings.HasPrefix(p.expr[p.at:], "'"): // nothing would match it
		return p.unexpected(start, `a value (a word, or a JSON string in "quotes", not 'these')`)
	default:
		if t.text = []byte(p.word(isSpace)); len(t.text) == 0 {
			return p.unexpected(start, `a value (a word, or a JSON string in "quotes")`)
		}
	}
	if !t.op.numeric() {
		return p.checkValue(t, start)
	}
	var ok bool
	if t.number, ok = parseNumber(t.text); !ok || t.quoted {
		return p.unexpected(start, fmt.Sprintf("a number after %s", t.op))
	}
	return nil
}

// checkValue checks that the field can have the value it is compared with.
func (p *parser) checkValue(t *term, start int) error {
	values, text := p.fields.values(t.field), string(t.text)
	switch {
	case values == nil || len(t.path) > 0:
		return nil
	case t.op == contains:
		if !slices.ContainsFunc(values, func(v string) bool { return strings.Contains(v, text) }) {
			return p.fail(start, fmt.Sprintf("%s never contains %s%s; it is one of: %s", t.field, shorten(text), nearest.Question(text, values), strings.Join(values, ", ")))
		}
	case !slices.Contains(values, text):
		return p.fail(start, fmt.Sprintf("%s is never %s%s; it is one of: %s", t.field, shorten(text), nearest.Question(text, values), strings.Join(values, ", ")))
	}
	return nil
}

// quoted reads a JSON string.
func (p *parser) quoted(t *term) error {
	token, rest := cutString(p.expr[p.at:])
	text, ok := jsonscan.Unquote([]byte(token))
	if !ok {
		return p.fail(p.at, fmt.Sprintf("%s is not a JSON string", shorten(token)))
	}
	p.at += len(token)
	if rest != "" && !isSpace(rest[0]) {
		return p.unexpected(p.at, "white space after the closing quote")
	}
	t.text, t.quoted = text, true
	t.json = jsonscan.KindOf(text) != jsonscan.String && jsonscan.Valid(text) == nil
	return nil
}

// cutString splits s after the string at its start, closed or not.
func cutString(s string) (token, rest string) {
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '"':
			return s[:i+1], s[i+1:]
		case '\\':
			i++
		}
	}
	return s, ""
}

func (p *parser) and() error {
	start := p.at
	if p.word(isSpace) != "and" {
		return p.unexpected(start, `"and" before the next term (a value with spaces needs quotes)`)
	}
	return nil
}

// word reads up to a byte that ends it.
func (p *parser) word(ends func(c byte) bool) string {
	start := p.at
	for p.at < len(p.expr) && !ends(p.expr[p.at]) {
		p.at++
	}
	return p.expr[start:p.at]
}

func (p *parser) space() {
	for p.at < len(p.expr) && isSpace(p.expr[p.at]) {
		p.at++
	}
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }

// unexpected returns an error with the text at i and what was expected there.
func (p *parser) unexpected(i int, want string) error {
	if i == len(p.expr) {
		return p.fail(i, "expected "+want+", found the end")
	}
	found, _, _ := strings.Cut(p.expr[i:], " ")
	return p.fail(i, "expected "+want+", found "+shorten(found))
}

func (p *parser) fail(i int, msg string) error {
	return &SyntaxError{Column: columnOf(p.expr, i), Msg: msg}
}

// columnOf returns the number, from 1, of the character at byte i.
func columnOf(expr string, i int) int { return utf8.RuneCountInString(expr[:i]) + 1 }

// shorten returns the beginning of s in quotes.
func shorten(s string) string { return fmt.Sprintf("%.40q", s) }

// op is a comparison.
type op uint8

const (
	equal op = iota
	notEqual
	contains
	greater
	atLeast
	less
	atMost
)

var operators = [...]string{
	equal: "==", notEqual: "!=", contains: "~",
	greater: ">", atLeast: ">=", less: "<", atMost: "<=",
}

// String returns the operator as conditions spell it.
func (o op) String() string { return operators[o] }

// numeric reports whether the operator compares numbers.
func (o op) numeric() bool { return o >= greater }

// leadingOp returns the longest operator that s begins with.
func leadingOp(s string) (found op, ok bool) {
	longest := 0
	for o, spelling := range operators {
		if len(spelling) > longest && strings.HasPrefix(s, spelling) {
			found, longest = op(o), len(spelling)
		}
	}
	return found, longest > 0
}

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

// A number is a JSON number. Integers of 64 bits, signed or unsigned, are exact. Others are
// rounded to a double, which is infinite for very large ones.
type number struct {
	float     float64
	magnitude uint64
	exact     bool // magnitude, with the sign of float, is the number
}

func parseNumber(text []byte) (number, bool) {
	if jsonscan.KindOf(text) != jsonscan.Number || jsonscan.Valid(text) != nil {
		return number{}, false
	}
	float, _ := strconv.ParseFloat(string(text), 64) // fails only for numbers that are too large
	n := number{float: float}
	if !bytes.ContainsAny(text, ".eE") {
		n.magnitude, n.exact = parseUint(bytes.TrimPrefix(text, []byte("-")))
	}
	return n, true
}

func parseUint(digits []byte) (uint64, bool) {
	i, err := strconv.ParseUint(string(digits), 10, 64)
	return i, err == nil
}

// compare returns -1, 0 or +1 if n is less than, equal to or greater than m.
func (n number) compare(m number) int {
	switch negative := n.float < 0; {
	case !n.exact || !m.exact || negative != (m.float < 0):
		return cmp.Compare(n.float, m.float)
	case negative:
		return cmp.Compare(m.magnitude, n.magnitude)
	default:
		return cmp.Compare(n.magnitude, m.magnitude)
	}
}
