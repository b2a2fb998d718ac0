package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"syscall"

	"github.com/wirectl/wirectl/broker"
	"github.com/wirectl/wirectl/broker/config"
	"github.com/wirectl/wirectl/broker/door"
	"github.com/wirectl/wirectl/broker/door/nexus"
	"github.com/wirectl/wirectl/broker/door/openai"
	"github.com/wirectl/wirectl/broker/door/rlm"
	"github.com/wirectl/wirectl/broker/door/web"
	"github.com/wirectl/wirectl/broker/observe"
	"github.com/wirectl/wirectl/internal/jsonscan"
)

// A Server serves the connections of a listener.
type Server interface {
	// Serve returns nil after Shutdown, when all connections have ended.
	Serve(ctx context.Context, ln net.Listener) error
	// Stop ends listening. Shutdown also waits for running calls until ctx ends; then the
	// rest is cancelled and answered.
	Stop()
	Shutdown(ctx context.Context)
}

// A Door is a front door.
type Door struct {
	Name string
	// Addr is where it listens: HOST:PORT, or off.
	Addr string
	// Guard says whether clients must send a token, so that the door may be open to other
	// machines.
	Guard  Guard
	Server Server
}

// A Guard is how a door keeps strangers out.
type Guard uint8

const (
	nothing      Guard = iota // its protocol is for clients of this machine
	TokenMissing              // its protocol has tokens, but none is configured
	Token                     // clients must send the token
)

// Off is the address of a door that is not opened.
const Off = "off"

// A Service is the open doors.
type Service struct {
	doors     []Door // the open ones
	listeners []net.Listener
	group     sync.WaitGroup
	failed    chan error
}

// OpenDoors listens at all doors that are not off. With remote, doors with a token may listen
// beyond this machine.
func OpenDoors(ctx context.Context, doors []Door, remote bool) (*Service, error) {
	s := &Service{failed: make(chan error, len(doors))}
	for _, d := range doors {
		if d.Addr == Off {
			continue
		}
		if err := s.openDoor(ctx, d, remote); err != nil {
			for _, ln := range s.listeners {
				ln.Close()
			}
			return nil, err
		}
	}
	return s, nil
}

func (s *Service) openDoor(ctx context.Context, d Door, remote bool) error {
	if err := mayListen(d, remote); err != nil {
		return err
	}
	ln, err := listenConfig.Listen(ctx, network(d.Addr), d.Addr)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("the door %s cannot listen on %s: the address is in use; choose another with --listen %s=HOST:PORT, none with --listen %s=off, or any free ports for all doors with --any-port", d.Name, d.Addr, d.Name, d.Name)
	case err != nil:
		return fmt.Errorf("the door %s cannot listen on %s: %w; choose another address with --listen %s=HOST:PORT", d.Name, d.Addr, err, d.Name)
	}
	s.doors = append(s.doors, d)
	s.listeners = append(s.listeners, ln)
	return nil
}

// network keeps a door at an IPv4 address, including 0.0.0.0, from IPv6.
func network(addr string) string {
	host, _, _ := net.SplitHostPort(addr)
	if ip := net.ParseIP(host); ip != nil && ip.To4() != nil {
		return "tcp4"
	}
	return "tcp"
}

func mayListen(d Door, remote bool) error {
	host, _, err := net.SplitHostPort(d.Addr)
	if err != nil {
		return fmt.Errorf("the door %s: %w; expected --listen %s=HOST:PORT", d.Name, err, d.Name)
	}
	ip := net.ParseIP(host)
	switch {
	case strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback():
		return nil
	case d.Guard == nothing:
		return fmt.Errorf("the door %s on %s would be open to other machines, but its protocol is for local use only: keep it on 127.0.0.1; the doors proxy, openai and admin may be opened", d.Name, d.Addr)
	case !remote:
		return fmt.Errorf("the door %s on %s would be open to other machines: that needs --allow-remote, and a token", d.Name, d.Addr)
	case d.Guard == TokenMissing:
		return fmt.Errorf("the door %s on %s would be open to other machines without authentication: set a token (token: in the configuration, or WIRECTL_TOKEN)", d.Name, d.Addr)
	}
	return nil
}

// Close closes doors that have not started.
func (s *Service) Close() error {
	var errs []error
	for _, ln := range s.listeners {
		errs = append(errs, ln.Close())
	}
	return errors.Join(errs...)
}

// Start serves at all doors.
func (s *Service) Start(ctx context.Context) {
	for i, d := range s.doors {
		s.group.Go(func() {
			if err := d.Server.Serve(ctx, s.listeners[i]); err != nil {
				s.failed <- fmt.Errorf("the door %s: %w", d.Name, err)
			}
		})
	}
}

// Failed yields the error of a door that failed.
func (s *Service) Failed() <-chan error { return s.failed }

// Shutdown shuts all doors at once, as [Server] has it.
func (s *Service) Shutdown(ctx context.Context) {
	var group sync.WaitGroup
	for _, d := range s.doors {
		d.Server.Stop()
		group.Go(func() { d.Server.Shutdown(ctx) })
	}
	group.Wait()
	s.group.Wait()
}

// Addr returns the address of a door, "" if it is off.
func (s *Service) Addr(name string) string {
	for i, d := range s.doors {
		if d.Name == name {
			return s.listeners[i].Addr().String()
		}
	}
	return ""
}

// Addresses returns a JSON object with the addresses of the open doors.
func (s *Service) Addresses() []byte {
	addrs := map[string]string{}
	s.Each(func(name, addr string) { addrs[name] = addr })
	return jsonscan.MustMarshal(addrs)
}

// Each calls f with the name and address of each open door.
func (s *Service) Each(f func(name, addr string)) {
	for i, d := range s.doors {
		f(d.Name, s.listeners[i].Addr().String())
	}
}

// A Config is what doors have in common.
type doorConfig struct {
	Addrs     map[string]string // by the names of doors
	Access    web.Access
	Limits    config.Limits
	Publisher *observe.Publisher // may be nil
	Latis     web.Serve
	Stop      context.CancelFunc // stops the service
}

// newDoors makes all doors.
func newDoors(b *broker.Broker, c doorConfig) []Door {
	p, own := c.Publisher, c.Access
	own.Clients = nil // the admin door is for the operator alone
	guard := func(a web.Access) Guard {
		if a.NeedsToken() {
			return Token
		}
		return TokenMissing
	}
	doors := []Door{
		{Name: "rlm", Server: c.limited(rlm.New(b, p))},
		{Name: "proxy", Guard: guard(c.Access), Server: c.limited(web.NewProxy(b, p, c.Access))},
		{Name: "nexus", Server: c.limited(nexus.New(b, p, c.Access.Token, c.Stop))},
		{Name: "latis", Server: c.limited(web.NewLatis(c.Latis, p))},
		{Name: "latis_ws", Server: c.limited(web.NewWS(c.Latis, p))},
		{Name: "openai", Guard: guard(c.Access), Server: c.limited(openai.New(b, p, c.Access))},
		{Name: "admin", Guard: guard(own), Server: c.limited(web.NewAdmin(b, own))},
	}
	for i := range doors {
		doors[i].Addr = c.Addrs[doors[i].Name]
	}
	return doors
}

// limited sets the limits of the configuration. A server's own idle time takes precedence.
func (c *doorConfig) limited(srv interface {
	Server
	Bounds() *door.Limits
},
) Server {
	limits := srv.Bounds()
	limits.MaxConns = c.Limits.Connections
	limits.Times = door.Times{Idle: cmp.Or(limits.Times.Idle, c.Limits.Idle), Read: c.Limits.Read}
	return srv
}
