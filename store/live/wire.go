// Package live feeds a store with a running session, and sends commands to it.
package live

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/capture/tap"
	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/wait"
	"github.com/wirectl/wirectl/store"
)

// A Wire controls a relay through its tap: it gives commands, and hears the answers among
// the records. It is the tui.Wire of a live session.
type Wire struct {
	store *store.Store

	mu       sync.Mutex
	conn     *tap.Conn // nil if there is none
	remote   Remote    // in its place, for a session of a hub
	heard    bool      // the remote has obeyed a command
	last     tap.Info  // of the previous tap
	asked    int       // commands so far
	answers  map[string]chan tap.Note
	seqs     []int64 // the numbers that the tap gave the frames, newest last
	first    int64   // the number that the monitor gave the first of seqs
	lost     int64
	conns    int  // the highest number that a connection has got
	before   int  // added to the numbers of connections of this tap
	numbered bool // before is known
}

// NewWire returns the wire of a store that no tap feeds yet.
func NewWire(s *store.Store) *Wire {
	return &Wire{store: s, answers: map[string]chan tap.Note{}, first: 1}
}

// A Remote takes commands for a session that another machine sends.
type Remote interface {
	// Do carries out a command, and returns the notes besides the answer.
	Do(ctx context.Context, c tap.Command) ([]tap.Note, error)
	// Refuses says why no command would be obeyed; "" if commands may be.
	Refuses() string
}

// waitingEvery is how often a remote is asked for the frames that wait.
const waitingEvery = time.Second

// errUnheard says that it is not known yet whether the remote takes commands.
var errUnheard = errors.New("the relay of this session has not answered yet: try again")

// watch tells the store of the frames that wait at the remote, until ctx ends or the
// remote takes no commands.
func (w *Wire) watch(ctx context.Context) {
	held := map[int64]bool{}
	for {
		notes, err := w.remote.Do(ctx, tap.Command{Do: tap.Waiting})
		if err != nil {
			if w.remote.Refuses() != "" || wait.For(ctx, waitingEvery) != nil {
				return
			}
			continue
		}
		w.mu.Lock()
		w.heard = true
		w.mu.Unlock()
		now := map[int64]bool{}
		for _, n := range notes {
			if now[n.Held] = true; !held[n.Held] {
				w.note(n)
			}
		}
		for number := range held {
			if !now[number] {
				w.store.Let(number)
			}
		}
		held = now
		if wait.For(ctx, waitingEvery) != nil {
			return
		}
	}
}

// setRemote says which remote it is from here on.
func (w *Wire) setRemote(r Remote) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.remote = r
}

// begin says which tap it is from here on.
func (w *Wire) begin(conn *tap.Conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.conn = conn
	w.first, w.seqs = w.first+int64(len(w.seqs)), nil
	w.numbered = false
}

// Open opens the records of a tap, which is the tap of the wire from then on.
func (w *Wire) Open(conn *tap.Conn, cfg decode.Config) (decode.Input, error) {
	w.begin(conn)
	return decode.Open(conn, cfg)
}

// Next connects to the tap that follows the one of the wire, once there is one.
func (w *Wire) Next(ctx context.Context, dir string, any bool) (*tap.Conn, error) {
	w.mu.Lock()
	if w.conn != nil {
		w.last, w.conn = w.conn.Info, nil
	}
	w.mu.Unlock()
	conn, err := tap.Next(ctx, dir, w.last, any)
	if err == nil {
		w.last = conn.Info
	}
	return conn, err
}

// number gives the connection of a record its number in the monitor: from 1, continued from
// the previous tap. A tap with one connection may call it 0.
func (w *Wire) number(r *capture.Record) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.numbered {
		w.before, w.numbered = w.conns, true
		if r.Conn == 0 {
			w.before++
		}
	}
	r.Conn += w.before
	w.conns = max(w.conns, r.Conn)
}

// keptSeqs is how many frames can be named to the tap, whose history is shorter.
const keptSeqs = 1 << 16

// hear handles a record of the tap on its way to the store, and reports whether it is only
// for the wire.
func (w *Wire) hear(r *capture.Record) (ours bool) {
	if r.Kind == capture.Frame {
		w.mu.Lock()
		defer w.mu.Unlock()
		if len(w.seqs) == 2*keptSeqs {
			w.seqs = append(w.seqs[:0], w.seqs[keptSeqs:]...)
			w.first += keptSeqs
		}
		w.seqs = append(w.seqs, r.Seq)
		return false
	}
	n, ok := tap.ParseNote(r)
	if ok {
		w.note(n)
	}
	return ok
}

