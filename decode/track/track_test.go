package track_test

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/capture/tap"
	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/decode/convert"
	"github.com/wirectl/wirectl/decode/track"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/session"
)

// A script is a session of records.
type script struct {
	session capture.Session
	records []capture.Record
}

func (s *script) Session() *capture.Session { return &s.session }

func (s *script) Next(rec *capture.Record) error {
	if len(s.records) == 0 {
		return io.EOF
	}
	*rec, s.records = s.records[0], s.records[1:]
	return nil
}

// outlined is a session as a record of metadata keeps it.
func outlined(t *testing.T, s *script) *script {
	t.Helper()
	r := convert.Redact(&script{s.session, slices.Clone(s.records)}, capture.Redaction{Outline: true})
	kept := &script{session: *r.Session()}
	for {
		var rec capture.Record
		switch err := r.Next(&rec); err {
		case nil:
			kept.records = append(kept.records, rec.Clone())
		case io.EOF:
			return kept
		default:
			t.Fatal(err)
		}
	}
}

// http is a body on a connection of its own, whose start line says which way it went.
func http(conn int, protocol, start, body string) capture.Record {
	dir := frame.C2U
	if strings.HasPrefix(start, "HTTP/") {
		dir = frame.U2C
	}
	return capture.Record{Protocol: protocol, Framing: frame.HTTP, Frame: frame.Frame{
		Conn: conn, Dir: dir, Stream: 1, Raw: []byte(body), End: len(body), Meta: &frame.Meta{Framing: frame.HTTP, Head: &frame.Head{Start: start}},
	}}
}

// follow has a script followed, and returns what the trackers know.
func follow(t *testing.T, s *script, change ...func(*decode.Config)) *track.Trackers {
	t.Helper()
	ts, f := look(t, s, change...)
	f.End()
	return ts
}

// look is follow for a session that has not ended.
func look(t *testing.T, s *script, change ...func(*decode.Config)) (*track.Trackers, *track.Follower) {
	t.Helper()
	var ts track.Trackers
	in, cfg := decode.Input{Capture: s}, decode.Config{Workers: 1}
	for _, c := range change {
		c(&cfg)
	}
	f := track.NewFollower(&ts, in, cfg)
	cfg.Event = f.Event
	if _, err := decode.Run(context.Background(), in, io.Discard, cfg, func() decode.View { return f.View }); err != nil {
		t.Fatal(err)
	}
	return &ts, f
}

// A binary message of a WebSocket is one of Latis, or consists of some behind their
// lengths: nobody has to say which.
func TestLatisOverWebSocket(t *testing.T) {
	const (
		upgrade = ">GET / HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"
		agreed  = "<HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"
	)
	bare := func(message string) string { return message }
	framed := func(message string) string { return "\x00\x00\x00" + string(rune(len(message))) + message }
	for name, in := range map[string]func(string) string{"bare": bare, "framed": framed} {
		said := func(message string) string {
			message = in(message)
			return "\x82" + string(rune(len(message))) + message
		}
		ts := follow(t, over(
			upgrade, agreed,
			">"+said("\x0a\x012\x62\x00"),             // STATE_GET
			"<"+said("\x0a\x012\xba\x01\x02\x08\x01"), // STATE_UPDATE
		))
		if len(ts.List) != 1 || ts.List[0].Protocol.Name() != "latis" {
			t.Errorf("%s: %d protocols, of which the first is %s", name, len(ts.List), ts.List[0].Protocol.Name())
			continue
		}
		for e := range ts.List[0].Exchanges() {
			if e.Kind != "STATE_GET" || e.Outcome != session.Done {
				t.Errorf("%s: %s is %v", name, e.Kind, e.Outcome)
			}
		}
	}
}

// Who looks on sees the exchanges of JSON-RPC as soon as it is known by which rules
// they are judged, and when enough has passed if nothing tells.
func TestHeldBack(t *testing.T) {
	asks := func(method, params string) string {
		return post("/", `{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":`+params+`}`)
	}
	mcp := asks("initialize", `{"protocolVersion":"2025-06-18","capabilities":{}}`)
	refused := said("401 Unauthorized", `{"error":"unauthorized"}`)
	lsp := asks("initialize", `{"processId":1,"capabilities":{}}`)
	for _, tt := range []struct {
		about string
		wire  []string
		want  string // the tracker, and how many exchanges it has
	}{
		{"a dialect that says its version", []string{mcp, refused}, "mcp 1"},
		{"which is kept by what others have, too", []string{mcp, refused, lsp, refused}, "mcp 2"},
		{"methods of no dialect", []string{asks("add", "[1]"), said("200 OK", result)}, "jsonrpc 1"},
		{"a method that several have", []string{lsp, said("200 OK", result)}, ""},
		{"that and one of none, which they may add", []string{lsp, said("200 OK", result), asks("add", "[1]"), said("200 OK", result)}, ""},
		{"until one has it alone", []string{lsp, said("200 OK", result), post("/", `{"jsonrpc":"2.0","method":"initialized"}`)}, "lsp 1"},
		{"or too much is held", slices.Repeat([]string{lsp, said("200 OK", result)}, 32), "jsonrpc 32"},
	} {
		ts, _ := look(t, over(tt.wire...))
		var got []string
		for _, tr := range ts.List {
			got = append(got, fmt.Sprintf("%s %d", tr.Protocol.Name(), tr.Stats().Opened))
		}
		if strings.Join(got, ", ") != tt.want {
			t.Errorf("%s: %q rather than %q", tt.about, got, tt.want)
		}
	}
}

