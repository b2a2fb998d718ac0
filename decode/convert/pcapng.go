package convert

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/capture/ndjson"
	"github.com/wirectl/wirectl/capture/pcapng"
	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/all"
)

// WritePcapng writes what is left of r to w as pcapng. Frames are labelled by p, or if that
// is nil by their own protocol. If r is cut, everything before the cut is written, and its
// error returned.
func WritePcapng(w io.Writer, r capture.Reader, p protocol.Protocol) error {
	pw, err := pcapng.NewWriter(w, *r.Session(), Labels(p))
	if err != nil {
		return err
	}
	return capture.Copy(pw, r)
}

// Printing returns a writer whose records are printed to w as NDJSON, as decode does, and what ends
// that.
func Printing(w io.Writer, session capture.Session) (capture.Writer, func() error, error) {
	r, p := io.Pipe()
	printed := make(chan error, 1)
	go func() {
		in, err := pcapng.NewReader(r, 0)
		if err == nil { // the end of the session ends this
			_, err = decode.Run(context.Background(), decode.Input{Capture: in}, w, decode.Config{Workers: 1}, decode.NDJSON)
		}
		r.CloseWithError(err)
		printed <- err
	}()
	finish := func() error { return cmp.Or(p.Close(), <-printed) }
	records, err := pcapng.NewWriter(p, session, nil)
	if err != nil {
		return nil, nil, cmp.Or(finish(), err)
	}
	return records, finish, nil
}

// WriteZstd is WritePcapng with compression. If r is cut, the output is whole all the same.
func WriteZstd(w io.Writer, r capture.Reader, p protocol.Protocol) error {
	z, err := pcapng.Compress(w)
	if err != nil {
		return err
	}
	err = WritePcapng(z, r, p)
	return errors.Join(err, z.Close())
}

// Labels returns a function that labels frames for Wireshark: with the kind and the id of
// their message, and after an arrow the id that it refers to. Messages are read by p, or if
// that is nil by the protocol that the record names. The function serves one writer at a
// time.
func Labels(p protocol.Protocol) func(*capture.Record, *pcapng.Label) {
	l := &labels{given: p}
	return l.label
}

type labels struct {
	given, last protocol.Protocol
	message     protocol.Message
}

var malformed = []byte("malformed")

func (l *labels) label(r *capture.Record, label *pcapng.Label) {
	p := l.protocol(r.Protocol)
	switch {
	case r.Gap:
		label.Info = append(label.Info, "skipped"...)
		return
	case p == nil || r.Compressed:
		return
	}
	m := &l.message
	if p.Parse(r.Payload(), m) != nil {
		label.Info = append(label.Info, malformed...)
		return
	}
	label.Dissector = pcapng.Dissector(p.Encoding())
	label.Info = render.AppendSafe(label.Info, m.Kind)
	label.Info = appendNames(label.Info, m)
}

// appendNames appends the ids of a message.
func appendNames(dst []byte, m *protocol.Message) []byte {
	if m.ID.IsZero() && m.Ref.IsZero() {
		return dst
	}
	dst = render.AppendSafe(append(dst, ' '), m.ID.Text)
	if !m.Ref.IsZero() {
		dst = render.AppendSafe(append(dst, "→"...), m.Ref.Text)
	}
	return dst
}

// protocol returns the protocol by which a record is read; nil if there is none
// of that name.
func (l *labels) protocol(name string) protocol.Protocol {
	switch {
	case l.given != nil:
		return l.given
	case l.last == nil || l.last.Name() != name:
		l.last, _ = all.Named(name)
	}
	return l.last
}

// Notes is a session that keeps its notes for NDJSON, because decoding handles only
// frames. Each note becomes a line before the frame that it preceded.
// Frames may be written by several goroutines.
type Notes struct {
	capture.Reader

	frames  int64        // read so far
	waiting atomic.Int64 // frames that have notes in front

	mu    sync.Mutex
	lines map[int64][]byte // by the number of the frame after them
}

// KeepNotes returns r with its notes kept.
func KeepNotes(r capture.Reader) *Notes {
	return &Notes{Reader: r, lines: map[int64][]byte{}}
}

// Next reads the next record; see [capture.Reader].
func (n *Notes) Next(rec *capture.Record) error {
	err := n.Reader.Next(rec)
	switch {
	case err != nil:
	case rec.Kind == capture.Frame:
		n.frames++
	case rec.Kind == capture.HalfClosed:
		n.keepNote(rec, ndjson.Ended)
	case rec.IsRemark():
		n.keepNote(rec, rec.Text)
	}
	return err
}

