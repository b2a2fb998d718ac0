package opencode_test

import (
	"testing"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/opencode"
	"github.com/wirectl/wirectl/test/kit/prototest"
)

const (
	prompt  = `{"model":{"providerID":"p","modelID":"m"},"parts":[{"type":"text","text":"hi"}]}`
	answer  = `{"info":{"role":"assistant","modelID":"m","finish":"stop","cost":0.25,"tokens":{"input":5,"output":2,"reasoning":1,"cache":{"read":3,"write":1}}},"parts":[{"type":"text","text":"Hi"}]}`
	aborted = `{"info":{"role":"assistant","modelID":"m","error":{"name":"MessageAbortedError","data":{"message":"Aborted"}}},"parts":[]}`
	delta   = `{"id":"evt_1","type":"message.part.delta","properties":{"sessionID":"ses_1","messageID":"msg_1","partID":"prt_1","field":"text","delta":"Hi"}}`
	step    = `{"id":"evt_1","type":"message.part.updated","properties":{"sessionID":"ses_1","part":{"id":"prt_1","type":"step-finish","tokens":{"input":5,"output":2,"cache":{"read":0,"write":0}},"cost":0.5}}}`
	asked   = `{"id":"evt_1","type":"permission.asked","properties":{"id":"per_1","sessionID":"ses_1","permission":"bash","patterns":[]}}`
	replied = `{"id":"evt_1","type":"permission.replied","properties":{"sessionID":"ses_1","requestID":"per_1","reply":"once"}}`
	idle    = `{"id":"evt_1","type":"session.idle","properties":{"sessionID":"ses_1"}}`
)

func TestParse(t *testing.T) {
	prototest.Vectors(t, opencode.Spec.Protocol)
	prototest.Cases(t, opencode.Spec.Protocol, []prototest.Case{
		{prompt, `body close model=m`},
		{answer, `body close label=assistant model=m stop-reason=stop usage={9 3 3}`},
		{aborted, `body cancelled label=MessageAbortedError model=m stop-reason=MessageAbortedError`},
		{`{"info":{"error":{"name":"APIError"}},"parts":[]}`, `body fail label=APIError stop-reason=APIError`},
		{`{"name":"NotFoundError","data":{"message":"no"}}`, `body close label=NotFoundError`},
		{`{"reply":"once"}`, `body close label=once`},
		{`true`, `body close`},
		{`[{"info":{}}]`, `body close`},

		{`{"id":"evt_1","type":"server.connected","properties":{}}`, `server.connected part from=u2c empty=true`},
		{delta, `message.part.delta part from=u2c label=text does=part of="ses_1" of-space=session`},
		{step, `message.part.updated part from=u2c label=step-finish does=part of="ses_1" of-space=session empty=true usage={5 0 2}`},
		{asked, `permission.asked open from=u2c id="per_1" label=bash does=open of="ses_1" of-space=session`},
		{replied, `permission.replied cancel from=u2c ref="per_1" ref-space=run label=once`},
		{idle, `session.idle part from=u2c does=close of="ses_1" of-space=session empty=true`},
		{`{"directory":"/d","payload":` + idle + `}`, `session.idle part from=u2c does=close of="ses_1" of-space=session empty=true`},
		{`{"type":"session.error","properties":{"sessionID":"ses_1","error":{"name":"MessageAbortedError"}}}`, `session.error part from=u2c label=MessageAbortedError does=cancelled of="ses_1" of-space=session empty=true`},
		{`{"type":"session.error","properties":{"error":{"name":"UnknownError"}}}`, `session.error part from=u2c label=UnknownError empty=true`},
		{`{"type":"permission.replied","properties":{}}`, `permission.replied cancel from=u2c faults=missing-field`},
	})
	prototest.AnyOrder(t, opencode.Spec.Protocol, prompt, answer, delta, asked, replied, idle)
	prototest.NoAllocs(t, opencode.Spec.Protocol, prompt, answer, aborted, delta, step, asked, replied, idle)
}

// What a message says to people is told rather than how it begins.
func TestSummaries(t *testing.T) {
	for payload, want := range map[string]string{
		prompt: `: hi`,
		delta:  `text: Hi`,
		`{"name":"NotFoundError","data":{"message":"no"}}`:                                    `NotFoundError: no`,
		`{"type":"session.status","properties":{"status":{"type":"busy"}}}`:                   `busy: `,
		`{"type":"message.part.updated","properties":{"part":{"type":"tool","tool":"bash"}}}`: `bash: `,
	} {
		var m protocol.Message
		if err := opencode.Spec.Protocol.Parse([]byte(payload), &m); err != nil || string(m.Label)+": "+string(m.Text) != want {
			t.Errorf("%s\n says %s: %s\n want %s (%v)", payload, m.Label, m.Text, want, err)
		}
	}
}

// A request is told by an id in its path, or asks for events.
func TestCallOf(t *testing.T) {
	for start, want := range map[string]string{
		"POST /session/ses_1/message":           "POST /session/:id/message",
		"GET /session/ses_1/message?limit=2":    "GET /session/:id/message",
		"GET /session/ses_1/message/msg_1":      "GET /session/:id/message/:id",
		"POST http://h/session/ses_1/abort":     "POST /session/:id/abort",
		"POST /permission/per_1/reply":          "POST /permission/:id/reply",
		"POST /session/ses_1/permissions/per_1": "POST /session/:id/permissions/:id",
		"POST /question/que_1/reject":           "POST /question/:id/reject",
		"GET /event":                            "GET /event",
		"GET /global/event":                     "GET /global/event",
		"POST /session":                         "",
		"GET /session/status":                   "",
		"GET /session/7":                        "",
		"GET /sessions/ses_1":                   "",
		"POST /event":                           "",
		"GET /":                                 "",
	} {
		got := ""
		if c := opencode.Spec.API.Calls()(&frame.Head{Start: start + " HTTP/1.1"}, nil); c != nil {
			got = c.Kind
		}
		if got != want {
			t.Errorf("%s is %q, want %q", start, got, want)
		}
	}
}

func Fuzz(f *testing.F) { prototest.Fuzz(f, opencode.Spec.Protocol, jsonscan.WellFormed) }

// No path makes it panic.
func FuzzCallOf(f *testing.F) {
	f.Add("POST /session/ses_1/message HTTP/1.1")
	f.Add("POST /permission/per_%31/reply HTTP/1.1")
	f.Fuzz(func(_ *testing.T, start string) { opencode.Spec.API.Calls()(&frame.Head{Start: start}, nil) })
}
