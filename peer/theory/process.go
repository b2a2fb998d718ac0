package theory

import (
	"bytes"
	"context"
	_ "embed" // the worker
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/transport"
)

// workerGrace is how long a worker may take to end after its run was stopped.
const workerGrace = 2 * time.Second

// A Process runs the tool as a separate process for each run. The process reads lines of JSON:
// first the Request, then {"kind":"control","op":…} for the requests of controllers. The op
// cancel ends the run.
//
// It writes lines of JSON: Event, Log and Token with data. The last one is a Response with a
// status and outputs, or an error. Its standard error goes to Log.
type Process struct {
	Argv []string
	Log  *slog.Logger
}

// A processLine is a line that a process writes.
type processLine struct {
	Kind       string          `json:"kind"`
	Data       json.RawMessage `json:"data"`
	processEnd                 // of a short Response

	Control *processEnd                `json:"control"` // of a whole Response
	Outputs map[string]json.RawMessage `json:"outputs"`
	Error   *Error                     `json:"error"`
}

type processEnd struct {
	Status    string `json:"status"`
	CostMicro int64  `json:"cost_micro"`
}

// Run runs the tool; see [Handler].
func (h *Process) Run(ctx context.Context, r *Request, emit func(Message)) (*Result, error) {
	process, err := transport.Start(ctx, h.Argv, transport.Options{Grace: workerGrace})
	if err != nil {
		return nil, err
	}
	var others sync.WaitGroup
	defer others.Wait()
	ended := make(chan struct{})
	defer close(ended)
	defer process.Close()
	others.Go(func() { transport.LogStderr(process, h.Log, "run", r.RunID) })
	others.Go(func() { steer(ctx, process, r, ended) })
	others.Go(func() { sweep(process, ended) })
	return h.readResult(process, emit)
}

// steer writes the request and the controls to the worker. When the run is stopped, it writes a
// cancel, and ends the process after the grace period.
func steer(ctx context.Context, process transport.Process, r *Request, ended <-chan struct{}) {
	err := writeLine(process, struct {
		Kind    string                     `json:"kind"`
		Control head                       `json:"control"`
		Inputs  map[string]json.RawMessage `json:"inputs"`
		Outputs map[string]json.RawMessage `json:"outputs"`
	}{"Request", head{r.id.raw(), r.Mode}, r.Inputs, r.Outputs})
	for err == nil {
		select {
		case content := <-r.Controls:
			err = writeLine(process, control(content))
		case <-ctx.Done():
			_ = writeLine(process, map[string]string{"kind": "control", "op": "cancel"}) // the worker may be gone
			process.Close()
			return
		case <-ended:
			return
		}
	}
	select {
	case <-ctx.Done():
		process.Close()
	case <-ended:
	}
}

// sweep kills the processes that the worker left behind, some time after its end. They would
// keep its output open.
func sweep(process transport.Process, ended <-chan struct{}) {
	_, _ = process.Wait() // readResult reports the outcome
	select {
	case <-time.After(workerGrace):
		_ = process.Signal(os.Kill) // all of them may have ended
	case <-ended:
	}
}

// control adds the kind to the content of a control.
func control(content json.RawMessage) map[string]json.RawMessage {
	m := map[string]json.RawMessage{}
	_ = json.Unmarshal(content, &m) // it is known to be an object
	m["kind"] = json.RawMessage(`"control"`)
	return m
}

func writeLine(w io.Writer, v any) error {
	_, err := w.Write(append(jsonscan.MustMarshal(v), '\n'))
	return err
}

// readResult reads the output of the process, up to its Response.
func (h *Process) readResult(process transport.Process, emit func(Message)) (*Result, error) {
	s := frame.NewScanner(process, frame.Line)
	s.SetLimit(2 * fileLimit) // base64 adds a third to bytes
	for s.Scan() {
		var line processLine
		if err := json.Unmarshal(s.Frame().Payload(), &line); err != nil {
			return nil, &Error{ErrRuntime, "the worker wrote a line that is not a message"}
		}
		switch {
		case line.Kind == "Response":
			return line.result()
		case isKind(line.Kind):
			if line.Data == nil {
				line.Data = json.RawMessage("{}")
			}
			emit(Message{line.Kind, bytes.Clone(line.Data)})
		default:
			return nil, &Error{ErrRuntime, fmt.Sprintf("the worker wrote a message of the kind %q", line.Kind)}
		}
	}
	if err := s.Err(); err != nil {
		return nil, err
	}
	exit, err := process.Wait()
	if err != nil {
		return nil, err
	}
	return nil, &Error{ErrRuntime, fmt.Sprintf("the worker %v and gave no Response", exit)}
}

func (l *processLine) result() (*Result, error) {
	end := l.processEnd
	if l.Control != nil {
		end = *l.Control
	}
	result := &Result{Outputs: l.Outputs, CostMicro: end.CostMicro}
	switch {
	case end.Status == "success":
		return result, nil
	case end.Status == "error" && l.Error != nil && l.Error.Code != "":
		return result, l.Error
	}
	return nil, &Error{ErrRuntime, fmt.Sprintf("the Response of the worker has the status %q and no error", end.Status)}
}

//go:embed worker/worker.py
var worker string

// Tool returns the handler that runs the Python tool in a folder, which has a
// protocol/handler.py with entry(payload, emit, ctrl). The program is Python 3.
func Tool(program, dir string, log *slog.Logger) (*Process, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(dir, "protocol", "handler.py")); err != nil {
		return nil, fmt.Errorf("%s is not a tool: %w", dir, err)
	}
	return &Process{Argv: []string{program, "-c", worker, dir}, Log: log}, nil
}

// Echo is a handler that returns its inputs as outputs.
func Echo(_ context.Context, r *Request, emit func(Message)) (*Result, error) {
	emit(Message{"Log", json.RawMessage(`{"msg":"the outputs are the inputs"}`)})
	return &Result{Outputs: r.Inputs}, nil
}

// Shell runs a shell command line for each run.
func Shell(command string, log *slog.Logger) *Process {
	shell := []string{"sh", "-c"}
	if runtime.GOOS == "windows" {
		shell = []string{"cmd", "/c"}
	}
	return &Process{Argv: append(shell, command), Log: log}
}
