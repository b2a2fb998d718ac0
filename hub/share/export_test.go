package share

import (
	"testing"
	"time"
)

// SetLeaseTime makes leases short for a test.
func SetLeaseTime(t *testing.T, d time.Duration) {
	old := leaseTime
	leaseTime = d
	t.Cleanup(func() { leaseTime = old })
}

// Die ends a broker as kill -9 does: it returns nothing.
func (g *Group) Die() {
	g.stop()
	g.running.Wait()
	g.conn.Close()
}
