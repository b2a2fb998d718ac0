// Corpus writes the frames that the benchmarks read: payloads of 100 bytes to
// 4 KiB, every size equally likely, full of text with a character outside plain
// ASCII, or one that JSON escapes, about every 36 bytes. It writes the same
// bytes each time, and a smaller corpus is a prefix of a larger one.
package main

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
)

const (
	minPayload = 100
	maxPayload = 4096
)

func main() {
	protocol := flag.String("protocol", "mcp", "latis, mcp or rlm")
	framing := flag.String("framing", "len32", "len32, line, or pcap for tshark (latis only)")
	size := flag.Int64("bytes", 1<<20, "stop after this many bytes of `payload`, so that all framings hold the same frames")
	flag.Parse()
	if err := run(os.Stdout, os.Stderr, *protocol, *framing, *size); err != nil {
		fmt.Fprintln(os.Stderr, "corpus:", err)
		os.Exit(1)
	}
}

func run(out, report io.Writer, protocol, framing string, size int64) error {
	g, ok := grammars[protocol]
	if !ok {
		return fmt.Errorf("no protocol %q", protocol)
	}
	w, ok := wrappings[framing]
	if !ok {
		return fmt.Errorf("no framing %q", framing)
	}
	c := &corpus{texter: texter{rnd: rand.New(rand.NewPCG(1, 2))}}
	buffered := bufio.NewWriterSize(out, 1<<20)
	if err := c.write(buffered, g, w, size); err != nil {
		return err
	}
	fmt.Fprintf(report, "%s: %d frames of %d B on average, a mark every %.1f bytes of text\n",
		protocol, c.frames, c.payload/max(c.frames, 1), float64(c.bytes)/float64(max(c.marks, 1)))
	return buffered.Flush()
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
