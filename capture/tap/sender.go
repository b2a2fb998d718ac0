package tap

import (
	"context"

	"github.com/wirectl/wirectl/capture"
)

// A Sender brings a session to another place while it runs.
type Sender interface {
	// Sink is what takes the records; nil if the sender reads the tap as a viewer does.
	Sink() capture.Writer
	// Alter marks the session as altered; see [Hub.Alter].
	Alter()
	// Obey has viewers elsewhere, if they have the right, command c from now on.
	Obey(c Controller)
	// Close sends the rest once the hub of the tap is closed, until ctx ends.
	Close(ctx context.Context) error
}

// A SendFunc begins to send the session of that name, which passes h.
type SendFunc func(s capture.Session, name string, h *Hub) (Sender, error)
