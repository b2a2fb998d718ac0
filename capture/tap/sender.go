package tap

import (
	"context"

	"github.com/wirectl/wirectl/capture"
)

// A Sender sends a running session to another place.
type Sender interface {
	// Sink returns the writer for the records; nil if the sender reads the tap as a viewer.
	Sink() capture.Writer
	// Alter marks the session as altered; see [Hub.Alter].
	Alter()
	// Obey lets authorized remote viewers command c from now on.
	Obey(c Controller)
	// Close sends the remaining records until ctx ends. The tap's hub must be closed first.
	Close(ctx context.Context) error
}

// A SendFunc begins to send a session under that name. It calls view if the sender reads the
// tap.
type SendFunc func(s capture.Session, name string, view func() *Hub) (Sender, error)
