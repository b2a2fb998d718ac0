package share_test

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"testing"
	"time"

	nserver "github.com/nats-io/nats-server/v2/server"

	"github.com/wirectl/wirectl/broker"
)

// cluster starts three servers that keep three copies.
func cluster(t *testing.T) (list []*nserver.Server) {
	t.Helper()
	var routes []*url.URL
	for range 3 {
		ln, err := net.Listen("tcp", "127.0.0.1:0") // the port is free a moment later
		check(t, err)
		routes = append(routes, &url.URL{Scheme: "nats", Host: ln.Addr().String()})
		check(t, ln.Close())
	}
	for i := range 3 {
		port, err := strconv.Atoi(routes[i].Port())
		check(t, err)
		s, err := nserver.NewServer(&nserver.Options{
			ServerName: fmt.Sprintf("s%d", i), Host: "127.0.0.1", Port: nserver.RANDOM_PORT, NoSigs: true, NoLog: true, JetStream: true, StoreDir: t.TempDir(),
			Cluster: nserver.ClusterOpts{Name: "c", Host: "127.0.0.1", Port: port}, Routes: routes,
		})
		check(t, err)
		s.Start()
		t.Cleanup(func() {
			s.Shutdown()
			s.WaitForShutdown()
		})
		list = append(list, s)
	}
	for _, s := range list {
		if !s.ReadyForConnections(time.Minute) {
			t.Fatal("a server does not listen")
		}
	}
	within(t, "the cluster has a leader and all of its servers", func() bool {
		return slices.ContainsFunc(list, func(s *nserver.Server) bool { return s.JetStreamIsLeader() && len(s.JetStreamClusterPeers()) == 3 })
	})
	return list
}

// Brokers and a worker on three servers of a cluster form one group, even after one of the
// servers is gone.
func TestCluster(t *testing.T) {
	t.Parallel()
	servers := cluster(t)
	urls := servers[0].ClientURL() + "," + servers[1].ClientURL() + "," + servers[2].ClientURL()
	const limit = 60
	var w teller
	m := echo()
	work(t, urls, m, 4, "llama-*")
	var list []*broker.Broker
	for range 3 {
		b, _ := join(t, urls, false, &w, func(c *broker.Config) {
			c.Models[0].Budget = &broker.Budget{Calls: limit}
		})
		list = append(list, b)
	}
	user := asker(t, urls)
	known(t, user)
	check(t, user.Do(t.Context(), llama("hi")))
	spend := func() (n int) {
		for _, b := range list {
			for range limit / 10 {
				if err := b.Do(t.Context(), call()); err == nil {
					n++
				} else if _, spent := errors.AsType[*broker.BudgetError](err); !spent && !errors.Is(err, broker.ErrHubLost) {
					t.Fatal(err)
				}
			}
		}
		return n
	}
	n := spend()
	servers[2].Shutdown()
	servers[2].WaitForShutdown()
	within(t, "the budget is used up", func() bool { n += spend(); return n >= limit })
	if n += spend(); n != limit {
		t.Errorf("%d calls of a budget of %d", n, limit)
	}
	within(t, "the worker answers", func() bool { return user.Do(t.Context(), llama("hi")) == nil })
}
