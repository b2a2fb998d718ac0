// Package demo is half a minute of agents at work, for who has nothing but
// wirectl: a controller and two units over latis, and a broker that one of the
// units asks over rlm, all of them real, on loopback, with relays in between. It
// has what the monitor is for: ids in flight at once, cancels that are obeyed,
// crossed and ignored, a unit that does not read, a broken rule.
package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/wirectl/wirectl/broker"
	"github.com/wirectl/wirectl/broker/config"
	rlmdoor "github.com/wirectl/wirectl/broker/door/rlm"
	"github.com/wirectl/wirectl/broker/service"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/wait"
	"github.com/wirectl/wirectl/peer/client"
	"github.com/wirectl/wirectl/peer/unit"
	"github.com/wirectl/wirectl/protocol/latis"
	"github.com/wirectl/wirectl/protocol/rlm"
	"github.com/wirectl/wirectl/relay"
	"github.com/wirectl/wirectl/transport"
)

// models is the broker's configuration: a model that takes its time.
const models = `default: small
providers:
  mock:
    kind: mock
    mock: {prefix: "I think: ", latency: %s}
models:
  small: {provider: mock}
`

// Run plays the demonstration and hands what passes to seen. The pace is 1 for
// people; a smaller one is faster. It returns when all has been said, or ctx
// ends.
func Run(ctx context.Context, seen *relay.Fan, pace float64) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s := &stage{seen: seen, pace: pace}
	s.relays, s.ctx = errgroup.WithContext(ctx)
	err := s.play()
	if played := ctx.Err(); played != nil {
		err = played
	}
	cancel()
	s.relays.Wait() //nolint:errcheck // what a relay says when it is cut off is no news
	return err
}

// A stage is where the demonstration plays: everything that runs on it.
type stage struct {
	ctx    context.Context
	seen   *relay.Fan
	pace   float64
	relays *errgroup.Group
	conns  atomic.Int64
}

// after is a time of the play.
func (s *stage) after(d time.Duration) time.Duration { return time.Duration(float64(d) * s.pace) }

func (s *stage) play() error {
	asked, closeBroker, err := s.openBroker()
	if err != nil {
		return err
	}
	defer closeBroker()
	thinker := &thinker{stage: s, broker: client.NewRLM(asked, client.NewWatch(rlm.Protocol, nil))}
	good, err := s.openUnit("thinker", unit.New(thinker, unit.Options{}))
	if err != nil {
		return err
	}
	deaf, err := unit.MisbehaviourNamed("cancel-ignored")
	if err != nil {
		return err
	}
	bad, err := s.openUnit("stubborn", unit.New(thinker, unit.Options{Misbehave: deaf}))
	if err != nil {
		return err
	}
	lazy, err := s.openLazy()
	if err != nil {
		return err
	}
	return s.script(good, bad, lazy)
}

// openBroker starts a broker and returns the way to it, which is seen.
func (s *stage) openBroker() (transport.Endpoint, func(), error) {
	cfg, err := config.Parse("demo", fmt.Appendf(nil, models, s.after(400*time.Millisecond)), config.OSEnv())
	if err != nil {
		return nil, nil, err
	}
	b, err := broker.New(cfg.Broker, nil)
	if err != nil {
		return nil, nil, err
	}
	svc, err := service.Open(s.ctx, []service.Door{{Name: "rlm", Addr: "127.0.0.1:0", Server: rlmdoor.New(b, nil)}}, false)
	if err != nil {
		return nil, nil, err
	}
	svc.Start(s.ctx)
	ask, err := s.through("broker", "tcp://"+svc.Addr("rlm"), relay.Config{Framing: frame.Len32, Protocol: rlm.Protocol})
	return ask, func() { svc.Shutdown(s.ctx) }, err
}

// openUnit serves a unit and returns the way to it, which is seen.
func (s *stage) openUnit(name string, u *unit.Unit) (transport.Endpoint, error) {
	l, err := transport.Listen(s.ctx, anyPort, transport.Options{})
	if err != nil {
		return nil, err
	}
	s.relays.Go(func() error { return u.Listen(s.ctx, l) })
	return s.through(name, l.Addr(), relay.Config{Framing: frame.Len32, Protocol: latis.Protocol})
}

