package live

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/capture/history"
	"github.com/wirectl/wirectl/capture/pcapng"
	"github.com/wirectl/wirectl/capture/tap"
	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/decode/source"
	"github.com/wirectl/wirectl/internal/wait"
	"github.com/wirectl/wirectl/store"
)

// A Viewing feeds a store with a session of that name; of taps, with one after the other.
type Viewing struct {
	Name   string
	Opener *source.Opener
	Store  *store.Store
	Config decode.Config
	Follow bool // at the end of a file wait for more

	// Wire is that of a tap or of a session of a hub; nil for others. Waiting says which of
	// them is awaited. Open sets both.
	Wire    *Wire
	Waiting string

	session *source.Session // nil while it is waited for
	file    *os.File        // that frames are read from again; or nil
}

// Open opens the session, unless it is a tap, or one of a hub, that does not exist yet.
func (v *Viewing) Open(ctx context.Context) (err error) {
	if source.IsTap(v.Name) {
		v.Wire = NewWire(v.Store)
		if v.Name == Await {
			v.Waiting = "waiting: try wirectl relay -- PROGRAM or wirectl serve"
			return nil
		}
		return v.openNamed(ctx)
	}
	if source.IsHub(v.Name) {
		v.Wire = NewWire(v.Store)
		err := v.openHub(ctx, false)
		if errors.Is(err, source.ErrNoSession) {
			v.Waiting = "waiting for " + v.Name + ": wirectl sessions --hub lists what there is"
			return nil
		}
		return err
	}
	if v.session, err = v.Opener.Session(ctx, v.Name, v.Config, v.Follow); err != nil {
		return err
	}
	if v.file = captureFile(v.Name, v.session.Input); v.file != nil {
		v.Store.ReadAgain(pcapng.NewRandom(v.file, v.Config.Limit))
	}
	return nil
}

// openHub opens a session of a hub, which may take commands.
func (v *Viewing) openHub(ctx context.Context, await bool) error {
	src, err := v.Opener.DialHub(ctx, v.Name, await)
	if err != nil {
		return err
	}
	if remote, ok := src.Reader.(Remote); ok {
		v.Wire.setRemote(remote)
	}
	v.session, err = src.Session(func(r io.Reader) (decode.Input, error) { return decode.Open(r, v.Config) })
	return err
}

// captureFile opens the file that a capture is read from once more; nil if it
// cannot be returned to.
func captureFile(name string, in decode.Input) *os.File {
	if r, ok := in.Capture.(capture.Placed); !ok || r.Place() < 0 || name == "-" {
		return nil
	}
	file, err := os.Open(name)
	if err != nil {
		return nil
	}
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		file.Close()
		return nil
	}
	return file
}

// openNamed connects to the tap of that name. If there is none yet, Waiting names it and
// the taps that there are: the name may be misspelt.
func (v *Viewing) openNamed(ctx context.Context) error {
	conn, err := v.Opener.DialTap(ctx, v.Name, nil)
	if none := (*tap.NotFoundError)(nil); errors.As(err, &none) && !none.Ambiguous() {
		v.Waiting = "waiting for " + v.Name
		if len(none.Running) > 0 {
			v.Waiting += "; there are: " + strings.Join(none.Running, ", ")
		}
		return nil
	}
	if err != nil {
		return err
	}
	return v.openTap(ctx, conn)
}

// openTap opens the records of a tap.
func (v *Viewing) openTap(ctx context.Context, conn *tap.Conn) (err error) {
	v.session, err = source.Tap(ctx, conn).Session(func(io.Reader) (decode.Input, error) { return v.Wire.Open(conn, v.Config) })
	return err
}

// Run feeds the store until ctx ends.
func (v *Viewing) Run(ctx context.Context) {
	if v.session == nil {
		if err := v.openLater(ctx); err != nil {
			v.Store.End(err, true)
			return
		}
	}
	var watching sync.WaitGroup
	defer watching.Wait()
	if v.Wire != nil && v.Wire.remote != nil {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		watching.Go(func() { v.Wire.watch(ctx) })
	}
	for v.session != nil {
		Feed(ctx, v.Store, v.session.Input, v.Config, v.Wire)
		v.session.Close()
		v.session = nil
		if source.IsTap(v.Name) {
			v.openNext(ctx)
		}
	}
}

// openLater opens the session once there is one.
func (v *Viewing) openLater(ctx context.Context) (err error) {
	if source.IsHub(v.Name) {
		return v.openHub(ctx, true)
	}
	conn, err := v.Opener.AwaitTap(ctx, v.Name, nil)
	if err != nil {
		return err
	}
	if err := v.openTap(ctx, conn); err != nil {
		return fmt.Errorf("%s: %w", source.Label(v.Name), err)
	}
	return nil
}

// openNext connects to the tap that follows the one of the wire, once there is one, or does
// nothing if ctx ends.
func (v *Viewing) openNext(ctx context.Context) {
	for v.session == nil {
		dir, err := tap.Dir(v.Opener.Getenv)
		if err != nil {
			return
		}
		conn, err := v.Wire.Next(ctx, dir, v.Name == Await)
		if err != nil {
			return
		}
		if v.openTap(ctx, conn) != nil {
			v.session = nil // and at the next
		}
	}
}

