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

// A Held frame waits on the wire until it is let go.
type Held struct {
	Number  int64 // among those that wait
	Conn    int
	Dir     frame.Dir
	Payload []byte
	// Text is the payload of the first one as people read and write it: its JSON
	// form where it has one, as it is if it is text, or else hexadecimal.
	Text string
	form form
	how  protocol.Transcoder // of formJSON
}

// A form is how a text stands for a payload.
type form uint8

const (
	formText form = iota
	formJSON
	formHex
)

// Hold takes in that a frame waits.
func (s *Store) Hold(h Held) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version.Add(1)
	s.held = append(s.held, h)
}

// spelled returns the frames that wait, the first of them with its text. What is
// spoken is known from the frames that have passed, as far as they were read.
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

// Edited returns the payload that a text stands for which was made from h.Text.
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

// Let takes in that a frame waits no more.
func (s *Store) Let(number int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version.Add(1)
	s.held = slices.DeleteFunc(s.held, func(h Held) bool { return h.Number == number })
}

// Alter takes in that what passes is not all as it was sent: there were faults
// or edits.
func (s *Store) Alter() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.session.Altered {
		s.session.Altered = true
		s.version.Add(1)
	}
}
