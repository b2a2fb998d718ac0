package watch

import (
	"context"
	"io"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/capture/journal"
	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/frame"
)

// TestBehind: what comes while too much waits is left out, which is told, and nothing is
// missed that may have been among it. After a pause all is judged again.
func TestBehind(t *testing.T) {
	j := newJudge(capture.Session{}, io.Discard, decode.Config{}, wants{})
	at := time.Unix(1, 0)
	send := func(dir frame.Dir, text string) {
		raw := []byte(text)
		r := capture.Record{Protocol: "mcp", Framing: "line", Time: at, Frame: frame.Frame{Dir: dir, Raw: raw, End: len(raw)}}
		if err := j.Write(&r); err != nil {
			t.Fatal(err)
		}
	}
	send(frame.C2U, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
	j.most = -1 << 20
	send(frame.U2C, `{"jsonrpc":"2.0","id":1,"result":{}}`)
	send(frame.C2U, `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`)
	for j.waiting.Load() > 0 {
		runtime.Gosched()
	}
	at, j.most = at.Add(2*calm), maxWaiting
	send(frame.U2C, `{"jsonrpc":"2.0","id":2,"result":{}}`)
	send(frame.U2C, `{"jsonrpc":"2.0","id":1,"result":{}}`)
	send(frame.C2U, `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":7}}`)
	j.awaitEnd(t.Context(), func(string) {})
	const want = "; analysed: 4 of 6 frames; 2 exchanges; 0 findings"
	if got := j.Summary(); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// What is left when the time is over is not missed.
func TestJudgeIsCutShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		held := make(holding)
		j := newJudge(capture.Session{}, io.Discard, decode.Config{}, wants{Keep: held})
		raw := []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
		r := capture.Record{Protocol: "mcp", Framing: "line", Time: time.Unix(1, 0), Frame: frame.Frame{Dir: frame.C2U, Raw: raw, End: len(raw)}}
		for range 3 {
			_ = j.Write(&r)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		time.AfterFunc(10*time.Millisecond, func() { close(held) }) // once the rest is given up
		j.awaitEnd(ctx, func(string) {})
		if got := j.Summary(); !strings.Contains(got, "analysed: ") || strings.Contains(got, "unanswered") {
			t.Error(got)
		}
	})
}

// A brief judge stays while it can still find that a unit ignores the end of its input.
func TestBrief(t *testing.T) {
	for protocol, want := range map[string]error{"mcp": nil, "acp": capture.ErrEnough} {
		j := newJudge(capture.Session{}, io.Discard, decode.Config{}, wants{Brief: true})
		raw := []byte(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}`)
		r := capture.Record{Protocol: protocol, Framing: "line", Time: time.Unix(1, 0), Frame: frame.Frame{Dir: frame.C2U, Raw: raw, End: len(raw)}}
		err := j.Write(&r)
		for j.waiting.Load() > 0 {
			runtime.Gosched()
		}
		j.overdue(time.Unix(0, 0)) // waits until it has decided
		if got := j.Write(&r); err != nil || got != want {
			t.Errorf("%s: %v, then %v rather than %v", protocol, err, got, want)
		}
		j.awaitEnd(t.Context(), func(string) {})
	}
}

// holding is a writer that waits until it is let go.
type holding chan struct{}

func (h holding) Write(*capture.Record) error {
	<-h
	return nil
}

// A request that has had no answer for a time is told of, once, and not while it is not
// known whether it has.
func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJudge(capture.Session{}, io.Discard, decode.Config{}, wants{})
		var told []string
		j.Watch(10*time.Second, func(text string) { told = append(told, text) })
		send := func(dir frame.Dir, text string) {
			raw := []byte(text)
			_ = j.Write(&capture.Record{Protocol: "mcp", Framing: "line", Time: time.Now(), Frame: frame.Frame{Dir: dir, Raw: raw, End: len(raw)}})
		}
		send(frame.C2U, `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"slow"}}`)
		send(frame.C2U, `{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"heard","_meta":{"progressToken":7}}}`)
		send(frame.C2U, `{"jsonrpc":"2.0","id":5,"method":"tools/list"}`)
		send(frame.U2C, `{"jsonrpc":"2.0","id":5,"result":{"tools":[]}}`)
		time.Sleep(9 * time.Second)
		send(frame.U2C, `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":7,"progress":1}}`)
		time.Sleep(9 * time.Second)
		send(frame.U2C, `{"jsonrpc":"2.0","id":4,"result":{}}`)
		time.Sleep(time.Minute)
		j.awaitEnd(t.Context(), func(string) {})
		if want := []string{"tools/call slow (id 3) has had no answer for 10 s"}; !slices.Equal(told, want) {
			t.Errorf("told %q rather than %q", told, want)
		}
	})
}

// What is said of a judge that takes long has been said when it ends.
func TestJudgeEndsWithWhatIsSaidOfIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &judge{show: func(dst []byte, _ *decode.Item) ([]byte, error) { return dst, nil }, done: make(chan struct{})}
		j.backlog = journal.New(capture.Session{}, journal.Options{})
		j.reader = j.backlog.Follow()
		time.AfterFunc(2*time.Second, func() { close(j.done) })
		said := ""
		j.awaitEnd(t.Context(), func(text string) {
			time.Sleep(time.Minute)
			said = text
		})
		if want := "checking earlier frames: 0 bytes to go"; said != want {
			t.Errorf("%q, want %q", said, want)
		}
	})
}

// kept are the frames that were handed on.
type kept []string

func (k *kept) Write(r *capture.Record) error {
	*k = append(*k, string(r.Payload()))
	return nil
}

// What is judged is handed on, and counted by its end.
func TestJudgeHandsOn(t *testing.T) {
	var k kept
	j := newJudge(capture.Session{}, io.Discard, decode.Config{}, wants{Keep: &k})
	for i, text := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, `{"jsonrpc":"2.0","id":1,"result":{"tools":[]}}`,
		`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"x"}}`, `{"jsonrpc":"2.0","id":2,"error":{"code":-1,"message":"x"}}`,
		`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"x"}}`, `{"jsonrpc":"2.0","id":3,"result":{"content":[],"isError":true}}`,
		`{"jsonrpc":"2.0","id":4,"result":{}}`,
	} {
		dir := frame.C2U
		if i%2 == 1 || i == 6 {
			dir = frame.U2C
		}
		r := capture.Record{Kind: capture.Frame, Seq: int64(i + 1), Protocol: "mcp", Framing: "line", Frame: frame.Frame{Dir: dir, Raw: []byte(text), End: len(text)}}
		if err := j.Write(&r); err != nil {
			t.Fatal(err)
		}
	}
	j.awaitEnd(t.Context(), func(string) {})
	c := j.Counts()
	if len(k) != 7 || c.Frames != 7 || c.Exchanges != 3 || c.Failures != 2 || c.Findings != 1 || c.Missed || len(c.Protocols) != 1 || c.Protocols[0] != "mcp" {
		t.Errorf("%d frames were handed on, and the counts are %+v", len(k), c)
	}
}
