package commands

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/wirectl/wirectl/broker"
	"github.com/wirectl/wirectl/broker/door/rlm"
	"github.com/wirectl/wirectl/broker/observe"
	"github.com/wirectl/wirectl/broker/provider"
	"github.com/wirectl/wirectl/broker/publish"
	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/capture/output"
	"github.com/wirectl/wirectl/capture/recorder"
	"github.com/wirectl/wirectl/capture/tap"
	"github.com/wirectl/wirectl/decode/convert"
)

// A lookout is all that sees what a broker does: the tap and the capture, which
// see what passes, and the logs and spans, which see calls. Its ends are in the
// order of opening: the capture must not wait for a collector of spans, which may be
// dead.
type lookout struct {
	s         *serving
	publisher *publish.Publisher
	watchers  observe.All
	trace     func(string) string
	ends      []func() error
}

// newLookout returns what the flags ask for.
func (s *serving) newLookout() (*lookout, error) {
	l := &lookout{s: s}
	for _, open := range []func() error{l.openSpans, l.openTaps, l.openFailures, l.openLog, l.openCalls} {
		if err := open(); err != nil {
			return nil, errors.Join(err, l.end())
		}
	}
	return l, nil
}

// end ends all of it, the newest first.
func (l *lookout) end() error {
	var errs []error
	for i := len(l.ends) - 1; i >= 0; i-- {
		errs = append(errs, l.ends[i]())
	}
	return errors.Join(errs...)
}

// A fan writes to several.
type fan []capture.Writer

func (f fan) Write(r *capture.Record) error {
	var errs []error
	for _, w := range f {
		if err := w.Write(r); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func (l *lookout) openTaps() error {
	session := capture.Session{Created: time.Now(), Controller: "clients", Unit: "wirectl serve"}
	var sinks fan
	if !l.s.c.Bool("no-tap") {
		sinks = append(sinks, l.openTap(session))
	}
	if name := l.s.c.String("capture"); name != "" {
		// Keys never are in what is published; secrets in prompts are the
		// users' own, and known ones are taken out.
		redaction := capture.Secrets()
		session = redaction.Session(session)
		rec, err := recorder.Create(name, recorder.Config{Session: session, Label: convert.Labels(nil), Notice: l.s.warn})
		if err != nil {
			return err
		}
		sinks = append(sinks, capture.Redact(rec, &session, redaction))
		l.ends = append(l.ends, func() error {
			ctx, cancel := context.WithTimeout(context.Background(), closing)
			defer cancel()
			return rec.Close(ctx)
		})
	}
	if len(sinks) > 0 {
		l.publisher = publish.New(sinks, &l.s.secrets)
	}
	return nil
}

// openTap opens the tap. A broker works without one.
func (l *lookout) openTap(session capture.Session) capture.Writer {
	hub := tap.NewHub(session, tap.Options{})
	l.ends = append(l.ends, hub.Close)
	dir, err := tap.Dir(l.s.Getenv)
	if err == nil {
		command := []string{"serve"}
		for _, arg := range l.s.Operands {
			command = append(command, string(l.s.secrets.Hide([]byte(arg))))
		}
		info := tap.Info{Pid: os.Getpid(), Name: "serve", Command: command, Controller: session.Controller, Unit: session.Unit, Started: session.Created}
		var server *tap.Server
		if server, err = tap.Listen(dir, info, hub, nil); err == nil {
			l.ends = append(l.ends, server.Close)
			return hub
		}
	}
	l.s.warn(fmt.Sprintf("there is no tap: %v", err))
	return hub
}

// openFile opens a file that lines are written to.
func (l *lookout) openFile(name string, open func(string) (*os.File, error)) (io.Writer, error) {
	if name == "-" {
		return l.s.Stdout, nil
	}
	f, err := open(name)
	if err == nil {
		l.ends = append(l.ends, f.Close)
	}
	return f, err
}

// openFailures has a line written for each call that fails.
func (l *lookout) openFailures() error {
	if !l.s.c.Bool("quiet") {
		l.watchers = append(l.watchers, failures{l.s.log})
	}
	return nil
}

// failures logs each call that failed. A prompt or an answer is in none of its lines.
type failures struct{ log *slog.Logger }

func (f failures) Ended(c *broker.Call, r *broker.Report) {
	if r.Outcome != broker.Failed && r.Outcome != broker.Refused {
		return
	}
	about := []any{"door", c.Door, "model", cmp.Or(c.Name, c.Model), "error", broker.Message(r.Err)}
	var pe *provider.Error
	if errors.As(r.Err, &pe) && len(c.Hops) > 0 {
		about = append(about, "provider", c.Hops[len(c.Hops)-1].Provider, "cause", pe.Cause.String())
		if pe.Status != 0 {
			about = append(about, "status", pe.Status)
		}
		about = append(about, "detail", pe.Err)
	}
	f.log.Error("call failed", about...)
}

func (l *lookout) openLog() error {
	name := l.s.c.String("log")
	if name == "" {
		return nil
	}
	w, err := l.openFile(name, output.Append)
	if err != nil {
		return err
	}
	log := observe.NewLog(l.s.secrets.Writer(w), l.s.c.Bool("log-prompts"))
	l.watchers = append(l.watchers, log)
	l.ends = append(l.ends, log.Err)
	return nil
}

func (l *lookout) openCalls() error {
	name := l.s.c.String("calls")
	if name == "" {
		return nil
	}
	w, err := l.openFile(name, output.Create)
	if err != nil {
		return err
	}
	calls := observe.NewCalls(l.s.secrets.Writer(w), rlm.AppendCompletion)
	l.watchers = append(l.watchers, calls)
	l.ends = append(l.ends, calls.Err)
	return nil
}

func (l *lookout) openSpans() error {
	url := l.s.c.String("otlp")
	if url == "" {
		return nil
	}
	header, err := observe.Headers(cmp.Or(l.s.Getenv("OTEL_EXPORTER_OTLP_TRACES_HEADERS"), l.s.Getenv("OTEL_EXPORTER_OTLP_HEADERS")))
	if err != nil {
		return fmt.Errorf("OTEL_EXPORTER_OTLP_HEADERS: %w", err)
	}
	for _, values := range header {
		l.s.secrets.Add(values...)
	}
	spans, err := observe.NewSpans(url, header, &l.s.secrets)
	if err != nil {
		return usagef("--otlp %s: %w", url, err)
	}
	l.watchers = append(l.watchers, spans)
	l.trace = observe.Traceparent
	l.ends = append(l.ends, func() error {
		ctx, cancel := context.WithTimeout(context.Background(), spansTime)
		defer cancel()
		if err := spans.Close(ctx); err != nil {
			l.s.warn(err.Error())
		}
		return nil
	})
	return nil
}

// spansTime is how long the last spans may take. It is well below shutdownTime.
const spansTime = 2 * time.Second

// watcher returns who is told of calls, nil if nobody is.
func (l *lookout) watcher() broker.Watcher {
	if len(l.watchers) == 0 {
		return nil
	}
	return l.watchers
}
