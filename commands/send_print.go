package commands

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/capture/pcapng"
	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/internal/render"
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
		err := s.printRecords(r)
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

func (s *sending) printRecords(r io.Reader) error {
	in, err := pcapng.NewReader(r, 0)
	if err != nil {
		return err
	}
	// The end of the command's context ends the session, and that this.
	_, err = decode.Run(context.Background(), decode.Input{Capture: in}, s.ndjson(), decode.Config{Workers: 1}, decode.NDJSON)
	return err
}

// A printer prints what comes back, as it arrives.
type printer struct {
	s        *sending
	terminal bool
	open     bool // the line that was printed last has no end
	silent   bool // the messages are printed instead
	alone    bool // standard output is a JSON value alone: text is no part of it
	inText   bool // the line of text on standard error has no end
	err      error
}

func (s *sending) printer() *printer {
	return &printer{s: s, terminal: s.IsTerminal(s.Stdout), silent: s.c.String("output") == "ndjson", alone: s.protocol == theory.Protocol.Name()}
}

func (p *printer) part(part client.Part) {
	switch {
	case p.silent || p.err != nil:
	case p.alone && !part.Aside && part.JSON == nil:
		p.stream(part.Text)
	case part.Aside && p.s.c.Bool("quiet"):
	case part.Aside:
		if p.terminal && p.s.IsTerminal(p.s.Stderr) {
			_ = p.finish() // the line is where this would go on; the error is kept
		}
		p.endText()
		fmt.Fprintf(p.s.Stderr, "wirectl: %s\n", render.Safe(strings.TrimSuffix(part.Name+" "+string(part.JSON), " ")))
	case part.JSON != nil:
		_ = p.finish() // a value begins a line; the error is kept
		p.write(render.AppendJSON(nil, part.JSON, "  ", "", nil))
	default:
		p.write(p.shown(part.Text))
	}
}

// stream prints text that standard output has no place for on standard error, where
// --stream asks for it.
func (p *printer) stream(text string) {
	if !p.s.c.Bool("stream") || text == "" {
		return
	}
	_, _ = p.s.Stderr.Write(shownOn(p.s.IsTerminal(p.s.Stderr), text)) // as with all that goes there
	p.inText = !strings.HasSuffix(text, "\n")
}

// endText ends a line of text on standard error.
func (p *printer) endText() {
	if p.inText {
		p.inText = false
		fmt.Fprintln(p.s.Stderr)
	}
}

// shown is text as it is, or as a terminal may show it.
func (p *printer) shown(text string) []byte { return shownOn(p.terminal, text) }

func shownOn(terminal bool, text string) []byte {
	if !terminal {
		return []byte(text)
	}
	var b []byte
	for i, line := range strings.Split(text, "\n") {
		if i > 0 {
			b = append(b, '\n')
		}
		b = render.AppendSafe(b, []byte(line))
	}
	return b
}

func (p *printer) write(b []byte) {
	if len(b) == 0 {
		return
	}
	_, p.err = p.s.Stdout.Write(b)
	p.open = b[len(b)-1] != '\n'
}

// finish ends the last line.
func (p *printer) finish() error {
	p.endText()
	if p.open && p.err == nil {
		p.write([]byte("\n"))
	}
	return p.err
}

// printLoad prints how long many calls took.
func (s *sending) printLoad(l *client.Load) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%d requests, %d failed, in %v: %.0f a second\n", l.Calls, l.Failed, rounded(l.Elapsed), float64(l.Calls)/l.Elapsed.Seconds())
	for _, row := range []struct {
		name   string
		sorted []time.Duration
	}{{"first part", l.First}, {"whole", l.Total}} {
		if len(row.sorted) > 0 {
			fmt.Fprintf(&b, "%-10s  p50 %v  p90 %v  p99 %v  max %v\n", row.name,
				rounded(client.Quantile(row.sorted, 0.5)), rounded(client.Quantile(row.sorted, 0.9)),
				rounded(client.Quantile(row.sorted, 0.99)), rounded(client.Quantile(row.sorted, 1)))
		}
	}
	w := s.Stdout
	if s.c.String("output") == "ndjson" {
		w = s.Stderr
	}
	_, err := w.Write(b.Bytes())
	return err
}

// asError finds an error of a type in the chain of err.
func asError[E error](err error) (e E, ok bool) {
	ok = errors.As(err, &e)
	return e, ok
}

// readFile reads a whole file; "-" is standard input.
func (s *sending) readFile(name string) ([]byte, error) {
	src, err := s.open(s.c.Context, name)
	if err != nil {
		return nil, err
	}
	defer src.Close()
	return io.ReadAll(src)
}
