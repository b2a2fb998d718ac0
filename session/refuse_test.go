package session_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/jsonrpc"
	"github.com/wirectl/wirectl/session"
)

// A refusal whose carrier says what it answers ends exactly that: all requests in one frame,
// even an unreadable one.
func TestRefuse(t *testing.T) {
	var w witness
	tr := session.New(jsonrpc.Plain, session.Options{Watcher: &w})
	seq := int64(0)
	next := func(dir frame.Dir, payload string) (session.Frame, *protocol.Message) {
		seq++
		f := session.Frame{Seq: seq, Time: began.Add(time.Duration(seq) * time.Second), Dir: dir, Size: 10, Payload: []byte(payload)}
		m := &protocol.Message{}
		if err := jsonrpc.Plain.Parse(f.Payload, m); err != nil {
			f.Fault = err
			return f, nil
		}
		return f, m
	}
	refuse := func(payload string, asked int64) {
		f, m := next(frame.U2C, payload)
		if m == nil { // only the carrier reports it
			f.Fault, m = nil, &protocol.Message{Kind: []byte("401"), Phase: protocol.Fail, Seq: -1}
		}
		tr.Refuse(f, m, asked)
	}
	const nameless = `{"jsonrpc":"2.0","id":null,"error":{"code":-1,"message":"no"}}`
	const named = `{"jsonrpc":"2.0","id":%q,"error":{"code":-1,"message":"no"}}`
	for _, payload := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"a"}`,
		`[{"jsonrpc":"2.0","id":2,"method":"a"},{"jsonrpc":"2.0","id":3,"method":"a"}]`,
		`{"jsonrpc":"2.0","id":"4","method":"a"}`,
		`{"jsonrpc":"2.0","id":5,"method":"a"}`,
		`{"jsonrpc":`,
	} {
		tr.Feed(next(frame.C2U, payload))
	}
	w.saw = nil
	for _, test := range []struct {
		payload string
		asked   int64
		want    []string
	}{
		{"no", 2, []string{"#6 2 failed", "#6 3 failed"}},
		{"no", 2, nil},
		{nameless, 5, nil}, // unreadable
		{fmt.Sprintf(named, "4"), 3, []string{`#9 "4" failed`}},
		{fmt.Sprintf(named, "made up"), 4, []string{"orphan", "#10 5 failed"}},
	} {
		refuse(test.payload, test.asked)
		if !slices.Equal(w.saw, test.want) {
			t.Errorf("%s to frame %d: saw %q, want %q", test.payload, test.asked, w.saw, test.want)
		}
		w.saw = nil
	}
	if tr.Feed(next(frame.U2C, strings.Replace(nameless, "-1", "-32600", 1))); !slices.Equal(w.saw, []string{"#11 1 failed"}) {
		t.Errorf("an error that may be for anything: saw %q; what could not be read had its answer", w.saw)
	}
	stats, in := tr.Stats(), int64(0)
	for e := range tr.Exchanges() {
		in += e.BytesIn
		if e.Closed.IsZero() {
			t.Errorf("it is not known when %s ended", e.ID.Text)
		}
	}
	if stats.Frames != 11 || in != 40 {
		t.Errorf("%d frames, and %d bytes of answers", stats.Frames, in)
	}
}
