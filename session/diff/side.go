package diff

import "github.com/wirectl/wirectl/internal/render"

// side returns what a report says of an exchange as a whole.
func (e *exchange) side() *Side {
	return &Side{ID: render.Clip(e.id, maxValue), Opened: e.first(), Frames: run(e.messages).frames()}
}

// sideOf returns what a report says of one message of an exchange, or of the
// lack of it.
func (e *exchange) sideOf(m *message) *Side {
	s := &Side{ID: render.Clip(e.id, maxValue), Opened: e.first()}
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
