package source

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/capture/history"
	"github.com/wirectl/wirectl/capture/pcapng"
	"github.com/wirectl/wirectl/capture/tap"
	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/internal/wait"
)

// runPrefix begins the names of runs: "run:ID", "run:latest".
const runPrefix = "run:"

// IsRun reports whether an input is named as a recorded run.
func IsRun(name string) bool { return strings.HasPrefix(name, runPrefix) }

// RunFolder returns the folder of the run that an input names, by its id or as a folder; "" if it
// names something else.
func (o *Opener) RunFolder(name string) (string, error) {
	if id, ok := strings.CutPrefix(name, runPrefix); ok {
		if _, err := os.Lstat(name); err == nil {
			return "", nil // a file wins over an id
		}
		r, err := history.FindRun(o.Getenv, id)
		if err != nil {
			return "", &Error{err}
		}
		return r.Dir, nil
	}
	if isRunFolder(name) {
		return name, nil
	}
	return "", nil
}

func isRunFolder(name string) bool {
	info, err := os.Lstat(filepath.Join(name, history.RunFile))
	return err == nil && info.Mode().IsRegular()
}

const (
	// maxParts bounds the captures of a run that are read together, each of which is an open file.
	maxParts = 1000
	// settle is how long after its time a record may be written. Until then, an earlier one may come from
	// another process.
	settle = 100 * time.Millisecond
	// lookEvery is how often a run that goes on is looked at again.
	lookEvery = 100 * time.Millisecond
)

// A Run reads all captures and events of a run as one, in the order of time. Its folder may come from
// anybody: only regular files in it are opened, and links are not followed.
type Run struct {
	history.Run
	session capture.Session
	root    *os.Root
	cfg     decode.Config
	wait    func() bool // for more; false to end. Nil if the run is read as it is now.

	parts []*part
	seen  map[string]bool // names of files that are parts, or cannot be
	last  *part           // whose record was returned last
	wires []string        // by connection
	seq   int64
	notes []capture.Record // that come next
	round int              // of looking at what has grown
	began time.Time        // the round
	final bool             // nothing grows any more
	over  bool             // that connections have no end was said
	err   error            // that follows the last record
}

// A part is a capture of a run, or its events.
type part struct {
	name    string
	wire    string // which wire it is: "model", or the name of a server
	session func() *capture.Session
	next    func() (*capture.Record, error) // nil without an error if there is no more for now
	close   func()
	head    *capture.Record
	at      time.Time // of the head or, if that is unknown, of the one before
	read    int       // the round in which the head was read
	idle    bool      // it has no more in this round
	conns   map[int]int
	order   []int // the numbers in conns
}

// OpenRun opens the run in a folder. If it goes on and follow is set, the end is that of the run, or of ctx.
func OpenRun(ctx context.Context, folder string, cfg decode.Config, follow bool) (*Run, error) {
	about, err := history.ReadRun(folder)
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(folder)
	if err != nil {
		return nil, err
	}
	r := &Run{Run: about, root: root, cfg: cfg, seen: map[string]bool{}, final: true}
	if follow && about.Live {
		r.wait, r.final = func() bool { return wait.For(ctx, lookEvery) == nil }, false
	}
	r.session = capture.Session{
		Created: about.Started, Controller: about.Agent, Unit: strings.Join(about.Command, " "),
		Comment: "run:" + about.ID, Redacted: true, Outlined: about.Level == history.Metadata,
	}
	if err := r.look(); err != nil {
		r.Close()
		return nil, err
	}
	if about.Wirectl == "" { // made of recordings, which say themselves what they are
		r.session.Redacted = false
	}
	for _, p := range r.parts {
		if p.session != nil {
			s := p.session()
			r.session.Redacted, r.session.Altered = r.session.Redacted || s.Redacted, r.session.Altered || s.Altered
			r.session.Outlined = r.session.Outlined || s.Outlined
		}
	}
	return r, nil
}

