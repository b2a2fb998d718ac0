package store_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wirectl/wirectl/fixtures"
	"github.com/wirectl/wirectl/session"
	"github.com/wirectl/wirectl/session/stats"
	"github.com/wirectl/wirectl/store"
)

func setFilter(t testing.TB, s *store.Store, text string) {
	t.Helper()
	f, err := store.ParseFilter(text)
	if err != nil {
		t.Fatal(err)
	}
	s.SetFilter(f)
	for s.Search(time.Second) {
	}
}

// summary is what figures say of exchanges and names. If frames hold several messages
// each, or are of HTTP or gRPC and have kinds of their own, it leaves out how many there are
// of a kind: with a filter, frames are counted.
func summary(st store.Stats, several bool) string {
	var lines []string
	for _, k := range st.Kinds {
		if k.Outcomes != [len(k.Outcomes)]int64{} {
			if several {
				k.Frames, k.Bytes = 0, 0
			}
			lines = append(lines, fmt.Sprintln(k.Name, k.Frames, k.Bytes, k.Outcomes, k.Latency.Count, k.Latency.Quantile(.5), k.Latency.Quantile(.99), k.Latency.Max))
		}
	}
	for _, n := range st.Names {
		latency := stats.Quantiles{}
		if n.Latency != nil {
			latency = *n.Latency
		}
		n.Latency, n.DefinitionBytes, n.DefinitionTokens = nil, 0, 0
		if n.Calls > 0 {
			lines = append(lines, fmt.Sprintln(n, latency))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "") + fmt.Sprint(st.Exchanges, st.Usage)
}

// Figures over what a filter matches are those over the session if it matches all.
func TestFiguresOfAll(t *testing.T) {
	for _, name := range fixtures.Sessions() {
		s := fixture(t, name)
		all := s.Stats()
		setFilter(t, s, "seq>0")
		several := name == "jsonrpc-http-jayson" || name == "acp-v2-claude" || name == "claude-mcp-cancel" ||
			name == "a2a10-ts-rest" || name == "a2a10-ts-grpc" || name == "opencode-serve"
		if got, want := summary(s.Stats(), several), summary(all, several); got != want {
			t.Errorf("%s: with a filter that matches all\n%s\nwithout\n%s", name, got, want)
		}
	}
}

// Figures obey the filter: they are those of the frames and exchanges that it matches.
func TestFiguresObeyTheFilter(t *testing.T) {
	s := fixture(t, "mcp-everything")
	all := s.Stats()
	if all.Tools == nil || all.Tools.Count != 16 || all.Tools.Bytes == 0 {
		t.Errorf("the definitions are %+v", all.Tools)
	}
	frames := func(st store.Stats) (n int64) {
		for _, slot := range st.Slots {
			n += slot.Frames[0] + slot.Frames[1] + slot.Frames[2]
		}
		return n
	}
	setFilter(t, s, "kind==tools/call")
	st := s.Stats()
	if len(st.Kinds) != 1 || st.Kinds[0].Name != "tools/call" || st.Kinds[0].Frames != 14 || st.Kinds[0].Latency.Count != 13 || frames(st) != 14 {
		t.Errorf("of calls: %d frames, %s", frames(st), summary(st, false))
	}
	for _, n := range st.Names {
		if n.Kind != "tools/call" || n.Calls == 0 || n.Name == "echo" && n.DefinitionBytes == 0 {
			t.Errorf("a name is %+v", n)
		}
	}
	if st.Tools != nil {
		t.Errorf("all definitions are %+v", st.Tools)
	}
	most := int64(0)
	for _, slot := range st.Slots {
		most = max(most, slot.InFlight)
	}
	if most == 0 || most > 14 {
		t.Errorf("%d calls are in flight", most)
	}
	setFilter(t, s, "failed")
	if st = s.Stats(); st.Exchanges[session.ToolError] != 2 || st.Exchanges[session.Failed] != 1 || len(st.Exchanges) != 2 {
		t.Errorf("of what failed: %v", st.Exchanges)
	}
	setFilter(t, s, "")
	if st = s.Stats(); frames(st) != frames(all) || st.Tools == nil {
		t.Errorf("without a filter: %d frames", frames(st))
	}
}
