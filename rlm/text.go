package rlm

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/wirectl/wirectl/rlm/prompt"
	"github.com/wirectl/wirectl/rlm/runlog"
)

// text returns the error for the log.
func (e *CellError) text() string {
	if e.Line > 0 {
		return fmt.Sprintf("%s (line %d)", e.Error(), e.Line)
	}
	return e.Error()
}

// cellOutput returns the output of a cell as the model sees it.
func cellOutput(res Result) string {
	o := prompt.Output{
		Stdout: res.Stdout, Stderr: res.Stderr, Dropped: res.Omitted, Lost: res.Lost,
		Variables: slices.Sorted(maps.Keys(runlog.Locals(res.Locals, nil))),
	}
	if res.Err != nil {
		o.Error, o.Line = res.Err.Error(), res.Err.Line
	}
	return o.String()
}

// request returns the request for turn n, or for the answer if there are no more turns.
func (r *run) request(n int) string {
	if n > r.iterations {
		return prompt.Last
	}
	return prompt.Next(n, r.iterations)
}

func joinLines(a, b string) string {
	if a == "" || b == "" || strings.HasSuffix(a, "\n") {
		return a + b
	}
	return a + "\n" + b
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
