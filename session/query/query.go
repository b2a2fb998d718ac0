// Package query selects records by a short condition ([Where], the --where flag of every
// command that shows frames) or by a jq filter ([JQ], their --jq flag).
//
// A condition is one or more terms joined by "and":
//
//	kind==tools/call and size>1000 and payload.params.name!="a b"
//
// A term is a field, an operator and a value, with or without white space
// around the operator. A dotted field looks into the JSON of its first part.
//
//	==  !=         equal or not; a record without the field is not equal
//	~              contains
//	>  >=  <  <=   as numbers, also where a string holds one
//
// A value is a word, which ends at white space, or a JSON string in quotes. A word equals a
// value with that spelling and a string with that text: id==1 finds the ids 1 and "1". A quoted
// value equals only strings: id=="1" only finds the id "1". Nothing is converted: 1 and 1.0 are
// not equal. Contains compares the text of a string, and other JSON as written. A flag, such as
// failed, may stand alone: it means failed==true.
//
// The caller defines the fields.
package query

import (
	"bytes"
	"strings"

	"github.com/wirectl/wirectl/internal/jsonscan"
)

// A Record is checked against conditions.
type Record interface {
	// Field returns the value of the named field: a JSON value, with strings in quotes, or
	// plain text. Plain text that could be JSON is treated as JSON. The token is borrowed
	// and only valid until the next call. ok is false if the record has no such field.
	Field(name string) (token []byte, ok bool)
}

// A Where is a condition on records. It is immutable and safe for concurrent use. A nil Where
// matches every record.
type Where struct{ terms []term }

// A term is one comparison.
type term struct {
	field  string   // the name known to the record
	path   []string // the keys of the path inside its JSON
	op     op
	text   []byte // the value, without its quotes
	quoted bool
	alone  bool   // a flag, without an operator
	json   bool   // text is JSON other than a string
	number number // the value, if op compares numbers
}

// Match reports whether r meets the condition. It allocates only to read strings with escapes.
func (w *Where) Match(r Record) bool {
	if w == nil {
		return true
	}
	for i := range w.terms {
		if !w.terms[i].match(r) {
			return false
		}
	}
	return true
}

func (t *term) match(r Record) bool {
	token, ok := t.value(r)
	if t.op == notEqual {
		return !ok || !t.equals(token)
	}
	return ok && t.holds(token)
}

// value returns the token that the term is compared with.
func (t *term) value(r Record) ([]byte, bool) {
	token, ok := r.Field(t.field)
	if ok && len(t.path) > 0 {
		return jsonscan.Get(token, t.path...)
	}
	return token, ok
}

// holds evaluates the term for an existing token, unless op is notEqual.
func (t *term) holds(token []byte) bool {
	switch t.op {
	case equal:
		return t.equals(token)
	case contains:
		return bytes.Contains(textOf(token), t.text)
	}
	n, ok := parseNumber(textOf(token))
	if !ok {
		return false
	}
	switch order := n.compare(t.number); t.op {
	case greater:
		return order > 0
	case atLeast:
		return order >= 0
	case less:
		return order < 0
	default:
		return order <= 0
	}
}

func (t *term) equals(token []byte) bool {
	if jsonscan.KindOf(token) == jsonscan.String {
		return bytes.Equal(textOf(token), t.text)
	}
	return bytes.Equal(token, t.text) && !(t.quoted && t.json)
}

// textOf returns the text of a string token, and any other token as it is.
func textOf(token []byte) []byte {
	if text, ok := jsonscan.Unquote(token); ok {
		return text
	}
	return token
}

// String returns the condition in its shortest spelling, which parses to the
// same condition.
func (w *Where) String() string {
	if w == nil {
		return ""
	}
	var b []byte
	for i := range w.terms {
		if i > 0 {
			b = append(b, " and "...)
		}
		b = w.terms[i].append(b)
	}
	return string(b)
}

func (t *term) append(dst []byte) []byte {
	dst = append(dst, t.field...)
	for _, key := range t.path {
		dst = append(dst, '.')
		dst = append(dst, key...)
	}
	if t.alone {
		return dst
	}
	dst = append(dst, t.op.String()...)
	if t.quoted {
		return jsonscan.AppendQuote(dst, t.text)
	}
	return append(dst, t.text...)
}

// A Term is one comparison of a condition, for callers that search records elsewhere.
type Term struct {
	Field string // with its path, if it has one
	Op    string // as it is written
	Value string
}

// Terms returns the comparisons. A record must meet all.
func (w *Where) Terms() (list []Term) {
	if w == nil {
		return nil
	}
	for i := range w.terms {
		t := &w.terms[i]
		list = append(list, Term{strings.Join(append([]string{t.field}, t.path...), "."), operators[t.op], string(t.text)})
	}
	return list
}
