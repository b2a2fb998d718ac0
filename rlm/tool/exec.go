package tool

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/wirectl/wirectl/rlm"
)

const (
	maxOutput  = 4 << 20 // of a command, in bytes
	maxMessage = 2000    // of standard error, in bytes
)

// addExec adds a command, which reads the arguments as JSON, and writes JSON or text.
func (s *Set) addExec(name string, e *entry) error {
	if !isCallable(name) {
		return fmt.Errorf("%q: the name of a tool has at most 64 letters, digits, _ and -", name)
	}
	parameters, schema, err := e.parameters()
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	args := e.Exec
	return s.addTool(rlm.Tool{Name: name, Description: e.Description, Parameters: parameters}, func(ctx context.Context, arguments json.RawMessage) (json.RawMessage, error) {
		if schema != nil {
			if err := schema.checkJSON(arguments); err != nil {
				return nil, &rlm.ToolError{Type: "Validation", Err: err}
			}
		}
		return execute(ctx, args, arguments)
	})
}

// execute runs a command to its end.
func execute(ctx context.Context, args []string, stdin []byte) (json.RawMessage, error) {
	var complaint Tail
	p, output, err := rlm.Ask(ctx, args, append(stdin, '\n'), &complaint, func(r io.Reader) ([]byte, error) {
		return io.ReadAll(io.LimitReader(r, maxOutput+1))
	})
	if p == nil {
		return nil, err
	}
	exit, failed := p.Wait()
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil, failed != nil:
		return nil, errors.Join(err, failed)
	case len(output) > maxOutput:
		return nil, fmt.Errorf("more than %d bytes of output", maxOutput)
	case exit.Signal != nil:
		return nil, fmt.Errorf("ended by signal %v%s", exit.Signal, complaint.Said())
	case exit.Status != 0:
		return nil, fmt.Errorf("exit status %d%s", exit.Status, complaint.Said())
	}
	return asResult(string(output)), nil
}

// A Tail keeps the end of the text that is written to it.
type Tail struct{ kept []byte }

func (t *Tail) Write(b []byte) (int, error) {
	t.kept = append(t.kept, b...)
	t.kept = t.kept[max(0, len(t.kept)-maxMessage):]
	return len(b), nil
}

// Said returns the text for the end of an error; "" if nothing was written.
func (t *Tail) Said() string {
	text := strings.TrimSpace(string(bytes.ToValidUTF8(t.kept, []byte("\ufffd"))))
	if text == "" {
		return ""
	}
	return ": " + text
}
