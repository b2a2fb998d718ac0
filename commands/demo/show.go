package demo

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/capture/output"
	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/store"
	"github.com/wirectl/wirectl/tui"
)

// Record writes the demonstration to a file, as a capture.
func Record(ctx context.Context, name string, pace float64) error {
	f, err := output.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(Write(ctx, f, pace, nil), f.Close())
}

// Print prints the frames of the demonstration, with captions between them.
func Print(ctx context.Context, pace float64, to io.Writer, text decode.Text) error {
	return Play(ctx, pace, nil, func(in decode.Input, _ func()) error {
		var captions []byte // before the next frame
		cfg := decode.Config{Workers: 1, Event: func(rec *capture.Record) {
			if rec.Kind == capture.Note && rec.Conn == 0 {
				captions = fmt.Appendf(captions, "» %s\n", rec.Text)
			}
		}}
		frames := text.View()
		_, err := decode.Run(ctx, in, to, cfg, func() decode.View {
			return func(dst []byte, it *decode.Item) ([]byte, error) {
				dst, captions = append(dst, captions...), nil
				return frames(dst, it)
			}
		})
		_, failed := to.Write(append(captions, '\n'))
		return errors.Join(err, failed)
	})
}

// Monitor shows the demonstration in the monitor.
func Monitor(ctx context.Context, pace float64, screen tui.Config) error {
	screen.Name, screen.Captions, screen.Welcome = "demo", true, false
	cfg := decode.Config{Workers: 1}
	s := store.New(store.Options{Config: cfg})
	defer s.Close()
	return Play(ctx, pace, s.Notice, func(in decode.Input, stop func()) error {
		fed := make(chan struct{})
		go func() {
			defer close(fed)
			store.Feed(ctx, s, in, cfg, store.NewWire(s))
		}()
		err := tui.Run(ctx, s, screen)
		stop()
		<-fed
		return err
	})
}
