package track_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/session"
)

// What an answer of HTTP refuses has failed, whatever its body is, and nothing that
// others asked for. An error without an id belongs to the request that it answers.
func TestRefusalsOverHTTP(t *testing.T) {
	const (
		session  = "HTTP/1.1\r\nMcp-Session-Id: s"
		nameless = `{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"no"}}`
		note     = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
		batch    = `[{"jsonrpc":"2.0","id":7,"method":"tools/list"},` + note + `,{"jsonrpc":"2.0","id":8,"method":"tools/call"}]`
	)
	in := func(wire string) string { return strings.Replace(wire, "HTTP/1.1", session, 1) }
	first := []string{post("/mcp", call), said("200 OK", result)}
	text := "<HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Bearer\r\nContent-Length: 2\r\n\r\nno"
	open := in(post("/mcp", strings.Replace(call, "1", "9", 1))) // unlike the others, it may be answered elsewhere
	for _, tt := range []struct {
		about string
		wire  []string
		want  []string // exchanges, then findings
	}{
		{"by JSON", []string{post("/mcp", call), said("401 Unauthorized", `{"error":"unauthorized"}`)}, []string{"mcp 1 tools/list failed 1 2"}},
		{"by text", []string{post("/mcp", call), text}, []string{"mcp 1 tools/list failed 1 2"}},
		{"by nothing", []string{post("/mcp", call), "<HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n"}, []string{"mcp 1 tools/list failed 1 2"}},
		{"by text that ends with the connection", []string{post("/mcp", call), "<HTTP/1.1 502 Bad Gateway\r\n\r\nno"}, []string{"mcp 1 tools/list failed 1 2"}},
		{
			"by the answer",
			[]string{post("/mcp", call), said("404 Not Found", `{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no"}}`)},
			[]string{"mcp 1 tools/list failed 1 2"},
		},
		{"by a status, with a result", []string{post("/mcp", call), said("500 Oops", result)}, []string{"mcp 1 tools/list failed 1 2"}},
		{
			"by an error that names nothing, and not what was asked before",
			append(slices.Clone(first), open, in(post("/mcp", strings.Replace(call, "1", "2", 1))), "<HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n", said("400 Bad Request", nameless)),
			[]string{"mcp 1 tools/list done 1 2", "mcp 2 tools/list failed 4 6", "mcp 9 tools/list abandoned 3", "wrong-response 3 5", "unanswered 3"},
		},
		{
			"by an error without so much as a member for it",
			[]string{post("/mcp", call), said("400 Bad Request", strings.Replace(nameless, `"id":null,`, "", 1))},
			[]string{"mcp 1 tools/list failed 1 2"},
		},
		{
			"by an error with an id that was made up",
			[]string{post("/mcp", call), said("400 Bad Request", strings.Replace(nameless, "null", `"server-error"`, 1))},
			[]string{"mcp 1 tools/list failed 1 2", "orphan 2"},
		},
		{"all of a batch", []string{post("/mcp", batch), text}, []string{"mcp 7 tools/list failed 1 2", "mcp 8 tools/call failed 1 2"}},
		{
			"the second of two, pipelined",
			[]string{post("/mcp", call), post("/mcp", strings.Replace(call, "1", "2", 1)), said("200 OK", result), text},
			[]string{"mcp 1 tools/list done 1 3", "mcp 2 tools/list failed 2 4"},
		},
		{
			"a notification: nothing else fails with it",
			append(slices.Clone(first), open, "<HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n", in(post("/mcp", note)), said("400 Bad Request", nameless), in(post("/mcp", note)), text),
			[]string{"mcp 1 tools/list done 1 2", "mcp 9 tools/list abandoned 3", "wrong-response 3 4", "unanswered 3"},
		},
		{
			"a stream of events, by an error without an id",
			append(slices.Clone(first), in(">GET /mcp HTTP/1.1\r\nHost: h\r\n\r\n"), said("405 Method Not Allowed", nameless)),
			[]string{"mcp 1 tools/list done 1 2"},
		},
		{
			"what is not a message, by an error that says so",
			append(slices.Clone(first), in(post("/v1/chat", `{}`)), said("400 Bad Request", nameless)),
			[]string{"http 2 POST /v1/chat failed 3 4", "mcp 1 tools/list done 1 2"},
		},
		{
			"what cannot be read, before what can",
			append(slices.Clone(first), post("/mcp", `{"jsonrpc":"2.0",`), said("400 Bad Request", nameless), post("/mcp", call), said("400 Bad Request", nameless)),
			[]string{"mcp 1 tools/list done 1 2", "mcp 1 tools/list failed 5 6", "malformed 3"},
		},
		{
			"what is cut, before its end is seen",
			append(slices.Clone(first), strings.Replace(post("/mcp", `{"jsonrpc":`), "Length: 11", "Length: 100", 1), said("400 Bad Request", nameless)),
			[]string{"mcp 1 tools/list done 1 2", "truncated 4"},
		},
		{
			"what is too large",
			append(slices.Clone(first), strings.Replace(post("/mcp", call), "Length: ", "Length: 9999999", 1), said("413 Content Too Large", nameless)),
			[]string{"http 2 POST /mcp failed 3 4", "mcp 1 tools/list done 1 2", "oversize 3"},
		},
		{
			"nothing, by the answer to what is too large",
			append(slices.Clone(first), strings.Replace(post("/mcp", call), "Length: ", "Length: 9999999", 1), said("200 OK", strings.Replace(result, "1", "7", 1))),
			[]string{"http 2 POST /mcp done 3 4", "mcp 1 tools/list done 1 2", "oversize 3"},
		},
		{
			"nothing, by an answer that is too large",
			append(slices.Clone(first), in(post("/mcp", call)), strings.Replace(said("200 OK", result), "Length: ", "Length: 9999999", 1)),
			[]string{"mcp 1 tools/list done 1 2", "mcp 1 tools/list done 3 4", "oversize 4"},
		},
		{
			"by an address that is to be asked with the same id",
			append(slices.Clone(first), in(post("/mcp", call)), "<HTTP/1.1 307 Temporary Redirect\r\nLocation: /mcp/\r\nContent-Length: 0\r\n\r\n", in(post("/mcp/", call)), said("200 OK", result)),
			[]string{"mcp 1 tools/list done 1 2", "mcp 1 tools/list done 3 4 5", "mcp 1 tools/list done 5 6"},
		},
		{
			"nothing, only that it is not answered here",
			append(slices.Clone(first), open, "<HTTP/1.1 202 Accepted\r\nContent-Length: 2\r\n\r\nok"),
			[]string{"mcp 1 tools/list done 1 2", "mcp 9 tools/list abandoned 3", "wrong-response 3 4", "unanswered 3"},
		},
		{
			"by an error that names nothing, and a status that refuses nothing",
			append(slices.Clone(first), open, in(post("/mcp", strings.Replace(call, "1", "2", 1))), "<HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n", said("200 OK", nameless)),
			[]string{"mcp 1 tools/list done 1 2", "mcp 2 tools/list failed 4 6", "mcp 9 tools/list abandoned 3", "wrong-response 3 5", "unanswered 3"},
		},
		{
			"by an error with an id that was made up, and a status that refuses nothing",
			[]string{post("/mcp", call), said("200 OK", strings.Replace(nameless, "null", `"server-error"`, 1))},
			[]string{"mcp 1 tools/list failed 1 2", "orphan 2", "unanswered 1 2"},
		},
		{"by other JSON", []string{post("/mcp", call), said("200 OK", `{"a":1}`)}, []string{"mcp 1 tools/list failed 1 2", "unanswered 1 2"}},
		{"by events, at their end", []string{post("/mcp", call), strings.Replace(events, "200 OK", "503 Busy", 1), chunk("data: {\"a\":1}\n\n"), "<0\r\n\r\n"}, []string{"mcp 1 tools/list failed 1 4"}},
		{"by events that hold the answer", []string{post("/mcp", call), strings.Replace(events, "200 OK", "503 Busy", 1), chunk("data: " + result + "\n\n"), "<0\r\n\r\n"}, []string{"mcp 1 tools/list done 1 3"}},
		{"what no dialect knows", []string{post("/", strings.Replace(call, "tools/list", "foo", 1)), text}, []string{"jsonrpc 1 foo failed 1 2"}},
		{
			"HTTP/2, by JSON",
			[]string{h2(":method", "POST", ":path", "/mcp") + data(call), "<" + h2(":status", "401", "content-type", "application/json")[1:] + data(`{"error":"no"}`)},
			[]string{"mcp 1 tools/list failed 2 4"},
		},
		{
			"HTTP/2, by an error that names nothing",
			[]string{h2(":method", "POST", ":path", "/mcp") + data(call), "<" + h2(":status", "400", "content-type", "application/json")[1:] + data(nameless)},
			[]string{"mcp 1 tools/list failed 2 4"},
		},
		{
			"HTTP/2, by an error with an id that was made up",
			[]string{h2(":method", "POST", ":path", "/mcp") + data(call), "<" + h2(":status", "400", "content-type", "application/json")[1:] + data(strings.Replace(nameless, "null", `"server-error"`, 1))},
			[]string{"mcp 1 tools/list failed 2 4", "orphan 4"},
		},
		{
			"HTTP/2, by a head, whose body the controller does not wait for",
			[]string{h2(":method", "POST", ":path", "/mcp") + data(call), "<" + h2(":status", "401", "content-type", "text/html")[1:], ">" + reset(http2.ErrCodeCancel)},
			[]string{"mcp 1 tools/list failed 2 4"},
		},
		{
			"HTTP/2, by a head, whose body the unit breaks off",
			[]string{h2(":method", "POST", ":path", "/mcp") + data(call), "<" + h2(":status", "503", "content-type", "text/html")[1:] + reset(http2.ErrCodeInternal)},
			[]string{"mcp 1 tools/list failed 2 4"},
		},
		{
			"HTTP/2, nothing: the controller leaves before there is an answer",
			[]string{h2(":method", "POST", ":path", "/mcp") + data(call), "<" + h2(":status", "200", "content-type", "text/event-stream")[1:], ">" + reset(http2.ErrCodeCancel)},
			[]string{"mcp 1 tools/list abandoned 2"},
		},
		{
			"HTTP/2, by a head alone",
			[]string{h2(":method", "POST", ":path", "/mcp") + data(call), "<" + bare(":status", "503", "content-type", "text/plain")[1:]},
			[]string{"mcp 1 tools/list failed 2 4"},
		},
	} {
		t.Run(tt.about, func(t *testing.T) {
			var exchanges, found []string
			for _, tr := range follow(t, over(tt.wire...)).List {
				for e := range tr.Exchanges() {
					exchanges = append(exchanges, fmt.Sprintf("%s %s %s %v %s", tr.Protocol.Name(), e.ID.Text, e.Kind, e.Outcome, strings.Trim(fmt.Sprint(e.Frames), "[]")))
				}
				for f := range tr.Findings() {
					found = append(found, fmt.Sprintf("%s %s", f.Name, strings.Trim(fmt.Sprint(f.Frames), "[]")))
				}
			}
			slices.Sort(exchanges)
			if got := append(exchanges, found...); !slices.Equal(got, tt.want) {
				t.Errorf("there are\n\t%s\nnot\n\t%s", strings.Join(got, "\n\t"), strings.Join(tt.want, "\n\t"))
			}
		})
	}
}

