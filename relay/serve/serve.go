// Package serve runs relays: a single one, one for each controller, or several that share
// a unit.
package serve

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/relay"
	"github.com/wirectl/wirectl/relay/httpproxy"
	"github.com/wirectl/wirectl/transport"
	"github.com/wirectl/wirectl/transport/mcphttp"
)

// A Server relays between controllers and a unit, and counts the traffic.
type Server struct {
	Unit transport.Endpoint
	// Relay is the template for each relay; the server sets the ends and Conn.
	Relay relay.Config
	// Altered is called before the first change of a frame; it may be nil.
	Altered func()

	mu     sync.Mutex
	total  relay.Result
	relays int
	conns  int // accepted controllers
}

// between returns the configuration of a relay.
func (s *Server) between(controller, unit transport.Conn, conn int) relay.Config {
	cfg := s.Relay
	cfg.Controller, cfg.Unit, cfg.Conn, cfg.Name = controller, unit, conn, s.Unit.String()
	return cfg
}

// nextConn numbers a connection.
func (s *Server) nextConn() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conns++
	return s.conns
}

// addResult adds the result of a relay.
func (s *Server) addResult(r *relay.Result) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.relays++
	t := &s.total
	t.Exit = r.Exit
	t.ToUnit.Frames += r.ToUnit.Frames
	t.ToUnit.Bytes += r.ToUnit.Bytes
	t.ToController.Frames += r.ToController.Frames
	t.ToController.Bytes += r.ToController.Bytes
	if r.Worst.For > t.Worst.For {
		t.Worst = r.Worst
	}
}

// run runs a relay and adds its result.
func (s *Server) run(ctx context.Context, cfg relay.Config) (relay.Result, error) {
	result, err := relay.Run(ctx, cfg)
	s.addResult(&result)
	return result, err
}

// runBeside relays one of several controllers. Its failure ends no other, and it gets no
// signals.
func (s *Server) runBeside(ctx context.Context, cfg relay.Config) {
	cfg.Signals = nil
	if _, err := s.run(ctx, cfg); err != nil && !errors.Is(err, context.Canceled) {
		s.Relay.Warn(err.Error())
	}
}

// Bridge makes a unit that is reached over HTTP record that, as a proxy does, instead of the
// lines that stand for it. The caller must stop it after the relay.
func (s *Server) Bridge(e *mcphttp.Endpoint) (stop func()) {
	sink := s.Relay.Sink
	if sink == nil {
		return func() {}
	}
	taps := httpproxy.NewTaps(sink.Write, s.Relay.Limit)
	e.Tap = func() mcphttp.Tap {
		return taps.Connect(s.nextConn(), capture.Record{Kind: capture.Opened, Time: time.Now(), Text: []byte(e.String())})
	}
	s.Relay.Sink = relay.NewFan(s.Relay.Warn, aside{sink})
	return taps.Close
}

// Note records a remark.
func (s *Server) Note(text string) {
	if s.Relay.Sink != nil {
		s.Relay.Sink.Write(&capture.Record{Kind: capture.Note, Time: time.Now(), Text: []byte(text)})
	}
}

// Exited reports whether the unit of the last relay was a command, and has ended.
func (s *Server) Exited() bool { return s.total.Exit != nil }

// Summary describes the traffic and includes the judged text; "" if there was no relay.
func (s *Server) Summary(judged string) string {
	if s.relays == 0 {
		return ""
	}
	t := &s.total
	var b strings.Builder
	if s.relays > 1 {
		fmt.Fprintf(&b, "%s: ", render.Count(int64(s.relays), "connection"))
	}
	fmt.Fprintf(&b, "%s, %s to the unit; %s, %s back", render.Count(t.ToUnit.Frames, "frame"), render.Count(t.ToUnit.Bytes, "byte"),
		render.Count(t.ToController.Frames, "frame"), render.Count(t.ToController.Bytes, "byte"))
	b.WriteString(judged)
	if t.Worst.For >= s.Relay.Patience {
		fmt.Fprintf(&b, "; worst stall: %v", t.Worst)
	}
	return b.String()
}

