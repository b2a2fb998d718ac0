//go:build !windows

// Package input returns readers of pipes and terminals whose reads can be cancelled.
package input

import (
	"io"

	"github.com/muesli/cancelreader"
)

// NewReader returns a reader of in whose reads end when it is cancelled. It fails for files
// and other inputs that cannot be polled.
func NewReader(in io.Reader) (cancelreader.CancelReader, error) { return cancelreader.NewReader(in) }
