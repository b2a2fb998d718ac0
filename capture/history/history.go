// Package history keeps recorded sessions in the user's state folder: captures, each with a
// summary. It is a ring: the oldest records are removed when they are too old or the total
// size is too large. Callers decide which sessions are recorded, and at what level.
package history

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/wirectl/wirectl/capture/output"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/internal/render"
)

// The bounds of the ring.
const (
	MaxBytes = 256 << 20
	MaxAge   = 14 * 24 * time.Hour
)

// A Level says how much of a session is recorded.
type Level string

// The levels.
const (
	Metadata Level = "metadata" // methods, ids, sizes and times
	Full     Level = "full"     // all messages, without known secrets
)

// Levels lists all levels.
var Levels = []Level{Metadata, Full}

// A Summary describes a record. Its counts are zero until the session has ended.
type Summary struct {
	ID      string    `json:"id"`
	Started time.Time `json:"started"`
	Ended   time.Time `json:"ended,omitzero"`
	Client  string    `json:"client,omitempty"`
	Server  string    `json:"server,omitempty"`
	Folder  string    `json:"folder,omitempty"` // the working directory
	Own     bool      `json:"own,omitempty"`    // of wirectl mcp
	Level   Level     `json:"level"`
	// Protocols are the protocols of its frames.
	Protocols []string `json:"protocols,omitempty"`
	Frames    int64    `json:"frames"`
	Calls     int64    `json:"calls"`
	Failures  int64    `json:"failures"`
	Findings  int64    `json:"findings"`
	// Incomplete means that the record lacks a part of the session.
	Incomplete bool `json:"incomplete,omitempty"`
}

// A Session is an existing record.
type Session struct {
	Summary
	// Live means that it is being written. Lost means that its writer did not finish it, so
	// the counts are missing.
	Live bool `json:"live,omitempty"`
	Lost bool `json:"lost,omitempty"`
	// Size is the size of the capture in bytes.
	Size    int64  `json:"size"`
	Capture string `json:"capture"`
}

// A Folder holds records.
type Folder struct {
	Dir      string
	maxBytes int64
}

// Open returns the user's folder, which may not exist yet: wirectl/sessions in the platform's
// state folder.
func Open(getenv func(string) string) (*Folder, error) {
	base, err := state(getenv)
	return &Folder{Dir: filepath.Join(base, "sessions"), maxBytes: MaxBytes}, err
}

// state returns the folder of wirectl in the platform's state folder.
func state(getenv func(string) string) (string, error) {
	base := getenv("XDG_STATE_HOME")
	switch home := getenv("HOME"); {
	case filepath.IsAbs(base):
	case runtime.GOOS == "windows":
		base = getenv("LocalAppData")
	case home == "":
	case runtime.GOOS == "darwin":
		base = filepath.Join(home, "Library", "Application Support")
	default:
		base = filepath.Join(home, ".local", "state")
	}
	if !filepath.IsAbs(base) {
		return "", errors.New("the folder for recordings is unknown: set HOME (or LocalAppData on Windows)")
	}
	return filepath.Join(base, "wirectl"), nil
}

const (
	summaries = ".json"
	captures  = ".pcapng"
	marker    = "off"
	// idBytes is the length of an id before hex encoding.
	idBytes = 3
)

// IsOff reports whether recording is switched off.
func (f *Folder) IsOff() bool {
	_, err := os.Stat(filepath.Join(f.Dir, marker))
	return err == nil
}

