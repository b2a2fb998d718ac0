package starlark

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.starlark.net/starlark"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/protocol/repl"
	"github.com/wirectl/wirectl/rlm"
)

// A message is a message of the host.
type message struct {
	Kind      string            `json:"kind"`
	ID        uint64            `json:"id"`
	Target    uint64            `json:"target"`
	Path      string            `json:"path"`
	Type      string            `json:"type"`
	Code      string            `json:"code"`
	Name      string            `json:"name"`
	From      int               `json:"from"`
	Value     json.RawMessage   `json:"value"`
	OK        bool              `json:"ok"`
	Error     string            `json:"error"`
	Response  json.RawMessage   `json:"response"`
	Responses []json.RawMessage `json:"responses"`

	life context.Context // of a request; a cancel ends it
	end  context.CancelFunc
}

// An object is a message to the host.
type object = map[string]any

// A worker is the process. One goroutine reads the wire, and another runs the cells.
type worker struct {
	in, out  *os.File
	limit    uint64 // of memory, in bytes; 0 is none
	requests chan *message

	mu      sync.Mutex
	active  *message // request that was read last
	waiting map[uint64]chan *message
	last    uint64 // id of a call

	// The rest belongs to the goroutine that runs the cells.
	space
	cell          *message // nil between two cells
	printed       []byte
	room, dropped int // bytes of output that are still accepted, and that were dropped
}

func newWorker(in, out *os.File, memory int64) *worker {
	w := &worker{in: in, out: out, limit: uint64(max(0, memory)), requests: make(chan *message), waiting: map[uint64]chan *message{}}
	if memory > 0 {
		debug.SetMemoryLimit(memory) // garbage is collected before the limit is reached
	}
	w.space = newSpace(w)
	return w
}

// work serves the host until it hangs up.
func (w *worker) work() {
	_ = w.send(object{"kind": "ready", "version": strconv.Itoa(starlark.CompilerVersion), "language": "starlark"})
	go func() { // ends with the process
		w.read()
		leave()
	}()
	for m := range w.requests {
		w.serve(m)
	}
}

// send sends a message, unless it is too large. If the host has gone, the worker ends.
func (w *worker) send(m object) error {
	b, err := json.Marshal(m)
	if err != nil {
		return err
	}
	if len(b) > repl.Limit {
		return errors.New("more than 16 MiB at once")
	}
	head := binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(b)), uint32(len(b)))
	if _, err := w.out.Write(append(head, b...)); err != nil {
		leave()
	}
	return nil
}

// read handles messages until the wire ends.
func (w *worker) read() {
	s := frame.NewScanner(w.in, frame.Len32)
	s.SetLimit(repl.Limit)
	for s.Scan() {
		m := &message{}
		if json.Unmarshal(s.Frame().Payload(), m) != nil || m.Kind == "shutdown" {
			return
		}
		if w.dispatch(m) {
			w.requests <- m
		}
	}
}

// dispatch handles a message, unless it is a request or sets a variable: then it returns true.
func (w *worker) dispatch(m *message) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case m.Kind == "cancel":
		if w.active != nil && w.active.ID == m.Target {
			w.active.end()
		}
		return false
	case strings.HasSuffix(m.Kind, "_result"):
		if answered := w.waiting[m.ID]; answered != nil {
			delete(w.waiting, m.ID)
			answered <- m // it has room
		}
		return false
	case m.Kind != "set":
		m.life, m.end = context.WithCancel(context.Background())
		w.active = m
	}
	return true
}

// serve answers a request.
func (w *worker) serve(m *message) {
	var result object
	switch m.Kind {
	case "set":
		w.set(m)
		return
	case "load_context":
		result = w.load(m)
	case "execute":
		result = w.execute(m)
	case "final_var":
		result = w.finalVar(m.Name)
	default:
		result = failure("ValueError", "unknown request "+m.Kind)
	}
	m.end()
	kind := m.Kind + "_result"
	result["kind"], result["id"] = kind, m.ID
	if w.send(result) != nil {
		result = failure("ValueError", "the variables and the answer are too large")
		result["kind"], result["id"] = kind, m.ID
		_ = w.send(result)
	}
}

func failure(kind, text string) object {
	return object{"error": rlm.CellError{Type: kind, Message: text}}
}

// maxOutput bounds the output of a cell, in bytes, and chunk the output that is not sent yet.
const (
	maxOutput = 1 << 20
	chunk     = 64 << 10
)

// print adds a line that code prints.
func (w *worker) print(text string) {
	kept := render.Clip(text, w.room)
	if len(kept) < len(text) {
		w.room = len(kept)
		w.dropped += len(text) - len(kept)
	}
	w.room -= len(kept)
	if w.printed = append(w.printed, kept...); len(w.printed) > chunk {
		w.flush()
	}
}

func (w *worker) flush() {
	if len(w.printed) > 0 {
		_ = w.send(object{"kind": "output", "id": w.cell.ID, "stream": "stdout", "text": string(w.printed)})
	}
	w.printed = w.printed[:0]
}

// execute runs a cell.
func (w *worker) execute(m *message) object {
	w.cell, w.room, w.dropped, w.final = m, maxOutput, 0, nil
	w.restore()
	begun := time.Now()
	failed := w.run(m)
	took := time.Since(begun)
	w.restore()
	w.flush()
	w.cell = nil
	content, ready := w.readAnswer()
	if ready && w.final == nil {
		if text, err := answerOf(content); err == nil {
			w.final = &text
		} else {
			_ = w.space.answer.SetKey(starlark.String("ready"), starlark.False) // the next cell begins without it
			failed = cmp.Or(failed, &rlm.CellError{Type: "ValueError", Message: err.Error()})
		}
	}
	return object{
		"execution_time": took.Seconds(), "error": failed, "locals": w.locals(),
		"final": w.final, "best": cut(textOf(content), longest/4), "omitted": w.dropped,
	}
}

// longest bounds an answer, in bytes.
const longest = 4 << 20

func (w *worker) finalVar(name string) object {
	w.restore() // before the first cell, too
	v, ok := w.lookup(name)
	if !ok {
		return object{"final": nil}
	}
	text, err := answerOf(v)
	if err != nil {
		return failure("ValueError", err.Error())
	}
	return object{"final": text}
}

// answerOf returns the text of a value, as an answer.
func answerOf(v starlark.Value) (string, error) {
	text := textOf(v)
	if len(text) > longest {
		return "", fmt.Errorf("the answer has %d bytes, the limit is %d", len(text), longest)
	}
	return text, nil
}

// textOf returns the text of a value, as print writes it.
func textOf(v starlark.Value) string {
	if s, ok := starlark.AsString(v); ok {
		return s
	}
	return v.String()
}
