// Package corpus writes the frames that the benchmarks read. Payloads have 100 bytes to 4
// KiB, every size equally likely. About every 36 bytes, their text has a character that is
// not ASCII, or that JSON escapes. The bytes are the same each time, and a smaller corpus
// is a prefix of a larger one.
package corpus

import (
	"bufio"
	"errors"
	"io"
	"math/rand/v2"
	"os"
)

const (
	minPayload = 100
	maxPayload = 4096
)

// Write writes frames until they hold size bytes of payload, so that all framings
// hold the same frames. The protocol is latis or mcp; the framing is len32, line, or
// pcap for tshark (latis only).
func Write(out io.Writer, protocol, framing string, size int64) error {
	c := &corpus{texter: texter{rnd: rand.New(rand.NewPCG(1, 2))}}
	buffered := bufio.NewWriterSize(out, 1<<20)
	if err := c.write(buffered, grammars[protocol], wrappings[framing], size); err != nil {
		return err
	}
	return buffered.Flush()
}

// File makes a file of frames at path.
func File(path, protocol, framing string, size int64) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(Write(f, protocol, framing, size), f.Close())
}

// A corpus counts what was written.
type corpus struct {
	texter
	frames, payload int64
}

func (c *corpus) write(out io.Writer, g grammar, w wrapping, size int64) error {
	if _, err := out.Write(w.head); err != nil {
		return err
	}
	var payload, wrapped []byte
	for c.payload < size {
		c.frames++
		want := minPayload + latisHeaders + c.rnd.IntN(maxPayload-minPayload-latisHeaders+1)
		payload = g(&c.texter, payload[:0], c.frames, want)
		wrapped = w.appendFrame(wrapped[:0], payload)
		if _, err := out.Write(wrapped); err != nil {
			return err
		}
		c.payload += int64(len(payload))
	}
	return nil
}
