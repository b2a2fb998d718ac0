// Package source opens the inputs of commands: files, recordings, fixtures, standard input
// and taps.
package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/wirectl/wirectl/capture/history"
	"github.com/wirectl/wirectl/capture/tap"
	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/fixtures"
	"github.com/wirectl/wirectl/internal/fd"
	"github.com/wirectl/wirectl/internal/nearest"
	"github.com/wirectl/wirectl/source"
)

// A Source is an input that was opened.
type Source struct {
	io.Reader
	file  *os.File // that is read; nil if reads wait for a peer
	close func()
}

// Close closes the input.
func (s *Source) Close() { s.close() }

// An Error says that an input does not exist or cannot be read, whatever it holds.
type Error struct{ Err error }

func (e *Error) Error() string { return e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }

// ErrFolder is the error for a folder that is not a recording.
var ErrFolder = errors.New("is a directory: name the files in it")

// ErrNoSession is the error for a session that a hub does not have.
var ErrNoSession = errors.New("no such session")

// An Opener opens inputs by their names.
type Opener struct {
	Stdin  io.Reader
	Getenv func(string) string
	// Meter is the terminal that shows how much of a session was read; nil for none.
	Meter io.Writer
	// Hub opens a session of a hub, as a capture; nil if there are none.
	Hub func(ctx context.Context, session string, await bool) (io.ReadCloser, error)
	// Seen is shared by the inputs that are read together; nil if each stands for itself.
	Seen *source.Seen
	// Waiting, if not nil, is called when Open begins to wait.
	Waiting func(name, what string)
	// Filter applies to sessions; nil is none.
	Filter *Filter
}

// Label returns the name of an input for messages, or those of several.
func Label(names ...string) string {
	text := strings.Join(names, " + ")
	if text == "-" {
		return "standard input"
	}
	return text
}

// Labels returns names by which several inputs are told apart: without the folder that all of them share.
func Labels(names []string) []string {
	labels, shared := make([]string, len(names)), ""
	for i, name := range names {
		if len(name) > 1 {
			name = strings.TrimRightFunc(name, func(r rune) bool { return r < utf8.RuneSelf && os.IsPathSeparator(uint8(r)) })
		}
		labels[i] = Label(name)
		folder := name[:strings.LastIndexAny(name, "/"+string(filepath.Separator))+1]
		for i > 0 && !strings.HasPrefix(folder, shared) {
			shared = shared[:strings.LastIndexAny(shared[:len(shared)-1], "/"+string(filepath.Separator))+1]
		}
		if i == 0 {
			shared = folder
		}
	}
	for i := range labels {
		labels[i] = strings.TrimPrefix(labels[i], shared)
	}
	return labels
}

// Open opens an input of bytes: a file, "-" for standard input, "fixture:NAME", "tap:NAME"
// and "live", "hub:SESSION", or "AGENT:ID" for a transcript. Reads end when ctx does.
func (o *Opener) Open(ctx context.Context, name string) (*Source, error) {
	src, err := o.find(ctx, name)
	if err != nil {
		return nil, &Error{err}
	}
	return src, nil
}

// Resolve returns the file of the recorded session or of the transcript, or the folder of the run, that an
// input names by its id, or the beginning of that; any other name is returned as it is. A file wins over an id.
func (o *Opener) Resolve(name string) (string, error) {
	_, err := os.Lstat(name)
	switch {
	case err == nil:
		return name, nil
	case IsRun(name):
		return o.RunFolder(name)
	case IsTranscript(name):
		t, err := FindTranscript(o.Getenv, name)
		if err != nil {
			return name, &Error{err}
		}
		return t.File, nil
	case !history.IsID(name):
		return name, nil
	}
	folder, err := history.Open(o.Getenv)
	var s history.Session
	if err == nil {
		s, err = folder.Find(name)
	}
	none := (*history.NotFoundError)(nil)
	switch {
	case err == nil:
		return s.Capture, nil
	case errors.As(err, &none) && len(none.Found) > 0:
		return name, &Error{err}
	}
	return name, nil // opening it reports that there is no such file
}

