package live

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/wirectl/wirectl/capture/tap"
	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/store"
)

// A Tap is an open tap, with counts of its traffic.
type Tap struct {
	tap.Info
	// Protocols are those of its frames; Info has the one that the user named.
	Protocols []string `json:"protocols,omitempty"`
	Frames    int64    `json:"frames"`
	Bytes     int64    `json:"bytes"`
	Altered   bool     `json:"altered,omitempty"`
}

// List returns the taps in dir, the newest first. It calls skip for those that it cannot read.
func List(ctx context.Context, dir string, skip func(error)) ([]Tap, error) {
	open, err := tap.List(dir, skip)
	if err != nil {
		return nil, err
	}
	var taps []Tap
	for _, info := range slices.Backward(open) {
		t, err := glance(ctx, dir, info)
		if gone := (*tap.NotFoundError)(nil); errors.As(err, &gone) {
			continue
		}
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case err != nil: // the others may be readable
			skip(fmt.Errorf("tap:%s: %w", info.Name, err))
			continue
		}
		taps = append(taps, t)
	}
	return taps, nil
}

// glanced is how many frames of a tap are read to find its protocols.
const glanced = 64

// glance reads the newest frames of a tap.
func glance(ctx context.Context, dir string, info tap.Info) (Tap, error) {
	past, err := tap.Glance(ctx, dir, info.Name, glanced)
	if err != nil {
		return Tap{}, err
	}
	defer past.Close()
	line := Tap{Info: info, Frames: past.Hello.Frames, Bytes: past.Hello.Bytes, Altered: past.Hello.Altered}
	s := store.New(store.Options{})
	defer s.Close()
	_ = s.Take(ctx, decode.Input{Capture: past}, decode.Config{Workers: 1}) // after an error, some frames were read
	for _, wire := range s.Overview().Protocols {
		name, _, _ := strings.Cut(wire, "/")
		if !slices.Contains(line.Protocols, name) {
			line.Protocols = append(line.Protocols, name)
		}
	}
	if len(line.Protocols) == 0 && info.Protocol != "" {
		line.Protocols = []string{info.Protocol}
	}
	return line, nil
}

// Age is how long ago a tap was opened, in its largest unit, such as 3m.
func Age(info tap.Info) string {
	d := time.Since(info.Started)
	for _, unit := range []struct {
		name string
		of   time.Duration
	}{{"d", 24 * time.Hour}, {"h", time.Hour}, {"m", time.Minute}} {
		if d >= unit.of {
			return fmt.Sprintf("%d%s", d/unit.of, unit.name)
		}
	}
	return fmt.Sprintf("%ds", max(0, d/time.Second))
}
