package commands

import (
	"context"

	"github.com/wirectl/wirectl/broker/door"
	"github.com/wirectl/wirectl/broker/door/latis"
	"github.com/wirectl/wirectl/unit"
)

// latisUnit returns what serves the connections of the doors for latis: a unit
// whose agent is the broker. A session of it is resumed on any of them.
func (s *serving) latisUnit() latis.Serve {
	u := unit.New(nil, unit.Options{SessionTTL: sessionTTL})
	return func(ctx context.Context, conn *door.Stream, p latis.Peer) {
		agent := brokerAgent{broker: s.broker, door: latis.Name, client: p.Client, tap: p.Tap.Tap()}
		if err := u.With(agent).Serve(ctx, conn); err != nil {
			s.log.Debug("a connection failed", "door", latis.Name, "error", err)
		}
	}
}
