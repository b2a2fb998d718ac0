package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/capture/history"
	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/decode/source"
	"github.com/wirectl/wirectl/decode/track"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/internal/prices"
	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/session/calls"
	"github.com/wirectl/wirectl/session/join"
	"github.com/wirectl/wirectl/session/query"
	"github.com/wirectl/wirectl/session/stats"
)

// A Kept is a session on this machine: a recorded one or a run, or the transcript of an agent.
type Kept struct {
	history.Session
	Agent, Project, Prompt string
	Usage                  protocol.Usage
	Cost                   stats.Priced
	Transcript             *source.Transcript // nil if it was recorded
	Run                    *history.Run       // nil for anything else
}

// A KeptQuery says which sessions to list.
type KeptQuery struct {
	// Agent and Project are parts of names, and Search is a text in a session, in any case.
	Agent, Project, Search string
	// Since and Until bound the time in which the sessions were active; zero is no bound.
	Since, Until time.Time
	Where        *query.Where
	Recorded     bool              // without transcripts
	Folder       func(string) bool // which projects; nil is any
	Uncounted    bool              // nothing is counted
	Prices       prices.Book
	Fresh        bool              // count without the cache
	Unread       func(about error) // is called for sessions that cannot be read
}

// ListKept returns the sessions that a query finds, the newest first.
func ListKept(ctx context.Context, getenv func(string) string, recorded []history.Session, q KeptQuery) ([]Kept, error) {
	var list []Kept
	for i := range recorded {
		list = append(list, Kept{Session: recorded[i], Agent: recorded[i].Client, Project: recorded[i].Folder})
	}
	runs, err := history.Runs(getenv)
	if err != nil {
		return nil, err
	}
	for _, r := range runs {
		list = append(list, keptRun(&r))
	}
	var transcripts []source.Transcript
	if !q.Recorded {
		transcripts = source.Transcripts(getenv)
	}
	for _, t := range transcripts {
		list = append(list, Kept{
			Session: history.Session{Summary: history.Summary{ID: t.Name, Ended: t.Time}, Size: t.Size, Capture: t.File},
			Agent:   t.Agent, Transcript: &t,
		})
	}
	list = slices.DeleteFunc(list, func(k Kept) bool {
		last := k.last()
		return !within(k.Agent, q.Agent) || !q.Since.IsZero() && !k.Live && last.Before(q.Since) || !q.Until.IsZero() && !k.Started.IsZero() && k.Started.After(q.Until)
	})
	if err := tellKept(ctx, list); err != nil {
		return nil, err
	}
	list = slices.DeleteFunc(list, func(k Kept) bool {
		return !within(k.Project, q.Project) || q.Folder != nil && !q.Folder(k.Project) || !q.Until.IsZero() && k.Started.After(q.Until)
	})
	if q.Search != "" {
		found := make([]bool, len(list))
		err := source.Parallel(ctx, len(list), func(i int) {
			if list[i].Run != nil {
				found[i] = source.RunContains(list[i].Capture, q.Search)
			} else {
				found[i] = source.Contains(list[i].Capture, q.Search)
			}
		})
		if err != nil {
			return nil, err
		}
		kept := list[:0]
		for i := range list {
			if found[i] {
				kept = append(kept, list[i])
			}
		}
		list = kept
	}
	if !q.Uncounted {
		if list, err = countKept(ctx, getenv, list, &q); err != nil {
			return nil, err
		}
	}
	list = slices.DeleteFunc(list, func(k Kept) bool { return !q.Where.Match(&k) })
	slices.SortStableFunc(list, func(a, b Kept) int { return b.Shown().Compare(a.Shown()) })
	return list, nil
}

// ListHere is [ListKept] with the user's own records.
func ListHere(ctx context.Context, getenv func(string) string, q KeptQuery) ([]Kept, error) {
	folder, err := history.Open(getenv)
	if err != nil {
		return nil, err
	}
	recorded, err := folder.Sessions()
	if err != nil {
		return nil, err
	}
	return ListKept(ctx, getenv, recorded, q)
}

// within reports whether a name contains a part, in any case.
func within(name, part string) bool {
	return strings.Contains(strings.ToLower(name), strings.ToLower(part))
}

