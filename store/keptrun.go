package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/capture/history"
	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/decode/source"
	"github.com/wirectl/wirectl/decode/track"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/session/calls"
)

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
		u := protocol.Usage{Input: m.Input, Cached: m.Cached, Output: m.Output, Cost: m.Cost}
		if price, ok := q.Prices.Of(m.Model); ok && u.Cost == 0 {
			u.Cost = price.Micros(m.Input, m.Cached, m.Output)
		}
		k.Usage = k.Usage.Plus(u)
	}
	return nil
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
	models, others := map[string]protocol.Usage{}, map[string]protocol.Usage{}
	log := &calls.Log{Show: func(call *calls.Call) {
		if c.Calls++; call.Outcome.Failed() {
			c.Failures++
		}
		switch {
		case call.Usage == protocol.Usage{}:
		case run.Wire(call.Conn) == "model":
			models[call.Model] = models[call.Model].Plus(call.Usage)
		case call.Operation == 0: // it has the tokens of its sub-agents, too
			others[call.Model] = others[call.Model].Plus(call.Usage)
		}
	}}
	ts := &track.Trackers{OneWay: true, Watcher: log}
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
	for model, u := range models {
		c.Models = append(c.Models, history.ModelUsage{Model: model, Input: u.Input, Cached: u.Cached, Output: u.Output, Cost: u.Cost})
	}
	slices.SortFunc(c.Models, func(a, b history.ModelUsage) int { return cmp.Compare(a.Model, b.Model) })
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
