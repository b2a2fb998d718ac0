package demo

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"

	"github.com/wirectl/wirectl/peer/unit"
	"github.com/wirectl/wirectl/transport"
)

// However slow the play is, the unit that ignores a cancel is heard to its end.
func TestSlowPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stage{ctx: t.Context(), pace: 100}
		deaf, err := unit.MisbehaviourNamed("cancel-ignored")
		if err != nil {
			t.Fatal(err)
		}
		u := unit.New(&thinker{stage: s}, unit.Options{Misbehave: deaf})
		if err := s.insist(t.Context(), piped{u}); err != nil {
			t.Error(err)
		}
	})
}

// Piped dials a unit through a pipe.
type piped struct{ unit *unit.Unit }

func (p piped) String() string { return "pipe" }

func (p piped) Dial(ctx context.Context) (transport.Conn, error) {
	ours, theirs := net.Pipe()
	go func() { _ = p.unit.Serve(ctx, end{theirs}) }() // the play ends it
	return end{ours}, nil
}

type end struct{ net.Conn }

func (end) CloseWrite() error { return errors.ErrUnsupported }