// last is when the session was last active, as far as that is known.
func (k *Kept) last() time.Time {
	if k.Ended.IsZero() {
		return k.Started
	}
	return k.Ended
}

// Shown is the time that orders sessions: when a recording began, and when a transcript was last written.
func (k *Kept) Shown() time.Time {
	if k.Transcript != nil {
		return k.Ended
	}
	return k.Started
}

// maxAbout is how much of a prompt is shown, in bytes.
const maxAbout = 200

// tellKept reads what the beginnings of transcripts tell. Known secrets are masked.
func tellKept(ctx context.Context, list []Kept) error {
	return source.Parallel(ctx, len(list), func(i int) {
		k := &list[i]
		if k.Transcript == nil {
			return
		}
		b := k.Transcript.Beginning()
		mask := masks.Get().(func(string) string)
		defer masks.Put(mask)
		k.Started, k.Project = b.Started, mask(b.Project)
		k.Prompt = aboutPrompt(mask(b.Prompt))
	})
}

// masks are functions that mask known secrets, each for one goroutine.
var masks = sync.Pool{New: func() any { return capture.Secrets().Text() }}

// countKept counts the runs and the transcripts, and leaves out those that hold nothing or cannot be read.
func countKept(ctx context.Context, getenv func(string) string, list []Kept, q *KeptQuery) (kept []Kept, _ error) {
	var transcripts []source.Transcript
	for i := range list {
		if t := list[i].Transcript; t != nil {
			transcripts = append(transcripts, *t)
		}
	}
	counts, failed, err := source.Count(ctx, getenv, transcripts, q.Fresh)
	if err != nil {
		return nil, err
	}
	n := 0
	for _, k := range list {
		if k.Run != nil {
			if err := k.countRun(ctx, q); err != nil {
				q.Unread(err)
			}
		}
		if k.Transcript != nil {
			c, err := counts[n], failed[n]
			if n++; err != nil {
				q.Unread(err)
				continue
			}
			if k.Calls, k.Failures, k.Usage = c.Calls, c.Failures, c.Usage(); k.Calls == 0 && k.Usage == (protocol.Usage{}) {
				continue
			}
			k.Usage = protocol.Usage{}
			for _, m := range c.Models {
				k.spend(q, m.Model, m.Usage(), m.Band)
			}
		}
		kept = append(kept, k)
	}
	return kept, nil
}

// keptRun returns a run as a listed session.
func keptRun(r *history.Run) Kept {
	return Kept{
		Session: history.Session{
			Summary: history.Summary{ID: "run:" + r.ID, Started: r.Started, Ended: r.Ended, Client: r.Agent, Level: r.Level, Incomplete: r.Lost},
			Live:    r.Live, Lost: r.Lost, Size: r.Size, Capture: r.Dir,
		},
		Agent: r.Agent, Project: r.Project, Run: r,
	}
}

// countRun adds the counts of a run that has ended. They are kept beside it.
func (k *Kept) countRun(ctx context.Context, q *KeptQuery) error {
	r := k.Run
	if !r.Live && r.Version > 0 && (r.Counts == nil || q.Fresh) {
		if err := CountRun(ctx, r); err != nil {
			return fmt.Errorf("%s: %w", k.ID, err)
		}
	}
	c := r.Counts
	if c == nil {
		return nil
	}
	k.Prompt, k.Frames, k.Calls, k.Failures, k.Findings = c.Prompt, c.Frames, c.Calls, c.Failures, c.Findings
	for _, m := range c.Models {
		u := protocol.Usage{Input: m.Input, Cached: m.Cached, Written: m.Written, Kept: m.Kept, Output: m.Output, Cost: m.Cost, Apart: m.Apart}
		k.spend(q, m.Model, u, m.Band)
	}
	return nil
}

// spend adds what a session has used of a model, with its cost.
func (k *Kept) spend(q *KeptQuery, model string, u protocol.Usage, band int64) {
	if price, ok := q.Prices.Of(model); ok && u.Cost == 0 {
		decode.Charge(&u, price, band)
	}
	k.Usage = k.Usage.Plus(u)
	k.Cost.Spend(u, model)
}

