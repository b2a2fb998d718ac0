package why

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/session"
	"github.com/wirectl/wirectl/session/calls"
	"github.com/wirectl/wirectl/session/context"
	"github.com/wirectl/wirectl/table"
)

// A talk answers a question about the calls of a session, which are in a tree.
type talk struct {
	*Reader
	rows      []*calls.Call
	explained map[*calls.Call]bool
	finished  map[string]bool // tool calls after which a turn ended as done, by the model's id
}

// answers returns all that is found, in no order.
func (t *talk) answers() ([]Answer, error) {
	switch {
	case t.question.Call != "":
		return t.aboutCall()
	case t.question.At != "":
		return t.aboutMoment()
	}
	return append(t.everything(), t.slow()...), nil
}

// everything returns the answers about all of the session, without those that others explain.
func (t *talk) everything() (found []Answer) {
	t.explained, t.finished = map[*calls.Call]bool{}, map[string]bool{}
	for _, of := range [...]func() []Answer{t.broken, t.authorization, t.full, t.storms, t.stalled, t.died, t.unanswered, t.onFailure, t.failed, t.within, t.loops, t.notOffered, t.cutOff, t.cancelled} {
		for _, a := range of() {
			if a.of != nil && t.explained[a.of] {
				continue
			}
			found = append(found, a)
			for _, c := range append(a.also, a.of) {
				t.explained[c] = true
			}
		}
	}
	return found
}

// aboutCall answers why a call went as it did.
func (t *talk) aboutCall() ([]Answer, error) {
	var meant []*calls.Call
	for _, c := range t.rows {
		if t.isMeant(c) && !isHead(c) {
			meant = append(meant, c)
		}
	}
	if frame, ok := strings.CutPrefix(t.question.Call, "#"); ok && len(meant) == 0 { // or the call, of those around the frame, that began last
		n, _ := strconv.ParseInt(frame, 10, 64)
		for _, c := range t.rows {
			if !isHead(c) && c.Frame <= n && c.Last >= n && (len(meant) == 0 || meant[0].Frame <= c.Frame) {
				meant = []*calls.Call{c}
			}
		}
	}
	if len(meant) == 0 {
		return nil, fmt.Errorf("no call has the id %s: wirectl calls lists them with their ids; --call '#12' names one by one of its frames", render.Safe(t.question.Call))
	}
	// Of several with the same id, the one that went wrong is meant, or the last one.
	c := meant[len(meant)-1]
	if at := slices.IndexFunc(meant, func(c *calls.Call) bool { return c.Outcome != session.Done }); at >= 0 {
		c = meant[at]
	}
	var found []Answer
	for _, a := range t.everything() {
		if a.of == c || slices.ContainsFunc(a.Evidence, func(e Evidence) bool { return e.Frame == c.Frame && a.of == nil }) {
			a.weight += 100
			found = append(found, a)
		}
	}
	if len(found) == 0 || c.Duration >= slowCall && c.Outcome == session.Done {
		found = append(found, t.spent(c))
	}
	return found, nil
}

// aboutMoment answers what was going on at a time.
func (t *talk) aboutMoment() ([]Answer, error) {
	at := t.moment
	if at.IsZero() {
		at = t.first.Add(t.at)
	}
	if t.first.IsZero() || at.Before(t.first) || at.After(t.last) {
		return nil, fmt.Errorf("nothing was recorded at %s: the session lasts from %s to %s, %s", t.question.At, clock(t.first), clock(t.last), table.Millis(t.last.Sub(t.first)))
	}
	var open []*calls.Call
	var before, after *calls.Call
	for _, c := range t.rows {
		switch end := t.endOf(c); {
		case isHead(c) || c.Start.IsZero():
		case end.Before(at):
			if before == nil || t.endOf(before).Before(end) {
				before = c
			}
		case c.Start.After(at):
			if after == nil || c.Start.Before(after.Start) {
				after = c
			}
		default:
			open = append(open, c)
		}
	}
	a := Answer{Verdict: "idle", Text: "No call was open at that time: the client, or its user, was idle.", weight: 1}
	if len(open) > 0 {
		slices.SortStableFunc(open, func(a, b *calls.Call) int { return b.Start.Compare(a.Start) }) // the innermost first
		a.Verdict, a.Text = "waiting", fmt.Sprintf("The session waited for %s, for %s by then.", title(open[0]), table.Millis(at.Sub(open[0].Start)))
	}
	if before != nil && len(open) == 0 {
		a.Evidence = append(a.Evidence, t.ended(before))
	}
	for _, c := range open[:min(len(open), 4)] {
		a.Evidence = append(a.Evidence, t.began(c), t.ended(c))
	}
	if after != nil && len(open) == 0 {
		a.Evidence = append(a.Evidence, t.began(after))
	}
	found := []Answer{a}
	for _, b := range t.everything() {
		if slices.Contains(open, b.of) {
			found = append(found, b)
		}
	}
	return found, nil
}

