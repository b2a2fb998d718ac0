package commands

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/capture/recorder"
	"github.com/wirectl/wirectl/capture/tap"
	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/decode/convert"
	"github.com/wirectl/wirectl/decode/judge"
	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/relay"
	"github.com/wirectl/wirectl/relay/serve"
)

// A watch is all that sees what passes a relay: the tap, the capture, and the
// judge, who prints and counts.
type watch struct {
	v        *relaying
	fan      *relay.Fan  // nil if nobody watches
	hub      *tap.Hub    // nil if there is no tap
	tap      *tap.Server // nil if there is none
	gate     *relay.Gate // nil if nothing is to be changed
	recorder *recorder.Recorder
	judge    *judge.Judge  // nil if nobody wants to know
	server   *serve.Server // that relays
}

// newWatch returns what the flags ask for.
func (v *relaying) newWatch() (*watch, error) {
	w := &watch{v: v}
	s := capture.Session{Created: time.Now(), Controller: "stdio", Unit: v.unit.String(), Altered: v.alter.fromTheStart()}
	if listen := v.c.String("listen"); listen != "" {
		s.Controller = listen
	}
	if v.cfg.Framing != nil {
		s.Framing = v.cfg.Framing.Name()
	}
	if v.cfg.Protocol != nil {
		s.Protocol = v.cfg.Protocol.Name()
	}
	var sinks []capture.Writer
	tapped := !v.c.Bool("no-tap")
	if tapped {
		w.hub = tap.NewHub(s, tap.Options{})
		sinks = append(sinks, w.hub)
	}
	if v.c.Bool("print") || !v.c.Bool("quiet") {
		show, cfg, err := v.shown()
		if err != nil {
			return nil, err
		}
		w.judge = judge.New(s, v.Stderr, cfg, show)
		sinks = append(sinks, w.judge)
	}
	if name := v.c.String("capture"); name != "" {
		sink, err := w.record(name, s)
		if err != nil {
			return nil, err
		}
		sinks = append(sinks, sink)
	}
	if len(sinks) > 0 {
		w.fan = relay.NewFan(v.warn, sinks...)
	}
	w.gate = w.newGate(v.alter)
	if tapped {
		w.tap = w.open(s)
	}
	w.server = &serve.Server{Unit: v.unit, Altered: w.altered, Relay: relay.Config{
		Sink: w.fan, Gate: w.gate,
		Framing: v.cfg.Framing, Protocol: v.cfg.Protocol, Limit: v.cfg.Limit,
		Stderr: v.Stderr, Grace: v.c.Duration("grace"), Patience: v.c.Duration("patience"),
		Signals: v.signals, Warn: v.warn,
	}}
	return w, nil
}

// shown reads what the judge prints.
func (v *relaying) shown() (decode.View, decode.Config, error) {
	cfg := v.cfg
	if calls := cfg.Calls; calls != nil && calls.Schema != nil {
		cfg.Notice = v.warn // of methods that it lacks
	}
	if !v.c.Bool("print") {
		return judge.Silent, cfg, nil
	}
	colorful, err := v.colorful(v.c.String("color"), v.Stderr)
	return decode.Text{Width: v.width(), Clock: decode.Relative, Style: render.Palette(colorful)}.View(), cfg, err
}

// open opens the tap. A relay works without one.
func (w *watch) open(s capture.Session) *tap.Server {
	dir, err := tap.Dir(w.v.Getenv)
	if err == nil {
		var server *tap.Server
		info := tap.Info{
			Pid:  os.Getpid(),
			Name: cmp.Or(w.v.c.String("name"), tapName(w.v.Endpoint)), Command: append([]string{"relay"}, w.v.Endpoint...),
			Controller: s.Controller, Unit: s.Unit, Protocol: s.Protocol, Framing: s.Framing, Started: s.Created,
		}
		var control tap.Controller
		if a := w.v.alter; a != nil && a.control {
			control = w.gate
		}
		if server, err = tap.Listen(dir, info, w.hub, control); err == nil {
			return server
		}
	}
	w.v.warn(fmt.Sprintf("there is no tap: %v", err))
	return nil
}

// runners run the program that a later word names.
var runners = []string{"npx", "uvx", "bunx", "node", "deno", "bun", "python", "python3", "uv", "go", "run", "env", "sh", "bash"}

// tapName names a tap after the unit: its program, or else its address.
func tapName(endpoint []string) string {
	name := ""
	for _, word := range endpoint {
		if strings.HasPrefix(word, "-") || word == "exec" {
			continue
		}
		word = strings.TrimSuffix(word, "/")
		name = word[strings.LastIndexByte(word, '/')+1:]
		if !slices.Contains(runners, name) {
			break
		}
	}
	return cmp.Or(name, "relay")
}

// checkCapture refuses a --capture whose name promises another format.
func checkCapture(c *cli.Context) error {
	name := c.String("capture")
	if format, _ := convert.FormatOf(name); format == "" || format == convert.Pcapng {
		return nil
	}
	return usagef("--capture writes pcapng, and %s is no name for that: end it with .pcapng, and wirectl convert makes the other of it", name)
}

// record begins a capture.
func (w *watch) record(name string, s capture.Session) (capture.Writer, error) {
	c := w.v.c
	x, err := redactionOf(c, w.v.cfg, c.Bool("redact-secrets"))
	if err != nil {
		return nil, err
	}
	x.Blind = capture.BlindSpot(w.v.warn)
	if !x.IsEmpty() {
		s = x.Session(s)
	}
	cfg := recorder.Config{
		Session: s, Label: convert.Labels(w.v.cfg.Protocol), Policy: recorder.Policy(c.String("capture-policy")),
		SplitSize: c.Int64("split-size"), Keep: c.Int("keep"), Notice: w.v.warn,
	}
	if name == "-" {
		w.recorder, err = recorder.New(w.v.Stdout, cfg)
	} else {
		w.recorder, err = recorder.Create(name, cfg)
	}
	if err != nil || x.IsEmpty() {
		return w.recorder, err
	}
	return capture.Redact(w.recorder, &s, x), nil
}

// closing is how long the capture and the judge may take for what is left. A
// signal makes an end of it, unless it is the one that ended the relay, which may
// come again within the time of repeating: from the terminal, and from a program
// such as timeout that passes it on.
const (
	closing   = 10 * time.Second
	repeating = 500 * time.Millisecond
)

// end ends watching, and says what was seen.
func (w *watch) end() error {
	if w.hub != nil {
		w.hub.Close()
	}
	if w.tap != nil {
		w.tap.Close()
	}
	ctx, cancel := context.WithTimeout(context.Background(), closing)
	var signalled sync.WaitGroup
	signalled.Go(func() {
		for began := time.Now(); ctx.Err() == nil; {
			_, _ = serve.Signalled(ctx, w.v.signals, nil)
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
	if w.judge != nil {
		w.judge.End(ctx, w.v.warn)
		if summary := w.server.Summary(w.judge.Summary()); summary != "" {
			w.v.warn(summary)
		}
	}
	return err
}
