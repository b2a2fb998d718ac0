package web

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/decode/source"
	"github.com/wirectl/wirectl/store"
	"github.com/wirectl/wirectl/store/live"
)

// Local has the live and recorded sessions of this machine, or a single one.
type Local struct {
	Opener *source.Opener
	Config decode.Config
	Only   string // a session; "" means all
	Follow bool   // wait for more at the end of a file
}

// List returns the taps and the recorded sessions.
func (l *Local) List(_ context.Context, words string) (list []live.Listed, err error) {
	choices := []live.Choice{{Name: l.Only, Input: l.Only}}
	if l.Only == "" {
		if choices, err = live.Choices(l.Opener.Getenv); err != nil {
			return nil, err
		}
	}
	if l.Only == "" && len(choices) == 1 && source.IsTap(choices[0].Input) {
		choices[0] = live.Choice{Name: live.Await, About: "what runs, or the next relay or broker that does", Input: live.Await}
	}
	for _, c := range choices {
		about := strings.ToLower(c.Name + "\n" + c.About)
		if !slices.ContainsFunc(strings.Fields(strings.ToLower(words)), func(word string) bool { return !strings.Contains(about, word) }) {
			list = append(list, live.Listed{ID: c.Input, Name: c.Name, About: c.About})
		}
	}
	return list, nil
}

// Viewing returns the source of a listed session.
func (l *Local) Viewing(ctx context.Context, id string, s *store.Store) (*live.Viewing, error) {
	list, err := l.List(ctx, "")
	if err != nil {
		return nil, err
	}
	// A link may name only listed sessions, not any file of this machine.
	if !slices.ContainsFunc(list, func(c live.Listed) bool { return c.ID == id }) {
		return nil, fmt.Errorf("no session %q", id)
	}
	name, err := l.Opener.Resolve(id)
	if err != nil {
		return nil, err
	}
	cfg := l.Config
	cfg.Resync, cfg.Notice = true, s.Notice
	return &live.Viewing{Name: name, Opener: l.Opener, Store: s, Config: cfg, Follow: l.Follow}, nil
}
