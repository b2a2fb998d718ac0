package track_test

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/andybalholm/brotli"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/frame/carrier"
	"github.com/wirectl/wirectl/session"
)

// over returns the session of what a connection carried: the bytes of the
// controller behind >, and those of the unit behind <.
func over(wire ...string) *script {
	s := &script{}
	c := carrier.New(carrier.Options{})
	add := func(frames []frame.Frame) {
		for i := range frames {
			f := frames[i]
			f.Raw, f.Meta, f.Conn = bytes.Clone(f.Raw), f.Meta.Clone(), 1
			s.records = append(s.records, capture.Record{Framing: f.Meta.Framing, Frame: f})
		}
	}
	for _, bytes := range wire {
		dir := frame.C2U
		if bytes[0] == '<' {
			dir = frame.U2C
		}
		add(c.Feed(dir, []byte(bytes[1:])))
	}
	add(c.End(frame.C2U))
	add(c.End(frame.U2C))
	return s
}

// post is a request with a body, and said an answer.
func post(path, body string) string {
	return fmt.Sprintf(">POST %s HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", path, len(body), body)
}

func said(status, body string) string {
	return fmt.Sprintf("<HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", status, len(body), body)
}

// ask is a request without a body, and nothing an answer without one.
func ask(method, path string, fields ...string) string {
	return ">" + method + " " + path + " HTTP/1.1\r\n" + strings.Join(append([]string{"Host: h"}, fields...), "\r\n") + "\r\n\r\n"
}

func nothing(status string) string {
	return "<HTTP/1.1 " + status + "\r\nContent-Length: 0\r\n\r\n"
}

const (
	events = "<HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
	call   = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
	result = `{"jsonrpc":"2.0","id":1,"result":{}}`
)

func packed(body string) string {
	var b bytes.Buffer
	w := brotli.NewWriter(&b)
	_, _ = io.WriteString(w, body)
	_ = w.Close()
	return b.String()
}

func chunk(data string) string { return fmt.Sprintf("<%x\r\n%s\r\n", len(data), data) }

