// Package watch observes a relay: with a tap, a capture, a judge that prints and counts,
// and a recording.
package watch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/capture/history"
	"github.com/wirectl/wirectl/capture/journal"
	"github.com/wirectl/wirectl/capture/tap"
	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/decode/convert"
	"github.com/wirectl/wirectl/decode/pin"
	"github.com/wirectl/wirectl/decode/spans"
	"github.com/wirectl/wirectl/internal/otlp"
	"github.com/wirectl/wirectl/relay"
	"github.com/wirectl/wirectl/relay/fault"
	"github.com/wirectl/wirectl/relay/serve"
	"github.com/wirectl/wirectl/session"
	"github.com/wirectl/wirectl/session/query"
	"github.com/wirectl/wirectl/transport"
)

// Options say what is relayed, and who observes it.
type Options struct {
	Controller string   // its name in the session
	Command    []string // the words that name the unit
	Unit       transport.Endpoint
	Bridged    bool          // the records are of the HTTP connections to the unit
	Config     decode.Config // how to read the traffic

	Grace, Patience time.Duration
	// AnswerPatience is how long a request may be unanswered before a warning; 0 is for ever.
	AnswerPatience time.Duration
	Quiet          bool // no summary

	Name    string // of the tap; "" is the unit's
	NoTap   bool
	Control bool // viewers of the tap may change the traffic
	// HubControl lets viewers at the hub with the right change the traffic.
	HubControl bool
	Faults     *fault.Plan  // or nil
	Hold       *query.Where // or nil

	// Capture is the file to record into; "" is none, and - is Stdout.
	Capture   string
	Redaction capture.Redaction // of the capture
	Recorder  journal.Config    // of the capture: its parts
	Policy    journal.Policy    // of the capture

	// Send sends the session to a hub; nil is none.
	Send tap.SendFunc
	// OTLP is the URL of an OpenTelemetry collector, which gets spans; "" is none.
	OTLP string

	// Pins compares the tools of Server with its pin; nil for none. With Refuses it changes the answers.
	Pins    *pin.Watch
	Server  string
	Refuses bool

	Level  history.Level // of the record; "" is none
	Client string        // of the record

	Print          decode.View // prints each frame; nil prints nothing
	Stdout, Stderr io.Writer
	Getenv         func(string) string
	Signals        <-chan os.Signal
	Warn           func(text string)
	// Alarm is Warn for problems that are reported even with --quiet.
	Alarm func(text string)
}

// A Watch is all observers of a relay.
type Watch struct {
	Server *serve.Server // that relays

	options  Options
	fan      *relay.Fan       // nil if nobody watches
	journal  *journal.Journal // nil if nothing reads it
	tap      *tap.Server      // nil if there is none
	sender   tap.Sender       // nil if nothing is sent to a hub
	spans    *spanning        // nil if there is no collector
	redacted *journal.Journal // of the capture; nil if that is none, or not redacted
	recorder *journal.Recorder
	record   *record // nil if the session is not in the history
	judge    *judge  // nil if nothing is printed, counted or watched
}

// session describes the session.
func (o *Options) session() capture.Session {
	s := capture.Session{
		Created: time.Now(), Controller: o.Controller, Unit: o.Unit.String(), Comment: capture.CommentOn(o.Command),
		Altered: o.Faults != nil || o.Hold != nil, // from the start; later changes are marked when they are made
	}
	if o.Config.Framing != nil {
		s.Framing = o.Config.Framing.Name()
	}
	if o.Config.Protocol != nil {
		s.Protocol = o.Config.Protocol.Name()
	}
	return s
}

