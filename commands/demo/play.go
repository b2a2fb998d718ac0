package demo

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/capture/pcapng"
	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/relay"
)

// Write writes the demonstration to w as a capture. Captions go to say, or are notes if say is
// nil.
func Write(ctx context.Context, w io.Writer, pace float64, say func(caption string)) error {
	sink, err := pcapng.NewWriter(w, capture.Session{Created: time.Now(), Controller: "demo", Unit: "demo"}, nil)
	if err != nil {
		return err
	}
	fan := relay.NewFan(func(string) {}, sink)
	if say == nil {
		say = func(caption string) {
			fan.Write(&capture.Record{Kind: capture.Note, Time: time.Now(), Text: []byte(caption)})
		}
	}
	return Run(ctx, fan, pace, say)
}

// Play plays the demonstration while show shows it; show may stop it. For captions see [Write].
func Play(ctx context.Context, pace float64, say func(caption string), show func(in decode.Input, stop func()) error) error {
	ctx, cancel := context.WithCancel(ctx)
	r, w := io.Pipe()
	stop := func() { cancel(); r.Close() }
	defer stop()
	played := make(chan error, 1)
	go func() {
		err := Write(ctx, w, pace, say)
		w.CloseWithError(err)
		played <- err
	}()
	in, err := decode.Open(r, decode.Config{})
	if err == nil {
		err = show(in, stop)
	}
	stop()
	if failed := <-played; err == nil && !errors.Is(failed, context.Canceled) && !errors.Is(failed, io.ErrClosedPipe) {
		err = failed
	}
	return err
}
