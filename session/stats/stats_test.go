package stats

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/jsonrpc"
	"github.com/wirectl/wirectl/session"
	"github.com/wirectl/wirectl/table"
)

// call feeds a tracker a call of method, answered after took.
func call(t *testing.T, tr *session.Tracker, seq int64, method string, took time.Duration) {
	t.Helper()
	at := time.Unix(1_800_000_000+seq, 0)
	for i, text := range []string{
		fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"%s","params":{"name":"%[2]s"}}`, seq, method),
		fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{}}`, seq),
	} {
		var m protocol.Message
		if err := jsonrpc.MCP.Parse([]byte(text), &m); err != nil {
			t.Fatal(err)
		}
		f := session.Frame{Seq: seq + int64(i), Time: at.Add(time.Duration(i) * took), Dir: frame.C2U + frame.Dir(i), Size: len(text)}
		tr.Feed(f, &m)
	}
}

// At any width no line is too wide, and names from the wire are cut without affecting their
// neighbors.
func TestTextFits(t *testing.T) {
	tr := session.New(jsonrpc.MCP, session.Options{})
	call(t, tr, 1, "tools/call", time.Millisecond)
	call(t, tr, 3, strings.Repeat("日本語", 30)+"\u202e", 3*time.Second)
	r := New()
	r.Add("mcp", tr, true)
	r.AddTools([]Tool{{"mcp", "tools/call", 1 << 20}, {"mcp", strings.Repeat("日本語", 30) + "\u202e", 7}})
	for _, width := range []int{60, 80, 120, 200} {
		var out bytes.Buffer
		if err := r.Text(table.Output{To: &out, Form: table.AsText, Width: width, Style: &render.Style{}}); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(out.String(), "\u202e") {
			t.Errorf("what is unseen: %q", &out)
		}
		for line := range strings.Lines(out.String()) {
			if n := render.Cells([]byte(strings.TrimSuffix(line, "\n"))); n > width {
				t.Errorf("%d cells in %d: %s", n, width, line)
			}
		}
	}
}

// Without times there are no durations, rather than zero ones.
func TestUntimed(t *testing.T) {
	tr := session.New(jsonrpc.MCP, session.Options{})
	call(t, tr, 1, "tools/call", time.Millisecond)
	r := New()
	r.Add("mcp", tr, false)
	for _, k := range r.Kinds {
		if k.Latency != nil || k.FirstPart != nil || k.PartsPerSecond != 0 {
			t.Errorf("%+v", k)
		}
	}
}
