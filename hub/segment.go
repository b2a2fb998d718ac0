package hub

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/nats-io/nats.go"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/capture/pcapng"
	"github.com/wirectl/wirectl/capture/tap"
)

// A segment is a part of a session that can be read by itself: a compressed section of
// pcapng.
type segment struct {
	head
	Data []byte

	first int64 // the number of the first segment if several were joined, or 0
	plain int64 // bytes of Data without the compression
}

// The head of a segment says what it is.
type head struct {
	Number int64 // from 1
	Frames int64 // of the session up to the end of the segment
	Bytes  int64 // of these frames
	Lost   int64 // frames of the session that were dropped before
	Size   int64 // of Data
	End    bool  // it is the last of its session
}

// join appends the next segment. Sections can be concatenated, compressed or not.
func (s *segment) join(next *segment) {
	s.first = cmp.Or(s.first, s.Number)
	s.plain += next.plain
	s.head, s.Data = next.head, append(s.Data, next.Data...)
	s.Size = int64(len(s.Data))
}

const (
	// segmentSize is the size of a segment before compression, unless its only record is
	// longer.
	segmentSize = 256 << 10
	// maxSection bounds a segment without its compression, in bytes: no block is larger than
	// [pcapng.DefaultLimit].
	maxSection = pcapng.DefaultLimit + segmentSize
	// maxWindow bounds the memory that a segment requires to be decompressed, in bytes.
	maxWindow = 8 << 20
)

var encoder = sync.OnceValue(func() *zstd.Encoder {
	// Neither option can fail.
	e, _ := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest))
	return e
})

