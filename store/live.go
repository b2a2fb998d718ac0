package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/capture/history"
	"github.com/wirectl/wirectl/capture/pcapng"
	"github.com/wirectl/wirectl/capture/tap"
	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/decode/source"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/wait"
	"github.com/wirectl/wirectl/table"
)

// A Tap is an open tap, with counts of its traffic.
type Tap struct {
	tap.Info
	// Protocols are those of its frames; Info has the one that the user named.
	Protocols []string `json:"protocols,omitempty"`
	Frames    int64    `json:"frames"`
	Bytes     int64    `json:"bytes"`
	Altered   bool     `json:"altered,omitempty"`
}

// ListTaps returns the taps in dir, the newest first. It calls skip for those that it cannot read.
func ListTaps(ctx context.Context, dir string, skip func(error)) ([]Tap, error) {
	open, err := tap.List(dir, skip)
	if err != nil {
		return nil, err
	}
	var taps []Tap
	for _, info := range slices.Backward(open) {
		t, err := glance(ctx, dir, info)
		if gone := (*tap.NotFoundError)(nil); errors.As(err, &gone) {
			continue
		}
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case err != nil: // the others may be readable
			skip(fmt.Errorf("tap:%s: %w", info.Name, err))
			continue
		}
		taps = append(taps, t)
	}
	return taps, nil
}

// glanced is how many frames of a tap are read to find its protocols.
const glanced = 64

// glance reads the newest frames of a tap.
func glance(ctx context.Context, dir string, info tap.Info) (Tap, error) {
	past, err := tap.Glance(ctx, dir, info.Name, glanced)
	if err != nil {
		return Tap{}, err
	}
	defer past.Close()
	line := Tap{Info: info, Frames: past.Hello.Frames, Bytes: past.Hello.Bytes, Altered: past.Hello.Altered}
	s := New(Options{})
	defer s.Close()
	_ = s.Take(ctx, decode.Input{Capture: past}, decode.Config{Workers: 1}) // after an error, some frames were read
	for _, wire := range s.Overview().Protocols {
		name, _, _ := strings.Cut(wire, "/")
		if !slices.Contains(line.Protocols, name) {
			line.Protocols = append(line.Protocols, name)
		}
	}
	if len(line.Protocols) == 0 && info.Protocol != "" {
		line.Protocols = []string{info.Protocol}
	}
	return line, nil
}

// TapColumns are the columns of a list of taps.
var TapColumns = []table.Column[Tap]{
	{Title: "NAME", Cell: func(t *Tap) string { return t.Name }},
	{Title: "PID", Drop: 1, Value: func(t *Tap) any { return int64(t.Pid) }},
	{Title: "AGE", Drop: 4, Cell: func(t *Tap) string { return TapAge(t.Info) }},
	{Title: "PROTOCOL", Drop: 3, Cell: func(t *Tap) string { return strings.Join(t.Protocols, ", ") }},
	{Title: "FRAMES", Drop: 2, Value: func(t *Tap) any { return t.Frames }},
	{Title: "ENDPOINTS", Least: 20, Cell: func(t *Tap) string {
		ends := t.Controller + " ⇄ " + t.Unit
		if t.Altered {
			ends += " (altered)"
		}
		return ends
	}},
}

// TapAge is how long ago a tap was opened, in its largest unit, such as 3m.
func TapAge(info tap.Info) string {
	d := time.Since(info.Started)
	for _, unit := range []struct {
		name string
		of   time.Duration
	}{{"d", 24 * time.Hour}, {"h", time.Hour}, {"m", time.Minute}} {
		if d >= unit.of {
			return fmt.Sprintf("%d%s", d/unit.of, unit.name)
		}
	}
	return fmt.Sprintf("%ds", max(0, d/time.Second))
}

// A Viewing feeds a store with a session of that name; of taps, with one after the other.
type Viewing struct {
	Name   string
	With   []string // more sessions, which are joined with it
	Opener *source.Opener
	Store  *Store
	Config decode.Config
	Follow bool // at the end of a file wait for more

	// Wire is that of a tap or of a session of a hub; nil for others. Waiting says which of
	// them is awaited. Open sets both.
	Wire    *Wire
	Waiting string

	session *source.Session // nil while it is waited for
	file    *os.File        // that frames are read from again; or nil
}

// IsTap reports whether it is a tap that is viewed.
func (v *Viewing) IsTap() bool { return source.IsTap(v.Name) }

