package calls

import (
	"cmp"
	"fmt"
	"io"
	"slices"

	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/session/query"
)

// A Choice selects which calls are listed.
type Choice struct {
	Failed, Cancelled bool         // list only those
	Where             *query.Where // list only matching calls
	// Slowest is how many calls are listed, slowest first; 0 lists all as they arrive.
	Slowest int
}

// A Format writes calls. It may buffer them until rest is called.
type Format interface {
	call(dst []byte, c *Call) []byte
	rest(dst []byte) []byte
}

// A List prints the chosen calls.
type List struct {
	Choice
	Out    io.Writer // receives whole lines
	Format Format
	// Live writes each call immediately.
	Live bool
	// Unfolded means that the exchanges that belong to operations are also listed.
	Unfolded bool

	versions              []string // the protocols with their versions
	calls, failed, listed int64
	timed                 bool
	slowest               []*Call
	record                record
	buf                   []byte
	err                   error
}

// Show counts a call, and prints it if it is chosen.
func (l *List) Show(c *Call) {
	l.calls++
	if c.Outcome.Failed() {
		l.failed++
	}
	l.timed = l.timed || !c.Start.IsZero()
	if c.Version != "" && len(l.versions) < maxVersions {
		if v := c.Protocol + " " + c.Version; !slices.Contains(l.versions, v) {
			l.versions = append(l.versions, v)
		}
	}
	if !l.chooses(c) {
		return
	}
	if l.Slowest > 0 {
		l.slowest = append(l.slowest, c)
		if len(l.slowest)-l.Slowest > max(l.Slowest, 64) {
			l.rank()
		}
		return
	}
	l.print(c)
}

// maxVersions bounds the versions that the summary lists.
const maxVersions = 8

func (l *List) chooses(c *Call) bool {
	if l.Failed && !c.Outcome.Failed() || l.Cancelled && !c.Stopped {
		return false
	}
	l.record.call = c
	return l.Where.Match(&l.record)
}

// rank sorts the calls that may be among the slowest, and drops the others.
func (l *List) rank() {
	slices.SortStableFunc(l.slowest, func(a, b *Call) int { return cmp.Compare(b.Duration, a.Duration) })
	if len(l.slowest) > l.Slowest {
		clear(l.slowest[l.Slowest:])
		l.slowest = l.slowest[:l.Slowest]
	}
}

// fullBuffer is the size of the output buffer, unless the list is live.
const fullBuffer = 32 << 10

func (l *List) print(c *Call) {
	l.listed++
	l.buf = l.Format.call(l.buf, c)
	if l.Live || len(l.buf) >= fullBuffer {
		l.write()
	}
}

func (l *List) write() {
	if len(l.buf) > 0 && l.err == nil {
		_, l.err = l.Out.Write(l.buf)
	}
	l.buf = l.buf[:0]
}

// Err returns the first write error.
func (l *List) Err() error { return l.err }

// Finish prints the slowest calls and the buffered ones.
func (l *List) Finish() error {
	l.rank()
	for _, c := range l.slowest {
		l.print(c)
	}
	l.slowest = nil
	l.buf = l.Format.rest(l.buf)
	l.write()
	return l.err
}

// Untimed reports whether there were calls, but no times to rank them by.
func (l *List) Untimed() bool { return l.calls > 0 && !l.timed }

// Summary returns the counts and the protocol versions as text: "25 calls (3 failed), mcp
// 2025-06-18", "3 of 25 calls (3 failed)".
func (l *List) Summary() string {
	noun := "call"
	if l.Unfolded {
		noun = "exchange"
	}
	text := render.Count(l.calls, noun)
	if l.listed < l.calls {
		text = fmt.Sprintf("%d of %s", l.listed, text)
	}
	if l.failed > 0 {
		text += fmt.Sprintf(" (%d failed)", l.failed)
	}
	for _, v := range l.versions {
		text += ", " + render.Safe(v)
	}
	return text
}
