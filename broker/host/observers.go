package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"time"

	"github.com/wirectl/wirectl/broker"
	"github.com/wirectl/wirectl/broker/door/rlm"
	"github.com/wirectl/wirectl/broker/mask"
	"github.com/wirectl/wirectl/broker/observe"
	"github.com/wirectl/wirectl/broker/provider"
	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/capture/journal"
	"github.com/wirectl/wirectl/capture/output"
	"github.com/wirectl/wirectl/capture/pcapng"
	"github.com/wirectl/wirectl/capture/tap"
	"github.com/wirectl/wirectl/internal/otlp"
)

// An ObserverConfig says what is observed, and where that is written.
type ObserverConfig struct {
	Name       string // of the tap; "" is serve
	Controller string // the name of the callers; "" is clients
	NoTap      bool
	Control    tap.Controller // runs the commands of viewers; nil is none
	Send       tap.SendFunc   // to a hub; nil is none
	Program    []string       // runs with the broker
	Capture    string         // the file of the capture; "" is none
	Label      func(*capture.Record, *pcapng.Label)
	Log, Calls string // the files of lines; "" is none, and - is Stdout
	LogPrompts bool
	OTLP       string       // the collector's URL; "" is none
	Failures   *slog.Logger // of calls; nil is none
	Secrets    *mask.Secrets
	Stdout     io.Writer
	Getenv     func(string) string
	Warn       func(text string)
}

// observers are all observers of a broker: the tap and the capture, which see the traffic, and
// the logs and spans, which see calls. They are closed in the reverse order of opening: the
// capture must not wait for a dead collector of spans.
type observers struct {
	Publisher *observe.Publisher
	Trace     func(string) string

	ObserverConfig
	watchers observe.All
	ends     []func() error
}

// openObservers opens what the configuration asks for.
func openObservers(cfg ObserverConfig) (*observers, error) {
	l := &observers{ObserverConfig: cfg}
	l.Name = cmp.Or(l.Name, "serve")
	if cfg.Failures != nil {
		l.watchers = append(l.watchers, failures{cfg.Failures})
	}
	for _, open := range []func() error{l.openSpans, l.openTaps, l.openLog, l.openCalls} {
		if err := open(); err != nil {
			return nil, errors.Join(err, l.End())
		}
	}
	return l, nil
}

// End closes all observers, the newest first.
func (l *observers) End() error {
	var errs []error
	for _, end := range slices.Backward(l.ends) {
		errs = append(errs, end())
	}
	return errors.Join(errs...)
}

// A fan writes to several writers.
type fan []capture.Writer

func (f fan) Write(r *capture.Record) error {
	var errs []error
	for _, w := range f {
		errs = append(errs, w.Write(r))
	}
	return errors.Join(errs...)
}

func (l *observers) openTaps() error {
	session := capture.Session{Created: time.Now(), Controller: cmp.Or(l.Controller, "clients"), Unit: "wirectl " + l.Name}
	var sinks fan
	if !l.NoTap || l.Send != nil {
		j := journal.New(session, journal.Options{Notice: l.Warn})
		sinks = append(sinks, j)
		if l.Send != nil {
			sender, err := l.Send(j, l.Name)
			if err != nil {
				return err
			}
			l.ends = append(l.ends, closes(sender)) // once the journal is closed
		}
		l.ends = append(l.ends, j.Close)
		if !l.NoTap {
			l.openTap(session, j)
		}
	}
	if name := l.Capture; name != "" {
		// Keys are never published. Secrets in prompts belong to the users; known ones
		// are redacted.
		redaction := capture.Secrets()
		session = redaction.Session(session)
		j := journal.New(session, journal.Options{Bytes: 1, Notice: l.Warn})
		rec, err := j.Record(name, journal.Config{Label: l.Label})
		if err != nil {
			return err
		}
		sinks = append(sinks, capture.Redact(j, &session, redaction))
		l.ends = append(l.ends, closes(rec))
	}
	if len(sinks) > 0 {
		l.Publisher = observe.NewPublisher(sinks, l.Secrets)
	}
	return nil
}

