package hub

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/decode/source"
	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/store"
	"github.com/wirectl/wirectl/table"
)

// Select returns the sessions that have each word in their id, host, kind, name, protocol,
// controller, unit or state, newest first.
func Select(list []Info, words []string) []Info {
	found := slices.DeleteFunc(slices.Clone(list), func(i Info) bool { return !i.Has(words) })
	slices.SortFunc(found, NewestFirst)
	return found
}

// Has reports whether a session has each word; see [Select].
func (i *Info) Has(words []string) bool {
	about := strings.ToLower(strings.Join([]string{i.ID, i.Host, i.Kind, i.Name, i.Protocol, i.Controller, i.Unit, i.state()}, "\n"))
	return !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(about, strings.ToLower(word)) })
}

// WriteSessions lists the sessions that a query finds at the hub that the environment names.
func WriteSessions(ctx context.Context, getenv func(string) string, q Query, out table.Output, warn func(string)) error {
	conn, err := DialFrom(getenv, "")
	if err != nil {
		return err
	}
	defer conn.Close()
	found, err := conn.find(ctx, q, func(f *Found) {
		warn(fmt.Sprintf("searched %d of %s, newest first, with %d found so far", f.Searched, render.Count(f.All, "session"), len(f.Sessions)))
	})
	if err != nil && (ctx.Err() == nil || found.All == 0) {
		return err
	}
	if err != nil {
		warn(fmt.Sprintf("the search was stopped: only the newest %d of %s were searched", found.Searched, render.Count(found.All, "session")))
	}
	for _, id := range found.Partly {
		warn(fmt.Sprintf("hub:%s is too large to be searched to its end: use wirectl decode hub:%[1]s", id))
	}
	if found.Behind > 0 {
		warn(fmt.Sprintf("the index is behind: the hub has yet to read %s", render.Count(found.Behind, "message")))
	}
	columns := columns
	if out.Form == table.AsNDJSON {
		columns = nil
	} else if len(found.Sessions) == 0 {
		warn("no session matches")
	}
	return errors.Join(table.Write(out, columns, found.Sessions), err)
}

// state returns the state of a session.
func (i *Info) state() string {
	switch {
	case i.Live:
		return "live"
	case i.Cut:
		return "cut"
	case i.Ended.IsZero():
		return "away" // nobody sends it now, but its sender may come back
	}
	return "ended"
}

// columns are those of sessions.
var columns = []table.Column[Info]{
	{Title: "ID", Value: func(i *Info) any { return i.ID }},
	{Title: "WHEN", Drop: 5, Value: func(i *Info) any { return i.Started.Local().Format(time.DateTime) }},
	{Title: "HOST", Drop: 6, Value: func(i *Info) any { return i.Host }},
	{Title: "KIND", Drop: 2, Value: func(i *Info) any { return i.Kind }},
	{Title: "NAME", Least: 8, Value: func(i *Info) any { return i.Name }},
	{Title: "STATE", Value: func(i *Info) any { return i.state() }},
	{Title: "FRAMES", Drop: 3, Value: func(i *Info) any { return i.Frames }},
	{Title: "LOST", Drop: 1, Value: func(i *Info) any { return i.Lost }},
	{Title: "CALLS", Drop: 7, Value: func(i *Info) any { return countText(i.Calls) }},
	{Title: "FAILURES", Value: func(i *Info) any { return countText(i.Failures) }},
	{Title: "FINDINGS", Drop: 4, Value: func(i *Info) any { return countText(i.Findings) }},
}

// countText writes a count, which may be unknown.
func countText(n *int64) string {
	if n == nil {
		return "-"
	}
	return strconv.FormatInt(*n, 10)
}

// A Library lists and opens the sessions of a hub for a web page.
type Library struct{ Conn *Conn }

// List returns the sessions that have all of the words, newest first.
func (l Library) List(ctx context.Context, words string) (list []store.Listed, err error) {
	all, err := l.Conn.Sessions(ctx)
	for _, i := range Select(all, strings.Fields(words)) {
		list = append(list, store.Listed{
			ID: i.Host + "/" + i.ID, Name: i.Name, Host: i.Host, Kind: i.Kind, State: i.state(), Started: i.Started, Frames: i.Frames, Lost: i.Lost,
			About: strings.TrimSpace(i.Protocol + "  " + i.Controller + " ⇄ " + i.Unit),
		})
	}
	return list, err
}

// Viewing returns what reads the session with that id into s.
func (l Library) Viewing(_ context.Context, id string, s *store.Store) (*store.Viewing, error) {
	opener := &source.Opener{Hub: func(ctx context.Context, name string, _ bool) (io.ReadCloser, error) { return l.Conn.Open(ctx, name) }}
	return &store.Viewing{Name: "hub:" + id, Opener: opener, Store: s, Config: decode.Config{Resync: true, Notice: s.Notice}}, nil
}
