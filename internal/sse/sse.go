// Package sse reads server-sent events, in the event stream format of HTML.
package sse

import (
	"bytes"
	"io"
	"iter"
)

const (
	// MaxName bounds the name and the id of an event, in bytes; the rest is cut.
	MaxName = 256
	// maxKept bounds the buffers that are kept for the next event, in bytes.
	maxKept = 1 << 20
)

// An Event is an event with data, which may be empty.
type Event struct {
	Name, ID string
	// Data is valid until the next event is read.
	Data []byte
	// Begin and End are the positions of Data in the stream. End is -1 if Data is not in one
	// piece there.
	Begin, End int64
}

// Comment stands for a comment in the sequence of [Events]: servers send comments to show that they
// are still at work.
var Comment = &Event{}

// A Parser reads a stream in pieces. Lines end in LF, CR or both. An event without an end is
// ignored.
type Parser struct {
	started bool   // the first line was read
	cr      bool   // the line has ended in CR, and LF may follow
	settled bool   // the previous line has ended in CR, and an LF that follows belongs to it
	line    []byte // the beginning of the line, from earlier pieces
	at, end int64  // where the line begins, and how far it was read
	next    Event
	lines   int // of data
	comment bool
	given   Event
}

// Reset begins another stream.
func (p *Parser) Reset() { *p = Parser{line: reuse(p.line), next: Event{Data: reuse(p.next.Data)}} }

func reuse(b []byte) []byte {
	if cap(b) > maxKept {
		return nil
	}
	return b[:0]
}

// Held returns how many bytes the parser has of an incomplete event.
func (p *Parser) Held() int { return len(p.line) + len(p.next.Data) }

// Idle reports whether the parser is between two events.
func (p *Parser) Idle() bool { return p.lines == 0 && len(p.line) == 0 }

// Next reads data, which begins at a position of the stream, up to the end of a line. It
// returns how many bytes it has read, and the event that ended, if any. After a CR, it waits
// for the next byte, and may then read none.
func (p *Parser) Next(data []byte, at int64) (n int, e *Event) {
	if len(data) == 0 {
		return 0, nil
	}
	isLF := data[0] == '\n'
	switch {
	case p.cr && isLF:
		return 1, p.ended(p.line)
	case p.cr:
		return 0, p.ended(p.line)
	case p.settled && isLF:
		p.settled = false
		return 1, nil
	}
	p.settled = false
	n = len(data)
	i := bytes.IndexAny(data, "\r\n")
	if i >= 0 {
		n = i + 1
	}
	whole := i >= 0
	if whole && data[i] == '\r' {
		if p.cr = n == len(data); !p.cr && data[n] == '\n' {
			n++
		}
		whole = !p.cr
	}
	if len(p.line) == 0 {
		p.at = at
	}
	p.end = at + int64(n)
	if whole && len(p.line) == 0 {
		return n, p.ended(data[:n])
	}
	if p.line = append(p.line, data[:n]...); !whole {
		return n, nil
	}
	return n, p.ended(p.line)
}

// Settle stops waiting for the byte after a CR. It returns the event that ended, if any.
func (p *Parser) Settle() *Event {
	if !p.cr {
		return nil
	}
	p.settled = true
	return p.ended(p.line)
}

var byteOrderMark = []byte("\xef\xbb\xbf")

// ended reads a complete line.
func (p *Parser) ended(line []byte) *Event {
	if !p.started {
		if rest, ok := bytes.CutPrefix(line, byteOrderMark); ok {
			line = rest
			p.at += int64(len(byteOrderMark))
		}
	}
	inOne := p.end-p.at == int64(len(line))
	line = bytes.TrimRight(line, "\r\n")
	p.field(line, inOne)
	p.started, p.cr, p.line = true, false, reuse(p.line)
	if len(line) > 0 {
		return nil
	}
	found := p.lines > 0
	p.given, p.next, p.lines = p.next, Event{Data: reuse(p.next.Data)}, 0
	if !found {
		return nil
	}
	return &p.given
}

// field reads a line without its end. inOne says that the line is in one piece in the
// stream.
func (p *Parser) field(line []byte, inOne bool) {
	name, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	e := &p.next
	switch string(name) {
	case "":
		p.comment = p.comment || len(line) > 0
	case "data":
		if p.lines++; p.lines > 1 {
			e.Data = append(append(e.Data, '\n'), value...)
			e.End = -1 // in pieces
			return
		}
		e.Data = append(e.Data, value...)
		e.Begin = p.at + int64(len(line)-len(value))
		e.End = e.Begin + int64(len(value))
		if !inOne {
			e.End = -1
		}
	case "event":
		e.Name = string(value[:min(len(value), MaxName)])
	case "id":
		e.ID = string(value[:min(len(value), MaxName)])
	}
}

// Events returns the events of r, each valid until the next, with [Comment] for comments, and then
// the error at the end, unless it is io.EOF. If an event has more than limit bytes, the error is tooLong.
func Events(r io.Reader, limit int, tooLong error) iter.Seq2[*Event, error] {
	return func(yield func(*Event, error) bool) {
		var p Parser
		buf := make([]byte, 1<<10) // an event of a model is far smaller, and streams are open for long
		for {
			size, err := r.Read(buf)
			for data := buf[:size]; len(data) > 0; {
				n, e := p.Next(data, 0)
				data = data[n:]
				if p.Held() > limit {
					yield(nil, tooLong)
					return
				}
				if p.comment {
					if p.comment = false; !yield(Comment, nil) {
						return
					}
				}
				if e != nil && !yield(e, nil) {
					return
				}
			}
			if e := p.Settle(); e != nil && !yield(e, nil) {
				return
			}
			if err != nil {
				if err != io.EOF {
					yield(nil, err)
				}
				return
			}
		}
	}
}
