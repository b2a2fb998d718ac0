package journal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/wirectl/wirectl/capture"
	outfile "github.com/wirectl/wirectl/capture/output"
	"github.com/wirectl/wirectl/capture/pcapng"
)

// A Config configures a recorder.
type Config struct {
	// Label makes the labels of frames for Wireshark; nil makes none. Frames that arrive too
	// fast get no labels. Labels can be added later.
	Label func(*capture.Record, *pcapng.Label)
	// SplitSize is the approximate size in bytes after which a new part begins; 0 means
	// never. Only the newest Keep parts are kept; 0 means all.
	SplitSize int64
	Keep      int
}

// A Recorder writes the records of a [Journal] to a pcapng file. They reach the file within
// 200 ms, in whole blocks, so that a crash leaves a readable capture. A failure of the file ends
// the recording, never the session.
type Recorder struct {
	cursor *Cursor
	encode encoder
	label  func(*capture.Record, *pcapng.Label)
	out    output
	part   int64 // records in this part
	done   chan struct{}
	err    error // set before done is closed
}

// Record starts recording to the file with that name, which is replaced. With cfg.SplitSize,
// it records to parts of the file. If the name ends in ".zst", the capture is compressed.
func (j *Journal) Record(name string, cfg Config) (*Recorder, error) {
	f, err := newFiles(name, cfg.SplitSize, cfg.Keep)
	if err != nil {
		return nil, err
	}
	return j.record(f, cfg, filepath.Dir(name))
}

// RecordTo starts recording to w, which may be a pipe. It ignores SplitSize and Keep.
func (j *Journal) RecordTo(w io.Writer, cfg Config) (*Recorder, error) {
	return j.record(&stream{w}, cfg)
}

// record starts recording to out. Temporary files may also be created in the folders beside.
func (j *Journal) record(out output, cfg Config, beside ...string) (*Recorder, error) {
	r := &Recorder{out: out, label: cfg.Label, done: make(chan struct{})}
	if j.opts.Policy == Drop {
		r.cursor = j.View(nil, dropped)
	} else {
		r.cursor = j.Follow()
	}
	if cfg.Label != nil {
		r.encode.label = r.labelled
	}
	err := r.encode.beginSection(r.cursor.session)
	if err == nil {
		err = r.flush()
	}
	if err != nil {
		return nil, errors.Join(err, out.close(), r.cursor.Close())
	}
	j.mu.Lock()
	j.spill.dirs = append(j.spill.dirs, beside...)
	j.mu.Unlock()
	go r.run()
	return r, nil
}

// dropped is the note for dropped frames.
func dropped(frames int64) capture.Record {
	return capture.Record{
		Kind: capture.Note, Time: time.Now(),
		Text: fmt.Appendf(nil, "%d frames are missing here: the capture could not be written as fast as they arrived", frames),
	}
}

// Close writes the remaining records. If recording ended early, it returns the reason. If ctx
// ends first, Close leaves the rest unwritten and abandons a write that is stuck.
func (r *Recorder) Close(ctx context.Context) error {
	r.cursor.journal.mu.Lock()
	r.cursor.detach(nil)
	r.cursor.journal.mu.Unlock()
	select {
	case <-r.done:
		return r.err
	case <-ctx.Done():
		return fmt.Errorf("the end of the capture is missing: %w", context.Cause(ctx))
	}
}

// run writes records until the recording ends.
func (r *Recorder) run() {
	defer close(r.done)
	switch r.err = r.copy(); r.err {
	case io.EOF:
		r.err = nil
	case r.cursor.end: // the user knows
	default:
		r.cursor.journal.notice("recording stopped: %v; the session continues", r.err)
	}
	r.err = errors.Join(r.err, r.out.close(), r.cursor.Close())
}

// Send writes the remaining records of a cursor to w, without labels. It returns the error of
// the cursor, which may be io.EOF, or of w.
func (c *Cursor) Send(w io.Writer) error {
	r := Recorder{cursor: c, out: &stream{w}}
	return r.copy()
}

