// Package again plays a recorded run again: the agent is started as in a run, and what it asks is answered from the
// record, or by real servers where that is wanted. What was not recorded is refused.
package again

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/run/agent"
)

// Live and Recorded say who answers.
const (
	Live     = "live"
	Recorded = "recorded"
)

// Options say what is played, and how.
type Options struct {
	Folder string // of the run
	Agent  agent.Options
	// ModelLive means that models are asked after turn From: those that the agent names or, if it is not nil, the one
	// at ModelURL, by another name if that is not empty.
	ModelLive bool
	ModelURL  *url.URL
	ModelName string
	From      int
	// ToolsLive means that servers of tools run for real. Tools says it of single ones.
	ToolsLive bool
	Tools     map[string]string
	Isolate   bool
	Speed     float64 // divides recorded pauses; 0 drops them
	// Names are the names of servers over HTTP, by HOST:PORT.
	Names map[string]string
}

// ParseModel reads --model.
func (o *Options) ParseModel(text string) error {
	switch text {
	case Recorded, "":
		return nil
	case Live:
		o.ModelLive = true
		return nil
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return fmt.Errorf("invalid --model %q: want recorded, live or the http(s):// URL of a model API", text)
	case u.User != nil || u.RawQuery != "":
		return fmt.Errorf("invalid --model: give the key in %s, not in the URL, where others can see it", KeyVariable)
	}
	o.ModelLive, o.ModelURL = true, u
	return nil
}

// ParseTools reads the words of --tools.
func (o *Options) ParseTools(words []string) error {
	for _, word := range words {
		name, who, isNamed := strings.Cut(word, "=")
		if !isNamed {
			name, who = "", word
		}
		switch {
		case who != Live && who != Recorded || isNamed && name == "":
			return fmt.Errorf("invalid --tools %q: want recorded, live, or SERVER=live", word)
		case !isNamed:
			o.ToolsLive = who == Live
		default:
			if o.Tools == nil {
				o.Tools = map[string]string{}
			}
			o.Tools[name] = who
		}
	}
	return nil
}

func (o *Options) folder() string {
	here, _ := os.Getwd()
	return here
}

// A DepartureError reports that the agent has asked what was not recorded.
type DepartureError struct{ Text string }

func (e *DepartureError) Error() string { return e.Text }

// An OptionError reports an option that does not fit the run.
type OptionError struct{ error }

// Run plays a run again, and returns the status of the agent.
func Run(ctx context.Context, o Options) (int, error) {
	r, err := read(ctx, o.Folder)
	if err != nil {
		return 1, err
	}
	o.Names = agent.ServerNames(o.Agent.Command[0], o.Agent.Getenv)
	p := newPlayer(r, o)
	if err := p.check(); err != nil {
		return 1, &OptionError{err}
	}
	for _, c := range r.calls {
		c.body = nil // its question has what counts
	}
	var departed error
	servers := agent.Servers{Files: r.servers, Tools: r.tools, AllLive: o.ToolsLive}
	for name, who := range o.Tools {
		if who == Live {
			servers.Live = append(servers.Live, name)
		} else {
			servers.Recorded = append(servers.Recorded, name)
		}
	}
	o.Agent.World = &agent.World{
		Handler: p, Refuses: p.refuses, Isolate: o.Isolate, Servers: servers, Replays: r.run.ID,
		Tell: func(notes []agent.ServerNote) string {
			text, departures := p.outcome(notes)
			if len(departures) > 0 {
				departed = &DepartureError{"the agent has left the record: " + departures[0]}
			}
			return text
		},
	}
	status, err := agent.Run(ctx, o.Agent)
	if p.idle && status == 0 && err == nil {
		departed = &DepartureError{"the agent has left the record: it has asked nothing"}
	}
	return status, errors.Join(err, departed)
}

