package diff

import "github.com/wirectl/wirectl/internal/render"

// side describes an exchange as a whole in a report.
func (e *exchange) side() *Side {
	return &Side{ID: render.Clip(e.id, maxValue), Opened: e.first(), Frames: run(e.messages).frames()}
}

// sideOf describes one message of an exchange in a report, or its absence if m is nil.
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