// find is Open with the errors as they are.
func (o *Opener) find(ctx context.Context, name string) (*Source, error) {
	name, err := o.Resolve(name)
	if err != nil {
		return nil, err
	}
	if IsTap(name) {
		conn, err := o.DialTap(ctx, name, func() { o.Waiting(name, "no relay or broker with a tap is running yet: waiting") })
		if err != nil {
			return nil, err
		}
		return Tap(ctx, conn), nil
	}
	if fixture, ok := strings.CutPrefix(name, "fixture:"); ok {
		f, err := fixtures.Open(fixture)
		if unknown, ok := errors.AsType[*fixtures.UnknownError](err); ok {
			return nil, fmt.Errorf("unknown fixture %q%s; wirectl list names all", fixture, nearest.Question(fixture, unknown.Known))
		} else if err != nil {
			return nil, err
		}
		return &Source{Reader: f, close: func() { f.Close() }}, nil
	}
	if session, ok := strings.CutPrefix(name, hubPrefix); ok && o.Hub != nil {
		return o.DialHub(ctx, session, false)
	}
	if name == "-" {
		return Interruptible(ctx, o.Stdin), nil
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err == nil && info.IsDir() {
		f.Close()
		return nil, fmt.Errorf("%s %w", name, ErrFolder)
	}
	src := Interruptible(ctx, f)
	stop := src.close
	src.close = func() { stop(); f.Close() }
	return src, nil
}

// hubPrefix begins the names of sessions at a hub.
const hubPrefix = "hub:"

// IsHub reports whether an input is a session at a hub.
func IsHub(name string) bool { return strings.HasPrefix(name, hubPrefix) }

// IsTap reports whether an input is a tap of a relay or a broker.
func IsTap(name string) bool { return name == "live" || strings.HasPrefix(name, "tap:") }

// DialTap connects to a tap. For "live" it waits for the newest tap, and calls waiting
// before if that is not nil.
func (o *Opener) DialTap(ctx context.Context, name string, waiting func()) (*tap.Conn, error) {
	if name == "live" {
		return o.AwaitTap(ctx, name, waiting)
	}
	dir, err := tap.Dir(o.Getenv)
	if err != nil {
		return nil, err
	}
	return tap.Dial(ctx, dir, strings.TrimPrefix(name, "tap:"))
}

// AwaitTap is DialTap that waits for any tap.
func (o *Opener) AwaitTap(ctx context.Context, name string, waiting func()) (*tap.Conn, error) {
	dir, err := tap.Dir(o.Getenv)
	if err != nil {
		return nil, err
	}
	_, tapped, _ := strings.Cut(name, "tap:")
	return tap.Await(ctx, dir, tapped, waiting)
}

// Tap returns the records of a tap as a source.
func Tap(ctx context.Context, conn *tap.Conn) *Source {
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	return &Source{Reader: conn, close: func() { stop(); conn.Close() }}
}

// A Session is an input that was recognized, too.
type Session struct {
	decode.Input
	close func()
}

// Close closes the input.
func (s *Session) Close() { s.close() }

// Session opens an input of frames: those of Open, a run, and the folder of a recording. The error
// is an [Error] if the input cannot be opened.
func (o *Opener) Session(ctx context.Context, name string, cfg decode.Config, follow bool) (*Session, error) {
	s, err := o.unfiltered(ctx, name, cfg, follow)
	if err != nil || o.Filter == nil {
		return s, err
	}
	if err := o.Filter.apply(s); err != nil {
		s.Close()
		return nil, &Error{err}
	}
	return s, nil
}

func (o *Opener) unfiltered(ctx context.Context, name string, cfg decode.Config, follow bool) (*Session, error) {
	run, err := o.RunFolder(name)
	if err != nil {
		return nil, err
	}
	if run != "" {
		r, err := OpenRun(ctx, run, cfg, follow)
		if err != nil {
			return nil, err
		}
		in := decode.Stored(r)
		in.OfRun = true
		return &Session{in, func() { r.Close() }}, nil
	}
	if folder := recordingFolder(name); folder != nil {
		folder, clear := meterFolder(folder, o.Meter)
		r, err := decode.OpenRecording(folder, cfg)
		if err != nil {
			return nil, err
		}
		return &Session{decode.Input{Capture: r}, func() { r.Close(); clear() }}, nil
	}
	src, err := o.Open(ctx, name)
	if err != nil {
		return nil, err
	}
	follow = follow && grows(name, src)
	src.Meter(o.Meter)
	return src.Session(func(r io.Reader) (decode.Input, error) {
		f := src.described(name, r, o)
		if follow {
			f.Reader, f.Live = decode.Follow(ctx, r, src.file), true
		}
		return decode.OpenFile(f, cfg)
	})
}

// described returns the source as readers of files want it. Only a regular file has a path.
func (s *Source) described(name string, r io.Reader, o *Opener) *source.File {
	f := &source.File{Reader: r, Seen: o.Seen}
	if s.file == nil {
		return f
	}
	if info, err := s.file.Stat(); err == nil && info.Mode().IsRegular() {
		f.AtHand = true
		if name != "-" {
			f.Path, f.Base = s.file.Name(), filepath.Base(s.file.Name())
			f.Folder = os.DirFS(filepath.Dir(s.file.Name()))
		}
	}
	return f
}

// DialHub opens a session of a hub; with await, it waits until there is one. The Reader of the
// source is the hub's.
func (o *Opener) DialHub(ctx context.Context, name string, await bool) (*Source, error) {
	r, err := o.Hub(ctx, strings.TrimPrefix(name, hubPrefix), await)
	if err != nil {
		return nil, &Error{err}
	}
	return &Source{Reader: r, close: func() { r.Close() }}, nil
}

// Session recognizes the content of the source by open, and closes it if that fails.
func (s *Source) Session(open func(io.Reader) (decode.Input, error)) (*Session, error) {
	in, err := open(s)
	if err != nil {
		s.Close()
		return nil, err
	}
	return &Session{in, func() {
		if c, ok := in.Capture.(io.Closer); ok {
			c.Close()
		}
		s.close()
	}}, nil
}

// grows reports whether an input may grow after its end. A tap and a hub wait for more by
// themselves, a fixture does not grow, and the end of an unnamed pipe is final.
func grows(name string, src *Source) bool {
	return src.file != nil || name != "-" && !IsTap(name) && !IsHub(name) && !strings.HasPrefix(name, "fixture:")
}

// Fixtures are the names of the sessions that are built in, and FixtureParts lists what one consists of.
var (
	Fixtures     = fixtures.Sessions
	FixtureParts = fixtures.Parts
)

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

// Interruptible makes reads end when ctx does, which a read from a pipe or a terminal does
// not do by itself. Inputs that cannot be waited for, such as a file or the null device,
// never keep a read waiting.
func Interruptible(ctx context.Context, in io.Reader) *Source {
	s := &Source{Reader: in, close: func() {}}
	f, ok := in.(*os.File)
	if !ok {
		return s
	}
	if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
		s.Reader, s.file = fd.OverFile(f), f
		return s
	}
	r, err := fd.NewCancelReader(f)
	if err != nil {
		s.file = f
		return s // it is read as it is
	}
	stop := context.AfterFunc(ctx, func() { r.Cancel() })
	s.Reader, s.close = r, func() { stop(); r.Close() }
	return s
}

