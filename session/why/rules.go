package why

import (
	"slices"
	"time"

	"github.com/wirectl/wirectl/session"
	"github.com/wirectl/wirectl/session/calls"
	"github.com/wirectl/wirectl/session/join"
)

// Rules are the verdicts that are findings, too: how an agent works, and not what its wires carry.
var Rules = [...]session.Rule{
	{Name: "context-full", Rule: "a prompt fits into the context of its model", Do: "Shorten or compact the conversation, or offer fewer tools: wirectl context shows what fills it."},
	{Name: "retry-storm", Rule: "a request that fails is not sent again and again", Do: "Wait longer between retries, as Retry-After says, and give up on errors that stay."},
	{Name: "stalled-stream", Rule: "an answer that has begun goes on", Do: "The request arrived and was accepted: look at the peer, or at a proxy between, that holds back or has lost the rest."},
	{Name: "finished-on-failure", Rule: "a turn whose last tool call failed does not end as done", Do: "Read the answer of that turn: it may not say that something failed."},
	{Name: "loop", Rule: "a tool that has answered is not called again with the same arguments", Do: "Tell the model that the result will not change, or stop the agent after a few equal calls."},
	{Name: "tool-not-offered", Rule: "the tools that a server lists are offered to the model", Do: "Look for a setting of the agent that allows or filters tools, or a limit of their number."},
}

// do returns what to do about a verdict.
func do(verdict string) string {
	return Rules[slices.IndexFunc(Rules[:], func(r session.Rule) bool { return r.Name == verdict })].Do
}

// Findings returns the findings of a session after all of it was read: all verdicts of [Rules] as notes and, of a run, what
// its wires tell together. Wires are the names of its connections.
func (r *Reader) Findings(last time.Time, wires map[[2]int]string, ofRun bool) (found []session.Finding) {
	t := r.conclude(last, wires, ofRun)
	if ofRun {
		found = join.Findings(t.rows)
	}
	for _, a := range t.everything() {
		at := slices.IndexFunc(Rules[:], func(r session.Rule) bool { return r.Name == a.Verdict })
		if at < 0 {
			continue
		}
		f := session.Finding{Name: a.Verdict, Severity: session.Note, Rule: "why: " + Rules[at].Rule, Message: a.Text, Conn: connOf(&a)}
		for _, e := range a.Evidence {
			if e.Frame > 0 && !slices.Contains(f.Frames, e.Frame) {
				f.Frames = append(f.Frames, e.Frame)
			}
		}
		slices.Sort(f.Frames)
		found = append(found, f)
	}
	return found
}

// connOf returns the connection that an answer is about; 0 for none in particular.
func connOf(a *Answer) int {
	for _, c := range append([]*calls.Call{a.of}, a.also...) {
		if c != nil {
			return c.Conn
		}
	}
	return 0
}
