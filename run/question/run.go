// Package question runs wirectl rlm: it reads settings, connects packages rlm and broker, loads the
// context, and opens and closes the interpreter in its sandbox, the log and the output.
package question

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/wirectl/wirectl/broker"
	"github.com/wirectl/wirectl/broker/config"
	"github.com/wirectl/wirectl/broker/host"
	"github.com/wirectl/wirectl/broker/observe"
	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/capture/tap"
	"github.com/wirectl/wirectl/internal/cmdline"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/internal/prices"
	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/rlm"
	"github.com/wirectl/wirectl/rlm/env"
	"github.com/wirectl/wirectl/rlm/prompt"
	"github.com/wirectl/wirectl/rlm/runlog"
)

// A World is the surroundings of a run.
type World struct {
	Getenv  func(string) string
	Stdin   io.Reader
	Bytes   io.Writer    // for the answer
	JSON    io.Writer    // for output other than the answer alone
	Say     func(string) // prints a line for a person
	Version string       // of wirectl
	AtKill  func(func()) // registers a function for when the process is killed
}

// A run is one question.
type run struct {
	*Settings
	World
	config  *config.Config
	hide    func(string) string
	seen    *observe.Publisher // may be nil
	workers workers
	dir     string // for files of the run
	o       rlm.Options

	linger          func(time.Duration)
	ready           open   // the opener of interpreters, if it is known already
	logPath         string // "" without a log
	client, account string // of the run's calls
}

// Ask answers a question with the models of a host, and prints the answer. Flags take precedence
// over the host's configuration. The finish reason says whether the answer is final; it is ""
// if the run failed. The error is a [*cmdline.Error] if the settings are invalid.
func Ask(ctx context.Context, o host.Options, flags map[string][]string, question string, w World) (finish rlm.FinishReason, err error) {
	o.Program, o.Observers.Name, o.Observers.Controller = nil, "rlm", "wirectl rlm"
	s := &Settings{Output: strings.Join(flags["output"], "")}
	h, err := host.Load(o)
	if err == nil {
		s, err = Read(Values(h.Config.RLM, flags))
	}
	switch {
	case err != nil:
		err = cmdline.Errorf("%w", err)
	case question == "" && len(s.Context) == 0:
		err = cmdline.Errorf("no question: write one, or name a file with --context FILE")
	default:
		h.Capture(s.Capture)
		if s.Control {
			s.Run.Interrupts = &rlm.Interrupts{}
			h.Control(control{s.Run.Interrupts})
		}
		err = h.Inside(func(b *broker.Broker, p *observe.Publisher) (err error) {
			r := &run{Settings: s, World: w, config: h.Config, hide: h.Hide, seen: p, o: s.Run, linger: o.Linger}
			env.RemoveStrays()
			folder, err := env.NewFolder()
			if err != nil {
				return err
			}
			w.AtKill(func() { _ = folder.Remove() })
			r.dir, r.o.Question, r.o.Dir = folder.Path, question, folder.Path
			finish, err = r.askWith(ctx, b)
			return errors.Join(err, folder.Remove())
		})
	}
	if err != nil && ctx.Err() != nil && finish == "" {
		err = errInterrupted
	}
	if err != nil && finish == "" && s.Output == "json" {
		err = errors.Join(err, writeFailure(w.JSON, err))
	}
	return finish, err
}

var errInterrupted = errors.New("interrupted before the first turn")

// runEnd bounds how long an interrupted run takes to end.
const runEnd = 10 * time.Second

func (r *run) askWith(ctx context.Context, b *broker.Broker) (rlm.FinishReason, error) {
	root := r.seen.Open("root", "rlm", "len32")
	defer root.Close()
	if err := r.model(b, root); err != nil {
		return "", err
	}
	r.o.Began = time.Now()
	timed, stop := rlm.WithTimeout(ctx, r.o.Limits.Timeout)
	defer stop()
	size, err := r.load(timed)
	if rlm.TimedOut(timed) {
		r.o.Mode, r.o.Context.Path, r.o.Open = rlm.Code, r.dir, closed // the run ends at once
		return r.do(timed)
	}
	if err != nil {
		return "", err
	}
	r.linger(runEnd)
	end, err := r.prepare(ctx, size)
	if err != nil {
		return "", err
	}
	finish, err := r.do(timed)
	return finish, errors.Join(err, end())
}

