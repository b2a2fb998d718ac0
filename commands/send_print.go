package commands

import (
	"cmp"
	"context"
	"io"
	"time"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/capture/pcapng"
	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/peer/client"
	"github.com/wirectl/wirectl/protocol/theory"
)

// records returns what takes the messages of a session and prints them as decode
// does, and what ends that; with -o text there is neither.
func (s *sending) records() (capture.Writer, func() error, error) {
	if s.c.String("output") != "ndjson" {
		return nil, nothing, nil
	}
	r, w := io.Pipe()
	printed := make(chan error, 1)
	go func() {
		err := printRecords(r, s.ndjson())
		r.CloseWithError(err)
		printed <- err
	}()
	finish := func() error { return cmp.Or(w.Close(), <-printed) }
	records, err := pcapng.NewWriter(w, capture.Session{Created: time.Now(), Unit: s.endpoint.String()}, nil)
	if err != nil {
		return nil, nil, cmp.Or(finish(), err)
	}
	return records, finish, nil
}

func printRecords(r io.Reader, to io.Writer) error {
	in, err := pcapng.NewReader(r, 0)
	if err != nil {
		return err
	}
	// The end of the command's context ends the session, and that this.
	_, err = decode.Run(context.Background(), decode.Input{Capture: in}, to, decode.Config{Workers: 1}, decode.NDJSON)
	return err
}

// printer returns what prints answers.
func (s *sending) printer() *client.Printer {
	return &client.Printer{
		Stdout: s.Stdout, Stderr: s.Stderr, Terminal: s.IsTerminal(s.Stdout), Beside: s.IsTerminal(s.Stderr),
		Silent: s.c.String("output") == "ndjson", Alone: s.protocol == theory.Protocol.Name(),
		Quiet: s.c.Bool("quiet"), Stream: s.c.Bool("stream"),
	}
}

// readFile reads a whole file; "-" is standard input.
func (inv *invocation) readFile(ctx context.Context, name string) ([]byte, error) {
	src, err := inv.open(ctx, name)
	if err != nil {
		return nil, err
	}
	defer src.Close()
	return io.ReadAll(src)
}