// A request of HTTP is an exchange if it, or what answers it, is JSON of no
// protocol that has exchanges of its own.
func TestExchangesOfHTTP(t *testing.T) {
	for _, tt := range []struct {
		about string
		wire  []string
		want  []string
	}{
		{
			"a question and its answer, twice",
			[]string{post("/v1/chat?key=1", `{}`), said("200 OK", `{"a":1}`), post("/v1/chat", `{}`), said("503 Busy", `{}`)},
			[]string{"1 POST /v1/chat done 0 parts, frames 1 2", "2 POST /v1/chat failed 0 parts, frames 3 4"},
		},
		{
			"pipelined",
			[]string{post("/a", `{}`), post("/b", `{}`), said("200 OK", `{}`), said("200 OK", `[1]`)},
			[]string{"1 POST /a done 0 parts, frames 1 3", "2 POST /b done 0 parts, frames 2 4"},
		},
		{
			"an answer in events, which ends with their stream",
			[]string{post("/v1/chat", `{}`), events, chunk("data: {\"a\":1}\n\n"), chunk("data: {\"a\":2}\n\ndata: [DONE]\n\n"), "<0\r\n\r\n"},
			[]string{"1 POST /v1/chat done 2 parts, frames 1 3 4 6"},
		},
		{
			"events that are compressed",
			[]string{post("/v1/chat", `{}`), said("200 OK\r\nContent-Type: text/event-stream\r\nContent-Encoding: br", packed("data: {}\n\n"))},
			[]string{"1 POST /v1/chat done 1 parts, frames 1 3 4"},
		},
		{
			"an answer that is compressed",
			[]string{post("/v1/chat", `{}`), said("200 OK\r\nContent-Encoding: br", packed(`{"a":1}`))},
			[]string{"1 POST /v1/chat done 0 parts, frames 1 2"},
		},
		{
			"a stream that was cut",
			[]string{post("/v1/chat", `{}`), events, chunk("data: {\"a\":1}\n\n")},
			[]string{"1 POST /v1/chat abandoned 1 parts, frames 1 3"},
		},
		{
			"a question without a body",
			[]string{">GET /v1/models HTTP/1.1\r\nHost: h\r\n\r\n", said("200 OK", `{"data":[]}`)},
			[]string{"1 GET /v1/models done 0 parts, frames 1 2"},
		},
		{
			"an answer for people",
			[]string{post("/v1/chat", `{}`), "<HTTP/1.1 502 Bad Gateway\r\nContent-Length: 2\r\n\r\nno"},
			[]string{"1 POST /v1/chat failed 0 parts, frames 1 2"},
		},
		{
			"go on, first",
			[]string{post("/v1/chat", `{}`), "<HTTP/1.1 100 Continue\r\n\r\n", said("200 OK", `{}`)},
			[]string{"1 POST /v1/chat done 0 parts, frames 1 3"},
		},
		{
			"an answer that has no body",
			[]string{post("/v1/chat", `{}`), "<HTTP/1.1 204 No Content\r\n\r\n"},
			[]string{"1 POST /v1/chat done 0 parts, frames 1 2"},
		},
		{
			"events whose compression is not known, and so come as one piece",
			[]string{post("/v1/chat", `{}`), "<HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Encoding: compress\r\nContent-Length: 3\r\n\r\nabc"},
			[]string{"1 POST /v1/chat done 0 parts, frames 1 2"},
		},
		{
			"events by a name in capitals",
			[]string{post("/v1/chat", `{}`), strings.Replace(events, "text/event-stream", "Text/Event-Stream; charset=utf-8", 1), chunk("data: {}\n\n"), "<0\r\n\r\n"},
			[]string{"1 POST /v1/chat done 1 parts, frames 1 3 4"},
		},
		{
			"events up to the close",
			[]string{post("/v1/chat", `{}`), "<HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n", "<data: {}\n\n"},
			[]string{"1 POST /v1/chat done 1 parts, frames 1 3 4"},
		},
		{
			"events up to the close, which was too early",
			[]string{post("/v1/chat", `{}`), "<HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n", "<data: {}\n\n", "<data: {"},
			[]string{"1 POST /v1/chat abandoned 1 parts, frames 1 3"},
		},
		{
			"a question of no protocol, which a message of one answers",
			[]string{post("/mcp", `{}`), said("400 Bad Request", strings.Replace(result, `"id":1`, `"id":"server-error"`, 1))},
			[]string{"1 POST /mcp failed 0 parts, frames 1 2"},
		},
		{
			"a question of no protocol, with messages of one in the events that answer it",
			[]string{post("/mcp", `{}`), events, chunk("data: " + result + "\n\n"), "<0\r\n\r\n"},
			[]string{"1 POST /mcp done 0 parts, frames 1 4"},
		},
		{
			"HTTP/2, a question of no protocol, which a message of one answers",
			[]string{h2(":method", "POST", ":path", "/mcp") + data(`{}`), "<" + h2(":status", "200", "content-type", "application/json")[1:] + data(result)},
			[]string{"1 POST /mcp done 0 parts, frames 1 2 4"},
		},
		{
			"no body on either side",
			[]string{ask("GET", "/a"), nothing("401 Unauthorized"), ask("POST", "/b"), nothing("500 Oops"), ask("DELETE", "/c"), "<HTTP/1.1 204 No Content\r\n\r\n", ask("HEAD", "/d"), "<HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", ask("PUT", "/e"), nothing("304 Not Modified")},
			[]string{"1 GET /a failed 0 parts, frames 1 2", "2 POST /b failed 0 parts, frames 3 4", "3 DELETE /c done 0 parts, frames 5 6", "4 HEAD /d done 0 parts, frames 7 8", "5 PUT /e done 0 parts, frames 9 10"},
		},
		{"a page that is not there", []string{ask("GET", "/"), "<HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno"}, []string{"1 GET / failed 0 parts, frames 1 2"}},
		{
			"documents that there may be",
			[]string{ask("GET", "/.well-known/oauth-protected-resource/mcp"), said("404 Not Found", `{"error":"no"}`), ask("GET", "/.well-known/oauth-authorization-server"), nothing("404 Not Found"), ask("GET", "/.well-known/openid-configuration"), nothing("500 Oops"), ask("GET", "/.well-known/agent.json"), said("200 OK", `{"name":"a"}`)},
			[]string{"1 GET /.well-known/oauth-protected-resource/mcp probe 0 parts, frames 1 2", "2 GET /.well-known/oauth-authorization-server probe 0 parts, frames 3 4", "3 GET /.well-known/openid-configuration failed 0 parts, frames 5 6", "4 GET /.well-known/agent.json done 0 parts, frames 7 8"},
		},
		{
			"a document that there may be, over HTTP/2",
			[]string{bare(":method", "GET", ":path", "/.well-known/agent-card.json"), "<" + bare(":status", "404")[1:]},
			[]string{"1 GET /.well-known/agent-card.json probe 0 parts, frames 1 3"},
		},
		{
			"an older server of MCP",
			[]string{post("/mcp", `{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{}}`), said("400 Bad Request", `{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Bad Request: Server not initialized"}}`), post("/mcp", `{"jsonrpc":"2.0","id":2,"method":"server/discover","params":{}}`), "<HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno", post("/mcp", `{"jsonrpc":"2.0","id":3,"method":"server/discover","params":{}}`), nothing("401 Unauthorized")},
			[]string{"1 server/discover probe 0 parts, frames 1 2", "2 server/discover probe 0 parts, frames 3 4", "3 server/discover failed 0 parts, frames 5 6"},
		},
		{"no answer", []string{ask("GET", "/a")}, []string{"1 GET /a abandoned 0 parts, frames 1"}},
		{"no answer to who asks for events", []string{ask("GET", "/a", "Accept: text/event-stream")}, []string{"1 GET /a abandoned 0 parts, frames 1"}},
		{"an upgrade", []string{ask("GET", "/ws", "Connection: Upgrade", "Upgrade: websocket"), "<HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"}, nil},
		{"an upgrade that is refused", []string{ask("GET", "/ws", "Connection: Upgrade", "Upgrade: websocket"), nothing("403 Forbidden")}, []string{"1 GET /ws failed 0 parts, frames 1 2"}},
		{"a tunnel", []string{ask("CONNECT", "h:443"), "<HTTP/1.1 200 OK\r\n\r\n"}, nil},
		{"a tunnel that is refused", []string{ask("CONNECT", "h:443"), nothing("502 Bad Gateway")}, []string{"1 CONNECT h:443 failed 0 parts, frames 1 2"}},
		{
			"what only serves MCP, unless it is refused",
			[]string{
				post("/mcp", call), said("200 OK", result),
				ask("GET", "/mcp"), nothing("405 Method Not Allowed"),
				ask("GET", "/mcp", "Accept: text/event-stream"), events, last,
				ask("GET", "/mcp", "Accept: text/event-stream"), nothing("401 Unauthorized"),
				ask("DELETE", "/other", "Mcp-Session-Id: s"), nothing("200 OK"),
				ask("DELETE", "/other", "Mcp-Session-Id: s"), nothing("500 Oops"),
			},
			[]string{"1 tools/list done 0 parts, frames 1 2", "4 GET /mcp failed 0 parts, frames 8 9", "6 DELETE /other failed 0 parts, frames 12 13"},
		},
		{
			"HTTP/2, no body on either side",
			[]string{bare(":method", "GET", ":path", "/a"), "<" + bare(":status", "401")[1:]},
			[]string{"1 GET /a failed 0 parts, frames 1 3"},
		},
		{
			"HTTP/2, a POST without a body",
			[]string{bare(":method", "POST", ":path", "/a"), "<" + bare(":status", "204")[1:]},
			[]string{"1 POST /a done 0 parts, frames 1 2"},
		},
		{
			"HTTP/2, HEAD",
			[]string{bare(":method", "HEAD", ":path", "/a"), "<" + bare(":status", "500")[1:]},
			[]string{"1 HEAD /a failed 0 parts, frames 1 2"},
		},
		{"HTTP/2, no answer", []string{bare(":method", "POST", ":path", "/a")}, []string{"1 POST /a abandoned 0 parts, frames 1"}},
		{"an answer whose request was not seen", []string{said("200 OK", `{}`)}, nil},
		{
			"calls of JSON-RPC are exchanges, and not what carries them",
			[]string{post("/mcp", call), events, chunk("data: " + result + "\n\n"), "<0\r\n\r\n"},
			[]string{"1 tools/list done 0 parts, frames 1 3"},
		},
		{
			"other JSON before calls of JSON-RPC, and behind them",
			[]string{
				">GET /.well-known/oauth HTTP/1.1\r\nHost: h\r\n\r\n", said("200 OK", `{"issuer":"a"}`),
				post("/mcp", call), said("200 OK", result),
				post("/v1/chat", `{"model":"m"}`), said("429 Busy", `{"id":"a","error":null}`),
				post("/mcp", strings.Replace(call, "1", "2", 1)), said("200 OK", strings.Replace(result, "1", "2", 1)),
			},
			[]string{
				"1 GET /.well-known/oauth done 0 parts, frames 1 2",
				"3 POST /v1/chat failed 0 parts, frames 5 6",
				"1 tools/list done 0 parts, frames 3 4",
				"2 tools/list done 0 parts, frames 7 8",
			},
		},
		{
			"HTTP/2",
			[]string{h2(":method", "POST", ":path", "/v1/chat") + data(`{}`), "<" + h2(":status", "200", "content-type", "application/json")[1:] + data(`{"a":1}`)},
			[]string{"1 POST /v1/chat done 0 parts, frames 1 2 4"},
		},
		{
			"HTTP/2, without a body in the answer",
			[]string{h2(":method", "POST", ":path", "/v1/chat") + data(`{}`), "<" + bare(":status", "500")[1:]},
			[]string{"1 POST /v1/chat failed 0 parts, frames 1 2 4"},
		},
		{
			"HTTP/2, without the body that the answer has a type for",
			[]string{h2(":method", "POST", ":path", "/v1/chat") + data(`{}`), "<" + bare(":status", "500", "content-type", "application/json")[1:]},
			[]string{"1 POST /v1/chat failed 0 parts, frames 1 2 4"},
		},
		{
			"HTTP/2, with a body of no bytes",
			[]string{h2(":method", "POST", ":path", "/v1/chat") + data(`{}`), "<" + h2(":status", "200", "content-type", "application/json")[1:] + data("")},
			[]string{"1 POST /v1/chat done 0 parts, frames 1 2 4"},
		},
		{
			"HTTP/2, with a body of no type",
			[]string{h2(":method", "POST", ":path", "/v1/chat") + data(`{}`), "<" + h2(":status", "200")[1:] + data("{}")},
			[]string{"1 POST /v1/chat done 0 parts, frames 1 2 4"},
		},
		{
			"HTTP/2, with a length of 0",
			[]string{h2(":method", "POST", ":path", "/v1/chat") + data(`{}`), "<" + bare(":status", "200", "content-type", "application/json", "content-length", "0")[1:]},
			[]string{"1 POST /v1/chat done 0 parts, frames 1 2 3"},
		},
		{
			"HTTP/2, events of which there are none",
			[]string{h2(":method", "POST", ":path", "/v1/chat") + data(`{}`), "<" + bare(":status", "200", "content-type", "text/event-stream")[1:]},
			[]string{"1 POST /v1/chat done 0 parts, frames 1 2 4"},
		},
		{
			"HTTP/2, an answer for people",
			[]string{h2(":method", "POST", ":path", "/v1/chat") + data(`{}`), "<" + h2(":status", "502", "content-type", "text/html")[1:] + data("no")},
			[]string{"1 POST /v1/chat failed 0 parts, frames 1 2 4"},
		},
		{
			"HTTP/2, an answer that is damaged",
			[]string{h2(":method", "POST", ":path", "/v1/chat") + data(`{}`), "<" + h2(":status", "200", "content-type", "application/json", "content-encoding", "gzip")[1:] + data("no")},
			[]string{"1 POST /v1/chat done 0 parts, frames 1 2 4"},
		},
		{
			"HTTP/2, an answer that may have no body",
			[]string{h2(":method", "POST", ":path", "/v1/chat") + data(`{}`), "<" + h2(":status", "204", "content-type", "application/json")[1:]},
			[]string{"1 POST /v1/chat done 0 parts, frames 1 2 3"},
		},
		{
			"HTTP/2, an answer of trailers alone",
			[]string{h2(":method", "POST", ":path", "/v1/chat") + data(`{}`), "<" + h2(":status", "200", "content-type", "application/json")[1:] + h2("x-sum", "1")[settingsSize:]},
			[]string{"1 POST /v1/chat done 0 parts, frames 1 2 4"},
		},
		{
			"HTTP/2, gRPC-Web",
			[]string{h2(":method", "POST", ":path", "/a.B/C", "content-type", "application/grpc-web+proto") + data("\x00\x00\x00\x00\x00"), "<" + h2(":status", "200", "content-type", "application/grpc-web+proto")[1:] + data("\x00\x00\x00\x00\x00")},
			[]string{"1 POST /a.B/C done 0 parts, frames 1 2 4"},
		},
		{
			"HTTP/2, broken off by the unit",
			[]string{h2(":method", "POST", ":path", "/v1/chat") + data(`{}`), "<" + h2(":status", "200", "content-type", "text/event-stream")[1:] + reset(http2.ErrCodeNo)},
			[]string{"1 POST /v1/chat failed 0 parts, frames 1 2 4"},
		},
		{
			"HTTP/2, broken off by the controller",
			[]string{h2(":method", "POST", ":path", "/v1/chat") + data(`{}`), ">" + reset(http2.ErrCodeInternal)},
			[]string{"1 POST /v1/chat cancelled 0 parts, frames 1 2 3"},
		},
		{
			"HTTP/2, left by the controller without an error",
			[]string{h2(":method", "POST", ":path", "/v1/chat") + data(`{}`), ">" + reset(http2.ErrCodeNo)},
			[]string{"1 POST /v1/chat cancelled 0 parts, frames 1 2 3"},
		},
		{
			"HTTP/2, not wanted any more",
			[]string{h2(":method", "POST", ":path", "/v1/chat") + data(`{}`), ">" + reset(http2.ErrCodeCancel)},
			[]string{"1 POST /v1/chat cancelled 0 parts, frames 1 2 3"},
		},
	} {
		t.Run(tt.about, func(t *testing.T) {
			s := over(tt.wire...)
			for name, s := range map[string]*script{"whole": s, "metadata": outlined(t, s)} {
				var got []string
				for _, tr := range follow(t, s).List {
					for e := range tr.Exchanges() {
						frames := strings.Trim(fmt.Sprint(e.Frames), "[]")
						got = append(got, fmt.Sprintf("%s %s %v %d parts, frames %s", e.ID.Text, e.Kind, e.Outcome, e.Parts, frames))
					}
				}
				// What is known early decides which tracker comes first.
				if slices.Sort(got); !slices.Equal(got, slices.Sorted(slices.Values(tt.want))) {
					t.Errorf("%s: the exchanges are\n\t%s\nnot\n\t%s", name, strings.Join(got, "\n\t"), strings.Join(tt.want, "\n\t"))
				}
			}
		})
	}
}