// MayStillRun reports whether an input is written while it is read: a tap, or a pipe.
func MayStillRun(name string, stdin io.Reader) bool {
	if IsTap(name) {
		return true
	}
	info, err := os.Stat(name)
	if name == "-" {
		in, isFile := stdin.(*os.File)
		if !isFile {
			return false
		}
		info, err = in.Stat()
	}
	return err == nil && !info.Mode().IsRegular() && !info.IsDir()
}

// A meter is a reader that shows on a terminal how much of a file has been read, after a
// second. It draws when it is read from.
type meter struct {
	io.Reader
	terminal           io.Writer
	size, done         int64
	started, refreshed time.Time
}

const (
	patience = time.Second
	refresh  = 100 * time.Millisecond
	barWidth = 30
)

// Meter draws a progress bar on a terminal while src is read, if the terminal is not nil
// and src is a file.
func (s *Source) Meter(terminal io.Writer) {
	if s.file == nil || terminal == nil {
		return
	}
	info, err := s.file.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return
	}
	at, err := s.file.Seek(0, io.SeekCurrent)
	if err != nil || at >= info.Size() {
		return
	}
	m := newMeter(s.Reader, info.Size()-at, terminal)
	closeFile := s.close
	s.Reader, s.close = m, func() { m.clear(); closeFile() }
}

// meterFolder makes the reads of all files of a folder draw one progress bar,
// which clear takes away.
func meterFolder(folder fs.FS, terminal io.Writer) (_ fs.FS, clear func()) {
	if terminal == nil {
		return folder, func() {}
	}
	m := newMeter(nil, 0, terminal)
	walk := func(_ string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() {
			if info, err := entry.Info(); err == nil {
				m.size += info.Size()
			}
		}
		return nil // the reader reports files that cannot be read
	}
	if err := fs.WalkDir(folder, ".", walk); err != nil || m.size == 0 {
		return folder, func() {}
	}
	return meteredFS{folder, m}, m.clear
}

// A meteredFS counts the bytes read from its files.
type meteredFS struct {
	fs.FS
	meter *meter
}

func (f meteredFS) Open(name string) (fs.File, error) {
	file, err := f.FS.Open(name)
	if err != nil {
		return nil, err
	}
	if info, err := file.Stat(); err != nil || info.IsDir() {
		return file, nil //nolint:nilerr // it is read as it is
	}
	return meteredFile{file, f.meter}, nil
}

type meteredFile struct {
	fs.File
	meter *meter
}

func (f meteredFile) Read(p []byte) (int, error) {
	n, err := f.File.Read(p)
	f.meter.count(n)
	return n, err
}

func newMeter(r io.Reader, size int64, terminal io.Writer) *meter {
	return &meter{Reader: r, terminal: terminal, size: size, started: time.Now()}
}

func (m *meter) Read(p []byte) (int, error) {
	n, err := m.Reader.Read(p)
	m.count(n)
	return n, err
}

// count counts bytes that were read.
func (m *meter) count(n int) {
	m.done += int64(n)
	if now := time.Now(); now.Sub(m.started) >= patience && now.Sub(m.refreshed) >= refresh {
		m.refreshed = now
		m.draw(now.Sub(m.started))
	}
}

// draw draws the bar over the previous one. A file that grows shows no more than 100%.
func (m *meter) draw(elapsed time.Duration) {
	share := min(float64(m.done)/float64(m.size), 1)
	full := int(share * barWidth)
	rate := float64(m.done) / elapsed.Seconds() / 1e6
	fmt.Fprintf(m.terminal, "\r%s%s %3.0f%%  %.1f MB/s\x1b[K",
		strings.Repeat("█", full), strings.Repeat("░", barWidth-full), 100*share, rate)
}

// clear removes the bar, if there is one.
func (m *meter) clear() {
	if !m.refreshed.IsZero() {
		fmt.Fprint(m.terminal, "\r\x1b[K")
	}
}
