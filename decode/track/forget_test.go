package track

import (
	"testing"

	"github.com/wirectl/wirectl/frame"
)

// Of exchanges that are over nothing is kept, nor of more that are open than can be.
func TestExchangesAreForgotten(t *testing.T) {
	of := func(conn, stream int) *frame.Frame { return &frame.Frame{Conn: conn, Stream: int64(stream)} }
	var es exchanges
	check := func(about string, open, conns int) {
		t.Helper()
		if es.open != open || len(es.ofConn) != conns {
			t.Errorf("%s: %d are open on %d connections, want %d on %d", about, es.open, len(es.ofConn), open, conns)
		}
	}
	for conn := range 3 {
		es.set(of(conn, 1), &exchange{})
		es.set(of(conn, 2), &exchange{})
		es.set(of(conn, 2), &exchange{})
	}
	check("two on each of three connections", 6, 3)
	es.remove(of(0, 1))
	es.remove(of(0, 1))
	check("one was answered", 5, 3)
	es.remove(of(0, 2))
	check("all of a connection were answered", 4, 2)
	es.removeConn(1)
	check("a connection has ended", 2, 1)
	if es.of(of(2, 1)) == nil || es.of(of(1, 1)) != nil || es.of(of(0, 1)) != nil {
		t.Error("those that are left are others")
	}
	for stream := range 2 * maxExchanges {
		es.set(of(4, stream), &exchange{})
		if es.open > maxExchanges {
			t.Fatalf("%d are open", es.open)
		}
	}
}