// What follows a request is of the kind that says most: the name of an event, or the
// status.
func TestKindsOfHTTP(t *testing.T) {
	for _, tt := range []struct {
		about string
		wire  []string
		want  string
	}{
		{"an answer", []string{post("/v1/chat", `{}`), said("503 Busy", `{}`)}, "1 POST /v1/chat, 1 503"},
		{"an answer whose request was not seen", []string{said("200 OK", `{}`)}, "1 body"},
		{
			"events",
			[]string{post("/v1/chat", `{}`), events, chunk("event: delta\ndata: {}\n\n"), chunk("data: {}\n\n"), "<0\r\n\r\n"},
			"1 POST /v1/chat, 1 200, 1 delta, 1 event, 1 end",
		},
		{
			"HTTP/2, where bodies are frames of their own",
			[]string{h2(":method", "POST", ":path", "/v1/chat") + data(`{}`), "<" + h2(":status", "200", "content-type", "application/json")[1:] + data(`{}`)},
			"1 POST /v1/chat, 2 body, 1 200",
		},
	} {
		var got []string
		for _, kind := range follow(t, over(tt.wire...)).List[0].Stats().Kinds {
			got = append(got, fmt.Sprintf("%d %s", kind.Frames, kind.Name))
		}
		if strings.Join(got, ", ") != tt.want {
			t.Errorf("%s: there are %s, not %s", tt.about, strings.Join(got, ", "), tt.want)
		}
	}
}

