package hub

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/capture/tap"
	"github.com/wirectl/wirectl/frame"
)

// Commands begins the subjects on which senders get commands; the key of the session
// follows.
const Commands = "wirectl.c."

// An answer is the answer of a sender to a command.
type answer struct {
	Notes []tap.Note `json:"notes,omitempty"`
	Error string     `json:"error,omitempty"`
}

// errNoCommands is the answer of a relay without --hub-control.
var errNoCommands = errors.New("this session is read-only: start its relay with --hub-control to send it commands")

var errStarting = errors.New("the relay is still starting: try again")

// Obey makes the sender pass commands of viewers to c.
func (t *Sender) Obey(c tap.Controller) { t.controller.Store(&c) }

// listen answers commands until the end, one at a time.
func (t *Sender) listen() {
	defer func() { _ = t.commands.Unsubscribe() }() // it fails if the connection is closed
	for {
		m, err := t.commands.NextMsgWithContext(t.ctx)
		if err != nil {
			return
		}
		text, err := json.Marshal(t.obey(m.Data))
		if most := t.conn.MaxPayload(); err == nil && int64(len(text)) > most {
			text, err = json.Marshal(answer{Error: fmt.Sprintf("the answer is larger than the %d bytes that the hub takes", most)})
		}
		if err == nil {
			_ = m.Respond(text) // it fails if the viewer has gone
		}
	}
}

func (t *Sender) obey(line []byte) (a answer) {
	c, err := tap.ParseCommand(line)
	switch controller := t.controller.Load(); {
	case err != nil:
	case controller != nil:
		a.Notes, err = (*controller).Control(t.ctx, c)
	case t.o.Control:
		err = errStarting
	default:
		err = errNoCommands
	}
	for i := range a.Notes {
		if err == nil {
			err = t.redactNote(&a.Notes[i])
		}
	}
	if err != nil {
		a = answer{Error: err.Error()}
	}
	return a
}

// redactNote redacts the frame in a note like the frames of the session.
func (t *Sender) redactNote(n *tap.Note) error {
	payload := []byte(n.Payload)
	if payload == nil {
		payload = n.Data
	}
	if len(payload) == 0 {
		return nil
	}
	var kept keeper
	dir, _ := frame.ParseDir(n.Dir)
	x := t.o.redaction()
	s := capture.Session{Protocol: t.info.Protocol}
	r := capture.Record{Kind: capture.Frame, Protocol: t.info.Protocol, Frame: frame.Frame{Raw: payload, End: len(payload), Dir: dir, Conn: n.Conn}}
	if err := capture.Redact(&kept, &s, x).Write(&r); err != nil {
		return err
	}
	if n.Payload, n.Data = nil, kept.payload; json.Valid(kept.payload) {
		n.Payload, n.Data = kept.payload, nil
	}
	return nil
}

// A keeper keeps the payload of a record.
type keeper struct{ payload []byte }

func (k *keeper) Write(r *capture.Record) error {
	if r.Kind == capture.Frame {
		k.payload = append(k.payload, r.Payload()...)
	}
	return nil
}

// commandTime is how long a sender may take to answer a command.
const commandTime = 5 * time.Second

// Refuses returns why the session takes no commands; "" if it may take some.
func (r *Reader) Refuses() string {
	switch why := r.refused.Load(); {
	case !r.session.Live && !r.session.Ended.IsZero(): // without an end, its sender may come back, or has just begun
		return "this session has ended"
	case why != nil:
		return *why
	}
	return ""
}

// Do gives a command to the sender of the session, and waits for the answer.
func (r *Reader) Do(ctx context.Context, c tap.Command) ([]tap.Note, error) {
	ctx, cancel := context.WithTimeout(ctx, commandTime)
	defer cancel()
	nc := r.conn.nats
	sub, unsubscribe, err := r.conn.request(Commands+r.session.Key(), c)
	if err != nil {
		return nil, err
	}
	defer unsubscribe()
	if err := nc.FlushWithContext(ctx); err != nil {
		return nil, err
	}
	if errors.Is(nc.LastError(), nats.ErrPermissionViolation) { // which the server tells before it answers the flush
		return nil, r.refuse("the token does not allow control: make one with wirectl hub token --control")
	}
	m, err := sub.NextMsgWithContext(ctx)
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		return nil, errors.New("nothing sends this session now")
	case errors.Is(err, context.DeadlineExceeded):
		return nil, fmt.Errorf("%s: no answer from the relay within %v", c.Do, commandTime)
	case err != nil:
		return nil, err
	}
	var a answer
	if err := json.Unmarshal(m.Data, &a); err != nil {
		return nil, fmt.Errorf("the answer of the relay: %w", err)
	}
	switch a.Error {
	case "":
		return a.Notes, nil
	case errNoCommands.Error():
		return nil, r.refuse(a.Error)
	}
	return nil, errors.New(a.Error)
}

// refuse remembers why no command is obeyed.
func (r *Reader) refuse(why string) error {
	r.refused.Store(&why)
	return errors.New(why)
}