func clock(at time.Time) string { return at.UTC().Format("15:04:05.000") }

// isHead reports whether a row stands for others.
func isHead(c *calls.Call) bool { return c.Place.Turn || c.Place.Agent }

// endOf returns when a call ended; for an open one, the end of the session.
func (t *talk) endOf(c *calls.Call) time.Time {
	if c.Outcome == session.Open {
		return t.last
	}
	return c.Start.Add(c.Duration)
}

// title names a call: slow (tools/call 3).
func title(c *calls.Call) string {
	text, of := cmp.Or(c.Name, c.Kind), ""
	if isHead(c) {
		return text
	}
	if c.Name != "" {
		of = c.Kind
	}
	if c.ID != "" && !strings.Contains(c.ID, "-") && len(c.ID) < 24 {
		of = strings.TrimSpace(of + " " + c.ID)
	}
	if of != "" {
		text += " (" + of + ")"
	}
	return text
}

// began and ended are the evidence of when a call began, and how it ended.
func (t *talk) began(c *calls.Call) Evidence {
	text := title(c)
	if arguments := c.Arguments(); arguments != "" {
		text += " " + render.Shorten(arguments, 100)
	}
	return Evidence{Frame: c.Frame, Time: c.Start, Text: text}
}

func (t *talk) ended(c *calls.Call) Evidence {
	text := c.Outcome.String()
	if why := c.Explain(c.Outcome, c.Reason, c.StopReason); why != "" {
		text += ": " + render.Shorten(why, maxWhy)
	}
	if c.Outcome == session.Open {
		return Evidence{Time: t.last, Text: "still open at the end of the session, after " + table.Millis(t.last.Sub(c.Start)).String()}
	}
	if c.Duration > 0 {
		text += ", after " + table.Millis(c.Duration).String()
	}
	return Evidence{Frame: c.Last, Time: t.endOf(c), Text: text}
}

func (t *talk) about(verdict string, weight int, c *calls.Call, text, do string, more ...Evidence) Answer {
	a := Answer{Verdict: verdict, Text: text, Do: do, weight: weight, at: t.endOf(c), of: c}
	a.Evidence = append(append([]Evidence{t.began(c)}, more...), t.ended(c))
	if why := c.Explain(c.Outcome, c.Reason, c.StopReason); why != "" && strings.Contains(text, why) { // said already
		end := &a.Evidence[len(a.Evidence)-1]
		end.Text = strings.Replace(end.Text, ": "+render.Shorten(why, maxWhy), "", 1)
	}
	return a
}

// maxWhy bounds the text of an error in evidence.
const maxWhy = 160

// weights are those of findings that explain something: errors, unless they are listed here as 0 because other
// verdicts tell of them, and these warnings.
var weights = map[string]int{
	"not-started": 100, "stray-output": 75, "wrong-framing": 75, "orphan": 74, "malformed": 70, "oversize": 70, "duplicate-id": 69, "truncated": 60,
	"unanswered": 0, "died-with-open-requests": 0, "cancel-silent": 0, "no-final": 0,
	"lost-between": 73, "changed-between": 43, "delayed-between": 43, "unsafe-id": 42, "late-part": 41, "late-result": 27, "ignores-eof": 42,
}

// broken answers with findings, one for each rule and connection.
func (t *talk) broken() (found []Answer) {
	for i, f := range t.findings {
		weight, listed := weights[f.Name]
		if !listed && f.Severity == session.Error {
			weight = 44
		}
		if f.Name == "orphan" && !slices.ContainsFunc(t.rows, func(c *calls.Call) bool { return c.Outcome == session.Open || c.Outcome == session.Abandoned }) {
			weight = 25 // nobody waits for it
		}
		if weight == 0 || slices.ContainsFunc(t.findings[:i], func(g session.Finding) bool { return g.Name == f.Name && g.Conn == f.Conn }) {
			continue
		}
		a := Answer{Verdict: f.Name, Text: sentence(f.Name + ": " + t.masked(f.Message)), Do: doOf(f.Name), weight: weight}
		for _, seq := range f.Frames[max(0, len(f.Frames)-3):] {
			a.Evidence = append(a.Evidence, Evidence{Frame: seq, Text: "the rule of " + f.Rule})
		}
		found = append(found, a)
	}
	return found
}

