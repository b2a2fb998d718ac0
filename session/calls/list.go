package calls

import (
	"cmp"
	"fmt"
	"io"
	"slices"

	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/session/query"
)

// A Choice says which calls are listed.
type Choice struct {
	Failed, Cancelled bool         // list only those
	Where             *query.Where // list only calls that meet it
	// Slowest is how many calls are listed, the slowest first; 0 lists all, as they come.
	Slowest int
}

// A Format writes calls. It may hold them back until rest is called.
type Format interface {
	call(dst []byte, c *Call) []byte
	rest(dst []byte) []byte
}

// A List prints the calls that are chosen.
type List struct {
	Choice
	Out    io.Writer // is given whole lines
	Format Format
	// Live writes each call at once.
	Live bool
	// Unfolded says that the exchanges that belong to operations are listed, too.
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

// fullBuffer is how much output is written at once, unless the list is live.
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

// Err returns the first error of writing.
func (l *List) Err() error { return l.err }

// Finish prints the slowest calls, and those that were held back.
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

// Summary counts the calls in words, and says which versions of their protocols they
// follow: "25 calls (3 failed), mcp 2025-06-18", "3 of 25 calls (3 failed)".
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