// copy writes the remaining records of the cursor.
func (r *Recorder) copy() error {
	for {
		records, err := r.cursor.batch()
		if err == nil {
			err = r.write(records)
		} else {
			err = cmp.Or(r.flush(), err)
		}
		if err != nil {
			return err
		}
	}
}

// write encodes the current records of the cursor, and flushes them if no more are there.
func (r *Recorder) write(records []capture.Record) error {
	for i := range records {
		if r.part > 0 && r.out.full(len(r.encode.buf)) {
			if err := cmp.Or(r.flush(), r.out.nextPart()); err != nil {
				return err
			}
			r.encode.session, r.part = nil, 0
		}
		r.part++
		if err := r.encode.write(r.cursor.session, &records[i]); err != nil {
			return err
		}
		if len(r.encode.buf) >= blocks {
			if err := r.flush(); err != nil {
				return err
			}
		}
	}
	if r.cursor.records = nil; !r.cursor.Buffered() {
		return r.flush()
	}
	return nil
}

// labelled labels a frame, unless many are waiting.
func (r *Recorder) labelled(rec *capture.Record, l *pcapng.Label) {
	if !r.cursor.hurry {
		r.label(rec, l)
	}
}

// flush writes the encoded records to the output.
func (r *Recorder) flush() error {
	if len(r.encode.buf) == 0 {
		return nil
	}
	err := r.out.writeBlocks(r.encode.buf)
	r.encode.reset()
	return err
}

// blocks is the buffer size, in bytes, at which data is flushed while more records are
// waiting.
const blocks = 256 << 10

// An encoder collects records as whole blocks of pcapng.
type encoder struct {
	label func(*capture.Record, *pcapng.Label) // may be nil
	buf   []byte                               // the blocks so far

	w       *pcapng.Writer
	session *capture.Session // nil: the next record begins a section
}

// beginSection begins a section, with the header of s.
func (e *encoder) beginSection(s *capture.Session) (err error) {
	e.w, err = pcapng.NewWriter((*appender)(&e.buf), *s, e.label)
	e.session = s
	return err
}

// write adds a record of the session s. If s is not the current session, it begins a section
// first.
func (e *encoder) write(s *capture.Session, r *capture.Record) (err error) {
	if e.session != s {
		if err := e.beginSection(s); err != nil {
			return err
		}
	}
	e.buf, err = e.w.Append(e.buf, r)
	return err
}

// maxBuffer is the capacity, in bytes, up to which a buffer is reused.
const maxBuffer = 1 << 20

// reset empties the buffer.
func (e *encoder) reset() {
	if e.buf = e.buf[:0]; cap(e.buf) > maxBuffer {
		e.buf = nil
	}
}

type appender []byte

func (a *appender) Write(b []byte) (int, error) {
	*a = append(*a, b...)
	return len(b), nil
}

// An output is the destination of a recording.
type output interface {
	// writeBlocks writes whole blocks, so that readers can use them at once.
	writeBlocks(blocks []byte) error
	// full reports whether the part is full after the pending bytes.
	full(pending int) bool
	// nextPart ends the current part and begins another.
	nextPart() error
	close() error
}

// A stream is an output that consists of one endless part.
type stream struct{ io.Writer }

func (s *stream) writeBlocks(blocks []byte) error {
	_, err := s.Write(blocks)
	return err
}
func (s *stream) full(int) bool   { return false }
func (s *stream) nextPart() error { return nil }
func (s *stream) close() error    { return nil }

// files is an output to a file, or to a sequence of parts.
type files struct {
	name  string
	split int64
	keep  int

	parts  []string // existing parts, if SplitSize is set
	number int      // of the last part
	file   *os.File
	whole  int64 // bytes of complete blocks in the file
	zip    *zstd.Encoder
}

