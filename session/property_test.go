package session_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/all"
	"github.com/wirectl/wirectl/session"
)

// behaved are complete exchanges of peers that follow their protocol. %[1]d and %[2]d are
// numbers unique to the exchange.
var behaved = map[string][][]string{
	"latis": {
		{"> prompt %[1]d", "< chunk %[1]d 0", "< chunk %[1]d 1", "< chunk %[1]d 2", "< complete %[1]d"},
		{"> prompt %[1]d", "< chunk %[1]d 0", "> cancel %[2]d %[1]d", "< chunk %[1]d 1", "< cancelled %[1]d", "< ack %[2]d"},
		{"> prompt %[1]d", "> cancel %[2]d %[1]d", "< cancelled %[1]d"},
		{"> prompt %[1]d", "< error %[1]d", "> cancel %[2]d %[1]d"},
		{"> subscribe %[1]d", "< update %[1]d", "< update %[1]d"},
		{"> get %[1]d", "< update %[1]d"},
		{"> ping %[1]d", "< pong %[1]d"},
	},
	"mcp": {
		{"> call %[1]d", "< progress %[1]d", "< progress %[1]d", "< result %[1]d"},
		{"> call %[1]d", "< progress %[1]d", "> cancel %[1]d", "< progress %[1]d"},
		{"< ping %[1]d", "> result %[1]d"},
		{"< ping %[2]d", "> error %[2]d"},
		{"> call %[1]d", "< result %[1]d", "> cancel %[1]d"},
	},
	"acp": {
		{"> prompt %[1]d s%[1]d", "< update s%[1]d", "< stop %[1]d end_turn", "< update s%[1]d"},
		{"> prompt %[1]d s%[1]d", "< update s%[1]d", "> cancel s%[1]d", "< update s%[1]d", "< stop %[1]d cancelled"},
		{"< permit %[1]d", "> result %[1]d"},
	},
	"lsp": {
		{"> hover %[1]d", "< progress %[1]d", "< result %[1]d"},
		{"> hover %[1]d", "> cancel %[1]d", "< gone %[1]d"},
		{"> hover %[1]d", "> cancel %[1]d", "< progress %[1]d", "< result %[1]d", "< progress %[1]d"},
	},
	"dap": {
		{"> request %[1]d", "< response 1 %[1]d"},
		{"> request %[1]d", "> cancel %[2]d %[1]d", "< cancelled 1 %[1]d", "< response 1 %[2]d"},
	},
	"nexus": {
		{"> send %[1]d r%[1]d", "< result %[1]d"},
		{"> send %[1]d r%[1]d", "> cancel %[2]d r%[1]d", "< ok %[2]d", "< cut %[1]d"},
	},
	"rlm": {
		{"> ask %[1]d", "< answer %[1]d"},
		{"> ask2 %[1]d", "< fail %[1]d"},
		{"> ask same", "< answer same"},
	},
	"theory": {
		{"> run %[1]d", "< ack %[1]d", "< event %[1]d", "< final %[1]d"},
		{"> run %[1]d", "< ack %[1]d", "< event %[1]d", "< event %[1]d", "< final %[1]d"},
	},
}

// Correct exchanges cause no findings, however they are interleaved.
func TestNothingIsFoundOfPeersThatBehave(t *testing.T) {
	for name, kinds := range behaved {
		p, err := all.Named(name)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(r *rapid.T) {
				script := interleave(r, kinds)
				tr := session.New(p, session.Options{})
				for i, step := range script {
					dir := frame.C2U
					if step[0] == '<' {
						dir = frame.U2C
					}
					f := session.Frame{Seq: int64(i + 1), Time: began.Add(time.Duration(i) * time.Millisecond), Conn: 1, Dir: dir}
					send(t, tr, p, f, strings.Fields(step[2:]))
				}
				tr.End(1, began)
				if got := found(tr); got != "" {
					r.Fatalf("found %q in %q", got, script)
				}
			})
		})
	}
}

