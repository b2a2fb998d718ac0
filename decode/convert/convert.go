// Package convert converts sessions: it adds what a format leaves to its reader, removes
// secrets, and writes captures, recordings, traces and NDJSON.
package convert

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/capture/output"
	"github.com/wirectl/wirectl/capture/recording"
	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/decode/track"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/cmdline"
	"github.com/wirectl/wirectl/internal/render"
)

// A Format is a form that a session can be written in.
type Format string

const (
	Pcapng Format = "pcapng" // a capture
	NDJSON Format = "ndjson" // a record a line
	Raw    Format = "raw"    // a folder, with a file for each direction
	Trace  Format = "trace"  // trace events, as Perfetto and Chrome show them
	HAR    Format = "har"    // HTTP archive 1.2
	OTLP   Format = "otlp"   // spans, sent to an OpenTelemetry collector
)

// Formats are all of them.
var Formats = []Format{Pcapng, NDJSON, Raw, Trace, HAR, OTLP}

// suffixes say which names are of which format.
var suffixes = []struct {
	suffix string
	format Format
	zstd   bool
}{
	{".pcapng", Pcapng, false},
	{".pcapng.zst", Pcapng, true},
	{".ndjson", NDJSON, false},
	{".jsonl", NDJSON, false},
	{".json", Trace, false},
	{".har", HAR, false},
	{"/", Raw, false},
}

// FormatOf returns the format that the name of a file tells, and whether it is
// to be compressed; "" if the name tells none.
func FormatOf(name string) (f Format, zstd bool) {
	if IsCollector(name) {
		return OTLP, false
	}
	for _, s := range suffixes {
		if strings.HasSuffix(strings.ToLower(name), s.suffix) {
			return s.format, s.zstd
		}
	}
	return "", false
}

// Until returns r, which ends with the cause of ctx's end when that comes first.
func Until(ctx context.Context, r capture.Reader) capture.Reader { return until{r, ctx} }

type until struct {
	capture.Reader
	ctx context.Context
}

func (u until) Next(rec *capture.Record) error {
	if u.ctx.Err() != nil {
		return context.Cause(u.ctx)
	}
	return u.Reader.Next(rec)
}

// FormatNames returns the names of all formats, with commas between them.
func FormatNames() string {
	var names []string
	for _, f := range Formats {
		names = append(names, string(f))
	}
	return strings.Join(names, ", ")
}

// ChooseFormat returns the format in which to write out, and whether to compress it: the
// format to or, if that is "", the one that the name of out tells. The errors are of usage.
func ChooseFormat(out, to string, compress, terminal bool) (f Format, zstd bool, err error) {
	f, zstd = FormatOf(out)
	if info, err := os.Stat(out); err == nil && info.IsDir() {
		f = Raw
	}
	if to != "" {
		f = Format(to)
	}
	zstd = zstd && f == Pcapng || compress
	switch {
	case f == "":
		hint := ""
		if out != "-" {
			hint = "end it with .pcapng, .ndjson, .json, .har or, for raw bytes, with a slash, or "
		}
		err = cmdline.Errorf("cannot tell a format from the name %q: %sgive --to %s", out, hint, FormatNames())
	case !slices.Contains(Formats, f):
		err = cmdline.Errorf("invalid --to %q: want one of %s", f, FormatNames())
	case zstd && f != Pcapng:
		err = cmdline.Errorf("--zstd is for pcapng, and OUT is %s", f)
	case f == OTLP && !IsCollector(out):
		err = cmdline.Errorf("spans cannot be written to a file: OUT must be the URL of a collector, or otlp for http://localhost:4318")
	case f == Raw && out == "-":
		err = cmdline.Errorf("raw output needs one file per direction: name a folder, or use wirectl decode -o raw")
	case f != NDJSON && out == "-" && terminal:
		err = cmdline.Errorf("refusing to write %s to a terminal: name a file, or redirect standard output", f)
	}
	return f, zstd, err
}