// Of connections that have ended nothing is kept, however many there are: what follows a
// relay lives as long as that does.
func TestEndedConnectionsAreForgotten(t *testing.T) {
	at := time.Unix(1, 0)
	var s script
	add := func(conn int, rec capture.Record) {
		s.records = append(s.records, rec)
		for _, dir := range []frame.Dir{frame.C2U, frame.U2C} {
			s.records = append(s.records, capture.Record{Kind: capture.HalfClosed, Time: at, Frame: frame.Frame{Conn: conn, Dir: dir}})
		}
	}
	for conn := 0; conn < 20; conn += 2 {
		line := []byte(`{"jsonrpc":"2.0","id":1,"method":"ping"}` + "\n")
		add(conn, capture.Record{Protocol: "mcp", Framing: "line", Time: at, Frame: frame.Frame{Conn: conn, Dir: frame.C2U, Raw: line, End: len(line) - 1}})
		web := http(conn+1, "", "POST /v1/chat/completions HTTP/1.1", `{"model":"m","messages":[]}`)
		web.Time = at
		add(conn+1, web)
	}
	ts, f := look(t, &s)
	if wires, conns := f.Kept(); wires > 0 || conns > 0 {
		t.Errorf("%d wires and %d connections are kept", wires, conns)
	}
	var opened, inFlight int64
	for _, tr := range ts.List {
		opened, inFlight = opened+tr.Stats().Opened, inFlight+tr.Stats().InFlight
	}
	if opened != 20 || inFlight != 0 {
		t.Errorf("%d exchanges, %d of which are open", opened, inFlight)
	}
}

// What a broker asks its provider over HTTP is not judged by the rules of the
// door, be that HTTP too.
func TestTwoProtocolsOverHTTP(t *testing.T) {
	ts := follow(t, &script{records: []capture.Record{
		http(1, "nexus", "POST / HTTP/1.1", `{"jsonrpc":"2.0","id":1,"method":"send","params":{"content":"hi"}}`),
		http(2, "", "POST /v1/chat/completions HTTP/1.1", `{"model":"m","messages":[]}`),
		http(2, "", "HTTP/1.1 400 Bad Request", `{"error":{"message":"no"}}`),
		http(1, "nexus", "HTTP/1.1 200 OK", `{"jsonrpc":"2.0","id":1,"result":{"content":"hi","request_id":"r"}}`),
	}})
	frames := map[string]int64{}
	for _, tr := range ts.List {
		frames[tr.Protocol.Name()] = tr.Stats().Frames
		if n := tr.Stats().Findings; len(n) > 0 {
			t.Errorf("%s: findings %v", tr.Protocol.Name(), n)
		}
	}
	if frames["nexus"] != 2 || frames["openai"] != 2 {
		t.Errorf("frames were judged as %v", frames)
	}
}

// Where a note says that frames are missing, open calls may have been answered, and answers
// belong to missing requests.
func TestFramesAreMissing(t *testing.T) {
	line := func(dir frame.Dir, text string) capture.Record {
		return capture.Record{Protocol: "mcp", Framing: "line", Frame: frame.Frame{Conn: 1, Dir: dir, Raw: []byte(text + "\n"), End: len(text)}}
	}
	note := tap.Note{Tap: tap.Lost}
	for _, missing := range []bool{false, true} {
		s := &script{records: []capture.Record{
			line(frame.C2U, `{"jsonrpc":"2.0","id":1,"method":"ping"}`), note.Record(), line(frame.U2C, `{"jsonrpc":"2.0","id":2,"result":{}}`),
		}}
		if !missing {
			s.records = slices.Delete(s.records, 1, 2)
		}
		ts := follow(t, s)
		if st := ts.List[0].Stats(); missing == (len(st.Findings) > 0) || missing == (st.Forgotten == 0) {
			t.Errorf("missing %v: %+v", missing, st)
		}
	}
}
