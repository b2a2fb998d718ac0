package tap

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/wirectl/wirectl/internal/nearest"
)

// A Command is a request from a viewer to a tap's owner: one line of JSON.
type Command struct {
	// Do is the verb: one of the verbs below.
	Do string `json:"do"`
	// Tag is returned with the answer.
	Tag string `json:"tag,omitempty"`
	// Conn is the connection; 0 if there is only one.
	Conn int `json:"conn,omitempty"`
	// To is the receiver of a frame: "unit" or "controller".
	To string `json:"to,omitempty"`
	// Payload is a JSON payload; [Conn.Send] removes its white space. Data is any other
	// payload.
	Payload json.RawMessage `json:"payload,omitempty"`
	Data    []byte          `json:"data,omitempty"`
	// ID is the id of an exchange, as it was written on the wire.
	ID json.RawMessage `json:"id,omitempty"`
	// Seq is the number of a recorded frame; Held is the number of a held frame.
	Seq  int64 `json:"seq,omitempty"`
	Held int64 `json:"held,omitempty"`
	// Where is a condition in the language of --where.
	Where string `json:"where,omitempty"`
}

// ErrNoCommands is the answer of a tap whose owner has no Controller.
var ErrNoCommands = errors.New("this tap is read-only: start the relay or the run of rlm with --control to send it commands")

// A Controller executes commands.
type Controller interface {
	// Control executes a valid command. The notes are sent to the viewer before the
	// answer. It is called concurrently.
	Control(ctx context.Context, c Command) ([]Note, error)
}

// The verbs of commands.
const (
	Inject  = "inject"  // To, Payload or Data: send a new frame
	Cancel  = "cancel"  // ID: send the protocol's cancel of an exchange
	Resend  = "resend"  // Seq: send a frame again
	Hold    = "hold"    // Where: hold frames that match; "" holds none
	Release = "release" // Held: send a held frame
	Edit    = "edit"    // Held, Payload or Data: send another frame instead
	Drop    = "drop"    // Held: discard a held frame
	Waiting = "waiting" // list the held frames, as [Held] notes
)

// needs are the required members of a command.
type needs struct{ to, payload, id, seq, held bool }

var verbs = []struct {
	name string
	needs
}{
	{Inject, needs{to: true, payload: true}},
	{Cancel, needs{id: true}},
	{Resend, needs{seq: true}},
	{Hold, needs{}},
	{Release, needs{held: true}},
	{Edit, needs{held: true, payload: true}},
	{Drop, needs{held: true}},
	{Waiting, needs{}},
}

// verbNames lists the verbs of commands.
func verbNames() (names []string) {
	for _, v := range verbs {
		names = append(names, v.name)
	}
	return names
}

// ParseCommand parses a complete command.
func ParseCommand(line []byte) (c Command, err error) {
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(&c); err != nil {
		return c, fmt.Errorf("invalid command: want an object on one line: %w", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return c, fmt.Errorf("invalid command: more follows the object on its line")
	}
	return c, c.check()
}

// check returns an error if a command lacks a member.
func (c *Command) check() error {
	for _, v := range verbs {
		if v.name != c.Do {
			continue
		}
		switch {
		case v.to && c.To != "unit" && c.To != "controller":
			return fmt.Errorf(`%s: "to" is unit or controller, and not %q`, c.Do, c.To)
		case v.payload && (c.Payload == nil) == (len(c.Data) == 0):
			return fmt.Errorf(`%s needs either "payload" or "data"`, c.Do)
		case v.id && c.ID == nil:
			return fmt.Errorf(`%s needs the "id" of an exchange`, c.Do)
		case v.seq && c.Seq <= 0:
			return fmt.Errorf(`%s needs "seq", the number of a frame`, c.Do)
		case v.held && c.Held <= 0:
			return fmt.Errorf(`%s needs "held", the number of a frame that waits`, c.Do)
		}
		return nil
	}
	return fmt.Errorf(`"do" is one of %s, not %q%s`, strings.Join(verbNames(), ", "), c.Do, nearest.Question(c.Do, verbNames()))
}

// Bytes returns the payload that a command carries.
func (c *Command) Bytes() []byte {
	if c.Payload != nil {
		return c.Payload
	}
	return c.Data
}
