package recorder

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/klauspost/compress/zstd"

	"github.com/wirectl/wirectl/capture"
	outfile "github.com/wirectl/wirectl/capture/output"
	"github.com/wirectl/wirectl/capture/pcapng"
)

// An encoder writes records as blocks to an output.
type encoder struct {
	out    output
	label  func(*capture.Record, *pcapng.Label)
	encode Encoder
	hurry  bool  // many records are waiting: skip labels
	part   int64 // records in this part
	record capture.Record
}

// newEncoder returns an encoder, after writing the header.
func newEncoder(out output, cfg *Config) (*encoder, error) {
	e := &encoder{out: out, label: cfg.Label}
	if cfg.Label != nil {
		e.encode.Label = e.labelled
	}
	err := e.encode.Begin(&cfg.Session)
	if err == nil {
		err = e.flush()
	}
	if err != nil {
		return nil, errors.Join(err, out.close())
	}
	return e, nil
}

// labelled labels a frame, unless hurry is set.
func (e *encoder) labelled(rec *capture.Record, l *pcapng.Label) {
	if !e.hurry {
		e.label(rec, l)
	}
}

func (e *encoder) takeRecords(s *capture.Session, from source, hurry bool) error {
	e.hurry = hurry
	for {
		switch err := from.Next(&e.record); {
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
		if err := e.put(s); err != nil {
			return err
		}
	}
}

// blocks is the buffer size, in bytes, at which data is flushed while more records are
// waiting.
const blocks = 256 << 10

// put encodes the current record, and begins a new part if the current one is full.
func (e *encoder) put(s *capture.Session) error {
	if e.part > 0 && e.out.full(len(e.encode.Buf)) {
		if err := e.flush(); err != nil {
			return err
		}
		if err := e.out.nextPart(); err != nil {
			return err
		}
		e.encode.EndSession()
		e.part = 0
	}
	e.part++
	if err := e.encode.Write(s, &e.record); err != nil {
		return err
	}
	if len(e.encode.Buf) >= blocks {
		return e.flush()
	}
	return nil
}

// flush writes the encoded records to the output.
func (e *encoder) flush() error {
	if len(e.encode.Buf) == 0 {
		return nil
	}
	err := e.out.writeBlocks(e.encode.Buf)
	e.encode.Reset()
	return err
}

func (e *encoder) close() error { return e.out.close() }

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