// prepare opens the interpreter, the tools and the log. The returned function closes them.
func (r *run) prepare(ctx context.Context, size int64) (end func() error, err error) {
	if r.o.Mode == rlm.Code {
		if r.o.Open, err = r.opener(ctx, size); err != nil {
			return nil, err
		}
	}
	endTools, err := r.tools(ctx)
	if err != nil {
		return nil, err
	}
	if r.o.Metadata.Backend = "wirectl"; r.o.Mode == rlm.ToolsMode {
		r.o.Metadata.EnvironmentType = "tools"
	}
	if r.LogDir == "" {
		return func() error { endTools(); return nil }, nil
	}
	log, err := runlog.Create(r.LogDir, runlog.Options{Hide: r.hide, NewPrompts: r.NewPrompts})
	if err != nil {
		endTools()
		return nil, err
	}
	r.o.Log, r.logPath = log, log.Path()
	return func() error { endTools(); return log.Close() }, nil
}

// do runs, and prints the outcome.
func (r *run) do(ctx context.Context) (rlm.FinishReason, error) {
	report := &reporter{say: r.Say}
	if r.Output == "ndjson" {
		report.events = jsonscan.NewEncoder(r.JSON)
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	r.o.Observe = func(e rlm.Event) {
		r.workers.observe(e)
		if report.observe(e); report.err != nil {
			stop() // nobody reads what the run costs
		}
	}
	out, err := rlm.Run(ctx, r.o)
	report.total(&out)
	r.warn(&out)
	if r.logPath != "" {
		r.Say("the log is " + r.logPath)
	}
	if failed := (*rlm.CellError)(nil); errors.As(err, &failed) && failed.Type == "MemoryError" { // in the context or the setup code
		err = fmt.Errorf("%w: raise --memory", err)
	}
	err = errors.Join(err, r.print(&out, report.err, err != nil))
	if wrong := out.SchemaErr; wrong != nil && out.Finish == rlm.Stop {
		err = errors.Join(err, &SchemaError{wrong})
	} else if wrong != nil && out.Finish != rlm.Cancelled {
		r.Say("warning: " + (&SchemaError{wrong}).Error())
	}
	return out.Finish, err
}

// print prints the answer, which is the best so far if the run was interrupted or has failed.
// The error is err, that of earlier output, or else that of this output.
func (r *run) print(out *rlm.Outcome, err error, failed bool) error {
	switch {
	case r.Output == "json" && !failed:
		err = writeResult(r.JSON, r.o.Question, r.logPath, out)
	case r.Output == "text" && (out.Answer != "" || !failed && out.Finish != rlm.Cancelled):
		_, err = fmt.Fprintln(r.Bytes, out.Answer)
	}
	if err != nil && out.Answer != "" { // which may have cost much
		err = fmt.Errorf("%w; the answer is: %s", err, out.Answer)
	}
	return err
}

// warn reports errors that do not end a run.
func (r *run) warn(out *rlm.Outcome) {
	if out.LogErr != nil {
		r.Say("warning: " + out.LogErr.Error())
	}
}

// A SchemaError says why the answer does not match the schema.
type SchemaError struct{ Err error }

func (e *SchemaError) Error() string {
	return "the answer does not match the schema: " + e.Err.Error()
}

func (e *SchemaError) Unwrap() error { return e.Err }

// model connects the run to the broker, after checking the models in the settings.
func (r *run) model(b *broker.Broker, root *observe.Conn) error {
	list, err := prices.Load(r.Prices, r.Getenv)
	if err != nil {
		return cmdline.Errorf("%w", err)
	}
	m := &model{broker: b, config: r.config, conn: root, prices: list, client: r.client, account: r.account}
	r.o.Root = cmp.Or(r.o.Root, r.config.Broker.Default)
	sub := cmp.Or(r.o.Sub, r.o.Root)
	allowed := append([]string{r.o.Root, sub}, r.Allow...)
	r.o.Check = func(name string) error {
		if len(r.Allow) > 0 && !slices.Contains(allowed, name) {
			return fmt.Errorf("model %q may not be used: use %s", name, strings.Join(r.Allow, ", "))
		}
		return m.checkName(name, r.o.Limits.Cost > 0)
	}
	names := allowed
	if summarize, ok := r.o.Compressor.(rlm.Summarize); ok {
		names = append(names, string(summarize))
	}
	for _, name := range names {
		err := m.checkName(name, r.o.Limits.Cost > 0)
		if errors.Is(err, errNoPrice) {
			return cmdline.Errorf("%w: add price: {input: DOLLARS, output: DOLLARS} to it in the configuration, or add it to %s", err, cmp.Or(r.Prices, prices.Path(r.Getenv)))
		}
		if err != nil {
			return cmdline.Errorf("%w", err)
		}
	}
	r.o.Model = m
	r.o.Facts.SubChars = 3 * int64(m.Window(sub)) // a token has about 4 characters
	return nil
}

// load loads the context, and returns its size in bytes.
func (r *run) load(ctx context.Context) (int64, error) {
	if len(r.Context) == 0 {
		return int64(len(r.o.Question)), nil
	}
	l, err := rlm.Load(ctx, r.dir, r.Context, r.Stdin)
	if wrong := (*rlm.NameError)(nil); errors.As(err, &wrong) {
		return 0, cmdline.Errorf("%w", err)
	}
	if err != nil {
		return 0, err
	}
	if skipped := l.Skipped.String(); skipped != "" {
		r.Say("not in the context: " + skipped)
	}
	r.Say(fmt.Sprintf("context: %s, %s in %s", l.Shape.Type, render.Count(l.Shape.Chars, "character"), render.Count(l.Shape.Chunks, "chunk")))
	r.o.Context, r.o.Shape = l.Context, prompt.Shape(l.Shape)
	return l.Size, nil
}

// workers are the connections to a run's interpreters, by run or child run.
type workers struct {
	mu sync.Mutex
	of map[string]*observe.Conn
}

// open publishes a connection to the interpreter of a run.
func (w *workers) open(p *observe.Publisher, ref string) *observe.Conn {
	c := p.Open("worker of "+ref, "repl", "len32")
	c.Belongs(capture.Place{Run: ref})
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.of == nil {
		w.of = map[string]*observe.Conn{}
	}
	w.of[ref] = c
	return c
}

// observe publishes the places of cells and calls in the run.
func (w *workers) observe(e rlm.Event) {
	at := strings.LastIndex(e.Ref, "/t")
	if e.Done || at < 0 || e.Kind != rlm.EventCell && e.Query == "" {
		return
	}
	w.mu.Lock()
	c := w.of[e.Ref[:at]]
	w.mu.Unlock()
	c.Belongs(capture.Place{Run: e.Ref, ID: json.RawMessage(e.Query), Next: e.Kind == rlm.EventCell})
}

// A control lets viewers interrupt.
type control struct{ *rlm.Interrupts }

// Control implements [tap.Controller]. The id of a cancel is a Ref.
func (c control) Control(_ context.Context, cmd tap.Command) ([]tap.Note, error) {
	var ref string
	switch {
	case cmd.Do == tap.Waiting:
		return nil, nil
	case cmd.Do != tap.Cancel:
		return nil, errors.New("a run of rlm takes only the command cancel")
	case json.Unmarshal(cmd.ID, &ref) != nil:
		return nil, errors.New(`name what is to be interrupted by its place, such as "RUN/t3/c1"`)
	}
	return nil, c.Interrupt(ref)
}