// Wire returns which wire a connection of the run is: "model", "agent", "events" or the name of a server.
func (r *Run) Wire(conn int) string {
	if conn < 1 || conn > len(r.wires) {
		return ""
	}
	return r.wires[conn-1]
}

// Session describes the run.
func (r *Run) Session() *capture.Session { return &r.session }

// look begins a round: it finds parts that are new, and whether the run goes on.
func (r *Run) look() error {
	r.round++
	r.began = time.Now()
	for _, p := range r.parts {
		p.idle = false
	}
	if r.root == nil { // it is several sessions
		r.final = len(r.parts) == 0
		return nil
	}
	if !r.final {
		if now, err := history.ReadRun(r.Dir); err != nil || !now.Live {
			r.final, r.Live, r.Ended = true, false, now.Ended
		}
	}
	entries, err := fs.ReadDir(r.root.FS(), ".")
	if err != nil {
		return err
	}
	slices.SortStableFunc(entries, func(a, b fs.DirEntry) int { return cmp.Compare(rank(a.Name()), rank(b.Name())) })
	left := 0
	for _, e := range entries {
		name := e.Name()
		isCapture := e.Type().IsRegular() && strings.HasSuffix(name, ".pcapng")
		isEvents := e.Type().IsRegular() && name == history.EventsFile
		if r.seen[name] || !isCapture && !isEvents && !e.IsDir() {
			continue
		}
		if len(r.parts) >= maxParts {
			left++
			continue
		}
		r.seen[name] = true
		p, err := r.part(name, e.IsDir())
		switch {
		case err != nil:
			r.lose(&part{name: name}, err)
		case p != nil:
			r.parts = append(r.parts, p)
		}
	}
	if left > 0 && !r.seen[""] {
		r.seen[""] = true
		r.say(fmt.Sprintf("%d more captures of this run are not read: %d are the most", left, maxParts))
	}
	return nil
}

// rank orders the files of a run: its own captures before those of servers, so that they are surely read.
func rank(name string) int {
	switch wireOf(name) {
	case "model", "agent", "events":
		return 0
	}
	return 1
}

// part opens a part. It returns nil for a folder that is no recording.
func (r *Run) part(name string, isFolder bool) (*part, error) {
	p := &part{name: name, wire: wireOf(name), close: func() {}, conns: map[int]int{}}
	if isFolder {
		root, err := r.root.OpenRoot(name)
		if err != nil {
			return nil, err
		}
		files := regular{root}
		if !slices.ContainsFunc([]string{"c2s.bin", "s2c.bin"}, func(file string) bool { _, err := fs.Stat(files, file); return err == nil }) {
			return nil, root.Close()
		}
		cfg := r.cfg
		cfg.Notice = nil // what it is shows in its frames
		rec, err := decode.OpenRecording(files, cfg)
		if err != nil {
			return nil, errors.Join(err, root.Close())
		}
		p.close = func() { rec.Close(); root.Close() }
		p.reads(rec)
		return p, nil
	}
	f, err := regular{r.root}.Open(name)
	if err != nil {
		return nil, err
	}
	switch {
	case name != history.EventsFile:
	case r.final:
		return p, p.grow(r, f, sortedEvents)
	default:
		return p, p.grow(r, f, eventsOf)
	}
	return p, p.grow(r, f, func(in io.Reader) (capture.Reader, error) {
		return pcapng.NewReader(in, max(pcapng.DefaultLimit, pcapng.BlockLimit(r.cfg.Limit)))
	})
}

// reads makes a part of a reader.
func (p *part) reads(in capture.Reader) {
	var rec capture.Record
	p.session = in.Session
	p.next = func() (*capture.Record, error) { return &rec, in.Next(&rec) }
}