func doOf(name string) string {
	for i := range session.Findings {
		if session.Findings[i].Name == name {
			return session.Findings[i].Do
		}
	}
	return ""
}

// sentence ends a text as a sentence.
func sentence(text string) string {
	if strings.HasSuffix(text, ".") || strings.HasSuffix(text, "…") {
		return text
	}
	return text + "."
}

// capital begins a text with a capital letter.
func capital(text string) string {
	if text == "" || text[0] < 'a' || text[0] > 'z' {
		return text
	}
	return string(text[0]-'a'+'A') + text[1:]
}

// died answers why calls ended with their unit.
func (t *talk) died() (found []Answer) {
	for _, f := range t.findings {
		if f.Name != "died-with-open-requests" {
			continue
		}
		a := Answer{Verdict: "died", Text: sentence(capital(t.masked(f.Message))), Do: doOf(f.Name), weight: 90, Evidence: []Evidence{}}
		for _, c := range t.rows {
			if slices.Contains(f.Frames, c.Frame) && !isHead(c) {
				a.of, a.at = c, t.endOf(c)
				a.Evidence = append(a.Evidence, t.began(c), t.ended(c))
			}
		}
		for _, e := range t.lastLines(f.Conn) {
			a.Evidence = append(a.Evidence, Evidence{Time: e.Time, Text: e.Kind + ": " + e.Text})
		}
		found = append(found, a)
	}
	for _, c := range t.rows {
		if c.Outcome == session.Died && !isHead(c) {
			found = append(found, t.about("died", 89, c, sentence(title(c)+" has no answer, because its peer ended first: "+cmp.Or(c.Reason, "its connection was lost")), ""))
		}
	}
	return found
}

// lastLines returns the end of what a connection's process wrote on standard error, and how it ended.
func (t *talk) lastLines(conn int) (list []session.Event) {
	for _, e := range t.stderr[max(0, len(t.stderr)-maxStderr):] {
		if e.Conn == conn {
			list = append(list, e)
		}
	}
	list = list[max(0, len(list)-3):]
	for _, e := range t.events {
		if e.Conn == conn && e.Kind == "exited" {
			list = append(list, e)
		}
	}
	return list
}

// unanswered answers why a client waited: its request has no answer.
func (t *talk) unanswered() (found []Answer) {
	for _, c := range t.rows {
		if isHead(c) || c.Place.Own != "" {
			continue
		}
		switch known := slices.IndexFunc(t.findings, func(f session.Finding) bool { return f.Name == "unanswered" && slices.Contains(f.Frames, c.Frame) }); {
		case known >= 0:
			found = append(found, t.about("unanswered", 72, c, sentence(t.masked(t.findings[known].Message)), doOf("unanswered"), t.lately(c)...))
		case c.Outcome == session.TimedOut:
			text := fmt.Sprintf("%s had no answer within %s, and its client gave up: %s", title(c), table.Millis(c.Duration), cmp.Or(c.Reason, "no reason"))
			found = append(found, t.about("timed-out", 73, c, sentence(text), doOf("request-timeout"), t.lately(c)...))
		case c.Outcome == session.Open && t.last.Sub(c.Start) >= silence && !specOf(c).Rules.NoWire && !t.isEndless(c):
			text := fmt.Sprintf("%s has had no answer for %s, until the end of the session.", title(c), table.Millis(t.last.Sub(c.Start)))
			found = append(found, t.about("unanswered", 71, c, text, "", t.lately(c)...))
		case c.Outcome == session.Abandoned && !c.Stopped && c.Duration >= silence && !specOf(c).Rules.NoWire && !t.isEndless(c):
			text := fmt.Sprintf("%s had no answer for %s, until its connection ended.", title(c), table.Millis(c.Duration))
			found = append(found, t.about("unanswered", 71, c, text, doOf("request-timeout"), t.lately(c)...))
		}
	}
	return found
}

