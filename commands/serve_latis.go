package commands

import (
	"context"

	"github.com/wirectl/wirectl/broker/door"
	"github.com/wirectl/wirectl/broker/door/latis"
	"github.com/wirectl/wirectl/unit"
)

// serveLatis serves a connection of the door latis: a unit whose agent is the
// broker.
func (s *serving) serveLatis(ctx context.Context, conn *door.Stream, p latis.Peer) {
	agent := brokerAgent{broker: s.broker, door: latis.Name, client: p.Client, tap: p.Tap.Tap()}
	if err := unit.New(agent, unit.Options{}).Serve(ctx, conn); err != nil {
		s.log.Debug("a connection failed", "door", latis.Name, "error", err)
	}
}
