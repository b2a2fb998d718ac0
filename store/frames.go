package store

import (
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/protocol"
)

// An entry is a frame in the index. It has a fixed size and no pointers.
type entry struct {
	time   int64  // stamp: nanoseconds, or the number of the frame
	at     int64  // the position of its bytes in the store or in the capture; -1 if they are gone
	offset int64  // in its stream
	wrote  uint32 // microseconds from read to written, plus one; 0 is unknown
	raw    uint32 // bytes of the whole frame
	size   uint32 // bytes of the payload, or of a gap
	start  uint32 // of the payload
	end    uint32
	of     uint32 // mark of its exchange
	conn   uint32
	before uint32 // the distance to the previous frame of its exchange; 0 means none
	kind   uint16
	wire   uint8
	flags  flags
}

type flags uint8

const (
	dirs       flags = 3 // a frame.Dir
	gap        flags = 1 << 2
	compressed flags = 1 << 3
	bad        flags = 1 << 4 // no message
	finding    flags = 1 << 5 // a rule was broken by it
	bookmark   flags = 1 << 6
	placed     flags = 1 << 7 // its bytes are read from the capture again
)

func (e *entry) dir() frame.Dir { return frame.Dir(e.flags & dirs) }

// written returns when a frame was written that was read at a time.
func (e *entry) written(read time.Time) time.Time {
	if e.wrote == 0 || read.IsZero() {
		return time.Time{}
	}
	return read.Add(time.Duration(e.wrote-1) * time.Microsecond)
}

// chunk is how many entries are allocated, and dropped, at once.
const chunk = 1 << 12

// frames is the index: entries of consecutive numbers.
type frames struct {
	chunks  []*[chunk]entry
	first   int64 // the number of the first entry
	n       int64 // entries
	limit   int
	total   int64
	dropped int64
}

// addFrame makes room for the frame of that number, which must follow the last one.
func (f *frames) addFrame(seq int64) *entry {
	if f.n == 0 {
		f.first = seq
	}
	if f.n == int64(len(f.chunks))*chunk {
		if f.n >= int64(f.limit) && len(f.chunks) > 1 {
			old := f.chunks[0]
			f.chunks = append(f.chunks[1:], old)
			f.first, f.n, f.dropped = f.first+chunk, f.n-chunk, f.dropped+chunk
		} else {
			f.chunks = append(f.chunks, new([chunk]entry))
		}
	}
	e := &f.chunks[f.n/chunk][f.n%chunk]
	f.n++
	f.total++
	return e
}

// at returns the entry of a frame; nil if there is none.
func (f *frames) at(seq int64) *entry {
	i := seq - f.first
	if i < 0 || i >= f.n {
		return nil
	}
	return &f.chunks[i/chunk][i%chunk]
}

// nextSeq is the number of the next frame.
func (f *frames) nextSeq() int64 { return f.first + f.n }

// names assign small numbers to kinds.
type names struct {
	list   []string
	number map[string]uint16
	recent [64]uint16 // a cache by a cheap hash of the name
}

func newNames() names { return names{list: []string{""}, number: map[string]uint16{"": 0}} }

const (
	maxNames   = 4096
	otherNames = "(other kinds)"
)

// of returns the number of a name.
func (n *names) of(name []byte) uint16 {
	if len(name) == 0 {
		return 0
	}
	recent := &n.recent[(len(name)*7+int(name[0])+int(name[len(name)-1])*31)%len(n.recent)]
	if n.list[*recent] != string(name) {
		*recent = n.numberOf(name)
	}
	return *recent
}

// numberOf returns the number of a name, and assigns one to a new name.
func (n *names) numberOf(name []byte) uint16 {
	i, ok := n.number[string(name)]
	if ok {
		return i
	}
	key := string(name[:min(len(name), 200)])
	if len(n.list) >= maxNames {
		key = otherNames
	}
	if i, ok = n.number[key]; !ok {
		i = uint16(len(n.list))
		n.list = append(n.list, key)
		n.number[key] = i
	}
	return i
}

// A Held frame waits on the wire until it is released.
type Held struct {
	Number  int64 // of the held frame
	Conn    int
	Dir     frame.Dir
	Payload []byte
	// Text is the payload of the first held frame for editing: its JSON form if it has one, the
	// payload itself if it is text, or else hexadecimal.
	Text string
	form form
	how  protocol.Transcoder // of formJSON
}

// A form is the form of a payload as text.
type form uint8

const (
	formText form = iota
	formJSON
	formHex
)

// Hold adds a held frame.
func (s *Store) Hold(h Held) {
	defer s.lockToChange()()
	s.held = append(s.held, h)
}

// spelled returns the held frames, the first one with its text. Its protocol is known from
// earlier frames.
func (s *Store) spelled() []Held {
	if len(s.held) > 0 {
		s.spell(&s.held[0])
	}
	return slices.Clone(s.held)
}

func (s *Store) spell(h *Held) {
	if h.Text != "" && h.form != formHex {
		return
	}
	ways := slices.Clone(s.wires)
	slices.Reverse(ways)
	for _, w := range ways {
		if how, ok := w.protocol.(protocol.Transcoder); ok {
			if text, _, err := how.AppendJSON(nil, h.Payload); err == nil {
				h.Text, h.form, h.how = string(text), formJSON, how
				return
			}
		}
	}
	if utf8.Valid(h.Payload) && !strings.ContainsFunc(string(h.Payload), func(r rune) bool { return r < ' ' && r != '\n' && r != '\t' && r != '\r' }) {
		h.Text = string(h.Payload)
		return
	}
	h.Text, h.form = hex.EncodeToString(h.Payload), formHex
}

// Edited returns the payload for a text that the user made from h.Text.
func (h *Held) Edited(text string) (payload []byte, err error) {
	if text == h.Text {
		return h.Payload, nil
	}
	switch h.form {
	case formJSON:
		payload, err = h.how.AppendPayload(nil, []byte(text))
		if err != nil {
			err = fmt.Errorf("no %s: %w", h.how.Name(), err)
		}
	case formHex:
		payload, err = hex.DecodeString(strings.ReplaceAll(text, " ", ""))
		if err != nil {
			err = errors.New("that is not hexadecimal")
		}
	default:
		payload = []byte(text)
	}
	return payload, err
}

// Let removes a held frame.
func (s *Store) Let(number int64) {
	defer s.lockToChange()()
	s.held = slices.DeleteFunc(s.held, func(h Held) bool { return h.Number == number })
}

// Alter notes that frames were changed on the way, by faults or edits.
func (s *Store) Alter() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.session.Altered {
		s.session.Altered = true
		s.version.Add(1)
	}
}
