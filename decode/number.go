package decode

import (
	"errors"
	"fmt"
	"strings"

	"github.com/wirectl/wirectl/frame"
)

// A told fault of the framing has the number of the frame as whoever read it counts,
// and a shown one that of the first item that is of it: items are numbered over all
// inputs and directions, gaps among them. All pieces of what one fault makes unreadable
// share it.
type fault struct{ told, shown error }

// is reports whether what is told of a gap is that fault.
func (f *fault) is(told error) bool {
	return f.told != nil && (f.told == told || f.told.Error() == told.Error())
}

// numbered returns a fault of the framing with the number of the item that shows it. It
// changes nothing of what is told, which items before it may show, too.
func numbered(told error, seq int64) error {
	if e := (*frame.Error)(nil); errors.As(told, &e) && told == error(e) {
		shown := *e
		shown.Frame = seq
		return &shown
	}
	if place, ok := placeOf(told.Error()); ok {
		return frame.Recall(fmt.Sprintf("frame %d%s", seq, place))
	}
	return told
}

// placeOf returns what stands behind the number in the words of a fault of the framing.
func placeOf(words string) (place string, ok bool) {
	words, ok = strings.CutPrefix(words, "frame ")
	place = strings.TrimLeft(words, "0123456789")
	return place, ok && strings.HasPrefix(place, " at byte ")
}