// interleave draws some exchanges and an order for their steps.
func interleave(r *rapid.T, kinds [][]string) (script []string) {
	var open [][]string
	for i := range rapid.IntRange(1, 8).Draw(r, "exchanges") {
		var steps []string
		for _, form := range rapid.SampledFrom(kinds).Draw(r, "exchange") {
			steps = append(steps, fmt.Sprintf(form+"%[3]s", 10*i+10, 10*i+11, ""))
		}
		open = append(open, steps)
	}
	for len(open) > 0 {
		i := rapid.IntRange(0, len(open)-1).Draw(r, "next")
		script = append(script, open[i][0])
		if open[i] = open[i][1:]; len(open[i]) == 0 {
			open = append(open[:i], open[i+1:]...)
		}
	}
	return script
}

// Any input leaves the tracker without a panic, within its bounds, and with consistent counts.
func FuzzFeed(f *testing.F) {
	f.Add([]byte("\x00\x01\x11\x00\x02\x12\x25\x13\x33\x41\x51\x62"))
	f.Add([]byte("latis, mcp, acp, lsp, dap, nexus, rlm and theory"))
	f.Fuzz(func(t *testing.T, data []byte) {
		data = data[:min(len(data), 600)]
		for _, p := range all.List() {
			tr := session.New(p, session.Options{History: 3, InFlight: 5})
			for i := 0; i+3 <= len(data); i += 3 {
				feedAny(tr, int64(i), data[i:i+3])
				checkCounts(t, tr)
			}
		}
	})
}

var anyKinds = []string{"STATE_SUBSCRIBE", "STATE_UPDATE", "PROMPT_CANCEL", "Request", "Ack", "control", "session/cancel", "m"}

// feedAny feeds a message derived from three bytes.
func feedAny(tr *session.Tracker, seq int64, b []byte) {
	f := session.Frame{Seq: seq, Time: began.Add(time.Duration(b[0]) * time.Second), Conn: int(b[0] >> 6), Dir: frame.Dir(b[0] & 3), Size: int(b[1]) << 10}
	if b[0]&0x3c == 0x3c {
		tr.End(f.Conn, f.Time)
		return
	}
	if b[0]&0x3c == 0x38 {
		f.Fault, f.Gap = frame.ErrMalformed, b[1]&1 == 0
		tr.Feed(f, nil)
		return
	}
	token := func(n byte) (token protocol.Token) {
		if n &= 3; n > 0 {
			token = protocol.Token{Space: protocol.Space(1 + n>>1), Text: []byte{'0' + n}}
		}
		return token
	}
	tr.Feed(f, &protocol.Message{
		Kind: []byte(anyKinds[b[1]&7]), Phase: protocol.Phase(b[1] >> 3 % 7), From: frame.Dir(b[0] >> 2 % 3),
		ID: token(b[2]), Ref: token(b[2] >> 2), Bind: token(b[2] >> 4), Seq: int(b[2]>>6) - 1, Count: int(b[1] >> 6),
		Faults: protocol.Faults(b[2]) << (b[1] >> 5),
	})
}

func checkCounts(t *testing.T, tr *session.Tracker) {
	t.Helper()
	s := tr.Stats()
	var opened, open, kept, exchanges int64
	for _, k := range s.Kinds {
		for _, n := range k.Outcomes {
			opened += n
		}
		open += k.Outcomes[session.Open]
	}
	for e := range tr.Exchanges() {
		exchanges++
		if e.Outcome == session.Open {
			kept++
		}
	}
	if opened != s.Opened || open != s.InFlight || kept != open || open > 5 {
		t.Fatalf("%d of %d exchanges are counted, %d of %d open, %d kept", opened, s.Opened, open, s.InFlight, kept)
	}
	cancels, findings := len(slices.Collect(tr.Cancels())), len(slices.Collect(tr.Findings()))
	if exchanges > 8 || cancels > 3 || findings > 3 {
		t.Fatalf("%d exchanges, %d cancels, %d findings are kept", exchanges, cancels, findings)
	}
}