// grow reads a part from a file, which may grow while the run goes on. Then a coroutine reads it, which
// pauses inside a record that is not whole yet.
func (p *part) grow(r *Run, f fs.File, open func(io.Reader) (capture.Reader, error)) error {
	b := bufio.NewReader(f)
	magic, _ := b.Peek(4)
	if isPacked := len(magic) == 4 && string(magic) != "\n\r\r\n" && pcapng.Is(magic); r.final || isPacked {
		p.close = func() { f.Close() }
		in, err := open(b)
		if err != nil {
			f.Close()
			return err
		}
		p.reads(in)
		return nil
	}
	type step struct {
		rec *capture.Record
		err error
	}
	next, stop := iter.Pull(func(yield func(step) bool) {
		in, err := open(growing(func(to []byte) (int, error) {
			for {
				final := r.final
				if n, err := b.Read(to); n > 0 || err != io.EOF || final {
					return n, err
				}
				if !yield(step{}) {
					return 0, io.EOF
				}
			}
		}))
		if err == nil {
			p.session = in.Session
		}
		for err == nil {
			var rec capture.Record
			if err = in.Next(&rec); err == nil && !yield(step{rec: &rec}) {
				return
			}
		}
		yield(step{err: err})
	})
	p.close = func() { stop(); f.Close() }
	p.next = func() (*capture.Record, error) {
		s, ok := next()
		if !ok {
			return nil, io.EOF
		}
		return s.rec, s.err
	}
	return nil
}

type growing func([]byte) (int, error)

func (g growing) Read(p []byte) (int, error) { return g(p) }

// regular has the regular files of a folder, and opening one never waits.
type regular struct{ *os.Root }

// Open opens a file or a folder that is no link.
func (r regular) Open(name string) (fs.File, error) {
	info, err := r.Lstat(name)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return r.FS().Open(name)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", name)
	}
	flags := os.O_RDONLY
	if runtime.GOOS != "windows" {
		flags |= syscall.O_NONBLOCK // it may have become a pipe
	}
	f, err := r.OpenFile(name, flags, 0)
	if err != nil {
		return nil, err
	}
	if now, err := f.Stat(); err != nil || !os.SameFile(info, now) {
		return nil, errors.Join(err, f.Close(), fmt.Errorf("%s was replaced", name))
	}
	return f, nil
}

// Buffered reports whether Next returns at once; see [capture.Live].
func (r *Run) Buffered() bool { return r.ready() || r.final }

// ready reads what is there, and reports whether a record is the next one.
func (r *Run) ready() bool {
	if r.last != nil {
		r.last.head, r.last = nil, nil
	}
	for i := 0; i < len(r.parts); {
		p := r.parts[i]
		if p.head == nil && !p.idle {
			var err error
			p.read = r.round
			if p.head, err = p.next(); err != nil {
				p.close()
				r.parts = slices.Delete(r.parts, i, i+1)
				if err != io.EOF {
					r.lose(p, err)
				}
				continue
			}
			if p.idle = p.head == nil; !p.idle && !p.head.Time.IsZero() {
				p.at = p.head.Time
			}
		}
		i++
	}
	if len(r.notes) > 0 {
		return true
	}
	first := r.first()
	return first != nil && (r.final || first.read < r.round || first.at.Before(r.began.Add(-settle)))
}

// first returns the part with the earliest record.
func (r *Run) first() (first *part) {
	for _, p := range r.parts {
		if p.head != nil && (first == nil || p.at.Before(first.at)) {
			first = p
		}
	}
	return first
}

// lose says that the rest of a part cannot be read. It is an error, at the end, if the part is damaged
// rather than cut.
func (r *Run) lose(p *part, err error) {
	isCut := errors.Is(err, capture.ErrCut)
	switch {
	case isCut && r.Live && r.Ended.IsZero(): // it is being written
	case isCut || r.err != nil:
		r.say(fmt.Sprintf("%s: %v", p.name, err))
	default:
		r.err = fmt.Errorf("%s: %w", p.name, err)
	}
	for _, conn := range p.order {
		note := tap.Note{Tap: tap.Lost}.Record()
		note.Conn = conn
		r.notes = append(r.notes, note)
	}
}

