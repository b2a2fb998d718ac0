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

// ErrHalt: the filter called halt, and wants to see no more objects.
var ErrHalt = errors.New("the jq filter halted")

// A JQ is a jq filter in gojq's dialect. It sees one object at a time and
// nothing else: no environment, no files, no modules, no further input. It does
// not change, so one serves any number of goroutines.
type JQ struct{ code *gojq.Code }

// CompileJQ compiles a jq filter. The output of debug and stderr goes to tell, line by
// line, from the goroutine that runs the filter; nil drops it.
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

// telling returns a function of jq that gives back its input, and tells it in a form.
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

// jqSyntaxError adds the column to gojq's error, which knows it.
func jqSyntaxError(expr string, err error) error {
	var syntax *gojq.ParseError
	if errors.As(err, &syntax) {
		at := min(max(0, syntax.Offset-len(syntax.Token)), len(expr))
		return fmt.Errorf("jq: column %d: %w", columnOf(expr, at), err)
	}
	return fmt.Errorf("jq: %w", err)
}

// Append runs the filter on one JSON object and appends each result to dst as
// a line of compact JSON. Numbers that the filter does not calculate with stay
// as they are written; keys come out in order of their names, and of repeated
// keys only the last, as jq has it.
//
// When the filter fails, the results up to there are appended and the error is
// the filter's, wrapped. The error is [ErrHalt] when the filter called halt,
// and wraps ctx's when ctx ended first, which stops a filter that runs away. Its
// text may quote the record, and so hold anything.
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

// decode reads one JSON value for gojq, numbers as they are written.
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
	var halt *gojq.HaltError
	if errors.As(err, &halt) && halt.Value() == nil {
		return ErrHalt
	}
	return fmt.Errorf("jq: %w", err)
}
