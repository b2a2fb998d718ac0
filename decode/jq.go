package decode

import (
	"context"
	"errors"

	"github.com/wirectl/wirectl/session/query"
)

// A Program turns the NDJSON record of an item into lines of its own.
type Program interface {
	Append(ctx context.Context, dst, object []byte) ([]byte, error)
}

// Filtered shows the output of program for each item's NDJSON record.
func Filtered(ctx context.Context, program Program) View {
	record := NDJSON()
	var line []byte
	return func(dst []byte, it *Item) ([]byte, error) {
		var err error
		if line, err = record(line[:0], it); err != nil {
			return dst, err
		}
		dst, err = program.Append(ctx, dst, line)
		if errors.Is(err, query.ErrHalt) {
			err = errEnough
		}
		return dst, err
	}
}