// Switch turns recording on or off.
func (f *Folder) Switch(on bool) error {
	name := filepath.Join(f.Dir, marker)
	if on {
		if err := os.Remove(name); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	if err := os.MkdirAll(f.Dir, 0o700); err != nil {
		return err
	}
	return os.WriteFile(name, nil, 0o600)
}

// Known returns the user's records, the newest first; nil if they cannot be read.
func Known(getenv func(string) string) []Session {
	folder, err := Open(getenv)
	if err != nil {
		return nil
	}
	list, _ := folder.Sessions()
	return list
}

// Sessions returns the existing records, the newest first.
func (f *Folder) Sessions() ([]Session, error) {
	entries, err := os.ReadDir(f.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var list []Session
	for _, entry := range entries {
		id, ok := strings.CutSuffix(entry.Name(), captures)
		info, err := entry.Info()
		if !ok || !IsID(id) || err != nil || !info.Mode().IsRegular() {
			continue // another file, or it has just been removed
		}
		s := Session{Size: info.Size(), Capture: filepath.Join(f.Dir, entry.Name())}
		if s.Summary, err = f.summary(id); err != nil {
			s.Started = info.ModTime()
		}
		s.ID = id
		if s.Ended.IsZero() {
			s.Live = Held(s.Capture)
			s.Lost = !s.Live
		}
		list = append(list, s)
	}
	slices.SortFunc(list, func(a, b Session) int {
		return cmp.Or(b.Started.Compare(a.Started), strings.Compare(a.ID, b.ID))
	})
	return list, nil
}

// maxSummary is the longest summary, in bytes.
const maxSummary = 1 << 20

func (f *Folder) summary(id string) (s Summary, err error) {
	name := f.path(id, summaries)
	if info, err := os.Stat(name); err != nil || info.Size() > maxSummary {
		return s, cmp.Or(err, fmt.Errorf("%s is too large", name))
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return s, err
	}
	return s, json.Unmarshal(text, &s)
}

func (f *Folder) path(id, extension string) string { return filepath.Join(f.Dir, id+extension) }

// About describes a record in one line.
func (s *Session) About() string {
	about := fmt.Sprintf("%s  %s", s.when(), named(s.Server))
	if s.Client != "" {
		about += " of " + named(s.Client)
	}
	switch {
	case s.Live:
		return about + "  (live)"
	case s.Lost:
		return about + "  (cut)"
	}
	return fmt.Sprintf("%s  %s, %d failed, %s", about, render.Count(s.Calls, "call"), s.Failures, render.Count(s.Findings, "finding"))
}

func (s *Session) when() string { return s.Started.Local().Format("2006-01-02 15:04") }

// named returns a name made safe to print, or "-" if it is empty.
func named(name string) string { return cmp.Or(render.Safe(name), "-") }

// IsID reports whether a name has the form of an id, or of a prefix of one.
func IsID(name string) bool {
	return name != "" && len(name) <= 2*idBytes && strings.Trim(name, "0123456789abcdef") == ""
}

// A NotFoundError reports that no record has the id, or that several ids begin with it.
type NotFoundError struct {
	ID    string
	Found []string
	// Newest is the id of the newest run, if a run was looked for and there is one.
	Newest string
	isRun  bool
}

func (e *NotFoundError) Error() string {
	switch {
	case len(e.Found) > 0 && e.isRun:
		return fmt.Sprintf("the ids of %d runs begin with %q: %s", len(e.Found), e.ID, strings.Join(e.Found, ", "))
	case len(e.Found) > 0:
		return fmt.Sprintf("the ids of %d recorded sessions begin with %q: %s", len(e.Found), e.ID, strings.Join(e.Found, ", "))
	case e.Newest != "":
		return fmt.Sprintf("no run has the id %q: the newest is run:%s", e.ID, e.Newest)
	case e.isRun && e.ID == Latest:
		return "no run was recorded; wirectl run AGENT records one"
	case e.isRun:
		return fmt.Sprintf("no run has the id %q: no run was recorded; wirectl run AGENT records one", e.ID)
	}
	return fmt.Sprintf("no recorded session has the id %q: wirectl sessions lists them", e.ID)
}

// Find returns the record whose id is, or begins with, the given one. The error is a
// [*NotFoundError] unless exactly one record matches.
func (f *Folder) Find(id string) (Session, error) {
	return find(f.Sessions, id, func(s *Session) string { return s.ID }, &NotFoundError{ID: id})
}

// find returns the one record of a list whose id begins with the given one.
func find[T any](list func() ([]T, error), id string, of func(*T) string, none *NotFoundError) (found T, err error) {
	all, err := list()
	if err != nil {
		return found, err
	}
	for i := range all {
		if IsID(id) && strings.HasPrefix(of(&all[i]), id) {
			found = all[i]
			none.Found = append(none.Found, of(&all[i]))
		}
	}
	if len(none.Found) == 1 {
		return found, nil
	}
	if len(all) > 0 && none.isRun {
		none.Newest = of(&all[0])
	}
	var zero T
	return zero, none
}

// ErrLive reports that a record is being written.
var ErrLive = errors.New("it is being recorded: end the session first")

// Remove removes a record that is not being written.
func (f *Folder) Remove(s Session) error {
	if s.Live {
		return fmt.Errorf("%s: %w", s.ID, ErrLive)
	}
	var err error
	// Remove the capture first: a summary without a capture is ignored. Another process may
	// be removing the same files.
	for _, name := range []string{s.Capture, f.path(s.ID, summaries), s.Capture + ".notes.json"} {
		if failed := os.Remove(name); !errors.Is(failed, fs.ErrNotExist) {
			err = errors.Join(err, failed)
		}
	}
	return err
}

// RemoveAll removes the records and, after "run:", the runs with these ids; without ids, all that
// have ended. It returns the removed ids. If an id does not match one of them, it removes nothing.
func (f *Folder) RemoveAll(getenv func(string) string, ids []string) (removed []string, err error) {
	var list []Session
	var runs []Run
	for _, id := range ids {
		if name, isRun := strings.CutPrefix(id, "run:"); isRun {
			r, err := FindRun(getenv, name)
			if err != nil {
				return nil, err
			}
			runs = append(runs, r)
			continue
		}
		s, err := f.Find(id)
		if err != nil {
			return nil, err
		}
		list = append(list, s)
	}
	if len(ids) == 0 {
		if list, err = f.Sessions(); err != nil {
			return nil, err
		}
		if runs, err = Runs(getenv); err != nil {
			return nil, err
		}
		list = slices.DeleteFunc(list, func(s Session) bool { return s.Live })
		runs = slices.DeleteFunc(runs, func(r Run) bool { return r.Live })
	}
	for _, s := range list {
		if err := f.Remove(s); err != nil {
			return removed, err
		}
		removed = append(removed, s.ID)
	}
	for _, r := range runs {
		if err := r.Remove(); err != nil {
			return removed, err
		}
		removed = append(removed, "run:"+r.ID)
	}
	return removed, nil
}

// trim removes the oldest records until the rest is within bounds, and returns the remaining
// size. It keeps records that are being written.
func (f *Folder) trim(now time.Time) (size int64, err error) {
	all, err := f.Sessions()
	size, failed := trim(all, f.maxBytes, now, func(s *Session) entry {
		return entry{s.Started, s.Size, s.Live, func() error { return f.Remove(*s) }}
	})
	return size, errors.Join(err, failed)
}

// An entry is a record as a ring sees it.
type entry struct {
	started time.Time
	size    int64
	live    bool
	remove  func() error
}

// trim is the ring of records of one kind, given the newest first; see [Folder.trim].
func trim[T any](all []T, most int64, now time.Time, of func(*T) entry) (size int64, err error) {
	for i := range all {
		size += of(&all[i]).size
	}
	for i := range slices.Backward(all) {
		e := of(&all[i])
		if e.live || size <= most && now.Sub(e.started) <= MaxAge {
			continue
		}
		if failed := e.remove(); failed != nil {
			err = errors.Join(err, failed)
			continue
		}
		size -= e.size
	}
	return size, err
}

// Update rewrites the summary of a record.
func (f *Folder) Update(s *Summary) error {
	return output.WriteFile(f.path(s.ID, summaries), append(jsonscan.MustMarshal(s), '\n'), 0o600)
}

// newCapture creates the file of a record with a unique id.
func (f *Folder) newCapture() (id string, file *os.File, err error) {
	id, err = unique(func(id string) error {
		file, err = os.OpenFile(f.path(id, captures), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		return err
	})
	return id, file, err
}

// unique calls create with ids until one does not exist yet.
func unique(create func(id string) error) (id string, err error) {
	for range 100 {
		var b [idBytes]byte
		_, _ = rand.Read(b[:]) // it never fails
		id = hex.EncodeToString(b[:])
		if err = create(id); !errors.Is(err, fs.ErrExist) {
			return id, err
		}
	}
	return "", err
}

// A Recording is a record being written. It receives the bytes of a capture.
type Recording struct {
	Summary
	folder  *Folder
	file    *os.File
	written int64 // bytes since the ring was last trimmed
	err     error
}

// Start begins a record, after trimming the ring to make room.
func (f *Folder) Start(s Summary) (*Recording, error) {
	if err := os.MkdirAll(f.Dir, 0o700); err != nil {
		return nil, err
	}
	_, _ = f.trim(s.Started) // a failure means that somebody is reading the record
	id, file, err := f.newCapture()
	if err != nil {
		return nil, err
	}
	s.ID = id
	if err = Hold(file); err == nil {
		err = f.Update(&s)
	}
	if err != nil {
		return nil, errors.Join(err, file.Close(), os.Remove(file.Name()))
	}
	return &Recording{Summary: s, folder: f, file: file}, nil
}

// trimEvery is the number of bytes after which the ring is trimmed again.
const trimEvery = 4 << 20

// errFull reports that the records being written exceed the limit by themselves.
var errFull = fmt.Errorf("the sessions that are being recorded have reached %d MiB", MaxBytes>>20)

// Write writes whole blocks of the capture. It fails if the records being written fill the
// ring.
func (r *Recording) Write(blocks []byte) (int, error) {
	if r.written += int64(len(blocks)); r.err == nil && r.written >= min(trimEvery, r.folder.maxBytes/4) {
		r.written = 0
		if size, err := r.folder.trim(time.Now()); err == nil && size > r.folder.maxBytes {
			r.err, r.Incomplete = errFull, true
		}
	}
	if r.err != nil {
		return 0, r.err
	}
	return r.file.Write(blocks)
}

// Finish ends the record, with the current Summary of the Recording.
func (r *Recording) Finish() error {
	r.Ended = time.Now()
	err := errors.Join(r.folder.Update(&r.Summary), r.file.Close())
	_, _ = r.folder.trim(r.Ended)
	return err
}