// lately is what else the unit did while it owed an answer.
func (t *talk) lately(c *calls.Call) (list []Evidence) {
	if c.Parts > 0 && c.LastPart > 0 {
		list = append(list, Evidence{Time: c.Start.Add(c.LastPart), Text: "the last of " + render.Count(c.Parts, "part") + " of its answer"})
	}
	others := 0
	for _, o := range t.rows {
		if o != c && o.Conn == c.Conn && o.Dir == c.Dir && o.Start.After(c.Start) && o.Outcome == session.Done && !isHead(o) && t.endOf(o).Before(t.endOf(c)) {
			others++
		}
	}
	if others > 0 {
		list = append(list, Evidence{Text: fmt.Sprintf("meanwhile %s on this connection %s answered", render.Count(int64(others), "later request"), map[bool]string{true: "was", false: "were"}[others == 1])})
	}
	return list
}

// silence is how long nothing must come before that explains something.
const silence = 10 * time.Second

// stalled answers why an answer of a model, or another stream, stopped: it began, and then nothing came.
func (t *talk) stalled() (found []Answer) {
	for _, c := range t.rows {
		s := t.streams.of[c.Frame]
		if isHead(c) || c.Outcome == session.Done || c.Outcome == session.Probe || c.Start.IsZero() || t.isEndless(c) {
			continue
		}
		began, what := c.Start.Add(c.LastPart), ""
		switch {
		case c.Model != "" && c.Parts > 0:
			what = render.Count(c.Parts, "part")
		case s != nil && s.head > 0 && !s.ended && strings.HasPrefix(s.status, "2") && (c.Model != "" || c.Parts > 0):
			began, what = s.lastAt, "the head of its response"
		default:
			continue
		}
		if s != nil && s.ended && c.Outcome != session.Died {
			continue // it was complete, and failed
		}
		quiet := t.endOf(c).Sub(began)
		if quiet < silence {
			continue
		}
		text := fmt.Sprintf("The answer to %s began, and then nothing came for %s.", title(c), table.Millis(quiet))
		found = append(found, t.about("stalled-stream", 78, c, text, do("stalled-stream"),
			Evidence{Time: began, Text: "the last that came: " + what}))
	}
	return found
}

// fullContexts are how providers say that a prompt is too long, in lower case.
var fullContexts = []string{
	"context_length_exceeded", "prompt is too long", "maximum context length", "context window", "input is too long", "input token count",
	"exceeds the maximum number of tokens", "too many tokens in the prompt", "request_too_large", "model_context_window_exceeded",
}

// full answers why a model refused a prompt.
func (t *talk) full() (found []Answer) {
	for _, c := range t.rows {
		said := strings.ToLower(c.Code + " " + c.StopReason + " " + c.Error)
		isFull := c.Outcome.Failed() || c.StopReason == "model_context_window_exceeded"
		if isHead(c) || !isFull || !slices.ContainsFunc(fullContexts, func(s string) bool { return strings.Contains(said, s) }) {
			continue
		}
		text := fmt.Sprintf("The context of %s was full: %s", cmp.Or(c.Model, title(c)), cmp.Or(c.Error, c.StopReason, c.Code))
		a := t.about("context-full", 85, c, sentence(text), do("context-full"))
		if given := c.Context; given != nil {
			a.Evidence = slices.Insert(a.Evidence, 1, Evidence{Frame: c.Frame, Text: fmt.Sprintf("the prompt has %d bytes: %s, %s, the system prompt %d bytes", given.Bytes(), render.Count(given.Messages, "message"), render.Count(given.Sums[context.Tool].Count, "tool"), given.Sums[context.System].Bytes)})
		}
		found = append(found, a)
	}
	return found
}

// cutOff answers why a model's answer ends early.
func (t *talk) cutOff() (found []Answer) {
	for _, c := range t.rows {
		if !isHead(c) && c.Model != "" && c.Outcome == session.Done && slices.Contains([]string{"max_tokens", "length", "MAX_TOKENS", "max_output_tokens"}, c.StopReason) {
			found = append(found, t.about("output-limit", 40, c, fmt.Sprintf("The answer of %s was cut at its limit of output tokens (%s).", c.Model, c.StopReason), "Raise the limit of output tokens in the request."))
		}
	}
	return found
}

// stormLength is how many equal requests in a row must fail to be a storm.
const stormLength = 4

