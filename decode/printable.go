package decode

import (
	"bytes"

	"github.com/wirectl/wirectl/render"
)

// Printable shows what a view shows, as lines that a terminal may have: whatever
// it would act on becomes an escape.
func Printable(view View) View {
	var shown []byte
	return func(dst []byte, it *Item) (_ []byte, err error) {
		shown, err = view(shown[:0], it)
		for line := range bytes.Lines(shown) {
			dst = render.AppendSafe(dst, bytes.TrimSuffix(line, []byte("\n")))
			dst = append(dst, '\n')
		}
		return dst, err
	}
}
