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
)

func TestBar(t *testing.T) {
	for _, tt := range []struct {
		solid, shade float64
		cells        int
		want         string
	}{
		{0, 0, 4, ""},
		{1, 1, 4, "████"},
		{.5, .5, 4, "██"},
		{.53125, .53125, 4, "██▏"},
		{.5, 1, 4, "██░░"},
		{0, .5, 4, "░░"},
		{1e-9, 1e-9, 4, "▏"}, // a small value is still visible
	} {
		if got := barOf(tt.solid, tt.shade, tt.cells); got != tt.want {
			t.Errorf("%v %v: %q, want %q", tt.solid, tt.shade, got, tt.want)
		}
	}
}

func TestDurationsHaveThreeDigits(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0:                       "0s",
		1234:                    "1.23µs",
		850_400:                 "850µs",
		1_234_567:               "1.23ms",
		31_249_000:              "31.2ms",
		488_875_000:             "489ms",
		1_851_000_000:           "1.85s",
		3725*time.Second + 1e8:  "1h2m5s",
		119*time.Second + 949e6: "2m0s",
		-time.Second:            "-1s",
	} {
		if got := Millis(d).String(); got != want {
			t.Errorf("%d: %s, want %s", d, got, want)
		}
	}
	if b, err := Millis(1_234_567).MarshalJSON(); string(b) != "1.235" || err != nil {
		t.Errorf("%s %v", b, err)
	}
}

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
		if err := r.Text(&out, width, &render.Style{}); err != nil {
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