// storms answers with equal requests that failed again and again.
func (t *talk) storms() (found []Answer) {
	runs := map[string][]*calls.Call{}
	end := func(key string) {
		if list := runs[key]; len(list) >= stormLength {
			c := list[len(list)-1]
			text := fmt.Sprintf("%s was sent %d times with the same content in %s, and failed each time: %s", title(list[0]), len(list), table.Millis(t.endOf(c).Sub(list[0].Start)), cmp.Or(c.Explain(c.Outcome, c.Reason, ""), c.Outcome.String()))
			a := t.about("retry-storm", 80, c, sentence(text), do("retry-storm"))
			if a.Evidence, a.also = nil, list; t.retryOf(c) != nil {
				a.Text += " The same request succeeded later."
				a.weight -= 30
			}
			for _, c := range list[:min(len(list), 5)] {
				a.Evidence = append(a.Evidence, Evidence{Frame: c.Frame, Time: c.Start, Text: strings.TrimSpace(title(c) + " " + c.Outcome.String())})
			}
			found = append(found, a)
		}
		delete(runs, key)
	}
	for _, c := range byStart(t.rows) {
		content, known := t.uses.body[c.Frame]
		if use := t.uses.of(c.Frame); use != nil {
			content, known = argumentsOf(c, use), true
		}
		if isHead(c) || !known {
			continue
		}
		key := fmt.Sprint(c.Conn, c.Kind, c.Name)
		if c.Model != "" {
			key = fmt.Sprint(c.Kind, c.Model)
		}
		key = fmt.Sprint(key, " ", content)
		if !c.Outcome.Failed() {
			end(key)
			continue
		}
		if list := runs[key]; len(list) > 0 && c.Start.Sub(t.endOf(list[len(list)-1])) > time.Minute {
			end(key)
		}
		runs[key] = append(runs[key], c)
	}
	for key := range runs {
		end(key)
	}
	slices.SortFunc(found, func(a, b Answer) int { return cmp.Compare(a.of.Frame, b.of.Frame) })
	return found
}

// byStart returns calls in the order of their starts.
func byStart(list []*calls.Call) []*calls.Call {
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b *calls.Call) int { return cmp.Or(a.Start.Compare(b.Start), cmp.Compare(a.Frame, b.Frame)) })
	return list
}

// failed answers with calls that failed, one answer for all with the same error.
func (t *talk) failed() (found []Answer) {
	same := map[string]int{}
	for _, c := range t.rows {
		if t.explained[c] || isHead(c) || c.Place.Own != "" || !c.Outcome.Failed() || c.Outcome == session.TimedOut || c.Outcome == session.Died {
			continue
		}
		why := c.Explain(c.Outcome, c.Reason, c.StopReason)
		key := title(&calls.Call{Name: c.Name, Kind: c.Kind}) + why
		if at, ok := same[key]; ok {
			a := &found[at]
			if a.at = t.endOf(c); len(a.Evidence) < 6 {
				a.Evidence = append(a.Evidence, t.began(c), t.ended(c))
				slices.SortStableFunc(a.Evidence, func(a, b Evidence) int { return a.Time.Compare(b.Time) })
			}
			continue
		}
		weight := 65
		if c.Outcome == session.ToolError {
			weight = 60
		}
		if later := t.succeededLater(c); later {
			weight -= 30
		}
		if c.Operation != 0 {
			weight -= 5 // its operation explains it
		}
		text := title(c) + " failed"
		switch {
		case why != "":
			text += ": " + why
		case c.StopReason != "":
			text += ": " + c.StopReason
		default:
			text += ", and its answer does not say why"
		}
		same[key] = len(found)
		a := t.about("failed", weight, c, sentence(text), "")
		if retry := t.retryOf(c); retry != nil {
			a.Text += " The same request succeeded later."
			a.Evidence = append(a.Evidence, t.began(retry))
		}
		found = append(found, a)
	}
	return found
}

// retryOf returns the later request to a model that had the same content, and succeeded; nil if there is none.
func (t *talk) retryOf(c *calls.Call) *calls.Call {
	content, known := t.uses.body[c.Frame]
	at := slices.IndexFunc(t.rows, func(o *calls.Call) bool {
		other, isModel := t.uses.body[o.Frame]
		return known && isModel && other == content && o.Outcome == session.Done && !isHead(o) && o.Start.After(c.Start)
	})
	if at < 0 {
		return nil
	}
	return t.rows[at]
}

// succeededLater reports whether the same was done later, with success.
func (t *talk) succeededLater(c *calls.Call) bool {
	return slices.ContainsFunc(t.rows, func(o *calls.Call) bool {
		return o.Outcome == session.Done && o.Kind == c.Kind && o.Name == c.Name && o.Conn == c.Conn && o.Start.After(c.Start)
	})
}