func newFiles(name string, split int64, keep int) (*files, error) {
	f := &files{name: name, split: split, keep: keep}
	if split == 0 {
		return f, f.nextPart()
	}
	if err := f.findParts(); err != nil {
		return nil, err
	}
	// Another recording may write the last part, or the one before it until that is locked.
	for _, part := range f.parts[max(0, len(f.parts)-2):] {
		held, err := outfile.Hold(part)
		if err != nil {
			return nil, err
		}
		held.Close()
	}
	if err := f.nextPart(); err != nil {
		return nil, err
	}
	// Another recording may have gone on to later parts meanwhile.
	now := &files{name: name}
	if err := now.findParts(); err != nil || now.number > f.number {
		return nil, errors.Join(cmp.Or(err, outfile.Busy(name)), f.close(), os.Remove(f.parts[len(f.parts)-1]))
	}
	return f, nil
}

// extension returns the extension of the file. The part's number goes before it.
func (f *files) extension() string {
	for _, ext := range []string{".pcapng.zst", ".pcapng"} {
		if strings.HasSuffix(f.name, ext) {
			return ext
		}
	}
	return filepath.Ext(f.name)
}

// findParts finds the parts of earlier recordings. Numbering continues after them, and they
// count towards the parts to keep.
func (f *files) findParts() error {
	dir, base := filepath.Split(strings.TrimSuffix(f.name, f.extension()))
	entries, err := os.ReadDir(cmp.Or(dir, "."))
	if err != nil {
		return err
	}
	for _, e := range entries {
		digits := strings.TrimSuffix(strings.TrimPrefix(e.Name(), base+"-"), f.extension())
		n, err := strconv.Atoi(digits)
		if err == nil && n > 0 && e.Name() == filepath.Base(f.partName(n)) {
			f.parts = append(f.parts, f.partName(n))
			f.number = max(f.number, n)
		}
	}
	slices.SortFunc(f.parts, func(a, b string) int { return cmp.Or(len(a)-len(b), strings.Compare(a, b)) })
	return nil
}

// partName returns the name of the part with that number.
func (f *files) partName(n int) string {
	return fmt.Sprintf("%s-%04d%s", strings.TrimSuffix(f.name, f.extension()), n, f.extension())
}

// nextPart creates the file, or the next part of it. Another recording could take the name
// of the next part if the former one was closed before.
func (f *files) nextPart() error {
	name, create := f.name, outfile.Create
	if f.split > 0 {
		f.number++
		name, create = f.partName(f.number), outfile.CreateNew
	}
	file, err := create(name)
	if errors.Is(err, fs.ErrExist) {
		err = outfile.Busy(name)
	}
	if err != nil {
		return err
	}
	err = f.close()
	f.file, f.whole = file, 0
	if f.split > 0 {
		f.parts = append(f.parts, name)
		err = errors.Join(err, f.makeRoom())
	}
	if err == nil && strings.HasSuffix(f.name, ".zst") {
		f.zip, err = pcapng.Compress((*counted)(f))
	}
	return err
}

// writeBlocks writes whole blocks. If that fails, it removes the incomplete block.
func (f *files) writeBlocks(blocks []byte) error {
	var err error
	if f.zip != nil {
		_, err = f.zip.Write(blocks)
		err = errors.Join(err, f.zip.Flush())
	} else {
		_, err = (*counted)(f).Write(blocks)
	}
	return err
}

// counted writes to the file and counts complete writes.
type counted files

func (c *counted) Write(b []byte) (int, error) {
	n, err := c.file.Write(b)
	if err != nil {
		_ = c.file.Truncate(c.whole) // best effort: a pipe cannot be truncated
		return 0, err
	}
	c.whole += int64(n)
	return n, nil
}

func (f *files) full(pending int) bool {
	return f.split > 0 && f.whole+int64(pending) >= f.split
}

// makeRoom removes the oldest parts over the number to keep.
func (f *files) makeRoom() error {
	for f.keep > 0 && len(f.parts) > f.keep {
		if err := os.Remove(f.parts[0]); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		f.parts = f.parts[1:]
	}
	return nil
}

func (f *files) close() error {
	if f.file == nil {
		return nil
	}
	var err error
	if f.zip != nil {
		err = f.zip.Close()
	}
	err = errors.Join(err, f.file.Close())
	f.file, f.zip = nil, nil
	return err
}
