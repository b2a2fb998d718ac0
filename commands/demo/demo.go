// Package demo plays some seconds of agents at work, for people who have only wirectl: an MCP
// client and server, and a streaming model, real ones on loopback, with relays in between.
// Captions explain them. Steps wait for events rather than the clock, so the play is the same at
// any pace and on a busy machine.
package demo

import (
	"context"
	"fmt"
	"net/url"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/wirectl/wirectl/broker"
	"github.com/wirectl/wirectl/broker/config"
	"github.com/wirectl/wirectl/broker/door/openai"
	"github.com/wirectl/wirectl/broker/door/web"
	"github.com/wirectl/wirectl/broker/host"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/wait"
	"github.com/wirectl/wirectl/protocol/jsonrpc"
	"github.com/wirectl/wirectl/relay"
	"github.com/wirectl/wirectl/relay/httpproxy"
	"github.com/wirectl/wirectl/transport"
)

// models is the broker's configuration: one slow model.
const models = `default: small
providers:
  mock:
    kind: mock
    mock: {latency: %s, delay: %s, script: [{when: "", say: %q}]}
models:
  small: {provider: mock}
`

// Run plays the demonstration. Frames go to seen, and captions to say. The pace is 1 for people;
// a smaller one is faster. It returns when the play or ctx ends.
func Run(ctx context.Context, seen *relay.Fan, pace float64, say func(caption string)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s := &stage{seen: seen, pace: pace, caption: say, late: make(chan struct{})}
	s.relays, s.ctx = errgroup.WithContext(ctx)
	err := s.play()
	if left := ctx.Err(); left != nil {
		err = left
	}
	cancel()
	s.relays.Wait() //nolint:errcheck // errors of relays that are cut off do not matter
	return err
}

// A stage has everything that runs for the play.
type stage struct {
	ctx     context.Context
	seen    *relay.Fan
	pace    float64
	caption func(string)
	relays  *errgroup.Group
	late    chan struct{} // closed when the cancelled tool has answered
	once    sync.Once
}

// after is a duration at the pace of the play.
func (s *stage) after(d time.Duration) time.Duration { return time.Duration(float64(d) * s.pace) }

// pause waits at the pace of the play.
func (s *stage) pause(d time.Duration) error { return wait.For(s.ctx, s.after(d)) }

func (s *stage) play() error {
	api, closeBroker, err := s.openModel()
	if err != nil {
		return err
	}
	defer closeBroker()
	files, err := s.openFiles()
	if err != nil {
		return err
	}
	return s.script(files, api)
}

const anyPort = "tcp://127.0.0.1:0"

// openModel starts a broker, and returns the address of a relay in front of it.
func (s *stage) openModel() (base string, stop func(), err error) {
	text := fmt.Appendf(nil, models, s.after(400*time.Millisecond), s.after(90*time.Millisecond), answer)
	cfg, err := config.Parse("demo", text, config.OSEnv())
	if err != nil {
		return "", nil, err
	}
	b, err := broker.New(cfg.Broker, nil)
	if err != nil {
		return "", nil, err
	}
	svc, err := host.OpenDoors(s.ctx, []host.Door{{Name: openai.Name, Addr: "127.0.0.1:0", Server: openai.New(b, nil, web.Access{})}}, false)
	if err != nil {
		return "", nil, err
	}
	svc.Start(s.ctx)
	stop = func() { svc.Shutdown(s.ctx) }
	l, err := transport.Listen(s.ctx, anyPort, transport.Options{})
	if err != nil {
		return "", stop, err
	}
	listening, err := url.Parse(l.Addr())
	if err != nil {
		return "", stop, err
	}
	target := &url.URL{Scheme: "http", Host: svc.Addr(openai.Name)}
	s.relays.Go(func() error {
		_, err := httpproxy.Serve(s.ctx, httpproxy.Config{Listener: l, Target: target, Sink: s.seen})
		return err
	})
	return "http://" + listening.Host, stop, nil
}

// openFiles starts the MCP server, and returns the client's end of a relay in front of it.
func (s *stage) openFiles() (transport.Conn, error) {
	client, above, err := s.pair()
	if err != nil {
		return nil, err
	}
	below, server, err := s.pair()
	if err != nil {
		return nil, err
	}
	s.relays.Go(func() error { return (&files{stage: s, conn: server}).serveLines() })
	s.relays.Go(func() error {
		_, err := relay.Run(s.ctx, relay.Config{
			Controller: above, Unit: below, Sink: s.seen, Conn: 100, Name: "files",
			Framing: frame.Line, Protocol: jsonrpc.MCP,
		})
		return err
	})
	return client, nil
}

// pair returns the two ends of a connection.
func (s *stage) pair() (dialled, accepted transport.Conn, err error) {
	l, err := transport.Listen(s.ctx, anyPort, transport.Options{})
	if err != nil {
		return nil, nil, err
	}
	defer l.Close()
	to, err := transport.Parse([]string{l.Addr()}, transport.Options{})
	if err != nil {
		return nil, nil, err
	}
	if dialled, err = to.Dial(s.ctx); err != nil {
		return nil, nil, err
	}
	if accepted, err = l.Accept(s.ctx); err != nil {
		dialled.Close()
	}
	return dialled, accepted, err
}