// cancelled answers with calls that were cancelled.
func (t *talk) cancelled() (found []Answer) {
	for _, c := range t.rows {
		if !c.Stopped || c.Outcome != session.Cancelled || isHead(c) && c.Reason == "" || c.Place.Depth > 0 || c.Operation != 0 || c.Kind == "server" && specOf(c).Rules.NoWire {
			continue
		}
		text := title(c) + " was cancelled by its caller"
		if c.Reason != "" {
			text += ": " + c.Reason
		}
		found = append(found, t.about("cancelled", 30, c, sentence(text), ""))
	}
	for _, c := range t.rows {
		if c.Class == session.Ignored || c.Class == session.Silent && slices.ContainsFunc(t.findings, func(f session.Finding) bool { return f.Name == "cancel-silent" && slices.Contains(f.Frames, c.Frame) }) {
			found = append(found, t.about("cancel-"+c.Class.String(), 68, c, sentence(title(c)+" was cancelled, and its peer did not react"), doOf("cancel-"+c.Class.String())))
		}
	}
	return found
}

// polls are words in the names of tools that are made to be called again.
var polls = []string{"poll", "wait", "status", "sleep", "check", "monitor", "watch", "progress", "output", "ping", "tick", "next", "read_thread", "health", "time", "screenshot", "snapshot", "list_"}

func isPoll(name string) bool {
	name = strings.ToLower(name)
	return slices.ContainsFunc(polls, func(word string) bool { return strings.Contains(name, word) })
}

// loops answers with a tool that was called again and again, with equal arguments and results.
func (t *talk) loops() (found []Answer) {
	type step struct {
		name              string
		arguments, result uint64
		at                *calls.Call
		id                string // of the model's
	}
	runs := map[string][]step{}
	end := func(key string, least int) {
		if list := runs[key]; len(list) >= least && !isPoll(list[0].name) {
			first, c := list[0].at, list[len(list)-1].at
			text := fmt.Sprintf("%s was called %d times in a row with equal arguments, and each time had the same result.", list[0].name, len(list))
			a := Answer{Verdict: "loop", Text: text, Do: do("loop"), weight: 62, at: t.endOf(c)}
			for _, s := range list[:min(len(list), 5)] {
				a.Evidence = append(a.Evidence, Evidence{Frame: s.at.Frame, Time: s.at.Start, Text: strings.TrimSpace(list[0].name + " " + render.Shorten(s.at.Arguments(), 100))})
			}
			if a.of = c; first.Model != "" {
				a.of = nil
			}
			found = append(found, a)
		}
		delete(runs, key)
	}
	add := func(key string, least int, s step) {
		list := runs[key]
		isNext := len(list) == 0 || list[len(list)-1].id == "" || slices.ContainsFunc(s.at.Links, func(l protocol.Link) bool { // in the same conversation
			return l.As == protocol.Returns && l.Text == list[len(list)-1].id
		})
		if !isNext || len(list) > 0 && (list[0].name != s.name || list[0].arguments != s.arguments || list[0].result != s.result) {
			end(key, least)
		}
		runs[key] = append(runs[key], s)
	}
	for _, c := range byStart(t.rows) {
		if isHead(c) {
			continue
		}
		agent := ""
		for _, l := range c.Links {
			if l.As == protocol.OfAgent {
				agent = l.Text
			}
		}
		for _, l := range c.Links {
			if back, ok := t.uses.back[l.Text]; ok && l.As == protocol.Calls && c.Model != "" {
				add("model "+agent, modelLoop, step{l.Tool, l.Arguments, back.hash, c, l.Text})
			}
		}
		if use := t.uses.of(c.Frame); use != nil && use.answered && c.Name != "" && c.Model == "" && (c.Outcome == session.Done || c.Outcome == session.ToolError) {
			least := wireLoop
			if specOf(c).Rules.NoWire {
				least = modelLoop
			}
			key := fmt.Sprint("tool ", c.Conn, " ", least)
			if list := runs[key]; len(list) > 0 && c.Start.Before(t.endOf(list[len(list)-1].at)) {
				delete(runs, key) // at once, not in turn
			}
			add(key, least, step{c.Name, argumentsOf(c, use), use.result, c, ""})
		}
	}
	for key := range runs {
		least := wireLoop
		if strings.HasPrefix(key, "model ") || strings.HasSuffix(key, fmt.Sprint(" ", modelLoop)) {
			least = modelLoop
		}
		end(key, least)
	}
	slices.SortStableFunc(found, func(a, b Answer) int { return a.at.Compare(b.at) })
	return found
}