// Open opens the session, unless it is a tap, or one of a hub, that does not exist yet.
func (v *Viewing) Open(ctx context.Context) (err error) {
	if len(v.With) > 0 {
		grows := func(name string) bool { return v.Follow || source.IsRun(name) || source.IsTranscript(name) }
		v.session, err = v.Opener.Together(ctx, append([]string{v.Name}, v.With...), v.Config, grows)
		return err
	}
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
		if v.Wire != nil && source.IsTap(v.Name) {
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
// neither a file nor a folder is gone when it has ended, and has no such file: "". Nothing is written
// into the folders of agents.
func NotesFile(name string) string {
	if source.IsTap(name) || source.IsTranscript(name) || source.IsRun(name) || source.IsHub(name) || name == "-" || strings.HasPrefix(name, "fixture:") {
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
		list = append(list, Choice{t.Name, TapAge(t) + "  " + t.Controller + " ⇄ " + ShortName(t.Unit), "tap:" + t.Name})
	}
	return list, err
}

// pastSessions are the runs and the recorded sessions. Sessions that go on have taps.
func pastSessions(getenv func(string) string) (list []Choice) {
	runs, _ := history.Runs(getenv)
	for _, r := range runs {
		list = append(list, Choice{"run:" + r.ID, r.About(), "run:" + r.ID})
	}
	for _, s := range history.Known(getenv) {
		if !s.Live {
			list = append(list, Choice{s.ID, s.About(), s.ID})
		}
	}
	return list
}

// Feed hands a session to the store, to its end. The wire is nil if it is not a tap's.
func Feed(ctx context.Context, s *Store, in decode.Input, cfg decode.Config, w *Wire) {
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
	store  *Store
	wire   *Wire // or nil
}

func newOverheard(r capture.Reader, s *Store, w *Wire) *overheard {
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

// A Wire controls a relay through its tap: it gives commands, and hears the answers among
// the records. It is the tui.Wire of a live session.
type Wire struct {
	store *Store

	mu       sync.Mutex
	conn     *tap.Conn // nil if there is none
	remote   Remote    // in its place, for a session of a hub
	heard    bool      // the remote has obeyed a command
	last     tap.Info  // of the previous tap
	asked    int       // commands so far
	answers  map[string]chan tap.Note
	seqs     []int64 // the numbers that the tap gave the frames, newest last
	first    int64   // the number that the monitor gave the first of seqs
	lost     int64
	conns    int  // the highest number that a connection has got
	before   int  // added to the numbers of connections of this tap
	numbered bool // before is known
}

// NewWire returns the wire of a store that no tap feeds yet.
func NewWire(s *Store) *Wire {
	return &Wire{store: s, answers: map[string]chan tap.Note{}, first: 1}
}

// A Remote takes commands for a session that another machine sends.
type Remote interface {
	// Do carries out a command, and returns the notes besides the answer.
	Do(ctx context.Context, c tap.Command) ([]tap.Note, error)
	// Refuses says why no command would be obeyed; "" if commands may be.
	Refuses() string
}

// waitingEvery is how often a remote is asked for the frames that wait.
const waitingEvery = time.Second

// errUnheard says that it is not known yet whether the remote takes commands.
var errUnheard = errors.New("the relay of this session has not answered yet: try again")

// watch tells the store of the frames that wait at the remote, until ctx ends or the
// remote takes no commands.
func (w *Wire) watch(ctx context.Context) {
	held := map[int64]bool{}
	for {
		notes, err := w.remote.Do(ctx, tap.Command{Do: tap.Waiting})
		if err != nil {
			if w.remote.Refuses() != "" || wait.For(ctx, waitingEvery) != nil {
				return
			}
			continue
		}
		w.mu.Lock()
		w.heard = true
		w.mu.Unlock()
		now := map[int64]bool{}
		for _, n := range notes {
			if now[n.Held] = true; !held[n.Held] {
				w.note(n)
			}
		}
		for number := range held {
			if !now[number] {
				w.store.Let(number)
			}
		}
		held = now
		if wait.For(ctx, waitingEvery) != nil {
			return
		}
	}
}

// setRemote says which remote it is from here on.
func (w *Wire) setRemote(r Remote) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.remote = r
}

// begin says which tap it is from here on.
func (w *Wire) begin(conn *tap.Conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.conn = conn
	w.first, w.seqs = w.first+int64(len(w.seqs)), nil
	w.numbered = false
}

// Open opens the records of a tap, which is the tap of the wire from then on.
func (w *Wire) Open(conn *tap.Conn, cfg decode.Config) (decode.Input, error) {
	w.begin(conn)
	return decode.Open(conn, cfg)
}

// Next connects to the tap that follows the one of the wire, once there is one.
func (w *Wire) Next(ctx context.Context, dir string, any bool) (*tap.Conn, error) {
	w.mu.Lock()
	if w.conn != nil {
		w.last, w.conn = w.conn.Info, nil
	}
	w.mu.Unlock()
	conn, err := tap.Next(ctx, dir, w.last, any)
	if err == nil {
		w.last = conn.Info
	}
	return conn, err
}

// number gives the connection of a record its number in the monitor: from 1, continued from
// the previous tap. A tap with one connection may call it 0.
func (w *Wire) number(r *capture.Record) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.numbered {
		w.before, w.numbered = w.conns, true
		if r.Conn == 0 {
			w.before++
		}
	}
	r.Conn += w.before
	w.conns = max(w.conns, r.Conn)
}

// keptSeqs is how many frames can be named to the tap, whose history is shorter.
const keptSeqs = 1 << 16

// hear handles a record of the tap on its way to the store, and reports whether it is only
// for the wire.
func (w *Wire) hear(r *capture.Record) (ours bool) {
	if r.Kind == capture.Frame {
		w.mu.Lock()
		defer w.mu.Unlock()
		if len(w.seqs) == 2*keptSeqs {
			w.seqs = append(w.seqs[:0], w.seqs[keptSeqs:]...)
			w.first += keptSeqs
		}
		w.seqs = append(w.seqs, r.Seq)
		return false
	}
	n, ok := tap.ParseNote(r)
	if ok {
		w.note(n)
	}
	return ok
}

func (w *Wire) note(n tap.Note) {
	switch n.Tap {
	case tap.Hello, tap.Lost:
		if n.Altered {
			w.store.Alter()
		}
		w.lost += n.Lost
		w.store.Lost(w.lost)
	case tap.Held:
		payload := []byte(n.Payload)
		if payload == nil {
			payload = n.Data
		}
		dir, _ := frame.ParseDir(n.Dir)
		w.store.Hold(Held{Number: n.Held, Conn: w.before + n.Conn, Dir: dir, Payload: payload})
	case tap.Released:
		w.store.Let(n.Held)
	case tap.Answer:
		w.mu.Lock()
		answer := w.answers[n.Tag]
		delete(w.answers, n.Tag)
		w.mu.Unlock()
		if answer != nil {
			answer <- n
		}
	}
}

var (
	errNoTap    = errors.New("the session has ended and cannot be changed")
	errNotBegun = errors.New("the session has not begun yet")
)

// absent says why there is no tap.
func (w *Wire) absent() error {
	if w.last.Name == "" {
		return errNotBegun
	}
	return errNoTap
}

// answerTime is how long an answer to a command is waited for.
const answerTime = 5 * time.Second

// Refuses says why no command would be obeyed; "" if commands may be.
func (w *Wire) Refuses() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.remote != nil:
		if why := w.remote.Refuses(); why != "" || w.heard {
			return why
		}
		return errUnheard.Error()
	case w.conn == nil:
		return w.absent().Error()
	case !w.conn.Info.Control:
		return tap.ErrNoCommands.Error()
	}
	return ""
}

