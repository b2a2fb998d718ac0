package client

import (
	"context"

	"github.com/wirectl/wirectl/protocol/jsonscan"
)

// A LatisAsk is what a person may ask of a unit at once.
type LatisAsk struct {
	Ping bool
	// Session is entered first: "" is none, and new is one that is made with the
	// metadata. Destroy ends it instead.
	Session   string
	Destroy   bool
	Metadata  map[string]string
	Prompt    *LatisPrompt // or nil
	State     bool         // beside the prompt, or alone
	Subscribe bool         // beside the rest, or alone
	// Created is told the id of a session that was made, and Resumed the state of one
	// that was resumed, as JSON.
	Created, Resumed func(string)
}

// IsEmpty reports whether nothing is asked for.
func (a *LatisAsk) IsEmpty() bool {
	return !a.Ping && a.Session == "" && a.Prompt == nil && !a.State && !a.Subscribe
}

// Enter makes or resumes the session.
func (a *LatisAsk) Enter(ctx context.Context, l *Latis) error {
	switch {
	case a.Session == "" || a.Destroy:
		return nil
	case a.Session == "new":
		id, err := l.CreateSession(ctx, a.Metadata)
		if err == nil {
			a.Created(id)
		}
		return err
	}
	state, err := l.ResumeSession(ctx, a.Session)
	if err == nil {
		a.Resumed(string(jsonscan.MustMarshal(state)))
	}
	return err
}

// Call is the call for all that is asked, in the session that was entered.
func (a *LatisAsk) Call(l *Latis) Call {
	call := a.call(l)
	switch {
	case call == nil && a.Subscribe:
		return l.Subscribe()
	case call == nil:
		return func(context.Context, func(Part)) error { return nil }
	case !a.Subscribe:
		return call
	}
	return During(l.Subscribe(), call)
}

// call is the call without the subscription; nil where the session, or what it tells by
// itself, is all.
func (a *LatisAsk) call(l *Latis) Call {
	switch {
	case a.Ping:
		return l.Ping()
	case a.Destroy:
		return func(ctx context.Context, _ func(Part)) error { return l.DestroySession(ctx, a.Session) }
	case a.Prompt != nil:
		p := *a.Prompt // of this connection
		if a.State {
			p.Beside = l.State()
		}
		return l.Prompt(p)
	case a.State:
		return l.State()
	}
	return nil
}
