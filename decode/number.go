package decode

import (
	"errors"
	"fmt"
	"strings"

	"github.com/wirectl/wirectl/frame"
)

// A fault of the framing has two numbers: a told one counts frames as its reader does; a
// shown one is the number of the first item that it spoils, because items, also gaps, are
// numbered over all inputs and directions. All pieces that one fault makes unreadable share
// it.
type fault struct{ told, shown error }

// is reports whether the error of a gap is that fault.
func (f *fault) is(told error) bool {
	return f.told != nil && (f.told == told || f.told.Error() == told.Error())
}

// numbered returns a fault of the framing with the number of the item that shows it. It
// leaves told as it is, because earlier items may show that too.
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

// placeOf returns the part after the number in the words of a fault of the framing.
func placeOf(words string) (place string, ok bool) {
	words, ok = strings.CutPrefix(words, "frame ")
	place = strings.TrimLeft(words, "0123456789")
	return place, ok && strings.HasPrefix(place, " at byte ")
}