// A body that is not what its head says is a fault of HTTP, whatever it was to hold.
func TestDamagedBodies(t *testing.T) {
	damaged := said("200 OK\r\nContent-Encoding: gzip", "no")
	for _, tt := range []struct {
		about string
		wire  []string
		want  string
	}{
		{"a question", []string{strings.Replace(post("/v1/chat", "no"), "Content-Type", "Content-Encoding: gzip\r\nContent-Type", 1), said("200 OK", `{}`)}, "http flawed-framing 1"},
		{"an answer to nothing of note", []string{">GET / HTTP/1.1\r\nHost: h\r\n\r\n", damaged}, "http flawed-framing 2"},
		{"what was to answer a call", []string{post("/mcp", call), damaged}, "http flawed-framing 2, mcp unanswered 1 2"},
	} {
		var got []string
		for _, tr := range follow(t, over(tt.wire...)).List {
			for f := range tr.Findings() {
				got = append(got, fmt.Sprintf("%s %s %s", tr.Protocol.Name(), f.Name, strings.Trim(fmt.Sprint(f.Frames), "[]")))
			}
		}
		if strings.Join(got, ", ") != tt.want {
			t.Errorf("%s: found %s, not %s", tt.about, strings.Join(got, ", "), tt.want)
		}
	}
}