// Once relays between one controller and the unit.
func (s *Server) Once(ctx context.Context, controller transport.Endpoint) (relay.Result, error) {
	unit, err := s.reach(ctx, s.Unit, 0)
	if err != nil {
		return relay.Result{}, err
	}
	conn, err := controller.Dial(ctx)
	if err != nil {
		unit.Close()
		return relay.Result{}, err
	}
	return s.run(ctx, s.between(conn, unit, 0))
}

// reach connects to a unit. If that fails, it is all that happens on a connection.
func (s *Server) reach(ctx context.Context, e transport.Endpoint, conn int) (transport.Conn, error) {
	unit, err := e.Dial(ctx)
	sink := s.Relay.Sink
	if err == nil || sink == nil || ctx.Err() != nil {
		return unit, err
	}
	status := 1
	if failed, ok := errors.AsType[*transport.StartError](err); ok {
		status = failed.Status
	}
	at := frame.Frame{Conn: conn}
	for _, r := range []capture.Record{
		{Kind: capture.Opened, Text: []byte(s.Unit.String()), Frame: at},
		{Kind: capture.Exited, Status: status, Text: []byte(err.Error()), Frame: at},
		{Kind: capture.HalfClosed, Frame: frame.Frame{Conn: conn, Dir: frame.U2C}},
		{Kind: capture.HalfClosed, Frame: frame.Frame{Conn: conn, Dir: frame.C2U}},
	} {
		r.Time = time.Now()
		sink.Write(&r)
	}
	return nil, err
}

// Serve relays between each controller and a unit of its own, until a signal, which is in
// the result.
func (s *Server) Serve(ctx context.Context, l transport.Listener) (relay.Result, error) {
	return s.until(ctx, func(ctx context.Context, serving *sync.WaitGroup) error {
		for {
			controller, err := l.Accept(ctx)
			if err != nil {
				return err
			}
			conn := s.nextConn()
			serving.Go(func() { s.connect(ctx, controller, conn) })
		}
	})
}

// Proxy relays between HTTP clients and the server that is the unit, until a signal, which is
// in the result.
func (s *Server) Proxy(ctx context.Context, cfg httpproxy.Config) (relay.Result, error) {
	cfg.Sink, cfg.Limit, cfg.Warn = s.Relay.Sink, s.Relay.Limit, s.Relay.Warn
	return s.until(ctx, func(ctx context.Context, _ *sync.WaitGroup) error {
		result, err := httpproxy.Serve(ctx, cfg)
		s.addResult(&relay.Result{ToUnit: result.ToUnit, ToController: result.ToController})
		return err
	})
}

// until serves until it fails, or until a signal.
func (s *Server) until(ctx context.Context, serve func(context.Context, *sync.WaitGroup) error) (result relay.Result, err error) {
	ctx, cancel := context.WithCancel(ctx)
	var serving sync.WaitGroup
	defer serving.Wait()
	defer cancel()
	failed := make(chan error, 1)
	serving.Go(func() { failed <- serve(ctx, &serving) })
	result.Signal, err = Signalled(ctx, s.Relay.Signals, failed)
	return result, err
}

// Signalled waits for a signal that ends a process, for an error, or for ctx.
func Signalled(ctx context.Context, signals <-chan os.Signal, failed <-chan error) (os.Signal, error) {
	for {
		select {
		case err := <-failed:
			return nil, err
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case sig := <-signals:
			if relay.Terminates(sig) {
				return sig, nil
			}
		}
	}
}

// connect relays one controller.
func (s *Server) connect(ctx context.Context, controller transport.Conn, conn int) {
	unit, err := s.reach(ctx, transport.Onward(s.Unit, controller), conn)
	if err != nil {
		_ = transport.Abort(controller, err)
		s.Relay.Warn(err.Error())
		return
	}
	if controller, err = transport.Answer(controller, unit); err != nil {
		_ = transport.Abort(unit, err)
		s.Relay.Warn(err.Error())
		return
	}
	s.runBeside(ctx, s.between(controller, unit, conn))
}
