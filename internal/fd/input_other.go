//go:build !windows

package fd

import (
	"io"

	"github.com/muesli/cancelreader"
)

// NewCancelReader returns a reader of in whose reads end when it is cancelled. It fails for files
// and other inputs that cannot be polled.
func NewCancelReader(in io.Reader) (cancelreader.CancelReader, error) {
	return cancelreader.NewReader(in)
}
