package client

import (
	"io"

	"github.com/wirectl/wirectl/internal/sse"
)

// errLongEvent is the error of an event that is longer than any other body may be.
var errLongEvent = faultf("an event is over the limit of %d bytes", maxBody)

// readEvents hands the name and the data of each server-sent event to take.
func readEvents(r io.Reader, take func(name string, data []byte) error) error {
	for e, err := range sse.Events(r, maxBody, errLongEvent) {
		if err == nil && len(e.Data) > 0 {
			err = take(e.Name, e.Data)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
