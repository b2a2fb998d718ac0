package question

import (
	"context"

	"github.com/wirectl/wirectl/rlm/sandbox"
)

// SetProbe makes runs find what isolates by another function, until the returned one is called.
func SetProbe(f func(context.Context) (*sandbox.Launcher, error)) (reset func()) {
	probe = f
	return func() { probe = sandbox.Probe }
}
