package commands

import (
	"context"
	"log/slog"
	"sync/atomic"

	"github.com/wirectl/wirectl/broker"
	"github.com/wirectl/wirectl/broker/door"
	"github.com/wirectl/wirectl/broker/door/web"
	"github.com/wirectl/wirectl/peer/unit"
)

// latisDoor returns what serves the connections of the doors for latis: a unit
// whose agent is the broker. A session of it is resumed on any of them.
func latisDoor(b *broker.Broker, log *slog.Logger) web.Serve {
	u := unit.New(nil, unit.Options{SessionTTL: sessionTTL})
	return func(ctx context.Context, conn *door.Stream, p web.Peer) {
		agent := &doorAgent{Agent: brokerAgent{broker: b, door: web.Name, client: p.Client, tap: p.Tap.Tap()}, door: ctx}
		conn.Due = func() bool { return agent.running.Load() > 0 }
		if err := u.With(agent).Serve(context.WithoutCancel(ctx), conn); err != nil {
			log.Debug("a connection failed", "door", web.Name, "error", err)
		}
	}
}

// A doorAgent knows how many prompts it works on, and gives them up, with an
// answer yet, when the door is shut: a unit whose own context ends is silent.
type doorAgent struct {
	unit.Agent
	door    context.Context
	running atomic.Int64
}

func (a *doorAgent) Answer(ctx context.Context, p *unit.Prompt, emit func(string) error) (map[string]string, error) {
	a.running.Add(1)
	defer a.running.Add(-1)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(a.door, func() { cancel(context.Canceled) })()
	return a.Agent.Answer(ctx, p, emit)
}
