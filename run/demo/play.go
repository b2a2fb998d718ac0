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

// Write writes the demonstration to w, as a capture.
func Write(ctx context.Context, w io.Writer, pace float64) error {
	sink, err := pcapng.NewWriter(w, capture.Session{Created: time.Now(), Controller: "demo", Unit: "demo"}, nil)
	if err != nil {
		return err
	}
	return Run(ctx, relay.NewFan(func(string) {}, sink), pace)
}

// Play plays the demonstration beside what show does with it, which may stop it.
func Play(ctx context.Context, pace float64, show func(in decode.Input, stop func()) error) error {
	ctx, cancel := context.WithCancel(ctx)
	r, w := io.Pipe()
	stop := func() { cancel(); r.Close() }
	defer stop()
	played := make(chan error, 1)
	go func() {
		err := Write(ctx, w, pace)
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
