package store_test

import (
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/session"
	"github.com/wirectl/wirectl/store"
)

// live is a tap through which records pass. Where one is nil nothing passes for a
// while, in which look is called.
type live struct {
	session capture.Session
	records []*capture.Record
	look    func()
}

func (l *live) Session() *capture.Session { return &l.session }
func (l *live) Buffered() bool            { return len(l.records) > 0 && l.records[0] != nil }

func (l *live) Next(r *capture.Record) error {
	for ; len(l.records) > 0 && l.records[0] == nil; l.records = l.records[1:] {
		l.look()
	}
	if len(l.records) == 0 {
		return io.EOF
	}
	*r, l.records = *l.records[0], l.records[1:]
	return nil
}

// at is a time of such a session, in milliseconds.
func at(ms int64) time.Time { return time.Unix(1_800_000_000, ms*1e6) }

func said(ms int64, conn int, dir frame.Dir, text string) *capture.Record {
	return &capture.Record{Time: at(ms), Frame: frame.Frame{Raw: []byte(text + "\n"), End: len(text), Conn: conn, Dir: dir}}
}

func over(ms int64, conn int, dir frame.Dir) *capture.Record {
	return &capture.Record{Kind: capture.HalfClosed, Time: at(ms), Frame: frame.Frame{Conn: conn, Dir: dir}}
}

func ask(ms int64, conn int) *capture.Record {
	return said(ms, conn, frame.C2U, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
}

// What is in flight ends with its connection, even if no frame follows, and not
// before both directions have ended.
func TestEndOfConnection(t *testing.T) {
	s := store.New(store.Options{})
	defer s.Close()
	var saw []string
	l := &live{session: capture.Session{Framing: "line", Protocol: "mcp"}}
	l.look = func() {
		text := ""
		for _, x := range s.IDs(store.IDsQuery{Sort: store.ByArrival, N: 9}).List {
			text += fmt.Sprintf(" %d:%v", x.Conn, x.Outcome)
			if !x.Open() {
				text += fmt.Sprintf("@%d", (x.Closed-at(0).UnixNano())/1e6)
			}
		}
		saw = append(saw, text)
	}
	l.records = []*capture.Record{
		ask(0, 1), ask(1, 2), over(20, 1, frame.C2U), nil,
		over(30, 1, frame.U2C), nil,
		said(40, 2, frame.U2C, `{"jsonrpc":"2.0","id":1,"result":{}}`), nil,
	}
	if err := s.Take(t.Context(), decode.Input{Capture: l}, decode.Config{Workers: 1}); err != nil {
		t.Fatal(err)
	}
	want := []string{" 1:open 2:open", " 1:abandoned@30 2:open", " 1:abandoned@30 2:done@40"}
	if fmt.Sprint(saw) != fmt.Sprint(want) {
		t.Errorf("the rows were %q, want %q", saw, want)
	}
}

// A session may follow on another: what was kept of that stays, and frames and
// findings go on.
func TestSessionAfterAnother(t *testing.T) {
	s := store.New(store.Options{})
	defer s.Close()
	take := func(altered bool, records ...*capture.Record) {
		t.Helper()
		l := &live{session: capture.Session{Framing: "line", Altered: altered}, records: records}
		l.look = func() {
			if s.Overview().Ended {
				t.Error("it has ended before its end")
			}
		}
		if err := s.Take(t.Context(), decode.Input{Capture: l}, decode.Config{Workers: 1}); err != nil {
			t.Fatal(err)
		}
	}
	take(true, ask(0, 1))
	s.Hold(store.Held{Number: 1, Conn: 1})
	s.End(nil, false)
	take(false, nil, ask(50, 2), said(60, 2, frame.U2C, `{"jsonrpc":"2.0","id":1,"result":{}}`), nil)
	o := s.Overview()
	if !o.Ended || !o.Altered || o.Frames != 3 || o.Conns != 2 || len(o.Held) > 0 || fmt.Sprint(o.Protocols) != "[mcp/line]" {
		t.Errorf("%+v", o)
	}
	text := ""
	for _, x := range s.IDs(store.IDsQuery{Sort: store.ByArrival, N: 9}).List {
		text += fmt.Sprintf(" %d:%v", x.Conn, x.Outcome)
	}
	if want := " 1:abandoned 2:done"; text != want {
		t.Errorf("the rows are %q, want %q", text, want)
	}
	for i, f := range s.Frames(0, 9).List {
		if f.Seq != int64(i+1) {
			t.Errorf("frame %d has the number %d", i+1, f.Seq)
		}
	}
}

// A cancel that need not be answered is over at once, and took as long as its
// answer if one comes.
func TestAnswerThatNeedNotCome(t *testing.T) {
	frameOf := func(ms int64, dir frame.Dir, payload string) *capture.Record {
		raw := append(binary.BigEndian.AppendUint32(nil, uint32(len(payload))), payload...)
		return &capture.Record{Time: at(ms), Frame: frame.Frame{Raw: raw, Start: 4, End: len(raw), Conn: 1, Dir: dir}}
	}
	l := &live{session: capture.Session{Framing: "len32", Protocol: "latis"}}
	l.records = []*capture.Record{
		frameOf(0, frame.C2U, "\n\x013Z\x03\n\x011"), // PROMPT_CANCEL 3 of 1
		frameOf(7, frame.U2C, "\n\x013\xca\x01\x03\n\x013"),
	}
	s := filled(t, store.Options{}, decode.Input{Capture: l})
	x := s.IDs(store.IDsQuery{N: 9}).List[0]
	if x.Kind != "PROMPT_CANCEL" || x.Outcome != session.Done || x.Closed-x.Opened != 7e6 {
		t.Errorf("%s is %v, %v after it was asked", x.Kind, x.Outcome, time.Duration(x.Closed-x.Opened))
	}
}

// What is spoken is named as it is known last, and JSON beside it for itself.
func TestProtocolsOfHTTP(t *testing.T) {
	web := func(dir frame.Dir, start, payload string) *capture.Record {
		return &capture.Record{Framing: frame.HTTP, Frame: frame.Frame{
			Raw: []byte(payload), End: len(payload), Conn: 1, Stream: 1, Dir: dir, Meta: &frame.Meta{Framing: frame.HTTP, Head: &frame.Head{Start: start}},
		}}
	}
	begin := web(frame.C2U, "POST / HTTP/1.1", `{"jsonrpc":"2.0","id":1,"method":"initialize"}`)
	refused := web(frame.U2C, "HTTP/1.1 401 Unauthorized", `{"error":"unauthorized"}`)
	list := web(frame.C2U, "POST / HTTP/1.1", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
	for _, tt := range []struct {
		records []*capture.Record
		want    []string
	}{
		{[]*capture.Record{begin, refused}, []string{"jsonrpc/http", "json/http"}},
		{[]*capture.Record{begin, refused, list}, []string{"mcp/http"}},
		{[]*capture.Record{begin, list, refused}, []string{"mcp/http", "json/http"}},
	} {
		s := store.New(store.Options{})
		if err := s.Take(t.Context(), decode.Input{Capture: &live{records: tt.records}}, decode.Config{Workers: 1}); err != nil {
			t.Fatal(err)
		}
		if got := s.Overview().Protocols; !slices.Equal(got, tt.want) {
			t.Errorf("%q, not %q", got, tt.want)
		}
		s.Close()
	}
}
