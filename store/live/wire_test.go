package live

import (
	"slices"
	"testing"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/store"
)

// Connections are numbered from 1, on from one tap to the next, and what is asked of
// one that has ended goes to none.
func TestNumbersOfConnections(t *testing.T) {
	s := store.New(store.Options{})
	defer s.Close()
	w := NewWire(s)
	var got []int
	for _, conns := range [][]int{{0, 0}, {0}, {1, 2, 1}, {0}} {
		w.begin(nil)
		for _, conn := range conns {
			r := capture.Record{Kind: capture.Opened}
			r.Conn = conn
			w.number(&r)
			got = append(got, r.Conn)
		}
	}
	if want := []int{1, 1, 2, 3, 4, 3, 5}; !slices.Equal(got, want) {
		t.Errorf("the numbers are %v, want %v", got, want)
	}
	if err := w.Cancel(4, "1"); err != errNoTap {
		t.Errorf("a cancel on a connection that has ended: %v", err)
	}
}
