package theory

import (
	"cmp"
	"context"
	_ "embed" // the worker
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/protocol/theory"
	"github.com/wirectl/wirectl/transport"
)

// workerGrace is how long a worker may take to end after its run was stopped.
const workerGrace = 2 * time.Second

// A Process runs the tool as a separate process for each run. The process reads lines of JSON:
// first the Request, then {"kind":"control","op":…} for the requests of controllers. The op
// cancel ends the run.
//
// It writes lines of JSON: Event, Log, Token or a kind of its own, each with data. The last one
// is a Response with a status and outputs, or an error. Lines that are not messages, and its
// standard error, go to Log.
type Process struct {
	Argv []string
	Log  *slog.Logger
}

// Run runs the tool; see [Handler].
func (h *Process) Run(ctx context.Context, r *Request, emit func(Message)) (*Result, error) {
	log := cmp.Or(h.Log, slog.New(slog.DiscardHandler))
	process, err := transport.Start(ctx, h.Argv, transport.Options{Grace: workerGrace})
	if err != nil {
		return nil, err
	}
	var others sync.WaitGroup
	defer others.Wait()
	ended := make(chan struct{})
	defer close(ended)
	defer process.Close()
	others.Go(func() { transport.LogStderr(process, log, "run", r.RunID) })
	others.Go(func() { steer(ctx, process, r, ended) })
	others.Go(func() { sweep(process, ended) })
	return readResult(process, log, emit)
}

// steer writes the request and the controls to the worker. When the run is stopped, it writes a
// cancel, and ends the process after the grace period.
func steer(ctx context.Context, process transport.Process, r *Request, ended <-chan struct{}) {
	request := jsonscan.MustMarshal(struct {
		Kind    string `json:"kind"`
		Control head   `json:"control"`
		Inputs  values `json:"inputs"`
		Outputs values `json:"outputs"`
	}{"Request", head{r.id.raw(), r.Mode}, r.Inputs, r.Outputs})
	_, err := process.Write(append(withMembers(request, r.more), '\n'))
	for err == nil {
		select {
		case content := <-r.Controls:
			err = writeLine(process, control(content))
		case <-ctx.Done():
			_ = writeLine(process, map[string]string{"kind": "control", "op": "cancel"}) // the worker may be gone
			end(process, ended)
			return
		case <-ended:
			return
		}
	}
	select {
	case <-ctx.Done():
		end(process, ended)
	case <-ended:
	}
}

// end gives the worker of a stopped run time to answer. Close would not wait until what it has
// written is read.
func end(process transport.Process, ended <-chan struct{}) {
	_ = process.CloseWrite() // the worker may be gone
	select {
	case <-time.After(workerGrace):
		_ = process.Signal(os.Kill) // it may have ended
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
func readResult(process transport.Process, log *slog.Logger, emit func(Message)) (*Result, error) {
	s := frame.NewScanner(process, frame.Line)
	s.SetLimit(2 * fileLimit) // base64 adds a third to bytes
	for s.Scan() {
		line, kind := values{}, ""
		payload := s.Frame().Payload()
		if json.Unmarshal(payload, &line) == nil {
			kind = wordOf(line["kind"])
		}
		switch {
		case kind == "Response" || kind == "RunResult":
			return resultOf(line, log)
		case kind == "" || theory.IsRuntimes(kind):
			log.Warn("the worker wrote a line that is not a message of a worker", "line", string(payload[:min(len(payload), 256)]))
		default:
			data := json.RawMessage("{}")
			for _, name := range []string{"content", "data"} {
				if line[name] != nil {
					data = line[name]
				}
			}
			emit(Message{kind, data})
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

// resultOf reads a Response. Its members are at the top, or all in content; its status and cost may be
// in control. A member of a wrong type does not cost the others.
func resultOf(line values, log *slog.Logger) (*Result, error) {
	objectOf := func(name string) values {
		members := values{}
		_ = json.Unmarshal(line[name], &members) // a member that is missing, or no object, has none
		return members
	}
	if content := objectOf("content"); len(content) > 0 {
		line = content
	}
	head := objectOf("control")
	for _, name := range []string{"status", "cost_micro"} {
		if head[name] == nil {
			head[name] = line[name]
		}
	}
	result := &Result{more: maps.Clone(line)}
	for _, name := range append(reserved, "kind", "control", "outputs", "error") {
		delete(result.more, name)
	}
	var err error
	if result.CostMicro, err = micros(head["cost_micro"]); err != nil {
		log.Warn("the cost of the run is unknown", "error", err)
	}
	status, failure := wordOf(head["status"]), errorOf(line["error"])
	switch raw := line["outputs"]; {
	case raw != nil && json.Unmarshal(raw, &result.Outputs) != nil:
		result.Outputs = values{"outputs": raw}
		return result, &Error{ErrRuntime, "the outputs of the worker are not an object of named values"}
	case status == "success":
		return result, nil
	case failure != nil:
		return result, failure
	}
	return result, &Error{ErrRuntime, fmt.Sprintf("the Response of the worker has the status %q and no error", status)}
}

// wordOf returns the text of a JSON string, "" for anything else.
func wordOf(raw json.RawMessage) string {
	var text string
	_ = json.Unmarshal(raw, &text)
	return text
}

// errorOf returns the error in a Response, which may be text alone; nil if there is none.
func errorOf(raw json.RawMessage) *Error {
	members := values{}
	_ = json.Unmarshal(raw, &members)
	text := cmp.Or(wordOf(raw), wordOf(members["message"]), string(raw))
	if text == "" || text == "null" {
		return nil
	}
	return &Error{cmp.Or(wordOf(members["code"]), ErrHandler), text}
}

// micros returns a cost, a number or the text of one, as a whole number. Halves are rounded up.
func micros(raw json.RawMessage) (int64, error) {
	text := cmp.Or(strings.TrimSpace(wordOf(raw)), string(raw))
	if text == "" || text == "null" {
		return 0, nil
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n, nil
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || !(math.Abs(f) < math.MaxInt64) {
		return 0, fmt.Errorf("cost_micro is %.64s: want a number", raw)
	}
	return int64(math.Floor(f + 0.5)), nil
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