// check reports options that name nothing.
func (p *player) check() error {
	var known []string
	for name := range p.servers {
		known = append(known, name)
	}
	for _, c := range p.calls {
		if name := p.nameOf(c.host); (c.kind == rpc || c.kind == answer) && !slices.Contains(known, name) {
			known = append(known, name)
		}
	}
	known = slices.AppendSeq(known, maps.Values(p.Names))
	slices.Sort(known)
	for _, name := range slices.Sorted(maps.Keys(p.Tools)) {
		if !slices.Contains(known, name) && !slices.ContainsFunc(p.calls, func(c *call) bool { return c.host == name || hostname(c.host) == name }) {
			return fmt.Errorf("--tools names %s, which is not a server of this run; there are: %s", name, strings.Join(slices.Compact(known), ", "))
		}
	}
	turns := 0
	for _, c := range p.calls {
		turns = max(turns, c.turn)
	}
	if p.From > turns && turns > 0 {
		return fmt.Errorf("--from %d: the record has %s", p.From, render.Count(int64(turns), "turn"))
	}
	return nil
}

func countOf(n int, what string) string {
	if first, rest, ok := strings.Cut(what, " of "); ok {
		return render.Count(int64(n), first) + " of " + rest
	}
	return render.Count(int64(n), what)
}

// outcome says what was played, refused, and never asked, and which refusals are departures.
func (p *player) outcome(notes []agent.ServerNote) (text string, departures []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	played := []string{countOf(p.played, "model call")}
	never := p.never()
	open := map[string]map[int64]string{} // requests of started servers
	for _, n := range notes {
		if open[n.Name] == nil {
			open[n.Name] = map[int64]string{}
		}
		maps.Copy(open[n.Name], n.Recorded)
		if n.Played > 0 {
			p.tools[n.Name]++
		}
		if n.Refused != "" {
			p.refused = append(p.refused, refusal{n.Refused, true, n.Time})
		}
	}
	for _, n := range notes {
		delete(open[n.Name], n.Played)
	}
	for _, name := range slices.Sorted(maps.Keys(open)) {
		if n := len(open[name]); n > 0 {
			never = append(never, countOf(n, "request of "+name))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.tools)) {
		played = append(played, countOf(p.tools[name], "request of "+name))
	}
	if p.others > 0 {
		played = append(played, countOf(p.others, "other request"))
	}
	for _, name := range slices.Sorted(maps.Keys(p.servers)) {
		if who := p.Tools[name]; open[name] == nil && who != Live && (!p.ToolsLive || who == Recorded) {
			never = append(never, "server "+name)
		}
	}
	text = "played of run:" + p.run.ID + ": " + strings.Join(played, ", ")
	if p.liveCalls > 0 {
		text += "; asked live: " + countOf(p.liveCalls, "model call")
		if p.liveFailed > 0 {
			text += fmt.Sprintf(" (%d failed: %s)", p.liveFailed, p.liveError)
		}
	}
	if p.loose > 0 {
		text += fmt.Sprintf("; in %d of them, what the agent adds by itself differs", p.loose)
	}
	own := 0
	slices.SortStableFunc(p.refused, func(a, b refusal) int { return a.at.Compare(b.at) })
	for _, r := range p.refused {
		switch {
		case !r.departs:
			own++
		case !slices.Contains(departures, r.text):
			departures = append(departures, r.text)
		}
	}
	if len(departures) > 0 {
		const most = 3
		text += fmt.Sprintf("; refused, as it is not in the record: %s", strings.Join(departures[:min(most, len(departures))], "; "))
		if more := len(departures) - most; more > 0 {
			text += fmt.Sprintf("; and %d more", more)
		}
	}
	if own+len(p.own) > 0 {
		text += "; refused of the agent's own: " + strings.Join(slices.Concat(p.own, p.ownRequests()), ", ")
	}
	if len(never) > 0 {
		p.idle = len(p.refused)+p.played+len(p.tools)+p.others+p.liveCalls == 0
		text += "; never asked: " + strings.Join(never, ", ")
	}
	if len(p.notes) > 0 {
		text += "; the record is damaged: " + p.notes[0]
	}
	return text, departures
}

// ownRequests are the first of the refused requests that the agent makes for itself.
func (p *player) ownRequests() (list []string) {
	const most = 2
	for _, r := range p.refused {
		if !r.departs && len(list) < most {
			text, _, _ := strings.Cut(r.text, " was never recorded")
			list = append(list, text)
		}
	}
	return list
}
