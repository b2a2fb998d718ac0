package session

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/openai"
)

// answered feeds a call of a model, one message per second: the request, parts of size bytes,
// and the end, which reports the tokens.
func answered(t *Tracker, seq int64, model string, phase protocol.Phase, parts int, size int) {
	at := time.Unix(1000, 0)
	id := protocol.Token{Space: protocol.SpaceID, Text: []byte("1")}
	say := func(m protocol.Message, tools ...string) {
		m.ID, m.Seq = id, -1
		dir := frame.U2C
		if m.Phase == protocol.Open {
			dir = frame.C2U
		}
		t.Feed(Frame{Seq: seq, Time: at, Dir: dir, Conn: 1, ToolCalls: tools}, &m)
		seq, at = seq+1, at.Add(time.Second)
	}
	say(protocol.Message{Kind: []byte("responses"), Phase: protocol.Open, Model: []byte("asked")})
	for range parts {
		say(protocol.Message{Kind: []byte("delta"), Phase: protocol.Part, Model: []byte(model), Text: bytes.Repeat([]byte("x"), size)}, "f")
	}
	say(protocol.Message{Kind: []byte("end"), Phase: phase, Model: []byte(model), StopReason: []byte("stop"), Usage: protocol.Usage{Input: 100, Cached: 10, Output: 60}})
}

// A call is counted for the model that answered it, with the usage in the last message.
func TestModelsAreCounted(t *testing.T) {
	tr := New(openai.Spec.Protocol, Options{})
	answered(tr, 1, "a", protocol.Close, 3, 1)
	answered(tr, 10, "a", protocol.Fail, 0, 0)
	answered(tr, 20, "b", protocol.Close, 0, 0)
	models := tr.Stats().Models
	if len(models) != 2 || models[0].Name != "a" || models[1].Name != "b" {
		t.Fatalf("%+v", models)
	}
	a, b := models[0], models[1]
	if a.Calls != 2 || a.Failed != 1 || a.Usage != (protocol.Usage{Input: 200, Cached: 20, Output: 120}) || a.StopReasons["stop"] != 2 || a.ToolCalls["f"] != 3 {
		t.Errorf("%+v", a)
	}
	if a.FirstPart.Count != 1 || a.FirstPart.Max != time.Second || a.TokensPerSecond() != 20 {
		t.Errorf("first after %v, %v tokens a second, want 1s and 20", a.FirstPart.Max, a.TokensPerSecond())
	}
	if b.TokensPerSecond() != 60 {
		t.Errorf("%v tokens a second since the request, want 60", b.TokensPerSecond())
	}
}

// The end of a model's answer is kept until the call is over, in bounded memory and only on
// request.
func TestSaid(t *testing.T) {
	for _, kept := range []bool{true, false} {
		var said, most int
		w := &heard{}
		tr := New(openai.Spec.Protocol, Options{Said: kept, Watcher: w})
		w.changed = func(e *Exchange) {
			said, most = max(said, len(e.Said)), max(most, cap(e.Said))
			if e.Outcome != Open && e.Said != nil {
				t.Errorf("%d bytes are kept of what is over", len(e.Said))
			}
		}
		answered(tr, 1, "a", protocol.Close, 40, 30_000)
		if kept && (said < maxSaid/2 || most > maxSaid) || !kept && said > 0 {
			t.Errorf("%d bytes were kept in %d", said, most)
		}
	}
	var e Exchange
	e.say([]byte("first "))
	e.say([]byte(strings.Repeat("y", maxSaid)))
	e.say([]byte("last"))
	if !bytes.HasSuffix(e.Said, []byte("ylast")) || len(e.Said) > maxSaid {
		t.Errorf("%d bytes, which end with %q", len(e.Said), e.Said[len(e.Said)-8:])
	}
}

type heard struct{ changed func(*Exchange) }

func (h *heard) Changed(e *Exchange, _ int64) { h.changed(e) }
func (h *heard) Asked(*Cancel)                {}
func (h *heard) Found(Finding)                {}