// h2 is a head of HTTP/2, whose fields come in pairs, with what a connection begins
// with before it; bare is one that no body follows, and data is a body.
func h2(fields ...string) string   { return begins(false, fields) }
func bare(fields ...string) string { return begins(true, fields) }

func begins(ends bool, fields []string) string {
	var block, b bytes.Buffer
	enc := hpack.NewEncoder(&block)
	for i := 0; i < len(fields); i += 2 {
		_ = enc.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
	}
	if fields[0] == ":method" {
		b.WriteString(http2.ClientPreface)
	} else {
		_ = http2.NewFramer(&b, nil).WriteSettings()
	}
	_ = http2.NewFramer(&b, nil).WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block.Bytes(), EndHeaders: true, EndStream: ends})
	return ">" + b.String()
}

func data(body string) string {
	var b bytes.Buffer
	_ = http2.NewFramer(&b, nil).WriteData(1, true, []byte(body))
	return b.String()
}

// What is reset behind its answer, as clients may, is not a call of gRPC.
func TestResetBehindTheEnd(t *testing.T) {
	for _, tt := range []struct{ question, answer, protocol string }{{`{}`, `{}`, "http"}, {call, result, "mcp"}} {
		ts := follow(t, over(
			h2(":method", "POST", ":path", "/")+data(tt.question),
			"<"+h2(":status", "200", "content-type", "application/json")[1:]+data(tt.answer),
			">"+reset(http2.ErrCodeCancel),
		))
		if len(ts.List) != 1 || ts.List[0].Protocol.Name() != tt.protocol {
			t.Errorf("%d protocols, the first of which is %s; want %s alone", len(ts.List), ts.List[0].Protocol.Name(), tt.protocol)
		}
		for _, tr := range ts.List {
			for e := range tr.Exchanges() {
				if e.Outcome != session.Done {
					t.Errorf("%s %s: the outcome is %v", tr.Protocol.Name(), e.Kind, e.Outcome)
				}
			}
		}
	}
}

