package web

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/wirectl/wirectl/store"
)

// A shelf has the sessions that a page shows, or has shown until recently.
type shelf struct {
	ctx     context.Context
	options *Options
	feeding sync.WaitGroup

	mu     sync.Mutex
	opened map[string]*opened
}

const (
	// maxOpened is how many sessions are open at once.
	maxOpened = 16
	// idleTime is how long a session stays open without viewers, for pages that are reloaded.
	idleTime = 30 * time.Second
)

var errFull = errors.New("too many sessions are open: close the page of another one")

// opened is an open session.
type opened struct {
	id      string
	store   *store.Store
	stop    context.CancelFunc
	viewers int
	idle    *time.Timer // closes it; nil while it has viewers

	mu      sync.Mutex
	title   string      // "" until it is known
	wire    *store.Wire // nil if there is none
	waiting string
}

func newShelf(ctx context.Context, o *Options) *shelf {
	s := &shelf{ctx: ctx, options: o, opened: map[string]*opened{}}
	if o.Only != "" {
		_, _ = s.acquire(o.Only) // never released, so that it is read only once
	}
	return s
}

// acquire returns a session, and opens it if necessary. The caller releases it.
func (s *shelf) acquire(id string) (*opened, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.opened[id]
	if o == nil {
		if len(s.opened) >= maxOpened {
			return nil, errFull
		}
		ctx, stop := context.WithCancel(s.ctx)
		kept := Kept
		kept.Config = s.options.Config
		o = &opened{id: id, store: store.New(kept), stop: stop}
		s.opened[id] = o
		s.feeding.Go(func() { s.feed(ctx, o) })
	}
	if o.idle != nil {
		o.idle.Stop()
		o.idle = nil
	}
	o.viewers++
	return o, nil
}

// release releases a session.
func (s *shelf) release(o *opened) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o.viewers--; o.viewers == 0 {
		o.idle = time.AfterFunc(idleTime, func() { s.remove(o) })
	}
}

// remove closes a session without viewers.
func (s *shelf) remove(o *opened) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o.viewers == 0 && s.opened[o.id] == o {
		delete(s.opened, o.id)
		o.stop()
	}
}

// get returns an open session; nil if it is not open.
func (s *shelf) get(id string) *opened {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.opened[id]
}

// feed reads a session to its end.
func (s *shelf) feed(ctx context.Context, o *opened) {
	defer o.store.Close()
	defer o.stop()
	if list, err := s.options.Library.List(ctx, ""); err == nil {
		o.name(list)
	}
	v, err := s.options.Library.Viewing(ctx, o.id, o.store)
	if err == nil {
		err = v.Open(ctx)
	}
	if err != nil {
		o.store.End(err, true)
	} else {
		o.mu.Lock()
		o.wire, o.waiting = v.Wire, v.Waiting
		o.mu.Unlock()
		v.Run(ctx)
		defer v.Close()
	}
	<-ctx.Done() // keep the data until the session is closed
}

// name sets the title of a session from a list.
func (o *opened) name(list []store.Listed) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, l := range list {
		if l.ID == o.id {
			o.title = strings.Trim(l.Name+" · "+l.Host, " ·")
		}
	}
}

// close closes all sessions.
func (s *shelf) close() {
	s.mu.Lock()
	for _, o := range s.opened {
		o.stop()
		if o.idle != nil {
			o.idle.Stop()
		}
	}
	s.mu.Unlock()
	s.feeding.Wait()
}

// about returns the summary of the session at a time.
func (o *opened) about(control bool, now time.Time) (about, clock) {
	view := o.store.Overview()
	c := clockOf(&view)
	a := aboutOf("", &view, c)
	a.Live = !view.Ended
	// The clock of a live session runs without frames; a replayed session has old timestamps.
	if stamp := now.UnixNano(); view.Timed && a.Live && stamp-view.Last < int64(time.Minute) {
		a.Now = c.since(max(stamp, view.Last))
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	a.Title = text(cmp.Or(o.title, o.id))
	if view.Frames == 0 && a.Live {
		a.Waiting = o.waiting
	}
	a.Commands = control && o.wire != nil && o.wire.Refuses() == ""
	return a, c
}

// control returns the wire of a session; nil if it has none.
func (o *opened) control() *store.Wire {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.wire
}
