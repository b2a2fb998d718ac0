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
	"github.com/wirectl/wirectl/protocol/jsonscan"
	"github.com/wirectl/wirectl/transport"
)

// workerGrace is how long a worker whose run was stopped may take to end.
const workerGrace = 2 * time.Second

// A Process runs the tool as a process of its own for each run. The process reads
// lines of JSON: first the Request, then {"kind":"control","op":…} for the requests of
// controllers, where cancel ends the run. It writes lines of JSON: Event,
// Log and Token with data, and last a Response with a status and outputs, or an
// error. What it writes to its standard error goes to Log.
type Process struct {
	Argv []string
	Log  *slog.Logger
}

// A processLine is a line that a process writes.
type processLine struct {
	Kind       string          `json:"kind"`
	Data       json.RawMessage `json:"data"`
	processEnd                 // what a short Response has beside its kind

	Control *processEnd                `json:"control"` // what a whole Response has there
	Outputs map[string]json.RawMessage `json:"outputs"`
	Error   *Error                     `json:"error"`
}

type processEnd struct {
	Status    string `json:"status"`
	CostMicro int64  `json:"cost_micro"`
}

// Run runs the tool, as [Handler] wants it.
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

// steer writes the request and what controllers want. When the run is stopped it
// says so, and ends the process some time later.
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
			_ = writeLine(process, map[string]string{"kind": "control", "op": "cancel"}) // it may have gone
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

// sweep ends the processes that the worker left behind, some time after its end. They
// would hold its output open.
func sweep(process transport.Process, ended <-chan struct{}) {
	_, _ = process.Wait() // readResult reports how it ended
	select {
	case <-time.After(workerGrace):
		_ = process.Signal(os.Kill) // all may have ended
	case <-ended:
	}
}

// control returns the content of a control with its kind.
func control(content json.RawMessage) map[string]json.RawMessage {
	m := map[string]json.RawMessage{}
	_ = json.Unmarshal(content, &m) // that it is an object is known
	m["kind"] = json.RawMessage(`"control"`)
	return m
}

func writeLine(w io.Writer, v any) error {
	_, err := w.Write(append(jsonscan.MustMarshal(v), '\n'))
	return err
}

// readResult reads what the process writes, up to its Response.
func (h *Process) readResult(process transport.Process, emit func(Message)) (*Result, error) {
	s := frame.NewScanner(process, frame.Line)
	s.SetLimit(2 * fileLimit) // bytes take a third more as base64
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

// Tool returns the handler that runs the Python tool in a folder, whose
// protocol/handler.py has entry(payload, emit, ctrl). The program is Python 3.
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

// Echo is the handler whose outputs are its inputs.
func Echo(_ context.Context, r *Request, emit func(Message)) (*Result, error) {
	emit(Message{"Log", json.RawMessage(`{"msg":"the outputs are the inputs"}`)})
	return &Result{Outputs: r.Inputs}, nil
}

// Shell runs a command line of this system for each run.
func Shell(command string, log *slog.Logger) *Process {
	shell := []string{"sh", "-c"}
	if runtime.GOOS == "windows" {
		shell = []string{"cmd", "/c"}
	}
	return &Process{Argv: append(shell, command), Log: log}
}