// CostOf says what sessions cost in all.
func CostOf(list []Kept) string {
	var all stats.Priced
	unpriced := 0
	for _, k := range list {
		if k.Cost.Cost == 0 && k.Usage.Input+k.Usage.Output > 0 {
			unpriced++
		} else {
			all.Include(k.Cost)
		}
	}
	text := fmt.Sprintf("%s in all", render.Dollars(int64(all.Cost)))
	if all.By != "" {
		text += " (" + all.By + ")"
	}
	if unpriced > 0 {
		text += "; " + render.Count(int64(unpriced), "session") + " with tokens of models without a price"
	}
	return text
}

// ofModel is what tokens belong to: a model, and the one of [prices.Bands] in which the inputs are.
type ofModel struct {
	model string
	band  int64
	apart bool
}

// CountRun reads a run that has ended, and writes its counts beside it. Tokens are those of the wires to
// models or, without any, those that the agent tells.
func CountRun(ctx context.Context, r *history.Run) error {
	cfg := decode.Config{Workers: 1, Resync: true}
	run, err := source.OpenRun(ctx, r.Dir, cfg, false)
	if err != nil {
		return err
	}
	defer run.Close()
	c := &history.RunCounts{Prompt: promptIn(r.Command)}
	models, others := map[ofModel]protocol.Usage{}, map[ofModel]protocol.Usage{}
	log := &calls.Log{Show: func(call *calls.Call) {
		if c.Calls++; call.Outcome.Failed() && join.Counts(call) {
			c.Failures++
		}
		of := ofModel{call.Model, prices.Band(call.Usage.Input), call.Usage.Apart}
		switch {
		case call.Usage == protocol.Usage{}:
		case run.Wire(call.Conn) == "model":
			models[of] = models[of].Plus(call.Usage)
		case call.Operation == 0: // it has the tokens of its sub-agents, too
			others[of] = others[of].Plus(call.Usage)
		}
	}}
	ts := &track.Trackers{OneWay: true, Watcher: log, Joins: true}
	in := decode.Stored(run)
	f := track.NewFollower(ts, in, cfg)
	cfg.Event = f.Event
	mask := capture.Secrets().Text()
	result, err := decode.Run(ctx, in, io.Discard, cfg, func() decode.View {
		return func(dst []byte, it *decode.Item) ([]byte, error) {
			if c.Prompt == "" && it.Err == nil && it.Message.Phase == protocol.Open && run.Wire(it.Frame.Conn) == "model" {
				c.Prompt = aboutPrompt(mask(textOf(it.Message.Text)))
			}
			return f.View(dst, it)
		}
	})
	f.End()
	log.Finish(f.Last)
	if err != nil && ctx.Err() != nil {
		return err
	}
	c.Frames = result.Frames
	for _, tr := range ts.List {
		for range tr.Findings() {
			c.Findings++
		}
	}
	if len(models) == 0 {
		models = others
	}
	for of, u := range models {
		c.Models = append(c.Models, history.ModelUsage{
			Model: of.model, Band: of.band, Input: u.Input, Cached: u.Cached, Written: u.Written, Kept: u.Kept, Output: u.Output, Cost: u.Cost, Apart: of.apart,
		})
	}
	slices.SortFunc(c.Models, func(a, b history.ModelUsage) int {
		return cmp.Or(cmp.Compare(a.Model, b.Model), cmp.Compare(a.Band, b.Band))
	})
	r.Counts = c
	return errors.Join(err, r.Update())
}

// promptIn returns the prompt among the words of a command: the last one that has spaces.
func promptIn(command []string) string {
	for _, word := range slices.Backward(command[min(1, len(command)):]) {
		if strings.Contains(strings.TrimSpace(word), " ") && !strings.HasPrefix(word, "-") {
			return aboutPrompt(word)
		}
	}
	return ""
}

func aboutPrompt(text string) string {
	return render.Shorten(strings.Join(strings.Fields(text), " "), maxAbout)
}

// textOf returns a text that may be a string of JSON.
func textOf(raw []byte) string {
	if text, ok := jsonscan.Unquote(raw); ok {
		return string(text)
	}
	return string(raw)
}
