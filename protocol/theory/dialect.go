package theory

import (
	"cmp"
	"fmt"

	"github.com/wirectl/wirectl/internal/jsonscan"
)

// Dialect is one of the four ways of writing theory.run.v1.
type Dialect string

const (
	// A is the oldest: RunOpen has the role of its sender, and a controller sends messages
	// of the kind control.
	A Dialect = "A"
	// B has RunOpen and RunResult, and puts everything in content.
	B Dialect = "B"
	// C is like D, except that Ack, Event, Log and Token carry content.
	C Dialect = "C"
	// D is the documented one: Request and Response, control and data.
	D Dialect = "D"
)

var descriptions = map[Dialect]string{
	A: "dialect A, the oldest",
	B: "dialect B, older than the document",
	C: "dialect C, with content in place of control and data",
	D: "dialect D, the documented one",
}

// String describes the dialect.
func (d Dialect) String() string { return cmp.Or(descriptions[d], "no dialect") }

// ParseDialect returns the dialect with that letter.
func ParseDialect(letter string) (Dialect, error) {
	if d := Dialect(letter); descriptions[d] != "" {
		return d, nil
	}
	return "", fmt.Errorf("%q: want A, B, C or D", letter)
}

// Opener is the kind of the message that opens a run in the dialect.
func (d Dialect) Opener() string {
	if d == A || d == B {
		return "RunOpen"
	}
	return "Request"
}

// Seen returns the dialect of payload, or "" if it is not a message. If several dialects write
// a message alike, it returns the one nearest to the document: D for Request and Response, C
// for a message that carries content.
func Seen(payload []byte) Dialect {
	var s jsonscan.Scanner
	s.Init(payload)
	var r run
	r.read(&s)
	if s.End() != nil {
		return ""
	}
	return r.dialect()
}

func (r *run) dialect() Dialect {
	oldestOr := func(other Dialect) Dialect {
		if r.isOldest {
			return A
		}
		return other
	}
	switch string(r.kind) {
	case "control":
		return A
	case "RunOpen", "RunResult":
		return oldestOr(B)
	case "Request", "Response":
		return D
	case "Ack", "Event", "Log", "Token":
		if r.inContent {
			return oldestOr(C)
		}
		return oldestOr(D)
	}
	return ""
}
