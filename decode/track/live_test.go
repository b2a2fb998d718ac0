package track_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/frame"
)

// spoken is the session of what a WebSocket carried, a message a second: those of the client
// behind >, and those of the server behind <.
func spoken(messages ...string) *script {
	s := &script{}
	for i, message := range messages {
		dir := frame.C2U
		if message[0] == '<' {
			dir = frame.U2C
		}
		raw := []byte(message[1:])
		s.records = append(s.records, capture.Record{
			Time: time.Unix(int64(1000+i), 0), Framing: frame.WS,
			Frame: frame.Frame{Raw: raw, End: len(raw), Dir: dir, Conn: 1, Meta: &frame.Meta{Framing: frame.WS}},
		})
	}
	return s
}

// Each turn of a model is an exchange, also one that nobody asked for, and what is wrong
// with one is found.
func TestLive(t *testing.T) {
	const (
		created  = `<{"type":"session.created","event_id":"e","session":{"model":"g"}}`
		create   = `>{"type":"response.create","event_id":"c"}`
		begin    = `<{"type":"response.created","response":{"id":"r1","status":"in_progress"}}`
		says     = `<{"type":"response.output_audio_transcript.delta","response_id":"r1","delta":"a"}`
		done     = `<{"type":"response.done","response":{"id":"r1","status":"completed","usage":{"input_tokens":4,"output_tokens":2,"total_tokens":6}}}`
		setup    = `>{"setup":{"model":"models/g"}}`
		ask      = `>{"clientContent":{"turns":[],"turnComplete":true}}`
		hear     = `>{"realtimeInput":{"audio":{"data":"AAA"}}}`
		speak    = `<{"serverContent":{"modelTurn":{"parts":[{"text":"a"}]}}}`
		call     = `<{"toolCall":{"functionCalls":[{"id":"1","name":"price","args":{}},{"id":"2","name":"reserve","args":{}}]}}`
		respond  = `>{"toolResponse":{"functionResponses":[{"id":"1"},{"id":"2"}]}}`
		complete = `<{"serverContent":{"turnComplete":true}}`
		usage    = `<{"usageMetadata":{"promptTokenCount":4,"responseTokenCount":2}}`
		stopped  = `<{"serverContent":{"interrupted":true}}`
	)
	for _, test := range []struct {
		about string
		wire  []string
		want  string
	}{
		{"a response", []string{created, create, begin, says, done}, `response.create "r1" done "completed", first 2s, tools [], tokens 4 0 2`},
		{"a response that the server begins", []string{created, begin, says, done}, `turn "r1" done "completed", first 1s, tools [], tokens 4 0 2`},
		{"two at once", []string{created, create, create, begin, strings.ReplaceAll(begin, "r1", "r2"), done, strings.ReplaceAll(done, "r1", "r2")}, "response.create \"r1\" done \"completed\", first 0s, tools [], tokens 4 0 2\nresponse.create \"r2\" done \"completed\", first 0s, tools [], tokens 4 0 2"},
		{"an error that names nothing", []string{created, create, `<{"type":"error","error":{"code":"no"}}`}, `response.create "c" failed "no", first 0s, tools [], tokens 0 0 0`},
		{"an error about something else", []string{created, `>{"type":"session.update","event_id":"s","session":{}}`, create, `<{"type":"error","error":{"code":"no","event_id":"s"}}`, begin, done}, `response.create "r1" done "completed", first 0s, tools [], tokens 4 0 2`},
		{"asked for when the connection ends", []string{created, create}, `response.create "c" abandoned "", first 0s, tools [], tokens 0 0 0`},
		{"no usage", []string{created, create, begin, `<{"type":"response.done","response":{"id":"r1","status":"completed"}}`}, "response.create \"r1\" done \"completed\", first 0s, tools [], tokens 0 0 0\nwrong-usage"},
		{"arguments that are no JSON", []string{created, create, begin, `<{"type":"response.done","response":{"id":"r1","status":"completed","output":[{"type":"function_call","name":"f","arguments":"{"}],"usage":{}}}`}, "response.create \"r1\" done \"completed\", first 0s, tools [f], tokens 0 0 0\nbad-arguments"},
		{"Responses over a WebSocket", []string{`>{"type":"response.create","response":{"model":"g","input":[]}}`, begin, strings.Replace(done, "response.done", "response.completed", 1)}, `response.create "r1" done "completed", first 0s, tools [], tokens 4 0 2`},

		{"a turn with its usage apart", []string{setup, ask, speak, usage, complete}, `clientContent 1 done "turnComplete", first 1s, tools [], tokens 4 0 2`},
		{"a turn with tools", []string{setup, ask, call, respond, speak, complete}, `clientContent 1 done "turnComplete", first 1s, tools [price reserve], tokens 0 0 0`},
		{"a turn that is heard", []string{setup, hear, hear, speak, complete}, `turn 1 done "turnComplete", first 1s, tools [], tokens 0 0 0`},
		{"a turn that is talked over", []string{setup, hear, speak, hear, stopped, complete}, `turn 1 cancelled "interrupted", first 1s, tools [], tokens 0 0 0`},
		{"a turn that the next one interrupts", []string{setup, ask, speak, ask, stopped, complete, speak, complete}, "clientContent 1 cancelled \"interrupted\", first 1s, tools [], tokens 0 0 0\nclientContent 2 done \"turnComplete\", first 3s, tools [], tokens 0 0 0"},
	} {
		var got []string
		for _, tr := range follow(t, spoken(test.wire...)).List {
			for e := range tr.Exchanges() {
				u := e.Usage
				if e.Model != "g" {
					t.Errorf("%s: the model is %q", test.about, e.Model)
				}
				got = append(got, fmt.Sprintf("%s %s %v %q, first %v, tools %v, tokens %d %d %d", e.Kind, e.ID.Text, e.Outcome, e.StopReason, e.TimeToFirstPart(), e.ToolCalls, u.Input, u.Cached, u.Output))
			}
			for f := range tr.Findings() {
				if f.Name != "unanswered" {
					got = append(got, f.Name)
				}
			}
		}
		if got := strings.Join(got, "\n"); got != test.want {
			t.Errorf("%s:\n%s\nwant\n%s", test.about, got, test.want)
		}
	}
}