// New returns the observers that the options ask for.
func New(o Options) (*Watch, error) {
	w := &Watch{options: o}
	s := o.session()
	collector, err := o.collector()
	if err != nil {
		return nil, err
	}
	var sinks []capture.Writer
	isViewed := !o.NoTap || o.HubControl || collector != nil || o.Send != nil
	if isViewed || o.Capture != "" && o.Redaction.IsEmpty() {
		limits := journal.Options{Notice: o.Warn}
		if o.Capture != "" && o.Redaction.IsEmpty() {
			limits.Policy = o.Policy
		}
		if !isViewed {
			limits.Bytes = 1 // nobody comes late
		}
		w.journal = journal.New(s, limits)
		sinks = append(sinks, w.journal)
	}
	if o.Capture != "" {
		redact, err := w.openCapture(s)
		if err != nil {
			return nil, err
		}
		if redact != nil {
			sinks = append(sinks, redact)
		}
	}
	if o.Send != nil {
		if w.sender, err = o.Send(w.journal, o.name()); err != nil {
			return nil, err
		}
	}
	if collector != nil {
		w.spans = o.span(collector, s, w.journal)
	}
	w.record = o.newRecord(s)
	if o.Print != nil || !o.Quiet || w.record != nil || transport.IsProgram(o.Unit) {
		w.judge = o.newJudge(s, w.record)
		sinks = append(sinks, w.judge)
	}
	if len(sinks) > 0 || o.Pins != nil {
		w.fan = relay.NewFan(o.Warn, sinks...)
	}
	if _, isHTTP := o.Unit.(transport.HTTP); o.Pins != nil && !o.pinsAtGate() && !isHTTP {
		w.fan = relay.NewFan(o.Warn, o.Pins.Writer(o.Server, w.fan.Write))
	}
	gate := w.newGate()
	if o.HubControl && w.sender != nil {
		w.sender.Obey(gate)
	}
	if !o.NoTap {
		w.tap = w.openTap(s, gate)
	}
	w.Server = &serve.Server{Unit: o.Unit, Altered: w.alter, Relay: relay.Config{
		Sink: w.fan, Gate: gate,
		Framing: o.Config.Framing, Protocol: o.Config.Protocol, Limit: o.Config.Limit,
		Stderr: o.Stderr, Grace: o.Grace, Patience: o.Patience,
		Signals: o.Signals, Warn: o.Warn, Alarm: o.Alarm,
	}}
	return w, nil
}

// newJudge returns the judge, which prints and counts.
func (o *Options) newJudge(s capture.Session, r *record) *judge {
	cfg := o.Config
	if calls := cfg.Calls; calls != nil && calls.Schema != nil {
		cfg.Notice = o.Warn // about methods that are not in the schema
	}
	j := newJudge(s, o.Stderr, cfg, wants{
		Show: o.Print, Keep: r.writer(), Client: r.namer(), Brief: o.Quiet && o.Print == nil && r == nil,
		Found: func(f session.Finding) {
			if f.Name == session.IgnoresEOF {
				o.Alarm(f.Message + " (" + f.Name + ")")
			}
		},
	})
	if o.AnswerPatience > 0 && !o.Quiet {
		j.Watch(o.AnswerPatience, o.Warn)
	}
	return j
}

// openCapture opens the capture. If it is redacted, it has a journal of its own, so that not
// even a temporary file has secrets, and the result writes to that.
func (w *Watch) openCapture(s capture.Session) (redact capture.Writer, err error) {
	o, x := &w.options, w.options.Redaction
	from := w.journal
	if !x.IsEmpty() {
		x.Blind = capture.BlindSpot(o.Warn)
		s = x.Session(s)
		w.redacted = journal.New(s, journal.Options{Bytes: 1, Policy: o.Policy, Notice: o.Warn})
		from, redact = w.redacted, capture.Redact(w.redacted, &s, x)
	}
	cfg := o.Recorder
	cfg.Label = convert.Labels(o.Config.Protocol)
	if o.Capture == "-" {
		w.recorder, err = from.RecordTo(o.Stdout, cfg)
	} else {
		w.recorder, err = from.Record(o.Capture, cfg)
	}
	return redact, err
}

// newGate returns the gate that changes the traffic; nil if nothing may change it.
func (w *Watch) newGate() *relay.Gate {
	o := &w.options
	if o.Faults == nil && !o.Control && !o.HubControl && !o.pinsAtGate() {
		return nil
	}
	cfg := relay.GateConfig{Faults: o.Faults, Hold: o.Hold, Sink: w.fan, Altered: w.alter, Bridged: o.Bridged}
	if w.journal != nil {
		cfg.Find = w.journal.Find
	}
	if o.pinsAtGate() {
		cfg.Answer = o.Pins.Answer(o.Server)
	}
	return relay.NewGate(cfg)
}

