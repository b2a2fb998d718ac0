package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"reflect"
	"slices"
	"time"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/decode/convert"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/fd"
)

// Records reads some frames of the store as a capture; see [capture.Reader]. It reads each frame
// only when it is needed.
type Records struct {
	store   *Store
	session capture.Session
	seqs    []int64
	next    int
	gone    int
}

// RecordsOf returns the frames of an exchange and of its members, or only the frame of that
// number if there is no such exchange.
func (s *Store) RecordsOf(seq int64, mark uint32) *Records {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.rows.of(mark)
	if r == nil {
		return s.records([]int64{seq})
	}
	var seqs []int64
	for n := max(r.first, s.frames.first); n <= r.last; n++ {
		if e := s.frames.at(n); e != nil && (s.has(r, e) || n == r.first || n == r.cancel) {
			seqs = append(seqs, n)
		}
	}
	return s.records(seqs)
}

// Listed returns the frames of the list: those that match the filter, or all.
func (s *Store) Listed() *Records {
	s.mu.Lock()
	defer s.mu.Unlock()
	first, total := s.listed()
	seqs := make([]int64, 0, total-first)
	for i := first; i < total; i++ {
		seqs = append(seqs, s.listedAt(i))
	}
	return s.records(seqs)
}

func (s *Store) records(seqs []int64) *Records {
	session := s.session
	session.Protocol, session.Framing = "", "" // each record has its own
	if session.Created.IsZero() {
		session.Created = time.Now()
	}
	return &Records{store: s, session: session, seqs: seqs}
}

// Len returns the number of frames.
func (r *Records) Len() int { return len(r.seqs) }

// Gone returns how many frames could not be read any more.
func (r *Records) Gone() int { return r.gone }

// Session returns the description of the capture.
func (r *Records) Session() *capture.Session { return &r.session }

// Next reads the next record whose bytes can still be read.
func (r *Records) Next(rec *capture.Record) error {
	for r.next < len(r.seqs) {
		seq := r.seqs[r.next]
		r.next++
		if r.store.record(seq, rec) {
			return nil
		}
		r.gone++
	}
	*rec = capture.Record{}
	return io.EOF
}

// record sets rec to the record of a frame, with its own copy of the bytes.
func (s *Store) record(seq int64, rec *capture.Record) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.frames.at(seq)
	if e == nil {
		return false
	}
	f, err := s.readFrame(seq, e)
	if err != nil {
		return false
	}
	w := s.wires[e.wire]
	*rec = capture.Record{Kind: capture.Frame, Seq: seq, Time: s.since(e.time), Protocol: w.protocol.Name(), Frame: f.Clone()}
	rec.Written = e.written(rec.Time)
	if w.framing != nil {
		rec.Framing = w.framing.Name()
	}
	return true
}

// metas keep the metadata of frames that came in a carrier. Most frames share theirs.
type metas struct {
	of     map[int64]carriedMeta // by the number of the frame
	shared map[plainMeta]*frame.Meta
}

// carriedMeta is the metadata of a frame, its stream, and the position of a payload that is not part
// of the frame's bytes.
type carriedMeta struct {
	meta   *frame.Meta // without its Data
	stream int64
	at     int64
	n      int
}

// plainMeta is the metadata that most frames have.
type plainMeta struct {
	framing  string
	signal   frame.Signal
	apart    bool
	encoding string
	opcode   frame.Opcode
}

// maxMetas bounds the number of frames whose meta is kept.
const maxMetas = 500_000

// keepMeta stores the metadata and the stream of a frame. Beyond the limit the oldest are
// dropped.
func (ms *metas) keepMeta(seq int64, f *frame.Frame, bytes *fd.Tail) {
	m := f.Meta
	if m == nil {
		return
	}
	if ms.of == nil {
		ms.of, ms.shared = map[int64]carriedMeta{}, map[plainMeta]*frame.Meta{}
	}
	if len(ms.of) >= maxMetas {
		maps.DeleteFunc(ms.of, func(old int64, _ carriedMeta) bool { return old < seq-maxMetas/2 })
	}
	c := carriedMeta{meta: ms.share(m), stream: f.Stream}
	if m.Apart {
		c.at, c.n = bytes.Append(m.Data), len(m.Data)
	}
	ms.of[seq] = c
}

// share returns a copy of m without Data, which many frames may share.
func (ms *metas) share(m *frame.Meta) *frame.Meta {
	c := *m
	c.Data = nil
	if m.Head != nil || m.Event != "" || m.EventID != "" || m.Code != 0 || m.Text != "" {
		return &c
	}
	k := plainMeta{m.Framing, m.Signal, m.Apart, m.Encoding, m.Opcode}
	if ms.shared[k] == nil {
		ms.shared[k] = &c
	}
	return ms.shared[k]
}

