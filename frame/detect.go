package frame

import (
	"cmp"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/wirectl/wirectl/internal/render"
)

// DetectSize is how much of a stream detection uses, in bytes, if no frame ends sooner.
const DetectSize = 64 << 10

// A Candidate is a framing that the head of a stream could have.
type Candidate struct {
	Framing Framing
	// Frame is the first frame; the head may end inside its payload.
	Frame Frame
	// Whole means that the head contains all of the frame.
	Whole bool
	// Need is the size of the frame, as far as known.
	Need int
	// Why is the reason for the framing.
	Why string
}

// Candidates returns the framings that the head of a stream could have, ordered by
// the size of the first frame. Judging the payloads is left to the caller, who knows
// the protocols.
func Candidates(head []byte, atEOF bool, limit int) []Candidate {
	var all []Candidate
	for _, f := range []Framing{Header, Line, Nul, Len32, GRPC, Varint} {
		if c, ok := candidate(f, head, atEOF, limit); ok {
			all = append(all, c)
		}
	}
	slices.SortStableFunc(all, func(a, b Candidate) int { return cmp.Compare(a.Need, b.Need) })
	return all
}

func candidate(f Framing, head []byte, atEOF bool, limit int) (Candidate, bool) {
	var e Extent
	if len(head) == 0 || f.Next(head, limit, atEOF, &e) != nil || e.Gap {
		return Candidate{}, false
	}
	c := Candidate{Framing: f, Whole: e.Raw != 0, Need: max(e.Raw, e.Need)}
	c.Frame = Frame{Raw: head[:min(c.Need, len(head))], Start: e.Start, Compressed: e.Compressed, Flaw: e.Flaw}
	c.Frame.End = min(e.End, len(c.Frame.Raw))
	c.Frame.Start = min(e.Start, c.Frame.End)
	text := c.Frame.Payload()
	if (f == Line || f == Nul) && !isTextLine(text, c.Whole && !e.Open) || f == Nul && (!c.Whole || Recognize(text) != JSONText) {
		return Candidate{}, false
	}
	c.Why = why(f, e.End-e.Start)
	return c, true
}

func why(f Framing, n int) string {
	switch f {
	case Header:
		return "it begins with Content-Length"
	case Line:
		return "the first line is text"
	case Nul:
		return "JSON ends in a NUL byte"
	default:
		return fmt.Sprintf("it begins with the length %d", n)
	}
}

// isTextLine reports whether a line, which may be cut anywhere unless it is ended, is text:
// without control characters except white space and escape sequences, and mostly ASCII if
// it is not UTF-8.
func isTextLine(text []byte, ended bool) bool {
	high := 0
	for _, c := range text[:min(len(text), 1024)] {
		switch {
		case c >= utf8.RuneSelf:
			high++
		case c < ' ' && c != '\t' && c != '\r' && c != escape:
			return false
		}
	}
	if !ended {
		text = text[:len(text)-render.CutRune(text)]
	}
	return len(text) > 0 && (4*high <= len(text) || utf8.Valid(text) || len(text) > 1024)
}

const escape = 0x1b
