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

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/capture/pcapng"
	"github.com/wirectl/wirectl/capture/tap"
	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/decode/source"
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