// A runtime that closes the connection because of the request owes it no final
// message. One that has taken the request does, and so does one that just leaves.
func TestRefusalsOverWebSocket(t *testing.T) {
	const (
		request = `{"kind":"Request","control":{"run_id":"r"}}`
		unnamed = `{"kind":"Request","control":{}}`
		ack     = `{"kind":"Ack","control":{"run_id":"r"}}`
	)
	said := func(dir frame.Dir, text string) capture.Record {
		return capture.Record{Protocol: "theory", Framing: frame.WS, Frame: frame.Frame{
			Conn: 1, Dir: dir, Raw: []byte(text), End: len(text), Meta: &frame.Meta{Framing: frame.WS, Opcode: frame.TextMsg},
		}}
	}
	closed := func(dir frame.Dir, code uint32) capture.Record {
		return capture.Record{Protocol: "theory", Framing: frame.WS, Frame: frame.Frame{
			Conn: 1, Dir: dir, Meta: &frame.Meta{Framing: frame.WS, Signal: frame.Close, Code: code},
		}}
	}
	for _, tt := range []struct {
		about   string
		records []capture.Record
		want    string
	}{
		{"without a run id", []capture.Record{said(frame.C2U, unnamed), closed(frame.U2C, 1008)}, "failed missing-field"},
		{"of the wrong form", []capture.Record{said(frame.C2U, request), closed(frame.U2C, 1002)}, "failed"},
		{"not, but the runtime leaves", []capture.Record{said(frame.C2U, request), closed(frame.U2C, 1001)}, "abandoned no-final"},
		{"not, but the client leaves", []capture.Record{said(frame.C2U, request), closed(frame.C2U, 1008), closed(frame.U2C, 1000)}, "abandoned no-final"},
		{"not, after the Ack", []capture.Record{said(frame.C2U, request), said(frame.U2C, ack), closed(frame.U2C, 1008)}, "abandoned no-final"},
	} {
		for _, timed := range []bool{false, true} {
			s := &script{records: slices.Clone(tt.records)}
			for i := range s.records {
				if timed {
					s.records[i].Time = time.Unix(int64(i+1), 0)
				}
			}
			tr := follow(t, s).List[0]
			var got []string
			for e := range tr.Exchanges() {
				got = append(got, e.Outcome.String())
			}
			for f := range tr.Findings() {
				got = append(got, f.Name)
			}
			if strings.Join(got, " ") != tt.want {
				t.Errorf("%s (timed: %t): %q, not %q", tt.about, timed, got, tt.want)
			}
		}
	}
}