// say makes a remark the next record, and tells it to people who see no records.
func (r *Run) say(text string) {
	if r.cfg.Note == nil && r.cfg.Notice != nil {
		r.cfg.Notice(text)
	}
	r.notes = append(r.notes, capture.Record{Kind: capture.Note, Text: []byte(text)})
}

// Next reads the next record of any part; see [capture.Reader]. Frames and connections are numbered anew.
func (r *Run) Next(rec *capture.Record) error {
	for !r.ready() {
		switch {
		case r.final && r.Ended.IsZero() && !r.over:
			if r.Live {
				r.say("the run goes on: --follow waits for more")
			}
			r.notes = append(r.notes, tap.Note{Tap: tap.Unended}.Record())
			r.over = true
		case r.final:
			*rec = capture.Record{}
			return cmp.Or(r.err, io.EOF)
		case r.wait():
			if err := r.look(); err != nil {
				r.err, r.final, r.over = cmp.Or(r.err, err), true, true
			}
		default:
			r.closeParts()
			r.final, r.over = true, true
		}
	}
	if len(r.notes) > 0 {
		*rec, r.notes = r.notes[0], r.notes[1:]
		return nil
	}
	p := r.first()
	*rec = *p.head
	r.last = p
	if rec.Conn > 0 || rec.Kind != capture.Note || rec.Dir != frame.DirUnknown { // a capture of one connection may call it 0
		r.number(p, rec)
	}
	if rec.Seq = 0; rec.Kind == capture.Frame && !rec.Gap {
		r.seq++
		rec.Seq = r.seq
	}
	return nil
}

// number gives a record the number of its connection in the run. A connection begins with its name.
func (r *Run) number(p *part, rec *capture.Record) {
	conn := p.conns[rec.Conn]
	if conn == 0 {
		r.wires = append(r.wires, p.wire)
		conn = len(r.wires)
		p.conns[rec.Conn] = conn
		p.order = append(p.order, conn)
		if rec.Kind != capture.Opened {
			opened := capture.Record{Kind: capture.Opened, Time: rec.Time}
			opened.Conn, opened.Text = conn, []byte(r.nameOf(p, ""))
			r.last = nil // the record comes after its connection has begun
			*rec = opened
			return
		}
	}
	if rec.Conn = conn; rec.Kind == capture.Opened {
		rec.Text = []byte(r.nameOf(p, string(rec.Text)))
	}
}

var (
	wirePattern  = regexp.MustCompile(`^(?:mcp-)?(.+?)(?:(?:-[0-9]+)?\.pcapng|\.ndjson)?$`)
	namedPattern = regexp.MustCompile(`^[\w.-]+: `)
)

// wireOf returns which wire a file is: "mcp-lab-4711.pcapng" is "lab".
func wireOf(name string) string { return wirePattern.FindStringSubmatch(name)[1] }

// WireOf returns which wire of a run a file of its folder is.
func WireOf(file string) string { return wireOf(filepath.Base(file)) }

// nameOf returns the name of a connection: "lab: claude → lab". One that its writer has named so stays.
func (r *Run) nameOf(p *part, opened string) string {
	if namedPattern.MatchString(opened) && strings.Contains(opened, " → ") {
		return opened
	}
	if p.wire == "events" {
		return "processes: " + cmp.Or(r.Agent, "agent")
	}
	from, to := cmp.Or(r.Agent, "agent"), p.wire
	if p.session != nil {
		from = cmp.Or(p.session().Controller, from)
	}
	switch {
	case strings.Contains(opened, " → "):
		return p.wire + ": " + opened
	case p.wire == "model" && opened != "":
		to = opened
		if u, err := url.Parse(opened); err == nil && u.Host != "" {
			to = strings.TrimSuffix(strings.TrimSuffix(u.Host, ":443"), ":80")
		}
	}
	return p.wire + ": " + from + " → " + to
}