// decompress returns a reader of the sections of a segment, once it has read them all: a few
// bytes of zstd can mean gigabytes, or something other than a capture.
func decompress(data []byte) (io.Reader, error) {
	z, err := zstd.NewReader(bytes.NewReader(data), zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
	if err != nil {
		return nil, err
	}
	in := &io.LimitedReader{R: z, N: maxSection + 1}
	var magic [12]byte
	if n, err := io.ReadFull(in, magic[:]); n == 0 || !pcapng.IsSection(magic[:]) {
		return nil, fmt.Errorf("it is not a section of a capture: %w", cmp.Or(err, capture.ErrForeign))
	}
	r, err := pcapng.NewReader(io.MultiReader(bytes.NewReader(magic[:]), in), 0)
	for rec := new(capture.Record); err == nil; {
		err = r.Next(rec)
	}
	switch {
	case in.N == 0:
		return nil, fmt.Errorf("it is over the limit of %d MiB once it is decompressed", maxSection>>20)
	case err != io.EOF:
		return nil, err
	}
	return z, z.Reset(bytes.NewReader(data))
}

// plainSize returns the length of a segment without its compression, which the encoder has
// put into its header.
func plainSize(data []byte) int64 {
	var h zstd.Header
	_ = h.Decode(data) // it is ours
	return int64(h.FrameContentSize)
}

// A packer makes segments of records. It is a [capture.Writer] for one goroutine.
type packer struct {
	session capture.Session
	put     func(segment) error

	w     *pcapng.Writer
	buf   []byte // the segment, if it was begun
	last  head   // its counts are those of all records so far
	kept  head   // its counts are those of the segments that put has accepted
	owed  int64  // dropped frames without a note
	noted int64  // dropped frames that a note in buf counts
}

type sink struct{ to *[]byte }

func (s sink) Write(b []byte) (int, error) {
	*s.to = append(*s.to, b...)
	return len(b), nil
}

// beginSection begins a segment.
func (p *packer) beginSection() (err error) {
	if len(p.buf) > 0 {
		return nil
	}
	if p.w == nil {
		p.w, err = pcapng.NewWriter(sink{&p.buf}, p.session, nil)
	} else {
		p.buf = p.w.AppendSection(p.buf)
	}
	if err != nil {
		return err
	}
	if p.owed > 0 {
		note := tap.Note{Tap: tap.Lost, Lost: p.owed}.Record()
		p.noted, p.owed = p.owed, 0
		p.buf, err = p.w.Append(p.buf, &note)
	}
	return err
}

// Write adds a record.
func (p *packer) Write(r *capture.Record) error {
	if err := p.beginSection(); err != nil {
		return err
	}
	var err error
	if p.buf, err = p.w.Append(p.buf, r); err != nil {
		return err
	}
	switch n, isNote := tap.ParseNote(r); {
	case r.Kind == capture.Frame:
		p.last.Frames++
		p.last.Bytes += int64(len(r.Raw))
	case isNote && n.Tap == tap.Lost:
		p.last.Lost += n.Lost
	}
	if len(p.buf) >= segmentSize {
		return p.flush()
	}
	return nil
}

// addNote adds a note.
func (p *packer) addNote(text string) error {
	return p.Write(&capture.Record{Kind: capture.Note, Time: time.Now(), Text: []byte(text)})
}

// flush ends the segment, if one was begun.
func (p *packer) flush() error {
	if len(p.buf) == 0 {
		return nil
	}
	return p.hand(false)
}

// alter marks the session as altered from the next record on.
func (p *packer) alter() error {
	if p.session.Altered {
		return nil
	}
	err := p.flush()
	p.session.Altered, p.w = true, nil
	return err
}

// endSegment ends the last segment of the session.
func (p *packer) endSegment() error {
	if err := p.beginSection(); err != nil {
		return err
	}
	return p.hand(true)
}

func (p *packer) hand(end bool) (err error) {
	next := segment{head: p.last, Data: encoder().EncodeAll(p.buf, nil), plain: int64(len(p.buf))}
	next.Number++
	next.Size, next.End = int64(len(next.Data)), end
	if p.buf = p.buf[:0]; cap(p.buf) > 4*segmentSize {
		p.buf = nil
	}
	told := p.noted
	p.noted = 0
	if next.plain > maxSection {
		err = fmt.Errorf("frames are dropped: a hub takes records of up to %d MiB", pcapng.DefaultLimit>>20)
	} else {
		err = p.put(next)
	}
	if err != nil {
		dropped := p.last.Frames - p.kept.Frames + p.last.Lost - p.kept.Lost
		p.owed = told + dropped
		p.kept.Lost += dropped
		p.last = p.kept
		return err
	}
	p.last, p.kept = next.head, next.head
	return nil
}

// An Assembler makes the segments of one session of their messages.
type Assembler struct {
	Number int64 // of the last complete segment
	Frames int64 // of the session up to its end

	pieces []byte // of the next segment
	piece  int    // how many they are
	of     int64  // the number of the segment
}

// A Whole is a complete segment, or several that were sent in one message.
type Whole struct {
	// Number is that of the last segment.
	Number int64
	// Missing is how many segments before it are missing.
	Missing int64
	End     bool // it is the last of its session

	data []byte
}

// Section returns a reader of the segment as a section of pcapng.
func (w *Whole) Section() (io.Reader, error) {
	r, err := decompress(w.data)
	if err != nil {
		return nil, fmt.Errorf("segment %d is skipped: %w", w.Number, err)
	}
	return r, nil
}

// Waiting returns how many bytes the Assembler holds for a segment that is not complete.
func (a *Assembler) Waiting() int { return len(a.pieces) }

// Forget gives that segment up, and returns the error that says so.
func (a *Assembler) Forget() error {
	number := a.of
	a.pieces, a.of = nil, 0
	return fmt.Errorf("segment %d is skipped: its pieces are over the limit of %d MiB", number, maxSection>>20)
}

// IsPiece reports whether a message has only a piece of a segment.
func IsPiece(m *nats.Msg) bool { return m.Header.Get(headerPiece) != "" }

// Take adds a message, and returns the segment that it completes; nil if there is none.
func (a *Assembler) Take(m *nats.Msg) (*Whole, error) {
	number, err := strconv.ParseInt(m.Header.Get(headerNumber), 10, 64)
	frames, err2 := strconv.ParseInt(m.Header.Get(headerFrames), 10, 64)
	first := number
	if text := m.Header.Get(headerFirst); text != "" && err == nil {
		first, err = strconv.ParseInt(text, 10, 64)
	}
	if err != nil || err2 != nil || first <= 0 || first > number || frames < 0 {
		return nil, errors.New("a message that is not a segment is skipped")
	}
	if number <= a.Number {
		return nil, nil // it was stored twice
	}
	data, whole, err := a.assemble(number, m)
	if err != nil || !whole {
		return nil, err
	}
	w := &Whole{Number: number, Missing: max(0, first-a.Number-1), End: m.Header.Get(headerEnd) != "", data: data}
	a.Number, a.Frames = number, frames
	return w, nil
}

// assemble returns the data of a segment once it has all pieces.
func (a *Assembler) assemble(number int64, m *nats.Msg) (data []byte, whole bool, err error) {
	text := m.Header.Get(headerPiece)
	if text == "" {
		return m.Data, true, nil
	}
	var piece, pieces int
	if _, err := fmt.Sscanf(text, "%d/%d", &piece, &pieces); err != nil || piece < 1 || piece > pieces {
		return nil, false, fmt.Errorf("segment %d is skipped: its part is %q, not such as 1/2", number, text)
	}
	if piece == 1 {
		a.pieces, a.piece, a.of = nil, 0, number
	}
	if a.of != number || piece != a.piece+1 {
		return nil, false, nil // it was stored twice, or the first pieces are gone
	}
	if len(a.pieces)+len(m.Data) > maxSection {
		return nil, false, a.Forget()
	}
	a.pieces, a.piece = append(a.pieces, m.Data...), piece
	if piece < pieces {
		return nil, false, nil
	}
	data, a.pieces = a.pieces, nil
	return data, true, nil
}
