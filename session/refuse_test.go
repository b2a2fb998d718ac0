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

// A refused request that is sent again with its id, as after a redirect or a login, is one
// operation with the outcome of the last attempt. One with another id or other arguments is not.
func TestRefusedRequestIsRepeated(t *testing.T) {
	var w witness
	tr := session.New(jsonrpc.Plain, session.Options{Watcher: &w})
	seq := int64(0)
	at := func(dir frame.Dir, payload string) session.Frame {
		seq++
		return session.Frame{Seq: seq, Time: began.Add(time.Duration(seq) * time.Second), Dir: dir, Size: 10, Payload: []byte(payload)}
	}
	feed := func(dir frame.Dir, payload string) int64 {
		var m protocol.Message
		f := at(dir, payload)
		if err := jsonrpc.Plain.Parse(f.Payload, &m); err != nil {
			t.Fatal(err)
		}
		tr.Feed(f, &m)
		return f.Seq
	}
	refuse := func(asked int64) {
		tr.Refuse(at(frame.U2C, ""), &protocol.Message{Kind: []byte("307"), Phase: protocol.Fail, Seq: -1}, asked)
	}
	const request, answer = `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q}}`, `{"jsonrpc":"2.0","id":%d,"result":{}}`
	refuse(feed(frame.C2U, fmt.Sprintf(request, 1, "a")))
	refuse(feed(frame.C2U, fmt.Sprintf(request, 1, "a")))
	feed(frame.C2U, fmt.Sprintf(request, 1, "a"))
	feed(frame.U2C, fmt.Sprintf(answer, 1))
	refuse(feed(frame.C2U, fmt.Sprintf(request, 2, "a")))
	feed(frame.C2U, fmt.Sprintf(request, 3, "a"))
	feed(frame.U2C, fmt.Sprintf(answer, 3))
	var got []string
	for e := range tr.Exchanges() {
		if e.Of == 0 {
			got = append(got, fmt.Sprintf("%s %v, %d more", e.ID.Text, e.Outcome, e.Joined))
		}
	}
	slices.Sort(got)
	if want := []string{"1 done, 2 more", "2 failed, 0 more", "3 done, 0 more"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
