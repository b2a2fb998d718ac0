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
		{
			"by an error that names nothing, and not what was asked before",
			append(slices.Clone(first), open, in(post("/mcp", strings.Replace(call, "1", "2", 1))), "<HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n", said("400 Bad Request", nameless)),
			[]string{"mcp 1 tools/list done 1 2", "mcp 2 tools/list failed 4 6", "mcp 9 tools/list abandoned 3", "unanswered 3"},
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
			[]string{"mcp 1 tools/list done 1 2", "mcp 9 tools/list abandoned 3", "unanswered 3"},
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
			[]string{"mcp 1 tools/list done 1 2", "oversize 3"},
		},
		{
			"nothing, by the answer to what is too large",
			append(slices.Clone(first), strings.Replace(post("/mcp", call), "Length: ", "Length: 9999999", 1), said("200 OK", strings.Replace(result, "1", "7", 1))),
			[]string{"mcp 1 tools/list done 1 2", "oversize 3"},
		},
		{
			"by an address that is to be asked with the same id",
			append(slices.Clone(first), in(post("/mcp", call)), "<HTTP/1.1 307 Temporary Redirect\r\nLocation: /mcp/\r\nContent-Length: 0\r\n\r\n", in(post("/mcp/", call)), said("200 OK", result)),
			[]string{"mcp 1 tools/list done 1 2", "mcp 1 tools/list done 5 6", "mcp 1 tools/list failed 3 4"},
		},
		{
			"nothing, only that it is not answered here",
			append(slices.Clone(first), open, "<HTTP/1.1 202 Accepted\r\nContent-Length: 2\r\n\r\nok"),
			[]string{"mcp 1 tools/list done 1 2", "mcp 9 tools/list abandoned 3", "unanswered 3"},
		},
		{
			"by an error that names nothing, and a status that refuses nothing",
			append(slices.Clone(first), open, in(post("/mcp", strings.Replace(call, "1", "2", 1))), "<HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n", said("200 OK", nameless)),
			[]string{"mcp 1 tools/list done 1 2", "mcp 2 tools/list failed 4 6", "mcp 9 tools/list abandoned 3", "unanswered 3"},
		},
		{
			"nothing, by an error with an id that was made up, and a status that refuses nothing",
			[]string{post("/mcp", call), said("200 OK", strings.Replace(nameless, "null", `"server-error"`, 1))},
			[]string{"mcp 1 tools/list abandoned 1", "orphan 2", "unanswered 1"},
		},
		{"nothing, by other JSON", []string{post("/mcp", call), said("200 OK", `{"a":1}`)}, []string{"mcp 1 tools/list abandoned 1", "unanswered 1"}},
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
