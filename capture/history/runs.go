package history

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/wirectl/wirectl/capture/output"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/internal/render"
)

// MaxRunBytes bounds the ring of runs, which evicts no other records.
const MaxRunBytes = 512 << 20

// The files of a run, beside its captures.
const (
	RunFile    = "run.json"
	EventsFile = "events.ndjson"
)

// MaxEvent is the longest line of the events, in bytes: a write of that size is not torn apart.
const MaxEvent = 4 << 10

// A Run is one run of an agent, whose wires are captures in one folder. Its texts are written
// without known secrets.
type Run struct {
	Version      int       `json:"run"` // of the format: 1
	ID           string    `json:"id"`
	Agent        string    `json:"agent"`
	AgentVersion string    `json:"version,omitempty"`
	Command      []string  `json:"command"`
	Project      string    `json:"folder"` // the working directory
	PID          int       `json:"pid,omitempty"`
	Started      time.Time `json:"started"`
	Ended        time.Time `json:"ended,omitzero"`
	Status       int       `json:"status"`
	Signal       string    `json:"signal,omitempty"`
	Level        Level     `json:"level"`
	Wirectl      string    `json:"wirectl,omitempty"`
	// Notes say what was not seen.
	Notes []string `json:"notes,omitempty"`
	// Unread are hosts that were reached unread, or could not be.
	Unread []string `json:"unread,omitempty"`
	// Replays is the id of the run that was played.
	Replays string `json:"replays,omitempty"`
	// Counts are nil until the run was read to its end.
	Counts *RunCounts `json:"counts,omitempty"`

	Dir string `json:"-"`
	// Live means that it still runs; Lost, that its end was not written.
	Live bool  `json:"-"`
	Lost bool  `json:"-"`
	Size int64 `json:"-"`
}

// RunCounts are what a list of runs shows of one.
type RunCounts struct {
	Prompt   string `json:"prompt,omitempty"`
	Frames   int64  `json:"frames"`
	Calls    int64  `json:"calls"`
	Failures int64  `json:"failures"`
	Findings int64  `json:"findings"`
	// Models have the tokens of each model, whose name is "" if it is unknown.
	Models []ModelUsage `json:"models,omitempty"`
}

// A ModelUsage counts the tokens of a model, and what it cost by its own account, in millionths of a dollar.
type ModelUsage struct {
	Model   string `json:"model,omitempty"`
	Input   int64  `json:"input_tokens,omitempty"`
	Band    int64  `json:"tokens_above,omitempty"` // the inputs of the calls are longer
	Cached  int64  `json:"cached_tokens,omitempty"`
	Written int64  `json:"written_tokens,omitempty"`
	Kept    int64  `json:"kept_tokens,omitempty"`
	Output  int64  `json:"output_tokens,omitempty"`
	Cost    int64  `json:"cost_micros,omitempty"`
	Apart   bool   `json:"apart,omitempty"` // without a list price
}

// An Event tells that a process of a run starts or ended.
type Event struct {
	Event  string    `json:"event"` // start or exit
	Time   time.Time `json:"time"`
	PID    int       `json:"pid"`
	Parent int       `json:"parent,omitempty"`
	// What is agent, server or shell.
	What    string            `json:"what,omitempty"`
	Name    string            `json:"name,omitempty"`
	Command string            `json:"command,omitempty"`
	Keys    map[string]string `json:"keys,omitempty"`
	Status  *int              `json:"status,omitempty"` // of an exit
	Signal  string            `json:"signal,omitempty"`
}

