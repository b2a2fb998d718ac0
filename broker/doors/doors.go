// Package doors makes the front doors of a broker.
package doors

import (
	"cmp"
	"context"

	"github.com/wirectl/wirectl/broker"
	"github.com/wirectl/wirectl/broker/config"
	"github.com/wirectl/wirectl/broker/door"
	"github.com/wirectl/wirectl/broker/door/admin"
	"github.com/wirectl/wirectl/broker/door/latis"
	"github.com/wirectl/wirectl/broker/door/nexus"
	"github.com/wirectl/wirectl/broker/door/openai"
	"github.com/wirectl/wirectl/broker/door/proxy"
	"github.com/wirectl/wirectl/broker/door/rlm"
	"github.com/wirectl/wirectl/broker/door/web"
	"github.com/wirectl/wirectl/broker/publish"
	"github.com/wirectl/wirectl/broker/service"
)

// A Config is what doors have in common.
type Config struct {
	Addrs     map[string]string // by the names of doors
	Access    web.Access
	Limits    config.Limits
	Publisher *publish.Publisher // may be nil
	Latis     latis.Serve
	Stop      context.CancelFunc // stops the service
}

// New makes all doors.
func New(b *broker.Broker, c Config) []service.Door {
	p, own := c.Publisher, c.Access
	own.Clients = nil // the admin door is for the operator alone
	guard := func(a web.Access) service.Guard {
		if a.NeedsToken() {
			return service.Token
		}
		return service.TokenMissing
	}
	doors := []service.Door{
		{Name: "rlm", Server: c.limited(rlm.New(b, p))},
		{Name: "proxy", Guard: guard(c.Access), Server: c.limited(proxy.New(b, p, c.Access))},
		{Name: "nexus", Server: c.limited(nexus.New(b, p, c.Access.Token, c.Stop))},
		{Name: "latis", Server: c.limited(latis.New(c.Latis, p))},
		{Name: "latis_ws", Server: c.limited(latis.NewWS(c.Latis, p))},
		{Name: "openai", Guard: guard(c.Access), Server: c.limited(openai.New(b, p, c.Access))},
		{Name: "admin", Guard: guard(own), Server: c.limited(admin.New(b, own))},
	}
	for i := range doors {
		doors[i].Addr = c.Addrs[doors[i].Name]
	}
	return doors
}

// limited sets the limits of the configuration. A server's own idle time takes precedence.
func (c *Config) limited(srv interface {
	service.Server
	Bounds() *door.Limits
},
) service.Server {
	limits := srv.Bounds()
	limits.MaxConns = c.Limits.Connections
	limits.Times = door.Times{Idle: cmp.Or(limits.Times.Idle, c.Limits.Idle), Read: c.Limits.Read}
	return srv
}
