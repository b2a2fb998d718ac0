package hub

import (
	"context"
	"io"
	"strings"

	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/decode/source"
	"github.com/wirectl/wirectl/store"
	"github.com/wirectl/wirectl/store/live"
)

// A Library lists and opens the sessions of a hub for a web page.
type Library struct{ Conn *Conn }

// List returns the sessions that have all of the words, newest first.
func (l Library) List(ctx context.Context, words string) (list []live.Listed, err error) {
	all, err := l.Conn.Sessions(ctx)
	for _, i := range Select(all, strings.Fields(words)) {
		list = append(list, live.Listed{
			ID: i.Host + "/" + i.ID, Name: i.Name, Host: i.Host, Kind: i.Kind, State: i.state(), Started: i.Started, Frames: i.Frames, Lost: i.Lost,
			About: strings.TrimSpace(i.Protocol + "  " + i.Controller + " ⇄ " + i.Unit),
		})
	}
	return list, err
}

// Viewing returns what reads the session with that id into s.
func (l Library) Viewing(_ context.Context, id string, s *store.Store) (*live.Viewing, error) {
	opener := &source.Opener{Hub: func(ctx context.Context, name string, _ bool) (io.ReadCloser, error) { return l.Conn.Open(ctx, name) }}
	return &live.Viewing{Name: "hub:" + id, Opener: opener, Store: s, Config: decode.Config{Resync: true, Notice: s.Notice}}, nil
}