// NotSame returns an error of usage if in and out are one file.
func NotSame(in, out string) error {
	a, inErr := os.Stat(in)
	b, outErr := os.Stat(out)
	if inErr == nil && outErr == nil && os.SameFile(a, b) {
		return cmdline.Errorf("IN and OUT are both %s: it would be overwritten while it is read", out)
	}
	return nil
}

// IsRereadable reports whether a session of that name can be read twice.
func IsRereadable(name string) bool {
	if strings.HasPrefix(name, "fixture:") {
		return true
	}
	info, err := os.Stat(name)
	return err == nil && (info.Mode().IsRegular() || info.IsDir())
}

// bufferSize is how much is written to a file at once, in bytes.
const bufferSize = 256 << 10

// Buffered calls write with a writer to w that collects small writes.
func Buffered(w io.Writer, write func(io.Writer) error) error {
	b := bufio.NewWriterSize(w, bufferSize)
	err := write(b)
	if flushed := b.Flush(); flushed != nil && !errors.Is(err, flushed) { // which b repeats
		err = errors.Join(err, flushed)
	}
	return err
}

// WriteFile calls write with a writer to the file of that name, which is replaced when all
// is written. If write fails, its output is kept, because the input may be cut. The file
// stays as it was if write wrote nothing or was cancelled, or if the file cannot be written.
func WriteFile(name string, write func(io.Writer) error) error {
	f := &lateFile{name: name}
	err := Buffered(f, write)
	if err == nil {
		_, err = f.Write(nil) // a session without records is a file, too
	}
	if f.file == nil {
		return err
	}
	return errors.Join(err, f.file.Close(!f.failed && !errors.Is(err, context.Canceled)))
}

// A lateFile is opened when it is first written to: opening a pipe waits for its reader.
type lateFile struct {
	name   string
	file   *output.File
	failed bool
}

func (f *lateFile) Write(data []byte) (int, error) {
	if f.file == nil {
		file, err := output.Begin(f.name)
		if err != nil {
			return 0, err
		}
		f.file = file
	}
	n, err := f.file.Write(data)
	f.failed = f.failed || err != nil
	return n, err
}

// Open returns the records of the input that messages call name. Every frame says its
// protocol and, by dir, its direction. The error that ends a stream goes through fault,
// which words it for people.
func Open(ctx context.Context, name string, in decode.Input, cfg decode.Config, dir frame.Dir, fault func(frame.Framing, error) error) (r capture.Reader, done func(), err error) {
	r, done = in.Limited(cfg), func() {}
	if r == nil {
		pulled, err := Pull(func(yield func(*capture.Record) bool) error {
			framing, err := push(ctx, in, cfg, yield)
			return fault(framing, err)
		})
		if err != nil {
			return nil, nil, err
		}
		r, done = pulled, pulled.Close
	}
	if r, err = Resolve(Until(ctx, r), cfg.Protocol, dir); err != nil {
		done()
		return nil, nil, fmt.Errorf("%s: %w", name, err)
	}
	return r, done, nil
}

// errPulledEnough ends the decoding of a stream whose records nobody reads any more.
var errPulledEnough = errors.New("enough")

// push hands the frames of a stream to yield, and returns its framing.
func push(ctx context.Context, in decode.Input, cfg decode.Config, yield func(*capture.Record) bool) (frame.Framing, error) {
	cfg.Workers = 1
	var rec capture.Record
	view := func(dst []byte, it *decode.Item) ([]byte, error) {
		rec = capture.Record{Seq: it.Seq, Protocol: it.Protocol.Name(), Framing: it.Framing.Name(), Frame: *it.Frame}
		if !yield(&rec) {
			return dst, errPulledEnough
		}
		return dst, nil
	}
	result, err := decode.Run(ctx, in, io.Discard, cfg, func() decode.View { return view })
	return result.Framing, err
}

// Pulled reads the records that a function hands out; see [capture.Reader].
type Pulled struct {
	session capture.Session
	next    func() (*capture.Record, error, bool)
	stop    func()
	first   *capture.Record // not yet given out
	err     error
}