func (n *Notes) keepNote(rec *capture.Record, text []byte) {
	r := ndjson.Record{
		Seq: n.frames + 1, Time: rec.Time, Conn: rec.Conn, Dir: rec.Dir,
		Kind: []byte(ndjson.Note), Summary: text, Raw: []byte{},
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.lines[r.Seq] == nil {
		n.waiting.Add(1)
	}
	n.lines[r.Seq] = append(r.Append(n.lines[r.Seq]), '\n')
}

// AppendTo appends the notes in front of the frame of that number, from 1, to dst.
func (n *Notes) AppendTo(dst []byte, seq int64) []byte {
	if n.waiting.Load() == 0 {
		return dst
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	lines := n.lines[seq]
	if lines != nil {
		delete(n.lines, seq)
		n.waiting.Add(-1)
	}
	return append(dst, lines...)
}

// WriteRest writes the notes after the last frame.
func (n *Notes) WriteRest(w io.Writer) error {
	_, err := w.Write(n.AppendTo(nil, n.frames+1))
	return err
}

// Redacted reads a session with its secrets removed; see [capture.Reader].
type Redacted struct {
	// Count is how many records had secrets so far. The description of the session counts
	// as one.
	Count int64

	reader   capture.Reader
	redact   capture.Redaction
	eraser   capture.Writer
	session  capture.Session // as it is to be kept
	original capture.Session // as the reader tells it
	record   capture.Record
	clean    []capture.Record // from the eraser, to be given out
}

// Redact returns the records of r as x leaves them.
func Redact(r capture.Reader, x capture.Redaction) *Redacted {
	rd := &Redacted{reader: r, redact: x}
	rd.describe()
	rd.eraser = capture.Redact(erased{rd}, &rd.original, x)
	return rd
}

// HoldsSecrets reports whether x would remove anything from r, which it reads up to there.
// An error of r counts as its end: whoever reads r for its content reports that.
func HoldsSecrets(r capture.Reader, x capture.Redaction) bool {
	rd := Redact(r, x)
	var rec capture.Record
	for rd.Count == 0 {
		if rd.Next(&rec) != nil {
			return false
		}
	}
	return true
}

// Share reads a session to learn what is to be replaced in it before it is shown to others. It adds to x what
// does that. An error of r counts as its end, as for [HoldsSecrets].
func Share(r capture.Reader, x *capture.Redaction) *capture.Share {
	s := capture.NewShare()
	about := r.Session()
	for _, text := range []string{about.Controller, about.Unit, about.Comment} {
		s.Learn([]byte(text))
	}
	var rec capture.Record
	for r.Next(&rec) == nil {
		s.LearnRecord(&rec)
	}
	own := s.Redaction()
	x.Keys, x.Values = append(own.Keys, x.Keys...), append(own.Values, x.Values...)
	x.Name, x.KeepsOwn = own.Name, own.KeepsOwn
	return s
}

// Drain reads a session to its end.
func Drain(r capture.Reader) error {
	var rec capture.Record
	for {
		if err := r.Next(&rec); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// describe reads the description of the session.
func (rd *Redacted) describe() {
	rd.original = *rd.reader.Session()
	rd.session = rd.redact.Session(rd.original)
	clean := rd.session
	if clean.Redacted = rd.original.Redacted; clean != rd.original {
		rd.Count++
	}
}

// Session returns the description of the session without its secrets. Before the first
// record it says that the session is redacted, because it may be; later, whether anything
// was redacted so far.
func (rd *Redacted) Session() *capture.Session {
	if rd.original != *rd.reader.Session() {
		rd.describe()
	}
	return &rd.session
}

// Next reads the next record; see [capture.Reader].
func (rd *Redacted) Next(rec *capture.Record) error {
	for len(rd.clean) == 0 {
		err := rd.reader.Next(&rd.record)
		if err == nil {
			err = rd.eraser.Write(&rd.record)
		}
		rd.session.Redacted = rd.original.Redacted || rd.Count > 0
		if err != nil {
			*rec = capture.Record{}
			return err
		}
	}
	*rec = rd.clean[0]
	rd.clean = slices.Delete(rd.clean, 0, 1)
	return nil
}

// erased receives a record from the eraser, and maybe a note before it.
type erased struct{ *Redacted }

func (e erased) Write(r *capture.Record) error {
	e.clean = append(e.clean, *r)
	if r.Kind == e.record.Kind && !sameText(r, &e.record) {
		e.Count++
	}
	return nil
}

// sameText reports whether two records have the same bytes and texts.
func sameText(a, b *capture.Record) bool {
	return bytes.Equal(a.Raw, b.Raw) && bytes.Equal(a.Text, b.Text) && sameMeta(a.Meta, b.Meta) &&
		(a.Flaw == nil || fmt.Sprint(a.Flaw) == fmt.Sprint(b.Flaw))
}

// sameMeta reports whether a carrier says the same about two frames. An earlier redaction
// may have left only the payload of the bytes.
func sameMeta(a, b *frame.Meta) bool {
	if a == b || a == nil || b == nil {
		return a == b
	}
	return bytes.Equal(capture.AppendMeta(nil, a), capture.AppendMeta(nil, b))
}