func (w *Wire) note(n tap.Note) {
	switch n.Tap {
	case tap.Hello, tap.Lost:
		if n.Altered {
			w.store.Alter()
		}
		w.lost += n.Lost
		w.store.Lost(w.lost)
	case tap.Held:
		payload := []byte(n.Payload)
		if payload == nil {
			payload = n.Data
		}
		dir, _ := frame.ParseDir(n.Dir)
		w.store.Hold(store.Held{Number: n.Held, Conn: w.before + n.Conn, Dir: dir, Payload: payload})
	case tap.Released:
		w.store.Let(n.Held)
	case tap.Answer:
		w.mu.Lock()
		answer := w.answers[n.Tag]
		delete(w.answers, n.Tag)
		w.mu.Unlock()
		if answer != nil {
			answer <- n
		}
	}
}

var (
	errNoTap    = errors.New("the session has ended and cannot be changed")
	errNotBegun = errors.New("the session has not begun yet")
)

// absent says why there is no tap.
func (w *Wire) absent() error {
	if w.last.Name == "" {
		return errNotBegun
	}
	return errNoTap
}

// answerTime is how long an answer to a command is waited for.
const answerTime = 5 * time.Second

// Refuses says why no command would be obeyed; "" if commands may be.
func (w *Wire) Refuses() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.remote != nil:
		if why := w.remote.Refuses(); why != "" || w.heard {
			return why
		}
		return errUnheard.Error()
	case w.conn == nil:
		return w.absent().Error()
	case !w.conn.Info.Control:
		return tap.ErrNoCommands.Error()
	}
	return ""
}

// do gives a command and waits for its answer.
func (w *Wire) do(c tap.Command) error {
	w.mu.Lock()
	if remote := w.remote; remote != nil {
		w.mu.Unlock()
		ctx, cancel := context.WithTimeout(context.Background(), answerTime)
		defer cancel()
		_, err := remote.Do(ctx, c)
		return err
	}
	conn := w.conn
	if conn == nil {
		defer w.mu.Unlock()
		return w.absent()
	}
	w.asked++
	c.Tag = strconv.Itoa(w.asked)
	answer := make(chan tap.Note, 1)
	w.answers[c.Tag] = answer
	w.mu.Unlock()
	if err := conn.Send(c); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), answerTime)
	defer cancel()
	select {
	case n := <-answer:
		if n.Error != "" {
			return errors.New(n.Error)
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%s: no answer from the relay within %v", c.Do, answerTime)
	}
}

// Cancel sends the protocol's cancel of an exchange. Without a connection, id is that of a
// run of wirectl rlm, or of a place in it.
func (w *Wire) Cancel(conn int, id string) error {
	if !json.Valid([]byte(id)) {
		id = strconv.Quote(id)
	}
	w.mu.Lock()
	if conn != 0 {
		conn -= w.before
	}
	w.mu.Unlock()
	if conn < 0 {
		return errNoTap // the frame was of the previous tap
	}
	return w.do(tap.Command{Do: tap.Cancel, Conn: conn, ID: json.RawMessage(id)})
}

// Resend sends a frame again, which the monitor knows by that number.
func (w *Wire) Resend(seq int64) error {
	w.mu.Lock()
	i := seq - w.first
	known := i >= 0 && i < int64(len(w.seqs))
	if known {
		seq = w.seqs[i]
	}
	w.mu.Unlock()
	if !known {
		return errors.New("the tap no longer has that frame")
	}
	return w.do(tap.Command{Do: tap.Resend, Seq: seq})
}

// Hold makes frames wait that meet a condition; "" ends that.
func (w *Wire) Hold(where string) error { return w.do(tap.Command{Do: tap.Hold, Where: where}) }

// Release lets a waiting frame go.
func (w *Wire) Release(held int64) error {
	return w.do(tap.Command{Do: tap.Release, Held: held})
}

// Drop drops a waiting frame.
func (w *Wire) Drop(held int64) error { return w.do(tap.Command{Do: tap.Drop, Held: held}) }

// Edit lets another frame go in the place of a waiting one.
func (w *Wire) Edit(held int64, payload []byte) error {
	c := tap.Command{Do: tap.Edit, Held: held, Data: payload}
	if json.Valid(payload) {
		c.Payload, c.Data = payload, nil
	}
	return w.do(c)
}
