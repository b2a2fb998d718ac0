package query

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/itchyny/gojq"
)

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
