package mcphttp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
)

// A handshake is how the client began its session. Another session begins in the same way, if
// the server forgets the first one, as after a restart.
type handshake struct {
	id                      string // of initialize
	initialize, initialized []byte // initialized is nil if it was not sent yet
	agreed                  *agreement
}

// An agreement is the part of the answer to initialize that must be the same in another session.
type agreement struct {
	ProtocolVersion string `json:"protocolVersion"`
	Capabilities    any    `json:"capabilities"`
}

// agreementIn returns the agreement in an answer to initialize; nil if there is none.
func agreementIn(payload []byte) *agreement {
	var answer struct {
		Result *agreement `json:"result"`
	}
	if json.Unmarshal(payload, &answer) != nil {
		return nil
	}
	return answer.Result
}

// A renewal replaces a session that the server has forgotten. Requests that are refused at the
// same time share it.
type renewal struct {
	session int // the number of the session
	done    chan struct{}
	err     error // valid once done is closed
}

// errForgotten means that the server does not know the session of a request any more.
var errForgotten = errors.New("the server has forgotten its session")

// A forgottenError means that a request was refused because the server has forgotten its
// session, and that another one could not begin.
type forgottenError struct {
	refused *StatusError
	err     error
}

func (e *forgottenError) Error() string {
	return fmt.Sprintf("%v: %v, and another could not begin: %v", e.refused, errForgotten, e.err)
}

// renewed reports whether err says that the server has forgotten the session of a request. Then
// it waits until there is another session; failed is why there is none.
func (c *conn) renewed(ctx context.Context, err error) (forgotten bool, failed error) {
	refused, ok := errors.AsType[*StatusError](err)
	if !ok || refused.Code != http.StatusNotFound || refused.session == 0 {
		return false, nil
	}
	c.mu.Lock()
	r := c.renewal
	switch {
	case r != nil && r.session == refused.session:
	case c.client.sessionNumber() != refused.session:
		c.mu.Unlock()
		return true, nil
	case c.handshake.agreed == nil || c.ending:
		c.mu.Unlock()
		return false, nil
	default:
		r = &renewal{session: refused.session, done: make(chan struct{})}
		c.renewal = r
		h := c.handshake
		c.work.Go(func() { c.renew(r, &h, refused) })
	}
	c.mu.Unlock()
	select {
	case <-r.done:
		return true, r.err
	case <-ctx.Done():
		return true, context.Cause(ctx)
	}
}

// renew carries out a renewal.
func (c *conn) renew(r *renewal, h *handshake, refused *StatusError) {
	defer close(r.done)
	differs := false
	accepted, err := c.client.renew(c.alive, h.initialize, h.initialized, func(answer *Answer) error {
		got, err := c.agreement(answer, h.id)
		if err == nil && !reflect.DeepEqual(got, h.agreed) {
			differs = true
			err = fmt.Errorf("the server answered %s with the version %s, and other capabilities or another version than before (%s): restart the client", initialize, got.ProtocolVersion, h.agreed.ProtocolVersion)
		}
		return err
	})
	if err != nil {
		r.err = &forgottenError{refused, err}
	}
	c.mu.Lock()
	if !differs { // otherwise, it would fail in the same way again
		c.renewal = nil
	}
	c.mu.Unlock()
	if err == nil {
		c.endpoint.Notice(fmt.Sprintf("%s: %v (HTTP %s), so the bridge began another one: what the server kept for the first one, such as subscriptions, is lost", c.endpoint, errForgotten, refused.Status))
		if accepted != nil {
			if !c.run(func() { _ = c.read(c.alive, accepted, c.client.Receive) }) {
				accepted.Close()
			}
			c.relisten()
		}
	}
}

// errFound ends the reading of an answer.
var errFound = errors.New("found")

// agreement reads the answer to initialize. Other messages are for the client.
func (c *conn) agreement(answer *Answer, id string) (*agreement, error) {
	var line []byte
	err := c.read(c.alive, answer, func(payload []byte) error {
		if m := parse(payload); m.isResponse() && string(m.ID) == id {
			line = bytes.Clone(payload)
			return errFound
		}
		return c.client.Receive(payload)
	})
	got := agreementIn(line)
	switch {
	case got != nil:
		return got, nil
	case line != nil:
		return nil, fmt.Errorf("the server answered %s with %.500s", initialize, line)
	case err == nil:
		err = fmt.Errorf("HTTP %s has no answer to %s", answer.resp.Status, initialize)
	}
	return nil, err
}
