//go:build !windows

package input

import (
	"io"

	"github.com/muesli/cancelreader"
)

// NewReader returns a reader of in whose reads end when it is cancelled. It fails
// for what cannot be waited for, such as a file.
func NewReader(in io.Reader) (cancelreader.CancelReader, error) { return cancelreader.NewReader(in) }
