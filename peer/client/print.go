package client

import (
	"fmt"
	"io"
	"strings"

	"github.com/wirectl/wirectl/internal/render"
)

// A Printer prints what comes back, as it arrives.
type Printer struct {
	Stdout, Stderr   io.Writer
	Terminal, Beside bool // Stdout, and Stderr, is a terminal
	Silent           bool // the messages are printed instead
	Alone            bool // standard output is a JSON value alone: text is not part of it
	Quiet            bool // what is told beside an answer is not printed
	Stream           bool // text that Stdout has no place for is printed on Stderr

	open   bool // the line that was printed last has no end
	inText bool // the line of text on standard error has no end
	err    error
}

// Part prints a part of an answer.
func (p *Printer) Part(part Part) {
	switch {
	case p.Silent || p.err != nil:
	case p.Alone && !part.Aside && part.JSON == nil:
		p.stream(part.Text)
	case part.Aside && p.Quiet:
	case part.Aside:
		if p.Terminal && p.Beside {
			_ = p.Finish() // the line is where this would go on; the error is kept
		}
		p.endText()
		fmt.Fprintf(p.Stderr, "wirectl: %s\n", render.Safe(strings.TrimSuffix(part.Name+" "+string(part.JSON), " ")))
	case part.JSON != nil:
		_ = p.Finish() // a value begins a line; the error is kept
		p.write(render.AppendJSON(nil, part.JSON, "  ", "", nil))
	default:
		p.write(shownOn(p.Terminal, part.Text))
	}
}

// stream prints text that standard output has no place for on standard error, if that
// is asked for.
func (p *Printer) stream(text string) {
	if !p.Stream || text == "" {
		return
	}
	_, _ = p.Stderr.Write(shownOn(p.Beside, text)) // as with all that goes there
	p.inText = !strings.HasSuffix(text, "\n")
}

// endText ends a line of text on standard error.
func (p *Printer) endText() {
	if p.inText {
		p.inText = false
		fmt.Fprintln(p.Stderr)
	}
}

// shownOn is text as it is, or as a terminal may show it.
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

func (p *Printer) write(b []byte) {
	if len(b) == 0 {
		return
	}
	_, p.err = p.Stdout.Write(b)
	p.open = b[len(b)-1] != '\n'
}

// Finish ends the last line.
func (p *Printer) Finish() error {
	p.endText()
	if p.open && p.err == nil {
		p.write([]byte("\n"))
	}
	return p.err
}