// Pull returns the reader of the records that push hands to yield, one at a time, until
// yield returns false or there are no more. A record need be valid only during the call.
// The first record describes the session; an error before it is returned at once.
func Pull(push func(yield func(*capture.Record) bool) error) (*Pulled, error) {
	p := &Pulled{}
	p.next, p.stop = iter.Pull2(func(yield func(*capture.Record, error) bool) {
		stopped := false
		err := push(func(r *capture.Record) bool {
			stopped = !yield(r, nil)
			return !stopped
		})
		if err != nil && !stopped {
			yield(nil, err)
		}
	})
	if p.first, p.err = p.pull(); p.err != nil && p.err != io.EOF {
		p.stop()
		return nil, p.err
	}
	if p.first != nil {
		p.session = capture.Session{Created: p.first.Time, Protocol: p.first.Protocol, Framing: p.first.Framing}
	}
	return p, nil
}

func (p *Pulled) pull() (*capture.Record, error) {
	r, err, ok := p.next()
	if !ok {
		return nil, io.EOF
	}
	return r, err
}

// Session is what the first record says about the session.
func (p *Pulled) Session() *capture.Session { return &p.session }

// Next reads the next record; see [capture.Reader].
func (p *Pulled) Next(rec *capture.Record) error {
	r := p.first
	if p.first = nil; r == nil && p.err == nil {
		r, p.err = p.pull()
	}
	if r == nil {
		*rec = capture.Record{}
		return p.err
	}
	*rec = *r
	return nil
}

// Close ends the function, if it has not ended.
func (p *Pulled) Close() { p.stop() }

// ErrNoDir is the error for a frame that may have gone either way.
var ErrNoDir = errors.New("it has no direction, and a recording has a file for each")

// ErrUnwrapped is the error for a redacted frame that came in a carrier: redaction removed
// the carrier's part along with its secrets, and nobody can read the stream without it.
var ErrUnwrapped = errors.New("secrets were removed from its carrier, so its bytes would not be readable")

// directed writes records that have a direction.
type directed struct {
	capture.Writer
	session *capture.Session
}

func (d directed) Write(r *capture.Record) error {
	if r.Kind == capture.Frame && r.Meta != nil && d.session.Redacted {
		return fmt.Errorf("frame %d: %w", r.Seq, ErrUnwrapped)
	}
	if r.Kind == capture.Frame && r.Dir == frame.DirUnknown {
		return fmt.Errorf("frame %d: %w", r.Seq, ErrNoDir)
	}
	return d.Writer.Write(r)
}

// WriteRaw writes what is left of r to the folder dir, which must not exist or
// be empty. If r is cut, everything before the cut is written, and its error
// returned.
func WriteRaw(dir string, r capture.Reader) error {
	w, err := recording.Create(dir, *r.Session())
	if err != nil {
		return err
	}
	err = capture.Copy(directed{w, r.Session()}, r)
	return errors.Join(err, w.Close())
}

// Options say how a session is to be written to one file.
type Options struct {
	Name    string // of the session, for messages
	Format  Format
	Zstd    bool
	Config  decode.Config
	Version string            // of the program that writes
	Note    func(text string) // is told what the file lacks
	// BothTimes also writes, as NDJSON, when frames were at the other end of a merged session.
	BothTimes bool
}

// Write writes what is left of r to w. A folder is for [WriteRaw].
func (o *Options) Write(ctx context.Context, w io.Writer, r capture.Reader) error {
	switch {
	case o.Format == NDJSON:
		return o.writeNDJSON(ctx, w, r)
	case o.Format == Trace:
		return o.writeTrace(ctx, w, r)
	case o.Format == HAR:
		if err := WriteHAR(w, r, o.Version); err != nil {
			return fmt.Errorf("%s: %w", o.Name, err)
		}
		return nil
	case o.Zstd:
		return WriteZstd(w, r, o.Config.Protocol)
	}
	return WritePcapng(w, r, o.Config.Protocol)
}