// closes returns a function that closes a recorder or a sender.
func closes(c interface{ Close(context.Context) error }) func() error {
	return func() error {
		ctx, cancel := context.WithTimeout(context.Background(), closing)
		defer cancel()
		return c.Close(ctx)
	}
}

// openTap opens the tap. A broker works without one.
func (l *observers) openTap(session capture.Session, j *journal.Journal) {
	dir, err := tap.Dir(l.Getenv)
	if err == nil {
		command := []string{l.Name}
		for _, arg := range l.Program {
			command = append(command, string(l.Secrets.Hide([]byte(arg))))
		}
		info := tap.Info{Name: l.Name, Command: command, Controller: session.Controller, Unit: session.Unit, Started: session.Created}
		var server *tap.Server
		if server, err = tap.Listen(dir, info, j, l.Control); err == nil {
			l.ends = append(l.ends, server.Close)
			return
		}
	}
	l.Warn(fmt.Sprintf("there is no tap: %v", err))
}

// failures logs each failed call, without prompts and answers.
type failures struct{ log *slog.Logger }

func (f failures) Ended(c *broker.Call, r *broker.Report) {
	if r.Outcome != broker.Failed && r.Outcome != broker.Refused {
		return
	}
	about := []any{"door", c.Door, "model", cmp.Or(c.Name, c.Model), "error", broker.Message(r.Err)}
	if pe, ok := errors.AsType[*provider.Error](r.Err); ok && len(c.Hops) > 0 {
		about = append(about, "provider", c.Hops[len(c.Hops)-1].Provider, "cause", pe.Cause.String())
		if pe.Status != 0 {
			about = append(about, "status", pe.Status)
		}
		about = append(about, "detail", pe.Err)
	}
	f.log.Error("call failed", about...)
}

func (l *observers) openLog() error {
	return l.openLines(l.Log, output.Append, func(w io.Writer) lines { return observe.NewLog(w, l.LogPrompts) })
}

func (l *observers) openCalls() error {
	return l.openLines(l.Calls, output.Create, func(w io.Writer) lines { return observe.NewCalls(w, rlm.AppendCompletion) })
}

// lines write a line for each call.
type lines interface {
	broker.Watcher
	Err() error
}

// openLines opens a file of lines, unless its name is "".
func (l *observers) openLines(name string, open func(string) (*os.File, error), to func(io.Writer) lines) error {
	w := l.Stdout
	switch name {
	case "":
		return nil
	case "-":
	default:
		f, err := open(name)
		if err != nil {
			return err
		}
		l.ends = append(l.ends, f.Close)
		w = f
	}
	log := to(l.Secrets.Writer(w))
	l.watchers = append(l.watchers, log)
	l.ends = append(l.ends, log.Err)
	return nil
}

func (l *observers) openSpans() error {
	if l.OTLP == "" {
		return nil
	}
	spans, err := otlp.New(otlp.Options{
		URL: l.OTLP, Getenv: l.Getenv, Scope: "wirectl/broker", Warn: l.Warn,
		Hide: func(text string) string { return string(l.Secrets.Hide([]byte(text))) },
	})
	if err != nil {
		return fmt.Errorf("--otlp: %w", err)
	}
	l.watchers = append(l.watchers, observe.Spans{To: spans})
	l.Trace = observe.Traceparent
	l.ends = append(l.ends, func() error {
		ctx, cancel := context.WithTimeout(context.Background(), spansTime)
		defer cancel()
		if err := spans.Close(ctx); err != nil {
			l.Warn(err.Error())
		}
		return nil
	})
	return nil
}

// closing is how long the capture may take to write its rest.
const closing = 10 * time.Second

// spansTime is how long the last spans may take. It is well below the time of a shutdown.
const spansTime = 2 * time.Second

// Watcher returns the watcher of calls, nil if there is none.
func (l *observers) Watcher() broker.Watcher {
	if len(l.watchers) == 0 {
		return nil
	}
	return l.watchers
}
