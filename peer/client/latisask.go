package client

import (
	"context"

	"github.com/wirectl/wirectl/internal/jsonscan"
)

// A LatisAsk combines what one command may request from a unit.
type LatisAsk struct {
	Ping bool
	// Session is created with Metadata if it is "new", and otherwise resumed, or
	// destroyed if Destroy is set. "" means no session.
	Session   string
	Destroy   bool
	Metadata  map[string]string
	Prompt    *LatisPrompt // or nil
	State     bool         // beside the prompt, or alone
	Subscribe bool         // beside the rest, or alone
	// Created receives the id of a new session; Resumed receives the state of a resumed
	// one, as JSON.
	Created, Resumed func(string)
}

// IsEmpty reports whether a requests nothing.
func (a *LatisAsk) IsEmpty() bool {
	return !a.Ping && a.Session == "" && a.Prompt == nil && !a.State && !a.Subscribe
}

// Enter creates or resumes the session.
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

// Call makes all requests, in the session that Enter entered.
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

// call is Call without the subscription; nil if nothing else is requested.
func (a *LatisAsk) call(l *Latis) Call {
	switch {
	case a.Ping:
		return l.Ping()
	case a.Destroy:
		return func(ctx context.Context, _ func(Part)) error { return l.DestroySession(ctx, a.Session) }
	case a.Prompt != nil:
		p := *a.Prompt // Beside differs per connection
		if a.State {
			p.Beside = l.State()
		}
		return l.Prompt(p)
	case a.State:
		return l.State()
	}
	return nil
}