const anyPort = "tcp://127.0.0.1:0"

// noticed is how long a unit goes on not reading, at any pace, until that has been
// noticed: where the system's buffers take everything, it never is.
const noticed = 10 * time.Second

// openLazy is openUnit for a unit that does not read for a while, which its relay
// tells of.
func (s *stage) openLazy() (transport.Endpoint, error) {
	l, err := transport.Listen(s.ctx, anyPort, transport.Options{})
	if err != nil {
		return nil, err
	}
	u := unit.New(unit.Echo{}, unit.Options{})
	told, tell := context.WithCancel(s.ctx)
	s.relays.Go(func() error {
		defer tell()
		defer l.Close()
		nc, err := l.Accept(s.ctx)
		if err != nil {
			return nil //nolint:nilerr // the play ended without it
		}
		s.wait(s.ctx, 8*time.Second)
		_ = wait.For(told, noticed)
		return u.Serve(s.ctx, nc)
	})
	return s.through("lazy", l.Addr(), relay.Config{
		Framing: frame.Len32, Protocol: latis.Protocol,
		Warn: func(string) { tell() },
	})
}

// through puts a relay before an address and returns the way to the relay.
func (s *stage) through(name, address string, cfg relay.Config) (transport.Endpoint, error) {
	target, err := transport.Parse([]string{address}, transport.Options{})
	if err != nil {
		return nil, err
	}
	l, err := transport.Listen(s.ctx, anyPort, transport.Options{})
	if err != nil {
		return nil, err
	}
	cfg.Sink, cfg.Name, cfg.Patience = s.seen, name, s.after(2*time.Second)
	s.relays.Go(func() error {
		defer l.Close()
		for {
			nc, err := l.Accept(s.ctx)
			if err != nil {
				return nil //nolint:nilerr // the play has ended
			}
			s.relays.Go(func() error { return s.between(nc, target, cfg) })
		}
	})
	return transport.Parse([]string{l.Addr()}, transport.Options{})
}

func (s *stage) between(controller transport.Conn, target transport.Endpoint, cfg relay.Config) error {
	u, err := target.Dial(s.ctx)
	if err != nil {
		controller.Close()
		return err
	}
	cfg.Controller, cfg.Unit, cfg.Conn = controller, u, int(s.conns.Add(1))
	_, err = relay.Run(s.ctx, cfg)
	if over(s.ctx) {
		return nil
	}
	return err
}

func over(ctx context.Context) bool { return ctx.Err() != nil }

// wait waits for a time of the play, or for the end of ctx.
func (s *stage) wait(ctx context.Context, d time.Duration) { _ = wait.For(ctx, s.after(d)) }

// hasty is answered by one word, and its answer ends soon after, at any pace: a
// cancel in between has crossed the end.
const (
	hasty     = "done?"
	crossTime = 100 * time.Millisecond
)

// A thinker answers word by word. What begins with "ask" it asks a model.
type thinker struct {
	*stage
	broker *client.RLM
}

// Answer answers p, as unit.Agent wants it.
func (t *thinker) Answer(ctx context.Context, p *unit.Prompt, emit func(string) error) (map[string]string, error) {
	text := p.Content
	if rest, ok := strings.CutPrefix(text, "ask "); ok {
		thought, err := t.ask(ctx, rest)
		if err != nil {
			return nil, err
		}
		text = thought
	}
	for word := range strings.FieldsSeq(text) {
		t.wait(ctx, 220*time.Millisecond)
		if err := context.Cause(ctx); err != nil {
			return nil, err
		}
		if err := emit(word + " "); err != nil {
			return nil, err
		}
	}
	if text == hasty {
		_ = wait.For(ctx, crossTime)
	}
	return map[string]string{"words": fmt.Sprint(len(strings.Fields(text)))}, nil
}

func (t *thinker) ask(ctx context.Context, question string) (string, error) {
	prompt, err := json.Marshal(question)
	if err != nil {
		return "", err
	}
	var answer strings.Builder
	err = t.broker.Ask(client.RLMRequest{Model: "small", Prompts: []json.RawMessage{prompt}})(ctx, func(p client.Part) {
		if !p.Aside {
			answer.WriteString(p.Text)
		}
	})
	return answer.String(), err
}