// writeNDJSON writes frames as decode does, and the notes between them.
func (o *Options) writeNDJSON(ctx context.Context, w io.Writer, r capture.Reader) error {
	notes := KeepNotes(r)
	view := func() decode.View {
		record := decode.NDJSON()
		if o.BothTimes {
			record = decode.BothTimes()
		}
		return func(dst []byte, it *decode.Item) ([]byte, error) {
			return record(notes.AppendTo(dst, it.Seq), it)
		}
	}
	_, err := decode.Run(ctx, decode.Input{Capture: notes}, w, o.Config, view)
	return errors.Join(err, notes.WriteRest(w))
}

// writeTrace follows the session as lint and stats do, and draws it.
func (o *Options) writeTrace(ctx context.Context, w io.Writer, r capture.Reader) error {
	var ts track.Trackers
	in := decode.Input{Capture: r}
	cfg := o.Config
	cfg.Workers = 1
	f := track.NewFollower(&ts, in, cfg)
	cfg.Event = f.Event
	var line Timeline
	frames := 0
	view := func(dst []byte, it *decode.Item) ([]byte, error) {
		if line.Origin.IsZero() {
			line.Origin = it.First
		}
		dst, err := f.View(dst, it)
		if frames++; frames%EveryFrames == 0 {
			for _, t := range ts.List {
				dst = line.Append(dst, t.Tracker)
			}
		}
		return dst, err
	}
	_, err := decode.Run(ctx, in, w, cfg, func() decode.View { return view })
	switch {
	case err == nil:
		f.End()
	case errors.Is(err, capture.ErrCut):
		f.Release()
	default:
		return err
	}
	if !ts.Timed {
		return fmt.Errorf("%s has no frame times, which a trace needs: convert a capture, or a recording with its timing.jsonl", o.Name)
	}
	return errors.Join(err, o.endTrace(w, &line, ts.List, f.Last))
}

// endTrace writes the rest of a trace, and says if exchanges are missing.
func (o *Options) endTrace(w io.Writer, line *Timeline, list []track.Tracker, end time.Time) error {
	var dst []byte
	var opened int64
	for _, t := range list {
		dst = line.AppendRest(dst, t.Tracker, end)
		opened += t.Stats().Opened
	}
	if missing := opened - line.Seen; missing > 0 {
		o.Note("the trace lacks " + render.Count(missing, "exchange") + ": too many ended at once")
	}
	_, err := w.Write(line.AppendEnd(dst))
	return err
}

// Save writes frames in the format that the name of the file tells. A name without an
// extension, or of a folder that exists, is the folder of a recording.
func Save(name string, r capture.Reader) error {
	format, zstd := FormatOf(name)
	info, err := os.Stat(name)
	isFolder := format == Raw || err == nil && info.IsDir() || format == "" && filepath.Ext(name) == ""
	switch {
	case isFolder:
		return WriteRaw(name, r)
	case format == NDJSON, format == Pcapng:
		o := Options{Format: format, Zstd: zstd, Config: decode.Config{Workers: 1}}
		return WriteFile(name, func(w io.Writer) error { return o.Write(context.Background(), w, r) })
	}
	return fmt.Errorf("%s: the name ends in none of .ndjson, .jsonl, .pcapng and .pcapng.zst; a folder has no extension", name)
}

// CheckSave returns an error of usage if Save cannot write a single file of that name, or would
// overwrite what is read.
func CheckSave(in, name string) error {
	if format, _ := FormatOf(name); format != NDJSON && format != Pcapng {
		return cmdline.Errorf("%s: the name ends in none of .ndjson, .jsonl, .pcapng and .pcapng.zst", name)
	}
	if info, err := os.Stat(name); err == nil && info.IsDir() {
		return cmdline.Errorf("%s is a folder: name a file", name)
	}
	if info, err := os.Stat(filepath.Dir(name)); err != nil || !info.IsDir() {
		return cmdline.Errorf("%s: there is no folder %s", name, filepath.Dir(name))
	}
	return NotSame(in, name)
}