// A server may reset the stream of a gRPC call after its status: a client that has not
// ended its side need not go on. Messages after that are too many.
func TestResetBehindTheStatus(t *testing.T) {
	called := h2(":method", "POST", ":path", "/x.Y/Z", "content-type", "application/grpc", "te", "trailers")
	for _, code := range []http2.ErrCode{http2.ErrCodeNo, http2.ErrCodeCancel, http2.ErrCodeInternal} {
		for _, status := range []string{"0", "13"} {
			ended := bare(":status", "200", "content-type", "application/grpc", "grpc-status", status)[1:]
			tr := follow(t, over(called, "<"+ended+reset(code))).List[0]
			for f := range tr.Findings() {
				t.Errorf("status %s, then %v: found %s %v", status, code, f.Name, f.Frames)
			}
		}
	}
}

// Who leaves before the answer has come cancels the request; whoever leaves with
// the answer does not. Where that is not known it is unanswered.
func TestWhoLeavesFirst(t *testing.T) {
	left := func(dir frame.Dir) capture.Record {
		return capture.Record{Kind: capture.HalfClosed, Frame: frame.Frame{Conn: 1, Dir: dir}}
	}
	half := over(post("/v1/chat", `{}`), events, chunk("data: {\"a\":1}\n\n")).records
	whole := over(post("/v1/chat", `{}`), said("200 OK", `{}`)).records
	last := len(whole) - 1
	for _, tt := range []struct {
		about   string
		records []capture.Record
		want    session.Outcome
		finding string
	}{
		{"the controller", append(slices.Clone(half), left(frame.C2U), left(frame.U2C)), session.Cancelled, ""},
		{"the unit", append(slices.Clone(half), left(frame.U2C), left(frame.C2U)), session.Died, "unanswered"},
		{"nobody, as far as is known", half, session.Abandoned, "unanswered"},
		{
			"the controller, which has no more to ask",
			append(slices.Clone(whole[:last]), left(frame.C2U), whole[last], left(frame.U2C)),
			session.Done, "",
		},
	} {
		ts := follow(t, &script{records: tt.records})
		tr := ts.List[0]
		for e := range tr.Exchanges() {
			if e.Outcome != tt.want {
				t.Errorf("%s: the exchange is %v, not %v", tt.about, e.Outcome, tt.want)
			}
		}
		found := ""
		for f := range tr.Findings() {
			found += f.Name
		}
		if found != tt.finding {
			t.Errorf("%s: found %q, not %q", tt.about, found, tt.finding)
		}
	}
}

// settingsSize is how long what stands before a head is that does not begin a
// connection.
const settingsSize = len(">") + 9

func reset(code http2.ErrCode) string {
	var b bytes.Buffer
	_ = http2.NewFramer(&b, nil).WriteRSTStream(1, code)
	return b.String()
}