// do gives a command and waits for its answer.
func (w *Wire) do(c tap.Command) error {
	w.mu.Lock()
	if remote := w.remote; remote != nil {
		w.mu.Unlock()
		ctx, cancel := context.WithTimeout(context.Background(), answerTime)
		defer cancel()
		_, err := remote.Do(ctx, c)
		return err
	}
	conn := w.conn
	if conn == nil {
		defer w.mu.Unlock()
		return w.absent()
	}
	w.asked++
	c.Tag = strconv.Itoa(w.asked)
	answer := make(chan tap.Note, 1)
	w.answers[c.Tag] = answer
	w.mu.Unlock()
	if err := conn.Send(c); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), answerTime)
	defer cancel()
	select {
	case n := <-answer:
		if n.Error != "" {
			return errors.New(n.Error)
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%s: no answer from the relay within %v", c.Do, answerTime)
	}
}

// Cancel sends the protocol's cancel of an exchange. Without a connection, id is that of a
// run of wirectl rlm, or of a place in it.
func (w *Wire) Cancel(conn int, id string) error {
	if !json.Valid([]byte(id)) {
		id = strconv.Quote(id)
	}
	w.mu.Lock()
	if conn != 0 {
		conn -= w.before
	}
	w.mu.Unlock()
	if conn < 0 {
		return errNoTap // the frame was of the previous tap
	}
	return w.do(tap.Command{Do: tap.Cancel, Conn: conn, ID: json.RawMessage(id)})
}

// Resend sends a frame again, which the monitor knows by that number.
func (w *Wire) Resend(seq int64) error {
	w.mu.Lock()
	i := seq - w.first
	known := i >= 0 && i < int64(len(w.seqs))
	if known {
		seq = w.seqs[i]
	}
	w.mu.Unlock()
	if !known {
		return errors.New("the tap no longer has that frame")
	}
	return w.do(tap.Command{Do: tap.Resend, Seq: seq})
}

// Hold makes frames wait that meet a condition; "" ends that.
func (w *Wire) Hold(where string) error { return w.do(tap.Command{Do: tap.Hold, Where: where}) }

// Release lets a waiting frame go.
func (w *Wire) Release(held int64) error {
	return w.do(tap.Command{Do: tap.Release, Held: held})
}

// Drop drops a waiting frame.
func (w *Wire) Drop(held int64) error { return w.do(tap.Command{Do: tap.Drop, Held: held}) }

// Edit lets another frame go in the place of a waiting one.
func (w *Wire) Edit(held int64, payload []byte) error {
	c := tap.Command{Do: tap.Edit, Held: held, Data: payload}
	if json.Valid(payload) {
		c.Payload, c.Data = payload, nil
	}
	return w.do(c)
}
