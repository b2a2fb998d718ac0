package track_test

import (
	"bytes"
	"testing"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/frame/carrier"
)

// onConns is over for several connections: the first byte is the number of one.
func onConns(wire ...string) *script {
	s := &script{}
	carriers := map[byte]*carrier.Carrier{}
	for _, w := range wire {
		c := carriers[w[0]]
		if c == nil {
			c = carrier.New(carrier.Options{})
			carriers[w[0]] = c
		}
		dir := frame.C2U
		if w[1] == '<' {
			dir = frame.U2C
		}
		for _, f := range c.Feed(dir, []byte(w[2:])) {
			f.Raw, f.Meta, f.Conn = bytes.Clone(f.Raw), f.Meta.Clone(), int(w[0]-'0')
			s.records = append(s.records, capture.Record{Framing: f.Meta.Framing, Frame: f})
		}
	}
	return s
}

// A turn of opencode is told of by events on another connection, and ends as its answer
// says or, if that only accepts it, as the events do.
func TestOpencode(t *testing.T) {
	const (
		of       = `"sessionID":"ses_1"`
		path     = "/session/ses_1/"
		accepted = "1<HTTP/1.1 204 No Content\r\n\r\n"
		stream   = "opencode GET /event abandoned "
		sync     = "opencode POST /session/:id/message "
		async    = "opencode POST /session/:id/prompt_async "
		aborting = "; +opencode POST /session/:id/abort done 0"
	)
	tell := func(kind, properties string) string {
		return "9" + event(`{"id":"evt_1","type":"`+kind+`","properties":{`+properties+`}}`)
	}
	broken := func(name string) string { return tell("session.error", of+`,"error":{"name":"`+name+`"}`) }
	message := func(failure string) string {
		return "1" + said("200 OK", `{"info":{"role":"assistant","error":{"name":"`+failure+`"}},"parts":[]}`)
	}
	listen, begin := "9>GET /event HTTP/1.1\r\nHost: h\r\n\r\n", "9"+events
	hello, delta, idle := tell("server.connected", ""), tell("message.part.delta", of+`,"delta":"x"`), tell("session.idle", of)
	busy := tell("session.status", of+`,"status":{"type":"busy"}`)
	prompt, accept := "1"+post(path+"message", `{"parts":[]}`), "1"+post(path+"prompt_async", `{"parts":[]}`)
	whole := "1" + said("200 OK", `{"info":{"role":"assistant"},"parts":[]}`)
	abort, yes := "2>POST "+path+"abort HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n", "2"+said("200 OK", "true")
	question, replied := tell("permission.asked", of+`,"id":"per_1"`), tell("permission.replied", of+`,"requestID":"per_1"`)
	reply := "2" + post("/permission/per_1/reply", `{"reply":"once"}`)
	for _, test := range []struct {
		about string
		wire  []string
		want  string
	}{
		{"a prompt", []string{listen, begin, hello, prompt, delta, idle, whole}, stream + "1; " + sync + "done 1"},
		{"a prompt without events", []string{prompt, whole}, sync + "done 0"},
		{"a prompt that fails", []string{listen, begin, hello, prompt, broken("APIError"), idle, message("APIError")}, stream + "0; " + sync + "failed 0"},
		{"an abort", []string{listen, begin, hello, prompt, delta, abort, broken("MessageAbortedError"), idle, yes, message("MessageAbortedError"), idle}, stream + "1; " + sync + "cancelled 1" + aborting},
		{"an abort of nothing", []string{abort, yes}, "opencode POST /session/:id/abort done 0"},
		{"a prompt that is accepted", []string{listen, begin, hello, accept, accepted, delta, idle, delta}, stream + "2; " + async + "done 1"},
		{"and fails", []string{listen, begin, hello, accept, accepted, broken("APIError"), idle}, stream + "0; " + async + "failed 0"},
		{"and is aborted", []string{listen, begin, hello, accept, accepted, delta, abort, broken("MessageAbortedError"), idle, yes, idle}, stream + "1; " + async + "cancelled 1" + aborting},
		{"and nobody listens", []string{accept, accepted}, async + "abandoned 0"},
		{"two that are accepted are one turn", []string{listen, begin, hello, accept, accepted, accept, accepted, idle}, stream + "0; " + async + "done 0; +" + async + "done 0"},
		{"a permission", []string{listen, begin, hello, prompt, question, reply, replied, yes, idle, whole}, stream + "0; " + sync + "done 0; +opencode permission.asked done 0; +opencode POST /permission/:id/reply done 0"},
		{"a permission that somebody else gives", []string{listen, begin, hello, prompt, question, replied, idle, whole}, stream + "0; " + sync + "done 0; +opencode permission.asked cancelled 0"},
		{"a turn that nobody has asked for", []string{listen, begin, hello, prompt, busy, delta, idle, whole, busy, busy, delta, idle, idle}, stream + "2; " + sync + "done 1; opencode turn done 1"},
		{"and fails", []string{listen, begin, hello, busy, broken("APIError"), idle}, stream + "0; opencode turn failed 0"},
		{"and a prompt comes", []string{listen, begin, hello, busy, accept, accepted, delta, idle}, stream + "1; opencode turn done 1; +" + async + "done 0"},
		{"a prompt that is refused", []string{prompt, "1" + said("400 Bad Request", `{"name":"BadRequest","data":{"message":"no"}}`)}, sync + "failed 0"},
		{"events of another server", []string{listen, begin, "9" + event(`{"n":1}`), "9" + last}, "http GET /event done 1"},
		{"no events", []string{listen, "9" + said("404 Not Found", `{}`)}, "http GET /event failed 0"},

		{"a stream that was not begun", []string{listen, begin, idle}, stream + "0; missing-ack"},
		{"an abort that is ignored", []string{listen, begin, hello, prompt, abort, yes, delta, idle, whole}, stream + "1; " + sync + "done 1" + aborting + "; cancel-ignored"},
		{"an abort without an end", []string{listen, begin, hello, prompt, delta, abort, yes}, stream + "1; " + sync + "abandoned 1" + aborting + "; cancel-silent"},
	} {
		if got := runs(follow(t, onConns(test.wire...))); got != test.want {
			t.Errorf("%s: %q, want %q", test.about, got, test.want)
		}
	}
}
