package store

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// Notes are the user's filter, bookmarks and notes on a session, to be kept for the next
// visit.
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
		err = fmt.Errorf("the monitor's notes: %w", err)
	}
	return n, err
}

// Empty reports whether there is nothing to keep.
func (n *Notes) Empty() bool {
	return n.Filter == "" && len(n.Bookmarks) == 0 && len(n.Exchanges) == 0
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
}

// Notes returns the notes to keep.
func (s *Store) Notes() Notes {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := Notes{Bookmarks: slices.Sorted(maps.Keys(s.bookmarks))}
	if s.filter != nil {
		n.Filter = s.filter.text
	}
	if len(s.notes) > 0 {
		n.Exchanges = maps.Clone(s.notes)
	}
	return n
}
