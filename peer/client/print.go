package client

import (
	"fmt"
	"io"
	"strings"

	"github.com/wirectl/wirectl/internal/render"
)

// A Printer prints answers as they arrive.
type Printer struct {
	Stdout, Stderr   io.Writer
	Terminal, Beside bool // Stdout, and Stderr, is a terminal
	Silent           bool // print nothing: the messages are printed elsewhere
	Alone            bool // Stdout only gets a JSON value, no text
	Quiet            bool // do not print asides
	Stream           bool // print the text that Alone keeps off Stdout on Stderr

	open   bool // the last line on Stdout is not terminated
	inText bool // the last line of text on Stderr is not terminated
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
			_ = p.Finish() // both share the screen; p keeps the error
		}
		p.endText()
		fmt.Fprintf(p.Stderr, "wirectl: %s\n", render.Safe(strings.TrimSuffix(part.Name+" "+string(part.JSON), " ")))
	case part.JSON != nil:
		_ = p.Finish() // a value begins a line; p keeps the error
		p.write(render.AppendJSON(nil, part.JSON, "  ", "", nil))
	default:
		p.write(shownOn(p.Terminal, part.Text))
	}
}

func (p *Printer) stream(text string) {
	if !p.Stream || text == "" {
		return
	}
	_, _ = p.Stderr.Write(shownOn(p.Beside, text)) // best effort
	p.inText = !strings.HasSuffix(text, "\n")
}

func (p *Printer) endText() {
	if p.inText {
		p.inText = false
		fmt.Fprintln(p.Stderr)
	}
}

// shownOn returns text, made safe for a terminal.
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

// Finish terminates the last line.
func (p *Printer) Finish() error {
	p.endText()
	if p.open && p.err == nil {
		p.write([]byte("\n"))
	}
	return p.err
}
