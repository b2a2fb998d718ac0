package calls

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/session"
	"github.com/wirectl/wirectl/session/query"
	"github.com/wirectl/wirectl/table"
)

// A Choice selects which calls are listed.
type Choice struct {
	Failed, Cancelled bool         // list only those
	Where             *query.Where // list only matching calls
	// Slowest is how many calls are listed, slowest first; 0 lists all as they arrive.
	Slowest int
}

// A List prints the chosen calls.
type List struct {
	Choice
	table.Printer[Call]
	// Unfolded means that the exchanges that belong to operations are also listed.
	Unfolded bool

	versions              []string // the protocols with their versions
	calls, failed, listed int64
	timed                 bool
	slowest               []*Call
	above                 int64 // the frame of the last operation
	record                record
	origin                time.Time        // of offsets
	events                []*Call          // that wait for the calls before them
	own                   map[string]int64 // what agents have done for themselves, which is not listed
}

// learnt is how many calls wait until the widths of columns are known.
const learnt = 500

// NewList returns a list that prints to out. A live one prints each call immediately.
func NewList(out table.Output, choice Choice, live bool) *List {
	return &List{Choice: choice, Printer: table.Printer[Call]{Output: out, Columns: Columns, Live: live, Aside: true, Learn: learnt}}
}

// Widen keeps all columns as wide as they are, and arguments as long as they are kept.
func (l *List) Widen() {
	l.Width, l.Columns = 0, slices.Clone(l.Columns)
	for i := range l.Columns {
		if c := &l.Columns[i]; c.Name == "arguments" {
			c.Cell, c.Most = nil, 0
		}
	}
}

// Happened lists an event among the calls: at once while these are printed as they end, or else before the
// first that began later.
func (l *List) Happened(e session.Event, first time.Time, name string) {
	if l.Failed || l.Cancelled || l.Slowest > 0 {
		return
	}
	c := &Call{Kind: e.Kind, Event: e.Text, Conn: e.Conn, Start: e.Time, Offset: since(e.Time, first), Wire: e.Wire, Session: name}
	if l.record.call = c; !l.Where.Match(&l.record) {
		return
	}
	if l.events = append(l.events, c); l.Live || len(l.events) > maxEvents {
		l.listEvents(e.Time)
	}
}

// maxEvents bounds the events that wait.
const maxEvents = 1 << 14

// listEvents prints the events up to a time.
func (l *List) listEvents(at time.Time) {
	for len(l.events) > 0 && !l.events[0].Start.After(at) {
		if c := l.events[0]; !l.origin.IsZero() {
			c.Offset = since(c.Start, l.origin)
		}
		l.Print(l.events[0])
		l.events = l.events[1:]
	}
}

// Show counts a call, and prints it if it is chosen.
func (l *List) Show(c *Call) {
	if l.origin.IsZero() && !c.Start.IsZero() {
		l.origin = c.Start.Add(-c.Offset)
	}
	l.listEvents(c.Start)
	stands := c.Place.Turn || c.Place.Agent // for others
	isFolded := c.Place.Own != "" && !l.Unfolded
	if !stands {
		l.calls++
	}
	if c.Outcome.Failed() && !stands && !isFolded {
		l.failed++
	}
	l.timed = l.timed || !c.Start.IsZero()
	if c.Version != "" && len(l.versions) < maxVersions {
		if v := c.Protocol + " " + c.Version; !slices.Contains(l.versions, v) {
			l.versions = append(l.versions, v)
		}
	}
	if isFolded {
		if l.own == nil {
			l.own = map[string]int64{}
		}
		l.own[c.Place.Own]++
		return
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

func (l *List) print(c *Call) {
	if !c.Place.Turn && !c.Place.Agent {
		l.listed++
	}
	if c.Operation == 0 {
		l.above = c.Frame
	}
	c.apart = c.Operation != 0 && c.Operation != l.above
	l.Print(c)
}

// Finish prints the slowest calls and the buffered ones.
func (l *List) Finish() error {
	l.rank()
	for _, c := range l.slowest {
		l.print(c)
	}
	l.slowest = nil
	l.listEvents(time.Unix(1<<40, 0))
	return l.Close()
}

// Untimed reports whether there were calls, but no times to rank them by.
func (l *List) Untimed() bool { return l.calls > 0 && !l.timed }

// IsEmpty reports whether there were no calls.
func (l *List) IsEmpty() bool { return l.calls == 0 }

// Summary returns the counts and the protocol versions as text: "25 calls (3 failed), mcp
// 2025-06-18", "3 of 25 calls (3 failed)".
func (l *List) Summary() string {
	noun := "call"
	if l.Unfolded {
		noun = "exchange"
	}
	text := render.Count(l.calls, noun)
	var own int64
	for _, n := range l.own {
		own += n
	}
	if l.listed < l.calls-own {
		text = fmt.Sprintf("%d of %s", l.listed, text)
	}
	if l.failed > 0 {
		text += fmt.Sprintf(" (%d failed)", l.failed)
	}
	for _, v := range l.versions {
		text += ", " + render.Safe(v)
	}
	if own > 0 {
		var of []string
		for _, what := range slices.Sorted(maps.Keys(l.own)) {
			of = append(of, fmt.Sprintf("%s ×%d", what, l.own[what]))
		}
		text += fmt.Sprintf("; %d of the agent for itself (%s) are listed with --exchanges", own, strings.Join(of, ", "))
	}
	return text
}