// A request fails when its response has ended without the answer, at that time and for that
// reason, unless the answer may come in another response.
func TestResponsesWithoutAnswer(t *testing.T) {
	const (
		progress = `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}`
		task     = `{"jsonrpc":"2.0","id":1,"result":{"task":{"taskId":"t","status":"working"}}}`
		batch    = `[{"jsonrpc":"2.0","id":1,"method":"tools/list"},{"jsonrpc":"2.0","id":2,"method":"tools/list"}]`
		html     = "<HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: 5\r\n\r\n<p>no"
		polled   = "<HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
	)
	in := func(version, wire string) string {
		return strings.Replace(wire, "HTTP/1.1", "HTTP/1.1\r\nMcp-Session-Id: s\r\nMCP-Protocol-Version: "+version, 1)
	}
	with := func(version, wire string) string {
		return strings.Replace(in(version, wire), "Mcp-Session-Id: s\r\n", "", 1)
	}
	get := func(version, id string) string {
		return in(version, ">GET /mcp HTTP/1.1\r\nHost: h\r\nAccept: text/event-stream\r\nLast-Event-ID: "+id+"\r\n\r\n")
	}
	ids := chunk("id: 1\nretry: 10\ndata: \n\n")
	h2OK := func(contentType string) string {
		return "<" + h2(":status", "200", "content-type", contentType)[1:]
	}
	h2Call := h2(":method", "POST", ":path", "/mcp") + data(call)
	for _, tt := range []struct {
		about string
		wire  []string
		want  string // outcomes with their reasons, then findings
	}{
		{"a page", []string{post("/mcp", call), html}, "failed@2 no answer in HTTP 200 text/html; unanswered error 1 2"},
		{"nothing", []string{post("/mcp", call), "<HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"}, "failed@2 no answer in HTTP 200; unanswered error 1 2"},
		{"204", []string{post("/mcp", call), "<HTTP/1.1 204 No Content\r\n\r\n"}, "failed@2 no answer in HTTP 204; unanswered error 1 2"},
		{"null", []string{post("/mcp", call), said("200 OK", "null")}, "failed@2 no answer in HTTP 200 application/json; unanswered error 1 2"},
		{"a page up to the close", []string{post("/mcp", call), "<HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<p>"}, "failed@2 no answer in HTTP 200 text/html; unanswered error 1 2"},
		{"a notification", []string{post("/mcp", call), said("200 OK", progress)}, "failed@2 no answer in HTTP 200 application/json; orphan error 2; unanswered error 1 2"},
		{"no events", []string{post("/mcp", call), events, last}, "failed@3 no answer in HTTP 200 text/event-stream; unanswered error 1 3"},
		{"events up to the close", []string{post("/mcp", call), "<HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: {}\n\n"}, "failed@4 no answer in HTTP 200 text/event-stream; unanswered error 1 4"},
		{"half of a batch", []string{post("/mcp", batch), events, chunk("data: " + result + "\n\n"), last}, "done@3 ; failed@4 no answer in HTTP 200 text/event-stream; unanswered error 1 4"},
		{"a task, which goes on", []string{post("/mcp", call), said("200 OK", task)}, "abandoned@2 "},
		{"a compression that is unknown", []string{post("/mcp", call), "<HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Encoding: lz\r\nContent-Length: 3\r\n\r\nabc"}, "abandoned@1 ; unanswered note 1"},

		{"HTTP/2, a page", []string{h2Call, h2OK("text/html") + data("<p>no")}, "failed@4 no answer in HTTP 200 text/html; unanswered error 2 4"},
		{"HTTP/2, nothing", []string{h2Call, "<" + bare(":status", "200")[1:]}, "failed@4 no answer in HTTP 200; unanswered error 2 4"},
		{"HTTP/2, no events", []string{h2Call, h2OK("text/event-stream") + data("")}, "failed@4 no answer in HTTP 200 text/event-stream; unanswered error 2 4"},
		{"HTTP/2, a reset by the server", []string{h2Call, h2OK("text/event-stream"), "<" + reset(http2.ErrCodeInternal)}, "died@4 no answer in HTTP 200 text/event-stream, which was cut; unanswered error 2 4"},
		{"HTTP/2, a reset by the server at once", []string{h2Call, "<" + reset(http2.ErrCodeRefusedStream)}, "died@3 no answer in a response of HTTP; unanswered error 2 3"},

		{"it is accepted, and answered on another stream", []string{in("2025-06-18", post("/mcp", call)), "<HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n", get("2025-06-18", "0"), events, chunk("data: " + result + "\n\n"), last}, "done@5 "},
		{"2026-07-28: it is accepted, and nothing else can answer", []string{in("2026-07-28", post("/mcp", call)), "<HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n"}, "failed@2 no answer in HTTP 202; unanswered error 1 2"},
		{"2025-11-25: a stream that the client asks to go on", []string{in("2025-11-25", post("/mcp", call)), polled, ids, last, get("2025-11-25", "1"), polled, chunk("id: 2\ndata: " + result + "\n\n"), last}, "done@7 "},
		{"2025-11-25: a stream that may go on", []string{in("2025-11-25", post("/mcp", call)), polled, ids, last}, "abandoned@1 ; unanswered note 1"},
		{"2025-06-18: a stream that goes on though it should not have ended", []string{in("2025-06-18", post("/mcp", call)), polled, ids, last, get("2025-06-18", "1"), polled, chunk("id: 2\ndata: " + result + "\n\n"), last}, "done@7 "},
		{"2025-06-18: a stream that does not go on", []string{in("2025-06-18", post("/mcp", call)), polled, ids, last, in("2025-06-18", post("/mcp", strings.Replace(call, "1", "2", 1))), said("200 OK", strings.Replace(result, "1", "2", 1))}, "done@6 ; failed@4 no answer in HTTP 200 text/event-stream; unanswered error 1 4"},
		{"2025-06-18: a stream that ends with the session, because the client deletes it", []string{in("2025-06-18", post("/mcp", call)), polled, in("2025-06-18", ">DELETE /mcp HTTP/1.1\r\nHost: h\r\n\r\n"), last, "<HTTP/1.1 204 No Content\r\n\r\n"}, "abandoned@5 ; unanswered note 1"},
		{"2026-07-28: a stream that ends because of a message, which need not have been sent", []string{with("2026-07-28", post("/mcp", call)), polled, with("2026-07-28", post("/mcp", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)), last, "<HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n"}, "cancelled@4 "},
		{"2026-07-28: a stream that cannot go on", []string{in("2026-07-28", post("/mcp", call)), polled, ids, last}, "failed@4 no answer in HTTP 200 text/event-stream; unanswered error 1 4"},
	} {
		s := over(tt.wire...)
		for i := range s.records {
			s.records[i].Time = time.Unix(int64(i+1), 0)
		}
		for name, s := range map[string]*script{"whole": s, "metadata": outlined(t, s)} {
			var got []string
			for _, tr := range follow(t, s).List {
				for e := range tr.Exchanges() {
					got = append(got, fmt.Sprintf("%v@%d %s", e.Outcome, e.Closed.Unix(), e.Reason))
				}
				for f := range tr.Findings() {
					if slices.Contains([]string{"unanswered", "orphan", "after-end"}, f.Name) {
						got = append(got, fmt.Sprintf("%s %v %s", f.Name, f.Severity, strings.Trim(fmt.Sprint(f.Frames), "[]")))
					}
				}
			}
			if got := strings.Join(got, "; "); got != tt.want {
				t.Errorf("%s, %s:\n\t%s\nwant\n\t%s", tt.about, name, got, tt.want)
			}
		}
	}
}

// In the older transport of MCP, whatever answers a POST, the answer is an event of the stream
// that gave the address.
func TestOlderTransport(t *testing.T) {
	for _, said := range []string{"202 Accepted", "200 OK"} {
		ts := follow(t, onConns(
			"1>GET /sse HTTP/1.1\r\nHost: h\r\nAccept: text/event-stream\r\n\r\n",
			"1"+events, "1"+chunk("event: endpoint\ndata: messages?sessionId=z\n\n"),
			"2"+post("/messages?sessionId=z", call), "2<HTTP/1.1 "+said+"\r\nContent-Length: 2\r\n\r\nok",
			"1"+chunk("data: "+result+"\n\n"),
		))
		for e := range ts.List[0].Exchanges() {
			if e.Outcome != session.Done {
				t.Errorf("%s: %s is %v", said, e.Title(), e.Outcome)
			}
		}
		for f := range ts.List[0].Findings() {
			t.Errorf("%s: found %s", said, f.Name)
		}
	}
}
