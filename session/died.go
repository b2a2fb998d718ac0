package session

import (
	"fmt"
	"strings"
	"time"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/protocol"
)

// An Ending describes how a connection ended.
type Ending struct {
	// First is the direction that ended first, if known.
	First frame.Dir
	// Died means that the unit ended the connection by itself, so that nothing can be
	// answered any more. How describes how the unit ended, such as "exited with status 3";
	// "" if only its end is known. Stderr has the last lines that it wrote to standard
	// error.
	Died   bool
	How    string
	Stderr []string
	// Shared means that answers can come on other connections, unless the protocol binds
	// them to this one.
	Shared bool
}

// mostCalls bounds how many open calls a finding names.
const mostCalls = 8

// A death collects the exchanges that a unit left open.
type death struct {
	*Ending
	open   int
	frames []int64
	calls  []string
}

// ends reports whether the open exchange e ends because the unit that should answer it died. An
// exchange that waits for a retry waits for the controller. A unit may begin turns of its own.
func (d *death) ends(t *Tracker, s *scope, e *Exchange) bool {
	owed := e.Opener == frame.C2U || t.rules.OneSided || t.isTurn(e.ID)
	return d.Died && (t.rules.Streamed || !d.Shared) && !s.dismissed && !t.endsOpen(s, d) && owed && !t.isEndless(e) && !e.goesOnAs(protocol.SpaceRetry)
}

// endsOpen reports whether a connection ends with its session, in which requests may be open.
func (t *Tracker) endsOpen(s *scope, d *death) bool {
	return t.rules.EndsOpen && (s.dismissed || d.Died && d.How == "")
}

// exited reports whether the process of the unit is known to have exited, so that all of its
// work ended too.
func (d *death) exited() bool { return d.Died && d.How != "" }

// addOpen adds a request that was left open.
func (d *death) addOpen(e *Exchange) {
	if d.open++; len(d.calls) < mostCalls {
		d.calls = append(d.calls, e.Title())
		d.frames = append(d.frames, e.First)
	}
}

// reportDeath reports the exchanges that a unit left open, if there are any.
func (t *Tracker) reportDeath(d *death, conn int) {
	if d.open == 0 {
		return
	}
	how := d.How
	if how == "" {
		how = "ended the connection"
	}
	requests := "a request was open"
	if d.open > 1 {
		requests = fmt.Sprintf("%d requests were open", d.open)
	}
	message := fmt.Sprintf("the unit %s while %s: %s", how, requests, strings.Join(d.calls, ", "))
	if more := d.open - len(d.calls); more > 0 {
		message += fmt.Sprintf(" and %d more", more)
	}
	for i, line := range d.Stderr {
		if i == 0 {
			message += "; its last lines on standard error: "
		} else {
			message += ", "
		}
		message += fmt.Sprintf("%q", line)
	}
	t.addFinding(diedWithOpenRequests, Findings[diedWithOpenRequests].Severity, conn, d.frames, message)
}

// Unstarted records why the unit of a connection did not start, or could not be reached. Views
// show that as a failed exchange, because the connection has no other.
func (t *Tracker) Unstarted(conn int, reason string, at time.Time) {
	f := Frame{Conn: conn, Dir: frame.C2U, Time: at}
	m := protocol.Message{Kind: kindStart, Phase: protocol.Open, Seq: -1}
	e := t.openExchange(&event{f: &f, m: &m, scope: t.scopeOf(&f), from: f.Dir, kind: t.kindOf(m.Kind)})
	e.Closed, e.Reason, e.Frames = at, reason, nil
	e.become(Failed)
	e.ended()
	t.settle(e)
	t.changed(e, 0)
	t.addFinding(notStarted, Findings[notStarted].Severity, conn, []int64{}, reason)
}

var kindStart = []byte("start")

// Linger records that the unit's process keeps running after the end of its standard input, as
// message says. That breaks a rule of some protocols, unless the unit is working on a request.
func (t *Tracker) Linger(conn int, message string) {
	scopes := t.conns[conn]
	if !t.base.EndsWithInput || !t.judges() || scopes == nil {
		return
	}
	var last int64
	for n := scopes.first; n != nil; n = n.next {
		for e := range t.inFlightOf(n.of, frame.C2U) {
			if !t.isEndless(e) && !e.goesOnAs(protocol.SpaceRetry) {
				return
			}
		}
		last = max(last, n.of.last)
	}
	t.addFinding(ignoresEOF, Findings[ignoresEOF].Severity, conn, []int64{last}, message)
}

// EndBy is End for a connection whose ending is known. In some protocols a side that leaves
// before the answer thereby cancels its requests.
func (t *Tracker) EndBy(conn int, how Ending, at time.Time) {
	d := &death{Ending: &how}
	for scopes := t.conns[conn]; scopes != nil && scopes.len > 0; {
		s := scopes.oldest()
		t.checkLingering(s, how.First, at)
		t.settleAnswered(s, at, how.First == frame.C2U)
		t.endScope(s, func(e *Exchange) { t.abandon(s, e, d, at) })
	}
	t.reportDeath(d, conn)
	if t.waiting > 0 {
		t.endWaiting(conn)
	}
}
