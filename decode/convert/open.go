package convert

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/frame"
)

// Open returns the records of the input that messages call name. Every frame says its
// protocol and, by dir, its direction. The error that ends a stream goes through fault,
// which words it for people.
func Open(ctx context.Context, name string, in decode.Input, cfg decode.Config, dir frame.Dir, fault func(frame.Framing, error) error) (r capture.Reader, done func(), err error) {
	r, done = in.Limited(cfg), func() {}
	if r == nil {
		pulled, err := Pull(func(yield func(*capture.Record) bool) error {
			framing, err := push(ctx, in, cfg, yield)
			return fault(framing, err)
		})
		if err != nil {
			return nil, nil, err
		}
		r, done = pulled, pulled.Close
	}
	if r, err = Resolve(Until(ctx, r), cfg.Protocol, dir); err != nil {
		done()
		return nil, nil, fmt.Errorf("%s: %w", name, err)
	}
	return r, done, nil
}

// errPulledEnough ends the decoding of a stream whose records nobody reads any more.
var errPulledEnough = errors.New("enough")

// push hands the frames of a stream to yield, and returns its framing.
func push(ctx context.Context, in decode.Input, cfg decode.Config, yield func(*capture.Record) bool) (frame.Framing, error) {
	cfg.Workers = 1
	var rec capture.Record
	view := func(dst []byte, it *decode.Item) ([]byte, error) {
		rec = capture.Record{Seq: it.Seq, Protocol: it.Protocol.Name(), Framing: it.Framing.Name(), Frame: *it.Frame}
		if !yield(&rec) {
			return dst, errPulledEnough
		}
		return dst, nil
	}
	result, err := decode.Run(ctx, in, io.Discard, cfg, func() decode.View { return view })
	return result.Framing, err
}
