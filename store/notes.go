package store

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// A mark is what the user made of an exchange.
type mark struct{ Text string }

// Notes are what the user made of a session, to be kept for the next time.
type Notes struct {
	Filter    string           `json:"filter,omitempty"`
	Bookmarks []int64          `json:"bookmarks,omitempty"` // numbers of frames
	Exchanges map[int64]string `json:"notes,omitempty"`     // by the number of the first frame
}

// ParseNotes reads notes that were kept.
func ParseNotes(text []byte) (n Notes, err error) {
	if err = json.Unmarshal(text, &n); err == nil {
		_, err = ParseFilter(n.Filter)
	}
	if err != nil {
		err = fmt.Errorf("no notes of the monitor: %w", err)
	}
	return n, err
}

// Empty reports whether there is nothing to keep.
func (n *Notes) Empty() bool {
	return n.Filter == "" && len(n.Bookmarks) == 0 && len(n.Exchanges) == 0
}

// Bookmark turns the bookmark of a frame on or off.
func (s *Store) Bookmark(seq int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version.Add(1)
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
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version.Add(1)
	if r := s.rows.of(id); r != nil {
		s.note(r, text)
	}
}

func (s *Store) note(r *row, text string) {
	r.noted = text != ""
	if r.noted {
		s.marks[r.mark] = &mark{text}
		s.noted[r.first] = text
	} else {
		delete(s.marks, r.mark)
		delete(s.noted, r.first)
	}
}

// Restore sets bookmarks and notes that were kept. It is called before the
// session begins, whose frames find them as they come.
func (s *Store) Restore(n Notes) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, seq := range n.Bookmarks {
		s.bookmarks[seq] = true
	}
	maps.Copy(s.noted, n.Exchanges)
}

// Notes returns what is to be kept.
func (s *Store) Notes() Notes {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := Notes{Bookmarks: slices.Sorted(maps.Keys(s.bookmarks))}
	if s.filter != nil {
		n.Filter = s.filter.text
	}
	if len(s.noted) > 0 {
		n.Exchanges = maps.Clone(s.noted)
	}
	return n
}
