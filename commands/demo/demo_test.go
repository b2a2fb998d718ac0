package demo_test

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"go.uber.org/goleak"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/commands/demo"
	"github.com/wirectl/wirectl/relay"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// until calls stop at the first frame.
type until struct{ stop func() }

func (u until) Write(r *capture.Record) error {
	if r.Kind == capture.Frame {
		u.stop()
	}
	return nil
}

// The play ends when its audience leaves, and leaves nothing running.
func TestLeaving(t *testing.T) {
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	fan := relay.NewFan(func(string) {}, until{leave})
	if err := demo.Run(ctx, fan, 1, func(string) {}); err != context.Canceled {
		t.Errorf("the error is %v, want %v", err, context.Canceled)
	}
}

// The last caption says what to try, however fast the play is.
func TestLastCaption(t *testing.T) {
	var said []string
	if err := demo.Write(t.Context(), io.Discard, 0.001, func(caption string) { said = append(said, caption) }); err != nil {
		t.Fatal(err)
	}
	if len(said) != 8 || said[7] != demo.Last {
		t.Errorf("the captions are %s", strings.Join(said, "\n"))
	}
}

// An audience that cannot keep a record does not end the play.
func TestFullDisk(t *testing.T) {
	var b bytes.Buffer
	if err := demo.Write(t.Context(), iotest.TruncateWriter(&b, 1<<10), 0.001, nil); err != nil {
		t.Error(err)
	}
}