// restore sets the metadata of a frame, with a payload that is apart, and its stream.
func (ms *metas) restore(f *frame.Frame, seq int64, bytes *fd.Tail) (err error) {
	c, ok := ms.of[seq]
	if !ok {
		return nil
	}
	m := *c.meta
	f.Meta, f.Stream = &m, c.stream
	if m.Apart {
		m.Data, err = bytes.Read(nil, c.at, c.n)
	}
	return err
}

// All yields every frame in the index with its payload and the JSON form of that, if it has
// one. Both are valid during the call, and nil if the bytes are not kept any more.
func (s *Store) All(yield func(f *Frame, payload, form []byte) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for seq := s.frames.first; seq < s.frames.nextSeq(); seq++ {
		f := s.frame(seq)
		var payload, form []byte
		if s.load(seq, s.frames.at(seq)) == nil {
			payload = s.item.Payload
			if f.Gap {
				payload = s.item.Frame.Raw
			}
			form, _, _ = s.item.JSON()
		}
		if !yield(f, payload, form) {
			return
		}
	}
}

// Notes are the user's filter, bookmarks and notes on a session, to be kept for the next
// visit.
type Notes struct {
	Filter    string           `json:"filter,omitempty"`
	Sort      string           `json:"sort,omitempty"`      // the order of calls, if the user has chosen one
	Server    string           `json:"server,omitempty"`    // that a request was sent to last
	Bookmarks []int64          `json:"bookmarks,omitempty"` // numbers of frames
	Exchanges map[int64]string `json:"notes,omitempty"`     // by the number of the first frame
}

// ParseNotes reads notes that were kept.
func ParseNotes(text []byte) (n Notes, err error) {
	if err = json.Unmarshal(text, &n); err == nil {
		_, err = ParseFilter(n.Filter)
	}
	if err != nil {
		err = fmt.Errorf("the monitor's notes: %w", err)
	}
	return n, err
}

// Empty reports whether there is nothing to keep.
func (n *Notes) Empty() bool {
	return n.Filter == "" && n.Sort == "" && n.Server == "" && len(n.Bookmarks) == 0 && len(n.Exchanges) == 0
}

// Bookmark turns the bookmark of a frame on or off.
func (s *Store) Bookmark(seq int64) {
	defer s.lockToChange()()
	e := s.frames.at(seq)
	if e == nil {
		return
	}
	e.flags ^= bookmark
	if e.flags&bookmark != 0 {
		s.bookmarks[seq] = true
	} else {
		delete(s.bookmarks, seq)
	}
}

// Note keeps a note on an exchange; "" removes it.
func (s *Store) Note(id uint32, text string) {
	defer s.lockToChange()()
	switch r := s.rows.of(id); {
	case r == nil:
	case text == "":
		delete(s.notes, r.first)
	default:
		s.notes[r.first] = text
	}
}

// Restore sets bookmarks and notes that were kept. It must be called before the session
// begins.
func (s *Store) Restore(n Notes) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, seq := range n.Bookmarks {
		s.bookmarks[seq] = true
	}
	maps.Copy(s.notes, n.Exchanges)
	s.chosen, s.server = n.Sort, n.Server
}

// KeepSort notes the order of calls that the user has chosen.
func (s *Store) KeepSort(order Sort) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.chosen = order.String()
}

// KeepServer notes the server that a request was sent to.
func (s *Store) KeepServer(server string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.server = server
}

// Notes returns the notes to keep.
func (s *Store) Notes() Notes {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := Notes{Sort: s.chosen, Server: s.server, Bookmarks: slices.Sorted(maps.Keys(s.bookmarks))}
	if s.filter != nil {
		n.Filter = s.filter.text
	}
	if len(s.notes) > 0 {
		n.Exchanges = maps.Clone(s.notes)
	}
	return n
}

// A Notebook is a file of notes on a session.
type Notebook struct {
	Kept Notes // as they were read
	file string
}

// OpenNotes reads the file of that name, if it exists. A notebook without a name keeps nothing.
func OpenNotes(file string) (*Notebook, error) {
	b := &Notebook{file: file}
	if file == "" {
		return b, nil
	}
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return b, nil
	}
	if err == nil {
		b.Kept, err = ParseNotes(text)
	}
	return b, err
}

// Keep writes the notes if they have changed.
func (b *Notebook) Keep(n Notes) error {
	if b.file == "" || reflect.DeepEqual(n, b.Kept) || n.Empty() && b.Kept.Empty() {
		return nil
	}
	if n.Empty() {
		return os.Remove(b.file)
	}
	text, err := json.MarshalIndent(n, "", "  ")
	if err != nil {
		return err
	}
	return convert.WriteFile(b.file, func(w io.Writer) error {
		_, err := w.Write(append(text, '\n'))
		return err
	})
}
