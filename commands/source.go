package commands

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/muesli/cancelreader"

	"github.com/wirectl/wirectl/capture/tap"
	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/fixtures"
	"github.com/wirectl/wirectl/internal/direct"
)

// A source is an input that was opened.
type source struct {
	io.Reader
	file  *os.File // that is read; nil where reads wait for somebody
	close func()
}

// sources returns the operands that name inputs: standard input if there are
// none.
func (inv *invocation) sources() ([]string, error) {
	if len(inv.Operands) > 0 {
		return inv.Operands, nil
	}
	if inv.IsTerminal(inv.Stdin) {
		return nil, usagef("nothing to read: name a FILE, a fixture:NAME or a tap:NAME, or redirect standard input")
	}
	return []string{"-"}, nil
}

// label is what messages call an input.
func label(name string) string {
	if name == "-" {
		return "standard input"
	}
	return name
}

// open opens what holds bytes: a file, "-" for standard input, "fixture:NAME",
// or "tap:NAME" and "live". Reads end when ctx does.
func (inv *invocation) open(ctx context.Context, name string) (*source, error) {
	src, err := inv.find(ctx, name)
	if err != nil {
		return nil, &inputError{err}
	}
	return src, nil
}

// find is open with the errors as they are.
func (inv *invocation) find(ctx context.Context, name string) (*source, error) {
	if isTap(name) {
		conn, err := inv.dialTap(ctx, name, func() { inv.say(name, "nothing runs yet that has a tap: waiting") })
		if err != nil {
			return nil, err
		}
		return looking(ctx, conn), nil
	}
	if fixture, ok := strings.CutPrefix(name, "fixture:"); ok {
		f, err := fixtures.Open(fixture)
		if err != nil {
			return nil, err
		}
		return &source{Reader: f, close: func() { f.Close() }}, nil
	}
	if name == "-" {
		return interruptible(ctx, inv.Stdin)
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err == nil && info.IsDir() {
		f.Close()
		return nil, usagef("%s is a directory: name the files in it", name)
	}
	src, err := interruptible(ctx, f)
	if err != nil {
		f.Close()
		return nil, err
	}
	stop := src.close
	src.close = func() { stop(); f.Close() }
	return src, nil
}

// isTap reports whether an input is what passes a relay or a broker.
func isTap(name string) bool { return name == "live" || strings.HasPrefix(name, "tap:") }

// dialTap looks on at a tap. That of live is the newest, and is waited for; waiting, if
// that is not nil, is called before.
func (inv *invocation) dialTap(ctx context.Context, name string, waiting func()) (*tap.Conn, error) {
	dir, err := tap.Dir(inv.Getenv)
	if err != nil {
		return nil, err
	}
	if name == "live" {
		return tap.Await(ctx, dir, "", waiting)
	}
	return tap.Dial(ctx, dir, strings.TrimPrefix(name, "tap:"))
}

// looking is what passes a tap.
func looking(ctx context.Context, conn *tap.Conn) *source {
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	return &source{Reader: conn, close: func() { stop(); conn.Close() }}
}

// An opened input was recognized, too.
type opened struct {
	decode.Input
	close func()
}

// openSession opens what holds frames: what open does, and the folder of a
// recording.
func (inv *invocation) openSession(ctx context.Context, name string, cfg decode.Config, follow bool) (*opened, error) {
	if folder := recordingFolder(name); folder != nil {
		folder, clear := inv.meterFolder(folder)
		r, err := decode.OpenRecording(folder, cfg)
		if err != nil {
			return nil, unopened(name, err)
		}
		return &opened{decode.Input{Capture: r}, func() { r.Close(); clear() }}, nil
	}
	src, err := inv.open(ctx, name)
	if err != nil {
		return nil, err
	}
	follow = follow && grows(name, src)
	inv.meter(src)
	var reader io.Reader = src
	if follow {
		reader = decode.Follow(ctx, src, src.file)
	}
	in, err := decode.Open(reader, cfg)
	if err != nil {
		src.close()
		return nil, unopened(name, err)
	}
	return &opened{in, src.close}, nil
}

// grows reports whether there may be more behind the end of an input. A tap waits
// for more by itself, a fixture has none, and the end of a pipe that has no name
// is for good.
func grows(name string, src *source) bool {
	return src.file != nil || name != "-" && !isTap(name) && !strings.HasPrefix(name, "fixture:")
}

// unopened says of an error in which input it is, and whether that is to blame.
func unopened(name string, err error) error {
	if fault := located(name, nil, err); fault != err {
		return fault
	}
	return &inputError{fmt.Errorf("%s: %w", label(name), err)}
}

// recordingFolder returns the folder of the recording that name names; nil if
// it names something else.
func recordingFolder(name string) fs.FS {
	if fixture, ok := strings.CutPrefix(name, "fixture:"); ok {
		if slices.Contains(fixtures.Sessions(), fixture) {
			return fixtures.Session(fixture)
		}
		return nil
	}
	for _, file := range []string{"c2s.bin", "s2c.bin"} {
		if _, err := os.Stat(filepath.Join(name, file)); err == nil {
			return os.DirFS(name)
		}
	}
	return nil
}

// interruptible makes reads end when ctx does, which a read from a pipe or a
// terminal does not do by itself. What cannot be waited for, such as a file or
// the null device, never keeps a read waiting.
func interruptible(ctx context.Context, in io.Reader) (*source, error) {
	s := &source{Reader: in, close: func() {}}
	f, ok := in.(*os.File)
	if !ok {
		return s, nil
	}
	switch info, err := f.Stat(); {
	case err != nil:
		return nil, err
	case info.Mode().IsRegular():
		s.Reader, s.file = direct.OverFile(f), f
		return s, nil
	}
	r, err := cancelreader.NewReader(f)
	if err != nil {
		s.file = f
		return s, nil //nolint:nilerr // it is read as it is
	}
	stop := context.AfterFunc(ctx, func() { r.Cancel() })
	s.Reader, s.close = r, func() { stop(); r.Close() }
	return s, nil
}