// pinsAtGate reports whether pins are compared at the gate: to change answers, or because the records are of HTTP.
func (o *Options) pinsAtGate() bool {
	_, isHTTP := o.Unit.(transport.HTTP)
	return o.Pins != nil && (o.Refuses || o.Bridged) && !isHTTP
}

// alter marks all recordings as altered.
func (w *Watch) alter() {
	for _, j := range []*journal.Journal{w.journal, w.redacted} {
		if j != nil {
			j.Alter()
		}
	}
}

// openTap opens the tap. A relay works without one.
func (w *Watch) openTap(s capture.Session, gate *relay.Gate) *tap.Server {
	o := &w.options
	dir, err := tap.Dir(o.Getenv)
	if err == nil {
		var server *tap.Server
		info := tap.Info{
			Name: o.name(), Command: append([]string{"relay"}, o.Command...),
			Controller: s.Controller, Unit: s.Unit, Protocol: s.Protocol, Framing: s.Framing, Started: s.Created,
		}
		var control tap.Controller
		if o.Control {
			control = gate
		}
		if server, err = tap.Listen(dir, info, w.journal, control); err == nil {
			return server
		}
	}
	o.Warn(fmt.Sprintf("there is no tap: %v", err))
	return nil
}

// runners are programs that run the program in a later word.
var runners = []string{"npx", "uvx", "bunx", "node", "deno", "bun", "python", "python3", "uv", "go", "run", "env", "sh", "bash"}

// name is the name of the tap: that of the options, or else of the unit's program or address.
func (o *Options) name() string {
	name := ""
	for _, word := range o.Command {
		if strings.HasPrefix(word, "-") || word == "exec" {
			continue
		}
		word = strings.TrimSuffix(word, "/")
		name = word[strings.LastIndexByte(word, '/')+1:]
		if !slices.Contains(runners, name) {
			break
		}
	}
	return cmp.Or(o.Name, name, "relay")
}

// closing is how long the capture and the judge may take to finish. A further signal cuts that
// short. The signal that ended the relay may arrive twice, from the terminal and from a program
// such as timeout: within the time of repeating it is the same signal.
const (
	closing   = 10 * time.Second
	repeating = 500 * time.Millisecond
)

// Close closes the observers, and prints a summary with the end of the unit's process.
func (w *Watch) Close(exit *transport.Exit) error {
	if w.options.Pins != nil {
		w.options.Pins.Close()
	}
	if w.journal != nil {
		w.journal.Close()
	}
	if w.tap != nil {
		w.tap.Close()
	}
	ctx, cancel := context.WithTimeout(context.Background(), closing)
	var signalled sync.WaitGroup
	signalled.Go(func() {
		for began := time.Now(); ctx.Err() == nil; {
			_, _ = serve.Signalled(ctx, w.options.Signals, nil)
			if time.Since(began) > repeating {
				cancel()
			}
		}
	})
	defer signalled.Wait()
	defer cancel()
	var err error
	if w.recorder != nil {
		err = w.recorder.Close(ctx)
	}
	if w.sender != nil {
		err = errors.Join(err, w.sender.Close(ctx))
	}
	if w.spans != nil {
		w.spans.close(ctx)
	}
	if w.judge != nil {
		w.judge.awaitEnd(ctx, w.options.Warn)
		if summary := w.Server.Summary(w.judge.Summary()); summary != "" {
			w.options.Warn(summary + ended(exit))
		}
	}
	if w.record != nil {
		w.record.close(ctx, w.judge.Counts())
	}
	return err
}

// ended describes the end of the unit's process; "" if there is none.
func ended(exit *transport.Exit) string {
	switch {
	case exit == nil:
		return ""
	case exit.Signal != nil:
		return fmt.Sprintf("; the unit %v (status %d)", exit, exit.Code())
	}
	return fmt.Sprintf("; the unit %v", exit)
}

// spanning makes spans of the traffic, as a viewer of the tap. It never delays the relay; frames
// that it is too slow for are missing.
type spanning struct {
	to    *otlp.Exporter
	alarm func(text string)
	stop  context.CancelFunc
	done  chan struct{}
}

// lastSpans is how long the last spans may take.
const lastSpans = 2 * time.Second

