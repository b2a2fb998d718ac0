package store_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/decode/track"
	"github.com/wirectl/wirectl/fixtures"
	"github.com/wirectl/wirectl/session"
	list "github.com/wirectl/wirectl/session/calls"
	"github.com/wirectl/wirectl/store"
)

// callsOf lists what wirectl calls --exchanges says of a fixture.
func callsOf(t *testing.T, name string) (lines []string, failed int64) {
	t.Helper()
	log := &list.Log{Unfold: true, Show: func(c *list.Call) {
		lines = append(lines, fmt.Sprintf("%d %s %s %q %v %v parts %d %q", c.Frame, c.ID, c.Kind, c.Name, c.Outcome, c.Duration, c.Parts, c.Reason)+bytesOf(c.Outcome, c.BytesOut, c.BytesIn))
		if c.Operation == 0 && c.Outcome.Failed() {
			failed++
		}
	}}
	var f *track.Follower
	cfg := decode.Config{Workers: 1, Resync: true, Event: func(r *capture.Record) { f.Event(r) }}
	in := decode.Input{Capture: recorded(t, name)}
	f = track.NewFollower(&track.Trackers{OneWay: true, Watcher: log}, in, cfg)
	if _, err := decode.Run(t.Context(), in, nil, cfg, func() decode.View { return f.View }); err != nil {
		t.Fatal(err)
	}
	f.End()
	log.Finish(f.Last)
	slices.Sort(lines)
	return lines, failed
}

// bytesOf are the bytes of an exchange, without those that came for a cancelled one: calls
// may have listed it before.
func bytesOf(outcome session.Outcome, out, in int64) string {
	if outcome.Stopped() {
		in = 0
	}
	return fmt.Sprintln(" out", out, "in", in)
}

// The monitor and the report say of each exchange what calls says.
func TestExchangesAreAsInCalls(t *testing.T) {
	for _, name := range fixtures.Sessions() {
		t.Run(name, func(t *testing.T) {
			want, failed := callsOf(t, name)
			s := fixture(t, name)
			o := s.Overview()
			var got []string
			for _, x := range s.IDs(store.IDsQuery{Sort: store.ByArrival, Unfolded: store.Folds{All: true}, N: 1 << 20}).List {
				got = append(got, fmt.Sprintf("%d %s %s %q %v %v parts %d %q", x.First, x.ID, x.Kind, x.Name, x.Outcome, time.Duration(x.Ended(o.Last)-x.Opened), x.Parts, x.Reason)+bytesOf(x.Outcome, x.Out, x.In))
			}
			slices.Sort(got)
			if g, w := strings.Join(got, ""), strings.Join(want, ""); g != w {
				t.Errorf("got\n%swant\n%s", g, w)
			}
			if o.Failed != failed {
				t.Errorf("%d failed, want %d", o.Failed, failed)
			}
		})
	}
}

// A group counts as failed what calls does: not what nobody answered.
func TestGroupsCountFailures(t *testing.T) {
	failed := map[string]int64{}
	for _, x := range fixture(t, "mcp-everything").IDs(store.IDsQuery{Group: store.GroupKind, Folds: store.Folds{All: true}, N: 100}).List {
		if x.Group.Failed > 0 {
			failed[x.Group.Name] = x.Group.Failed
		}
	}
	if len(failed) != 2 || failed["tools/call"] != 2 || failed["no/such/method"] != 1 {
		t.Errorf("%v", failed)
	}
}
