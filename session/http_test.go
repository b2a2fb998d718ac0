package session_test

import (
	"strings"
	"testing"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/session"
)

// httpFrame returns a frame of an HTTP exchange with a head. fields alternates names and
// values.
func httpFrame(conn int, stream int64, start string, fields ...string) *frame.Frame {
	f := &frame.Frame{Conn: conn, Stream: stream, Meta: &frame.Meta{Framing: frame.HTTP, Head: &frame.Head{Start: start}}}
	for i := 0; i < len(fields); i += 2 {
		f.Meta.Head.Fields = append(f.Meta.Head.Fields, frame.Field{Name: fields[i], Value: fields[i+1]})
	}
	return f
}

// Without a session, a cancel comes in a request of its own, and so in another scope than its target.
func TestStatelessCancel(t *testing.T) {
	for script, want := range map[string]string{
		"#1/1; > call 1; #2/1; > cancel 1; #1/1; end":                                   "cancelled; ",
		"#1/1; > call 1; < result 1; #2/1; > cancel 1; #1/1; end":                       "done; ",
		"#1/1; > call 1; < result 1; #1/2; > call 1; #2/1; > cancel 1; #1/2; end":       "done cancelled; ",
		"#1/1; > call 1; #3/1; > call 1; #2/1; > cancel 1; #1/1; < result 1; #3/1; end": "done abandoned; unanswered @ 2",
		"#1/1; > call 1; #2/1; > cancel 2; #1/1; < result 1; end":                       "done; cancel-unknown @ 2",
		"#1; > call 1; #2; > cancel 1; #1; < result 1; end":                             "done; cancel-unknown @ 2",
	} {
		tr := play(t, "mcp", script, session.Options{})
		var outcomes []string
		for e := range tr.Exchanges() {
			outcomes = append(outcomes, e.Outcome.String())
		}
		if got := strings.Join(outcomes, " ") + "; " + found(tr); got != want {
			t.Errorf("%s: %q, want %q", script, got, want)
		}
	}
}

// The ids of MCP over HTTP belong to its session, on any connection; other ids belong to a
// request and its response.
func TestScopes(t *testing.T) {
	const id = "mcp-session-id"
	event := &frame.Frame{Conn: 1, Stream: 2, Meta: &frame.Meta{Framing: frame.HTTP}}
	endpoint := &frame.Frame{Conn: 3, Stream: 1, Meta: &frame.Meta{Framing: frame.HTTP, Event: "endpoint", Apart: true, Data: []byte("/messages?sessionId=z")}}
	var s session.Scopes
	for _, tt := range []struct {
		about        string
		frame        *frame.Frame
		conn, stream int
	}{
		{"a plain frame", &frame.Frame{Conn: 1}, 1, 0},
		{"a gRPC message", &frame.Frame{Conn: 1, Stream: 3, Meta: &frame.Meta{Framing: "grpc"}}, 1, 3},
		{"the request that begins a session", httpFrame(1, 1, "POST /mcp HTTP/1.1"), 1, 1},
		{"and its response", httpFrame(1, 1, "HTTP/1.1 200 OK", id, "x"), 1, 1},
		{"a request of the session", httpFrame(1, 2, "POST /mcp HTTP/1.1", id, "x"), 0, -1},
		{"an event that answers it", event, 0, -1},
		{"a request of the session on another connection", httpFrame(2, 1, "POST /mcp HTTP/1.1", "Mcp-Session-Id", "x"), 0, -1},
		{"a request of another session", httpFrame(2, 2, "POST /mcp HTTP/1.1", id, "y"), 0, -2},
		{"the stream of a session of the older transport", endpoint, 0, -3},
		{"a request of it", httpFrame(4, 1, "POST /messages?sessionId=z HTTP/1.1"), 0, -3},
		{"a response of which no request was seen", httpFrame(5, 1, "HTTP/1.1 200 OK", id, "x"), 0, -1},
	} {
		if conn, stream := s.Of(tt.frame); conn != tt.conn || stream != tt.stream {
			t.Errorf("%s: the scope is %d, %d, and not %d, %d", tt.about, conn, stream, tt.conn, tt.stream)
		}
	}
}
