package decode

import (
	"io"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/frame/carrier"
)

// carrier returns the options for reading the connections of an input.
func (cfg *Config) carrier() carrier.Options {
	return carrier.Options{Kind: cfg.Carrier, Framing: cfg.Framing, Limit: cfg.Limit}
}

// A carriedStream is one direction of a connection, from which a carrier extracts frames.
type carriedStream struct {
	r       io.Reader
	carrier *carrier.Carrier
	session capture.Session
	buf     []byte
	frames  []frame.Frame
	err     error
}

func newCarried(r io.Reader, cfg Config) *carriedStream {
	o := cfg.carrier()
	o.Patient = true
	return &carriedStream{r: r, carrier: carrier.New(o), buf: make([]byte, batchSize)}
}

// Session returns an empty description: a stream has none.
func (c *carriedStream) Session() *capture.Session { return &c.session }

// Buffered reports whether Next is sure not to wait; see [capture.Live].
func (c *carriedStream) Buffered() bool { return len(c.frames) > 0 || c.err != nil }

// Next reads the next frame; see [capture.Reader].
func (c *carriedStream) Next(rec *capture.Record) error {
	if len(c.frames) == 0 {
		c.frames = c.carrier.More()
	}
	for len(c.frames) == 0 {
		if c.err != nil {
			*rec = capture.Record{}
			return c.err
		}
		n, err := c.r.Read(c.buf)
		switch {
		case n > 0:
			c.frames = c.carrier.Feed(frame.DirUnknown, c.buf[:n])
		case err == io.EOF:
			c.err = err
			c.frames = c.carrier.End(frame.DirUnknown)
		case err != nil:
			c.err = err
		}
	}
	*rec = capture.Record{Frame: c.frames[0]}
	c.frames = c.frames[1:]
	if rec.Meta != nil {
		rec.Framing = rec.Meta.Framing
	}
	return nil
}
