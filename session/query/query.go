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
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/itchyny/gojq"

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

// ErrHalt reports that the filter called halt and wants no more objects.
var ErrHalt = errors.New("the jq filter halted")

// A JQ is a jq filter in gojq's dialect. It sees one object at a time and nothing else: no
// environment, no files, no modules, no further input. It is immutable and safe for concurrent
// use.
type JQ struct{ code *gojq.Code }

// CompileJQ compiles a jq filter. The output of debug and stderr is passed to tell, line by
// line, in the goroutine that runs the filter. If tell is nil, the output is dropped.
func CompileJQ(expr string, tell func(line string)) (*JQ, error) {
	parsed, err := gojq.Parse(expr)
	if err != nil {
		return nil, jqSyntaxError(expr, err)
	}
	code, err := gojq.Compile(parsed,
		gojq.WithFunction("debug", 0, 0, telling(tell, func(v any) any { return []any{"DEBUG:", v} })),
		gojq.WithFunction("stderr", 0, 0, telling(tell, func(v any) any { return v })),
		gojq.WithFunction("toarray", 0, 0, toArray))
	if err != nil {
		return nil, fmt.Errorf("jq: %w", err)
	}
	return &JQ{code: code}, nil
}

// telling returns a jq function that returns its input and passes it to tell, formatted by
// form.
func telling(tell func(line string), form func(any) any) func(any, []any) any {
	return func(v any, _ []any) any {
		if tell == nil {
			return v
		}
		line, err := gojq.Marshal(form(v))
		if err != nil {
			return err
		}
		tell(string(line))
		return v
	}
}

func toArray(v any, _ []any) any {
	if _, is := v.([]any); is {
		return v
	}
	return []any{v}
}

// jqSyntaxError adds the column from gojq's error.
func jqSyntaxError(expr string, err error) error {
	if syntax, ok := errors.AsType[*gojq.ParseError](err); ok {
		at := min(max(0, syntax.Offset-len(syntax.Token)), len(expr))
		return fmt.Errorf("jq: column %d: %w", columnOf(expr, at), err)
	}
	return fmt.Errorf("jq: %w", err)
}

// Append runs the filter on one JSON object and appends each result to dst as a line of compact
// JSON. Numbers that the filter does not calculate with keep their spelling. Keys are sorted by
// name, and only the last of repeated keys is kept, as in jq.
//
// If the filter fails, the results so far are appended and its error is returned, wrapped. The
// error is [ErrHalt] if the filter called halt. It wraps the error of ctx if ctx was done
// first, which stops a runaway filter. The text of the error may quote the record and so
// contain anything.
func (q *JQ) Append(ctx context.Context, dst, object []byte) ([]byte, error) {
	value, err := decode(object)
	if err != nil {
		return dst, err
	}
	for results := q.code.RunWithContext(ctx, value); ; {
		result, ok := results.Next()
		if !ok {
			return dst, nil
		}
		if err, failed := result.(error); failed {
			return dst, jqError(err)
		}
		line, err := gojq.Marshal(result)
		if err != nil {
			return dst, fmt.Errorf("jq: %w", err)
		}
		dst = append(append(dst, line...), '\n')
	}
}

// decode reads one JSON value for gojq, with numbers as written.
func decode(object []byte) (value any, err error) {
	d := json.NewDecoder(bytes.NewReader(object))
	d.UseNumber()
	if err := d.Decode(&value); err != nil {
		return nil, fmt.Errorf("jq: the record is not JSON: %w", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("jq: the record is more than one JSON value")
	}
	return value, nil
}

func jqError(err error) error {
	if halt, ok := errors.AsType[*gojq.HaltError](err); ok && halt.Value() == nil {
		return ErrHalt
	}
	return fmt.Errorf("jq: %w", err)
}
