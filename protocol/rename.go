package protocol

import (
	"cmp"
	"slices"
	"unsafe"
)

// A Renamer is a Protocol that knows where the ids of a payload are, if that is not JSON.
type Renamer interface {
	Protocol
	// AppendRenamed appends payload with other ids: for each id it calls name with the
	// token, which returns the text to put there, nil to keep the id. Every other byte
	// stays as it is, except for the lengths around an id.
	AppendRenamed(dst, payload []byte, name func(Token) []byte) []byte
}

// A Place is a span of a payload to replace with other text.
type Place struct {
	Start, End int
	Text       []byte
}

// AppendPlaced appends payload with other text in some places, which are in
// order and do not overlap.
func AppendPlaced(dst, payload []byte, places []Place) []byte {
	from := 0
	for _, p := range places {
		dst = append(append(dst, payload[from:p.Start]...), p.Text...)
		from = p.End
	}
	return append(dst, payload[from:]...)
}

// SameToken reports whether two tokens are one, at one place of one payload.
func SameToken(t, u Token) bool {
	return len(t.Text) > 0 && len(t.Text) == len(u.Text) && &t.Text[0] == &u.Text[0]
}

// AppendRenamed appends payload, which p has parsed into m, with other ids: for each of m's
// tokens name returns the text to put there, nil to keep the id. Every other byte of a JSON
// payload stays as it is. A payload that is neither JSON nor of a [Renamer] has no ids that
// could be replaced.
func AppendRenamed(dst []byte, p Protocol, payload []byte, m *Message, name func(Token) []byte) []byte {
	if r, ok := p.(Renamer); ok {
		return r.AppendRenamed(dst, payload, name)
	}
	var places []Place
	if p.Encoding() == JSON {
		for _, t := range []Token{m.ID, m.Ref, m.Bind} {
			start, ok := offset(payload, t.Text)
			if !ok || slices.ContainsFunc(places, func(p Place) bool { return p.Start == start }) {
				continue
			}
			if other := name(t); other != nil {
				places = append(places, Place{start, start + len(t.Text), other})
			}
		}
	}
	slices.SortFunc(places, func(a, b Place) int { return cmp.Compare(a.Start, b.Start) })
	return AppendPlaced(dst, payload, places)
}

// offset returns where in payload a part begins that was cut out of it.
func offset(payload, part []byte) (int, bool) {
	at := uintptr(unsafe.Pointer(unsafe.SliceData(part))) - uintptr(unsafe.Pointer(unsafe.SliceData(payload)))
	if len(part) == 0 || at >= uintptr(len(payload)) {
		return 0, false
	}
	return int(at), true
}