// Wires returns the captures and recordings of the run in a folder.
func Wires(folder string) (names []string) {
	entries, _ := os.ReadDir(folder)
	for _, e := range entries {
		name := filepath.Join(folder, e.Name())
		if e.Type().IsRegular() && strings.HasSuffix(name, ".pcapng") || e.IsDir() && recordingFolder(name) != nil {
			names = append(names, name)
		}
	}
	return names
}

// RunContains reports whether a file of the run in a folder contains a text, in any case of ASCII letters.
func RunContains(folder, text string) bool {
	entries, _ := os.ReadDir(folder)
	return slices.ContainsFunc(entries, func(e os.DirEntry) bool {
		return e.Type().IsRegular() && Contains(filepath.Join(folder, e.Name()), text)
	})
}

// Close closes the files.
func (r *Run) Close() error {
	r.closeParts()
	return r.root.Close()
}

func (r *Run) closeParts() {
	for _, p := range r.parts {
		p.close()
	}
	r.parts = nil
}

// events reads the events of a run as messages of the protocol that is for them.
type events struct {
	lines   *bufio.Reader
	session capture.Session
	skipped int
}

func eventsOf(in io.Reader) (capture.Reader, error) {
	return &events{lines: bufio.NewReaderSize(in, history.MaxEvent+1)}, nil
}

// sortedEvents are events in the order of time: some are told late. Very many stay as they are.
func sortedEvents(in io.Reader) (capture.Reader, error) {
	const most = 16 << 20
	text, err := io.ReadAll(io.LimitReader(in, most))
	if err != nil {
		return nil, err
	}
	if len(text) == most {
		return eventsOf(io.MultiReader(bytes.NewReader(text), in))
	}
	r, err := eventsOf(bytes.NewReader(text))
	list := &recordList{Reader: r}
	var rec capture.Record
	for err == nil {
		if err = r.Next(&rec); err == nil {
			list.records = append(list.records, rec.Clone())
		}
	}
	list.err = err
	slices.SortStableFunc(list.records, func(a, b capture.Record) int {
		if a.Kind != b.Kind {
			return cmp.Compare(a.Kind, b.Kind) // the notes come last
		}
		return a.Time.Compare(b.Time)
	})
	return list, nil
}

// A recordList is a capture in memory.
type recordList struct {
	capture.Reader
	records []capture.Record
	err     error // after these
}

// Next returns the next record.
func (l *recordList) Next(rec *capture.Record) error {
	if len(l.records) == 0 {
		return l.err
	}
	*rec, l.records = l.records[0], l.records[1:]
	return nil
}

// Session describes nothing.
func (e *events) Session() *capture.Session { return &e.session }

// Next reads the next event. It says at the end how many lines are none.
func (e *events) Next(rec *capture.Record) error {
	for isLong := false; ; {
		line, err := e.lines.ReadSlice('\n')
		switch {
		case err == bufio.ErrBufferFull:
			isLong = true
			continue
		case err == io.EOF && (len(line) > 0 || isLong):
			return &capture.Error{Err: capture.ErrCut, Detail: "its last line is not whole"}
		case err == io.EOF && e.skipped > 0:
			*rec = capture.Record{Kind: capture.Note, Text: fmt.Appendf(nil, "%s: %s skipped: no events", history.EventsFile, render.Count(int64(e.skipped), "line"))}
			e.skipped = 0
			return nil
		case err != nil:
			return err
		}
		text := bytes.TrimRight(line, "\r\n")
		raw, _ := jsonscan.Get(text, "time")
		word, _ := jsonscan.Unquote(raw)
		at, err := time.Parse(time.RFC3339Nano, string(word))
		if isLong || err != nil || jsonscan.WellFormed(text) != nil {
			e.skipped++
			isLong = false
			continue
		}
		*rec = capture.Record{Time: at, Protocol: "process", Framing: frame.Line.Name()}
		rec.Raw, rec.End, rec.Conn, rec.Dir = line, len(text), 1, frame.C2U
		if kind, _ := jsonscan.Get(text, "event"); string(kind) == `"exit"` {
			rec.Dir = frame.U2C
		}
		return nil
	}
}