// collector returns the exporter to the collector that the options name; nil if they name none.
func (o *Options) collector() (*otlp.Exporter, error) {
	if o.OTLP == "" {
		return nil, nil
	}
	x := capture.Secrets()
	x.Keys = append(x.Keys, o.Redaction.Keys...)
	x.Values = append(x.Values, o.Redaction.Values...)
	to, err := otlp.New(otlp.Options{URL: o.OTLP, Getenv: o.Getenv, Scope: "wirectl/relay", Hide: x.Text(), Warn: o.Alarm})
	if err != nil {
		return nil, fmt.Errorf("--otlp: %w", err)
	}
	return to, nil
}

// span starts making spans of the session.
func (o *Options) span(to *otlp.Exporter, s capture.Session, from *journal.Journal) *spanning {
	ctx, stop := context.WithCancel(context.Background())
	p := &spanning{to: to, alarm: o.Alarm, stop: stop, done: make(chan struct{})}
	view, cfg := tap.View(from), o.Config
	cfg.Resync, cfg.Notice = true, nil
	go func() {
		defer close(p.done)
		defer view.Close()
		_, _ = spans.Run(ctx, to, spans.Session{Name: o.name(), Identity: s.Created.String()}, view, cfg) // missing spans are counted
	}()
	return p
}

// close sends the remaining spans, once the journal is closed.
func (p *spanning) close(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, lastSpans)
	defer cancel()
	select {
	case <-p.done:
	case <-ctx.Done():
	}
	p.stop()
	<-p.done
	if err := p.to.Close(ctx); err != nil {
		p.alarm("the OpenTelemetry collector: " + err.Error())
	}
}

// A record stores a relay's session in the user's history.
type record struct {
	*history.Recording
	folder   *history.Folder
	atStart  history.Summary // as it was at the start
	clients  []string        // the names that they give themselves
	recorder *journal.Recorder
	clean    capture.Writer // writes to the journal of the recorder, redacted
	say      func(text string)
}

// newRecord begins the record that the options ask for; nil if there is none. Errors are
// reported; the relay works without a record.
func (o *Options) newRecord(s capture.Session) *record {
	if o.Level == "" {
		return nil
	}
	here, _ := os.Getwd() // or the session is of no project
	r := &record{atStart: history.Summary{Started: s.Created, Client: o.Client, Server: o.name(), Folder: here, Own: s.IsOwn(), Level: o.Level}, say: func(text string) { o.Alarm("the record of the session: " + text) }}
	var err error
	if r.folder, err = history.Open(o.Getenv); err == nil && r.folder.IsOff() {
		return nil
	}
	if err == nil {
		r.Recording, err = r.folder.Start(r.atStart)
	}
	if err == nil {
		x := capture.Secrets()
		x.Outline = o.Level == history.Metadata
		s = x.Session(s)
		to := journal.New(s, journal.Options{Bytes: 1, Notice: r.say})
		r.recorder, err = to.RecordTo(r.Recording, journal.Config{Label: convert.Labels(o.Config.Protocol)})
		r.clean = capture.Redact(to, &s, x)
	}
	if err != nil {
		r.say(err.Error())
		return nil
	}
	return r
}

// writer is the writer for frames; nil if there is no record.
func (r *record) writer() capture.Writer {
	if r == nil {
		return nil
	}
	return r.clean
}

// namer returns the function that gets the names of clients, for the summary; nil if there is no
// record. A name that a client gives itself replaces that of the options.
func (r *record) namer() func(name string) {
	if r == nil {
		return nil
	}
	r.atStart.ID = r.ID
	return func(name string) {
		r.clients = append(r.clients, name)
		r.atStart.Client = strings.Join(r.clients, ", ")
		_ = r.folder.Update(&r.atStart) // the end of the record reports what is wrong
	}
}

// close ends the record, with the counts of the judge.
func (r *record) close(ctx context.Context, c counts) {
	err := r.recorder.Close(ctx)
	r.Client = r.atStart.Client
	r.Frames, r.Calls, r.Failures, r.Findings, r.Protocols = c.Frames, c.Exchanges, c.Failures, c.Findings, c.Protocols
	r.Incomplete = r.Incomplete || c.Missed || err != nil
	if err = r.Finish(); err != nil {
		r.say(fmt.Sprintf("no summary: %v", err))
	}
}
