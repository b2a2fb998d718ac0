package demo_test

import (
	"context"
	"testing"

	"go.uber.org/goleak"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/relay"
	"github.com/wirectl/wirectl/run/demo"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// until calls stop at the first record of a kind.
type until struct {
	kind capture.Kind
	stop func()
}

func (u until) Write(r *capture.Record) error {
	if r.Kind == u.kind {
		u.stop()
	}
	return nil
}

// The play ends when its audience leaves, and nothing goes on behind it.
func TestLeaving(t *testing.T) {
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	fan := relay.NewFan(func(string) {}, until{capture.Frame, leave})
	if err := demo.Run(ctx, fan, 1); err != context.Canceled {
		t.Errorf("the error is %v, want %v", err, context.Canceled)
	}
}

// A unit that does not read is noticed while it does not.
func TestStall(t *testing.T) {
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	fan := relay.NewFan(func(string) {}, until{capture.Note, leave})
	if err := demo.Run(ctx, fan, 0.1); err != context.Canceled {
		t.Errorf("the play ended with %v, and nobody said that a unit does not read", err)
	}
}
