package python_test

import (
	"bytes"
	"context"
	"sync"
	"testing"
	"time"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/repl"
	"github.com/wirectl/wirectl/rlm"
	"github.com/wirectl/wirectl/rlm/env"
	"github.com/wirectl/wirectl/rlm/env/python"
	"github.com/wirectl/wirectl/session"
)

// Both sides keep the rules of the protocol.
func TestSession(t *testing.T) {
	var mu sync.Mutex
	var frames []session.Frame
	var raw [][]byte
	tap := func(d frame.Dir, b []byte) {
		mu.Lock()
		defer mu.Unlock()
		b = bytes.Clone(b)
		raw = append(raw, b)
		frames = append(frames, session.Frame{Seq: int64(len(frames) + 1), Conn: 1, Dir: d, Size: len(b), Payload: b[4:]})
	}
	i := start(t, env.Config{Tap: tap, Setup: "import threading"}, python.Options{})
	path := t.TempDir() + "/c"
	write(t, path, "text")
	if err := i.Load(t.Context(), rlm.Context{Path: path, Type: "text"}); err != nil {
		t.Fatal(err)
	}
	history := []rlm.Message{{Role: "user", Content: "q"}}
	for _, code := range []string{"print(llm_query('x')); 1 / 0", "llm_query_batched(['a', 'bad'])", "print('\ufffd')\nrlm_query(['bad'])", "answer['ready'] = True"} {
		i.Tell(history)
		if _, err := i.Exec(t.Context(), rlm.Cell{Code: code, Calls: i.Calls}); err != nil {
			t.Fatal(err)
		}
		history = append(history, rlm.Message{Role: "assistant", Content: code})
	}
	if _, _, err := i.Var(t.Context(), "context"); err != nil {
		t.Fatal(err)
	}
	asked := make(chan struct{}, 9)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-asked
		cancel()
	}()
	r, err := i.Exec(ctx, rlm.Cell{Code: "while True: llm_query('x')", Calls: blocked(asked)})
	if err != nil || r.Err == nil {
		t.Fatal(r, err)
	}
	i.Close()

	tr := session.New(repl.Protocol, session.Options{})
	for n, f := range frames {
		var m protocol.Message
		if err := repl.Protocol.Parse(f.Payload, &m); err != nil || m.Faults != 0 || m.From != frame.DirUnknown && m.From != f.Dir {
			t.Errorf("%s: %v, faults %v, from %v", f.Payload, err, m.Faults, m.From)
		}
		var e frame.Extent
		if frame.Len32.Next(raw[n], repl.Limit, true, &e) != nil || e.Raw != len(raw[n]) {
			t.Errorf("%q is not one frame", raw[n])
		}
		tr.Feed(f, &m)
	}
	tr.End(1, time.Time{})
	for f := range tr.Findings() {
		t.Errorf("%+v", f)
	}
	for c := range tr.Cancels() {
		if c.Class.String() != "confirmed" {
			t.Errorf("cancel is %v", c.Class)
		}
	}
}
