package diff

import "unicode/utf8"

// side returns what a report says of an exchange as a whole.
func (e *exchange) side() *Side {
	return &Side{ID: clip(e.id), Opened: e.first(), Frames: run(e.messages).frames()}
}

// sideOf returns what a report says of one message of an exchange, or of the
// lack of it.
func (e *exchange) sideOf(m *message) *Side {
	s := &Side{ID: clip(e.id), Opened: e.first()}
	if m != nil {
		s.Frames = []int64{m.seq}
	}
	return s
}

// maxFrames bounds the frames that a side lists.
const maxFrames = 16

// frames returns the numbers of the first frames.
func (r run) frames() []int64 {
	var list []int64
	for _, m := range r[:min(len(r), maxFrames)] {
		list = append(list, m.seq)
	}
	return list
}

// maxValue bounds the values that reports keep, in bytes.
const maxValue = 200

// shorten returns the beginning of a value.
func shorten(value []byte) []byte {
	short := clip(value)
	if len(short) < len(value) {
		return append(short[:len(short):len(short)], "…"...)
	}
	return short
}

// clip returns the beginning of text, cut between runes.
func clip[T string | []byte](text T) T {
	if len(text) <= maxValue {
		return text
	}
	n := maxValue
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}