// argumentsOf returns the hash of the arguments of a call.
func argumentsOf(c *calls.Call, use *use) uint64 {
	for _, l := range c.Links {
		if l.As == protocol.WithArguments {
			return l.Arguments
		}
	}
	return use.arguments
}

// How many equal calls of a tool in a row are a loop: where a model is seen to make them, and where only
// the server is.
const (
	modelLoop = 3
	wireLoop  = 6
)

// A misstep is a call of a tool, of which no wire but the model's tells, and whose result says that it failed.
type misstep struct {
	id, tool, error string
	by, to          *calls.Call // the calls of the model that asked for it, and that got the result
	mended          bool        // a later call of the tool did not fail
	last            bool        // it is the last result that the model got at that time
}

// missteps returns what failed within an agent, in the order of time.
func (t *talk) missteps() (list []*misstep) {
	made, seen := map[string]misstep{}, map[string]*misstep{}
	for _, c := range byStart(t.rows) {
		if isHead(c) || c.Model == "" || c.Place.Own != "" {
			continue
		}
		var last *misstep
		for _, l := range c.Links {
			m, known := made[l.Text]
			if l.As != protocol.Returns || !known {
				continue
			}
			if before, again := seen[l.Text]; again {
				if before != nil && before.to.Outcome.Failed() { // that request is sent again
					before.to = c
				}
				continue
			}
			seen[l.Text], last = nil, nil
			switch l.Ended {
			case protocol.Close:
				for _, before := range list {
					before.mended = before.mended || before.tool == m.tool
				}
			case protocol.Fail:
				isTold := func(o *calls.Call) bool { return o.Model == "" && o.Place.Parent == m.by.Frame && o.Outcome.Failed() }
				if !slices.ContainsFunc(t.rows, isTold) {
					m.error, m.to = t.masked(t.uses.back[l.Text].error), c
					last, seen[l.Text] = &m, &m
					list = append(list, last)
				}
			}
		}
		if last != nil {
			last.last = true
		}
		for _, l := range c.Links {
			if l.As == protocol.Calls && l.Text != "" {
				made[l.Text] = misstep{id: l.Text, tool: l.Tool, by: c}
			}
		}
	}
	return list
}

func (m *misstep) evidence() []Evidence {
	return []Evidence{{Frame: m.by.Frame, Time: m.by.Start, Text: "the model calls " + m.tool}, {Frame: m.to.Frame, Time: m.to.Start, Text: "the answer says that this failed"}}
}

// within answers with tools that failed within the agent, one answer for all with the same error.
func (t *talk) within() (found []Answer) {
	same := map[string]int{}
	for _, m := range t.missteps() {
		if t.finished[m.id] {
			continue
		}
		text := m.tool + " failed"
		if m.error != "" {
			text += ": " + m.error
		}
		at, known := same[text]
		if !known {
			at = len(found)
			same[text] = at
			found = append(found, Answer{Verdict: "failed", Text: sentence(text), weight: 59})
		}
		a := &found[at]
		if a.at = m.to.Start; m.mended {
			a.weight = 29
		}
		if len(a.Evidence) < 6 {
			a.Evidence = append(a.Evidence, m.evidence()...)
		}
	}
	return found
}

// onFailure answers with turns that ended as if done after their last tool had failed.
func (t *talk) onFailure() (found []Answer) {
	missteps := t.missteps()
	for i, turn := range t.rows {
		told := turn.Kind == "prompt" && specOf(turn).Rules.NoWire
		if !turn.Place.Turn && !told || turn.Outcome != session.Done {
			continue
		}
		var last, model *calls.Call
		for _, c := range t.rows[i+1:] {
			if told && c.Operation != turn.Frame || !told && c.Place.Depth == 0 {
				break
			}
			switch {
			case isHead(c):
			case c.Model != "" && !told:
				if model == nil || c.Start.After(model.Start) {
					model = c
				}
			case last == nil || t.endOf(c).After(t.endOf(last)):
				last = c
			}
		}
		if at := slices.IndexFunc(missteps, func(m *misstep) bool { return m.last && m.to == model }); at >= 0 && len(model.ToolCalls) == 0 {
			m := missteps[at]
			t.finished[m.id] = true
			text := fmt.Sprintf("%s, the last tool that the turn called, failed, and the agent ended the turn as done", m.tool)
			if m.error != "" {
				text += ": " + m.error
			}
			found = append(found, Answer{
				Verdict: "finished-on-failure", Text: sentence(text), Do: do("finished-on-failure"), weight: 64, at: t.endOf(turn), of: model,
				Evidence: append(m.evidence(), Evidence{Frame: turn.Frame, Time: t.endOf(turn), Text: "the turn ends: " + strings.TrimSpace("done "+turn.StopReason)}),
			})
			continue
		}
		if last == nil || !last.Outcome.Failed() || !told && (model == nil || len(model.ToolCalls) > 0 || model.Start.Before(t.endOf(last))) {
			continue
		}
		text := fmt.Sprintf("%s, the last tool that the turn called, failed, and the agent ended the turn as done", title(last))
		if why := last.Explain(last.Outcome, last.Reason, ""); why != "" {
			text += ": " + why
		}
		a := t.about("finished-on-failure", 64, last, sentence(text), do("finished-on-failure"))
		a.Evidence = append(a.Evidence, Evidence{Frame: turn.Frame, Time: t.endOf(turn), Text: "the turn ends: " + strings.TrimSpace("done "+turn.StopReason)})
		found = append(found, a)
	}
	return found
}