// AppendEvent appends an event to those of a run, in one write. Any process may do that.
func AppendEvent(folder string, e Event) error {
	line := append(jsonscan.MustMarshal(e), '\n')
	if over := len(line) - MaxEvent; over > 0 {
		e.Command = strings.ToValidUTF8(render.Clip(e.Command, max(len(e.Command)-over-len("…"), 0)), "") + "…"
		for line = append(jsonscan.MustMarshal(e), '\n'); len(line) > MaxEvent && e.Command != ""; line = append(jsonscan.MustMarshal(e), '\n') {
			e.Command = render.Clip(e.Command, len(e.Command)/2) // what is escaped is longer
		}
	}
	if len(line) > MaxEvent {
		return fmt.Errorf("an event of %d bytes", len(line))
	}
	file, err := os.OpenFile(filepath.Join(folder, EventsFile), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	_, err = file.Write(line)
	return errors.Join(err, file.Close())
}

// A Writing is a run that is being recorded.
type Writing struct {
	Run
	hold *os.File // the events, locked while the run goes on
}

// ErrOff reports that the user has switched recording off.
var ErrOff = errors.New("recording is off: wirectl sessions on turns it on")

// BeginRun makes the folder of a run, after trimming the ring of runs. It sets the id.
func BeginRun(getenv func(string) string, r Run) (*Writing, error) {
	if f, err := Open(getenv); err != nil {
		return nil, err
	} else if f.IsOff() {
		return nil, ErrOff
	}
	ring, err := RunsFolder(getenv)
	if err == nil {
		err = os.MkdirAll(ring, 0o700)
	}
	if err != nil {
		return nil, err
	}
	if r.Started.IsZero() {
		r.Started = time.Now()
	}
	_, _ = trimRuns(ring, r.Started) // a failure means that somebody is reading the record
	r.Version = 1
	r.ID, err = unique(func(id string) error { return os.Mkdir(filepath.Join(ring, id), 0o700) })
	if err != nil {
		return nil, err
	}
	r.Dir = filepath.Join(ring, r.ID)
	w := &Writing{Run: r}
	w.hold, err = os.OpenFile(filepath.Join(r.Dir, EventsFile), os.O_WRONLY|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o600)
	if err == nil {
		err = Hold(w.hold)
	}
	if err == nil {
		err = w.Update()
	}
	if err != nil {
		if w.hold != nil {
			w.hold.Close()
		}
		return nil, errors.Join(err, os.RemoveAll(r.Dir))
	}
	return w, nil
}

// Folder returns the folder of the run.
func (w *Writing) Folder() string { return w.Dir }

// End writes the end of the run, with notes on what was not seen.
func (w *Writing) End(status int, notes []string) error {
	w.Ended, w.Status, w.Notes = time.Now(), status, append(w.Notes, notes...)
	err := errors.Join(w.Update(), w.hold.Close())
	_, _ = trimRuns(filepath.Dir(w.Dir), w.Ended)
	return err
}

// Update rewrites what is said of the run, whole or not at all.
func (r *Run) Update() error {
	return output.WriteFile(filepath.Join(r.Dir, RunFile), append(jsonscan.MustMarshal(r), '\n'), 0o600)
}

// A RunCapture is a capture of a run that is being written. It receives the bytes of the capture.
type RunCapture struct {
	*os.File
	ring    string
	written int64
	most    int64
	err     error
}

// CreateCapture creates a capture of a run, such as "model.pcapng". Any process may do that.
func CreateCapture(folder, name string) (*RunCapture, error) {
	file, err := os.OpenFile(filepath.Join(folder, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	if err = Hold(file); err != nil {
		return nil, errors.Join(err, file.Close(), os.Remove(file.Name()))
	}
	return &RunCapture{File: file, ring: filepath.Dir(folder), most: MaxRunBytes}, nil
}

var errRunsFull = fmt.Errorf("the runs that are being recorded have reached %d MiB", MaxRunBytes>>20)

// Write writes whole blocks of the capture. It fails if the runs being written fill the ring.
func (c *RunCapture) Write(blocks []byte) (int, error) {
	if c.written += int64(len(blocks)); c.err == nil && c.written >= min(trimEvery, c.most/4) {
		c.written = 0
		if size, err := trimRuns(c.ring, time.Now()); err == nil && size > c.most {
			c.err = errRunsFull
		}
	}
	if c.err != nil {
		return 0, c.err
	}
	return c.File.Write(blocks)
}

// About describes a run in one line.
func (r *Run) About() string {
	about := fmt.Sprintf("%s  %s in %s", r.Started.Local().Format("2006-01-02 15:04"), named(r.Agent), named(filepath.Base(r.Project)))
	switch {
	case r.Live:
		return about + "  (live)"
	case r.Lost:
		return about + "  (cut)"
	case r.Counts == nil:
		return about
	}
	return fmt.Sprintf("%s  %s, %d failed", about, render.Count(r.Counts.Calls, "call"), r.Counts.Failures)
}

// RunsFolder returns the folder of the runs, which may not exist yet.
func RunsFolder(getenv func(string) string) (string, error) {
	base, err := state(getenv)
	return filepath.Join(base, "runs"), err
}

// PinsFolder returns the folder of the pins, which may not exist yet.
func PinsFolder(getenv func(string) string) (string, error) {
	base, err := state(getenv)
	return filepath.Join(base, "pins"), err
}

// Runs returns the recorded runs, the newest first.
func Runs(getenv func(string) string) ([]Run, error) {
	ring, err := RunsFolder(getenv)
	if err != nil {
		return nil, err
	}
	return runsIn(ring)
}

func runsIn(ring string) (list []Run, err error) {
	entries, err := os.ReadDir(ring)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, entry := range entries {
		dir := filepath.Join(ring, entry.Name())
		if info, err := entry.Info(); entry.IsDir() && IsID(entry.Name()) && err == nil {
			r, err := ReadRun(dir)
			if err != nil { // half of a folder can be removed
				r = Run{Started: info.ModTime(), Dir: dir, Live: isWritten(dir), Lost: true}
			}
			r.ID = entry.Name()
			list = append(list, r)
		}
	}
	slices.SortFunc(list, func(a, b Run) int {
		return cmp.Or(b.Started.Compare(a.Started), strings.Compare(a.ID, b.ID))
	})
	return list, nil
}

// ReadRun reads what a folder says of its run. The folder may come from anybody.
func ReadRun(dir string) (r Run, err error) {
	name := filepath.Join(dir, RunFile)
	info, err := os.Lstat(name)
	switch {
	case err != nil:
		return r, err
	case !info.Mode().IsRegular() || info.Size() > maxSummary:
		return r, fmt.Errorf("%s does not belong to a run", name)
	}
	text, err := os.ReadFile(name)
	if err == nil {
		err = json.Unmarshal(bytes.TrimSpace(text), &r)
	}
	if err == nil && r.Version != 1 {
		err = fmt.Errorf("version %d of a run is not known", r.Version)
	}
	if err != nil {
		return r, fmt.Errorf("%s: %w", name, err)
	}
	r.Dir = dir
	if r.Ended.IsZero() {
		r.Live = isWritten(dir)
		r.Lost = !r.Live
	}
	entries, err := os.ReadDir(dir)
	for _, entry := range entries {
		if info, err := entry.Info(); err == nil && info.Mode().IsRegular() {
			r.Size += info.Size()
		}
	}
	return r, err
}

// isWritten reports whether a process writes the run in a folder.
func isWritten(dir string) bool {
	name := filepath.Join(dir, EventsFile)
	info, err := os.Lstat(name)
	return err == nil && info.Mode().IsRegular() && Held(name)
}

// Latest is what stands for the id of the newest run.
const Latest = "latest"

// FindRun returns the run whose id is, or begins with, the given one. The error is a
// [*NotFoundError] unless exactly one run matches.
func FindRun(getenv func(string) string, id string) (Run, error) {
	all, err := Runs(getenv)
	if id == Latest && len(all) > 0 {
		id = all[0].ID
	}
	list := func() ([]Run, error) { return all, err }
	return find(list, id, func(r *Run) string { return r.ID }, &NotFoundError{ID: id, isRun: true})
}

// Remove removes a run that has ended.
func (r *Run) Remove() error {
	if r.Live {
		return fmt.Errorf("run:%s: %w", r.ID, ErrLive)
	}
	if err := os.RemoveAll(r.Dir); err != nil {
		return err
	}
	if err := os.Remove(r.Dir + ".notes.json"); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func trimRuns(ring string, now time.Time) (size int64, err error) {
	all, err := runsIn(ring)
	size, failed := trim(all, MaxRunBytes, now, func(r *Run) entry { return entry{r.Started, r.Size, r.Live, r.Remove} })
	return size, errors.Join(err, failed)
}
