package question

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"

	"github.com/wirectl/wirectl/broker/observe"
	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/capture/tap"
	"github.com/wirectl/wirectl/rlm"
)

// workers are the connections to a run's interpreters, by run or child run.
type workers struct {
	mu sync.Mutex
	of map[string]*observe.Conn
}

// open publishes a connection to the interpreter of a run.
func (w *workers) open(p *observe.Publisher, ref string) *observe.Conn {
	c := p.Open("worker of "+ref, "repl", "len32")
	c.Belongs(capture.Place{Run: ref})
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.of == nil {
		w.of = map[string]*observe.Conn{}
	}
	w.of[ref] = c
	return c
}

// observe publishes the places of cells and calls in the run.
func (w *workers) observe(e rlm.Event) {
	at := strings.LastIndex(e.Ref, "/t")
	if e.Done || at < 0 || e.Kind != rlm.EventCell && e.Query == "" {
		return
	}
	w.mu.Lock()
	c := w.of[e.Ref[:at]]
	w.mu.Unlock()
	c.Belongs(capture.Place{Run: e.Ref, ID: json.RawMessage(e.Query), Next: e.Kind == rlm.EventCell})
}

// A control lets viewers interrupt.
type control struct{ *rlm.Interrupts }

// Control implements [tap.Controller]. The id of a cancel is a Ref.
func (c control) Control(_ context.Context, cmd tap.Command) ([]tap.Note, error) {
	var ref string
	switch {
	case cmd.Do == tap.Waiting:
		return nil, nil
	case cmd.Do != tap.Cancel:
		return nil, errors.New("a run of rlm takes only the command cancel")
	case json.Unmarshal(cmd.ID, &ref) != nil:
		return nil, errors.New(`name what is to be interrupted by its place, such as "RUN/t3/c1"`)
	}
	return nil, c.Interrupt(ref)
}