// searches are words in the names of tools by which a model finds others.
var searches = []string{"toolsearch", "tool_search", "searchtools", "search_tools", "find_tool", "load_tool", "list_tools", "use_tool", "call_tool", "mcp_tool"}

// notOffered answers with tools that a server lists and no request offered to the model.
func (t *talk) notOffered() (found []Answer) {
	offered, requests := map[string]bool{}, 0
	var first *calls.Call
	for _, c := range t.rows {
		if isHead(c) || c.Place.Own != "" || c.Context == nil || len(c.Context.Tools) == 0 {
			continue
		}
		if requests++; first == nil {
			first = c
		}
		if len(c.Context.Tools) < int(c.Context.Sums[context.Tool].Count) {
			return nil // not all are known
		}
		for _, tool := range c.Context.Tools {
			if plain := plain(tool.Name); slices.ContainsFunc(searches, func(word string) bool { return strings.Contains(plain, word) }) {
				return nil // it may find the others
			}
			offered[plain(tool.Name)] = true
		}
	}
	if requests == 0 || t.uses.hidden {
		return nil
	}
	for _, c := range t.rows {
		if slices.ContainsFunc(c.ToolCalls, func(name string) bool { return !isHead(c) && !offered[plain(name)] }) {
			return nil // the model knows others
		}
	}
	var missing []string
	frame := int64(0)
	for name, listed := range t.offer.Listed {
		name := plain(name)
		isOffered := false
		for other := range offered {
			isOffered = isOffered || other == name || strings.HasSuffix(other, "_"+name)
		}
		if !isOffered && listed.First < first.Frame {
			missing, frame = append(missing, name), listed.First
		}
	}
	if len(missing) == 0 {
		return nil
	}
	slices.Sort(missing)
	text := fmt.Sprintf("The model could not call %s: the server lists %s, and no request of the agent offered %s to the model.", strings.Join(missing[:min(len(missing), 5)], ", "), them(len(missing)), them(len(missing)))
	if n := len(missing) - 5; n > 0 {
		text = strings.Replace(text, ": the server", fmt.Sprintf(" and %d more: the server", n), 1)
	}
	return []Answer{{
		Verdict: "tool-not-offered", Text: text, Do: do("tool-not-offered"), weight: 50, at: first.Start,
		Evidence: []Evidence{{Frame: frame, Text: "the answer to tools/list"}, {Frame: first.Frame, Time: first.Start, Text: fmt.Sprintf("the first of %s to the model, with %s", render.Count(int64(requests), "request"), render.Count(first.Context.Sums[context.Tool].Count, "tool"))}},
	}}
}

func them(n int) string {
	if n == 1 {
		return "it"
	}
	return "them"
}

// plain returns a name as agents write it in the names of tools.
func plain(name string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			return r
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		}
		return '_'
	}, name)
}

// summary counts what there is, if nothing explains anything.
func (t *talk) summary() string {
	var stopped, open int
	for _, c := range t.rows {
		switch {
		case isHead(c):
		case c.Stopped:
			stopped++
		case c.Outcome == session.Open, c.Outcome == session.Abandoned:
			open++
		}
	}
	text := render.Count(int64(t.total), "call") + ", none of which failed"
	switch t.total {
	case 0:
		return "no call was recorded."
	case 1:
		text = "1 call, which did not fail"
	}
	if stopped > 0 {
		text += fmt.Sprintf(", %d cancelled", stopped)
	}
	if open > 0 {
		text += fmt.Sprintf(", %d without an answer when the session ended", open)
	}
	return text + "."
}