// Close closes the file from which frames are read again.
func (v *Viewing) Close() {
	if v.file != nil {
		v.file.Close()
	}
}

// NotesFile returns the file beside a session for the user's notes. A session that is
// neither a file nor a folder is gone when it has ended, and has no such file: "".
func NotesFile(name string) string {
	if source.IsTap(name) || source.IsHub(name) || name == "-" || strings.HasPrefix(name, "fixture:") {
		return ""
	}
	return filepath.Clean(name) + ".notes.json"
}

// A Choice is a session to look at, and the input that it is.
type Choice struct{ Name, About, Input string }

// Await is the input of the choice to wait for a tap.
const Await = "live"

// Choices returns the taps, the newest first, and the recorded sessions. Without a tap, the
// first choice is to wait for one.
func Choices(getenv func(string) string) ([]Choice, error) {
	past := pastSessions(getenv)
	list, err := openTaps(getenv)
	switch {
	case err != nil && len(past) == 0:
		return nil, err
	case err == nil && len(list) == 0:
		list = []Choice{{Await, "wait for a relay or a broker", Await}}
	}
	return append(list, past...), nil // if there are no taps here, the recorded ones are enough
}

// choicesEvery is how often sessions that start and end are looked for.
const choicesEvery = time.Second / 2

// NextChoices returns the choices a moment later; nil if they cannot be read.
func NextChoices(ctx context.Context, getenv func(string) string) []Choice {
	if wait.For(ctx, choicesEvery) != nil {
		return nil
	}
	list, _ := Choices(getenv)
	return list
}

func openTaps(getenv func(string) string) (list []Choice, err error) {
	dir, err := tap.Dir(getenv)
	if err != nil {
		return nil, err
	}
	taps, err := tap.List(dir, nil)
	for _, t := range taps {
		list = append(list, Choice{t.Name, Age(t) + "  " + t.Controller + " ⇄ " + store.ShortName(t.Unit), "tap:" + t.Name})
	}
	return list, err
}

// pastSessions are the recorded sessions. Those that go on have taps.
func pastSessions(getenv func(string) string) (list []Choice) {
	for _, s := range history.Known(getenv) {
		if !s.Live {
			list = append(list, Choice{s.ID, s.About(), s.ID})
		}
	}
	return list
}

// Feed hands a session to the store, to its end. The wire is nil if it is not a tap's.
func Feed(ctx context.Context, s *store.Store, in decode.Input, cfg decode.Config, w *Wire) {
	if in.Capture != nil {
		in.Capture = newOverheard(in.Capture, s, w)
	}
	if w != nil {
		cfg.Workers = 1 // a tap gives small batches, and handing one over costs more than reading it
	}
	_ = s.Take(ctx, in, cfg) // the screen says it
}

// overheard is a capture. If it is a tap, its wire sees the records and numbers their
// connections.
type overheard struct {
	capture.Reader
	live   capture.Live   // the reader, if it is one, or nil
	placed capture.Placed // the same
	store  *store.Store
	wire   *Wire // or nil
}

func newOverheard(r capture.Reader, s *store.Store, w *Wire) *overheard {
	o := &overheard{Reader: r, store: s, wire: w}
	o.live, _ = r.(capture.Live)
	o.placed, _ = r.(capture.Placed)
	return o
}

// Next reads the next record.
func (o *overheard) Next(r *capture.Record) error {
	err := o.Reader.Next(r)
	if o.Session().Altered {
		o.store.Alter()
	}
	if err != nil || o.wire != nil && o.wire.hear(r) {
		return err
	}
	if o.wire != nil {
		o.wire.number(r)
	}
	return nil
}

// Place is where the current record begins; see [capture.Placed].
func (o *overheard) Place() int64 {
	if o.placed == nil {
		return -1
	}
	return o.placed.Place()
}

// Buffered reports whether Next would not wait.
func (o *overheard) Buffered() bool { return o.live == nil || o.live.Buffered() }

// A Listed is a session as a page lists it.
type Listed struct {
	ID      string    `json:"id"`
	Name    string    `json:"name"`
	About   string    `json:"about,omitempty"`
	Host    string    `json:"host,omitempty"`
	Kind    string    `json:"kind,omitempty"`
	State   string    `json:"state,omitempty"`
	Started time.Time `json:"started,omitzero"`
	Frames  int64     `json:"frames,omitempty"`
	Lost    int64     `json:"lost,omitempty"`
}

// FirstVisit reports whether the user has not seen the monitor before. It writes an empty
// file beside the recorded sessions to remember. If it cannot, it returns false, because
// otherwise each visit would be the first.
func FirstVisit(getenv func(string) string) bool {
	kept, err := history.Open(getenv)
	if err != nil {
		return false
	}
	file := filepath.Join(filepath.Dir(kept.Dir), "monitor-seen")
	if os.MkdirAll(filepath.Dir(file), 0o700) != nil {
		return false
	}
	f, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return false
	}
	return f.Close() == nil
}