// A client that closes its WebSocket in mid-answer cancels, whichever side then ends the connection
// first, and whether or not that is recorded. A server that does so has not answered.
func TestLiveIsLeft(t *testing.T) {
	for protocol, wire := range map[string][]string{
		"openai-realtime": {`>{"type":"response.create","event_id":"c"}`, `<{"type":"response.created","response":{"id":"r1","status":"in_progress"}}`},
		"gemini-live":     {`>{"setup":{"model":"models/g"}}`, `>{"clientContent":{"turns":[],"turnComplete":true}}`, `<{"serverContent":{"modelTurn":{"parts":[{"text":"a"}]}}}`},
	} {
		for _, test := range []struct {
			closes, ends string // the sides, in order
			want         string
		}{
			{"><", "<>", "cancelled "},
			{"><", "><", "cancelled "},
			{"><", "", "cancelled "},
			{">", "", "cancelled "},
			{"", "><", "cancelled "},
			{"<>", "><", "abandoned unanswered error"},
			{"<>", "<>", "abandoned unanswered error"},
			{"", "<>", "abandoned unanswered error"},
			{"", "", "abandoned unanswered note"},
		} {
			s := spoken(wire...)
			at := s.records[len(s.records)-1].Time
			add := func(side rune, r capture.Record) {
				r.Time, r.Conn, r.Dir = at, 1, frame.C2U
				if side == '<' {
					r.Dir = frame.U2C
				}
				s.records = append(s.records, r)
			}
			for _, side := range test.closes {
				add(side, capture.Record{Framing: frame.WS, Frame: frame.Frame{Meta: &frame.Meta{Framing: frame.WS, Signal: frame.Close, Code: 1000}}})
			}
			for _, side := range test.ends {
				add(side, capture.Record{Kind: capture.HalfClosed})
			}
			got := ""
			for _, tr := range follow(t, s).List {
				for e := range tr.Exchanges() {
					got += e.Outcome.String() + " "
				}
				for f := range tr.Findings() {
					got += f.Name + " " + f.Severity.String()
				}
				if tr.Protocol.Name() != protocol {
					t.Errorf("%s is taken for %s", protocol, tr.Protocol.Name())
				}
			}
			if got != test.want {
				t.Errorf("%s: closed by %q, ended by %q: %s, want %s", protocol, test.closes, test.ends, got, test.want)
			}
		}
	}
}
