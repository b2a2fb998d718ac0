package store

import (
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/protocol"
)

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
