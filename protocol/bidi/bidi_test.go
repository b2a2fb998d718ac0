package bidi_test

import (
	"testing"

	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/all"
	"github.com/wirectl/wirectl/protocol/bidi"
	"github.com/wirectl/wirectl/test/kit/prototest"
)

const (
	command = `{"id":2,"method":"browsingContext.navigate","params":{"context":"A","url":"about:blank"}}`
	success = `{"type":"success","id":2,"result":{"navigation":null,"url":"about:blank"}}`
	thrown  = `{"type":"success","id":3,"result":{"type":"exception","exceptionDetails":{"text":"Error: x"}}}`
	failed  = `{"type":"error","id":4,"error":"unknown command","message":"no.such"}`
	event   = `{"type":"event","method":"browsingContext.load","params":{"context":"A","url":"about:blank"}}`
)

func TestParse(t *testing.T) {
	prototest.Vectors(t, bidi.Spec.Protocol)
	prototest.Cases(t, bidi.Spec.Protocol, []prototest.Case{
		{command, `browsingContext.navigate open from=c2u id=2`},
		{`{"id":0,"method":"goog:cdp.getSession","params":{},"goog:channel":"/a"}`, `goog:cdp.getSession open from=c2u id=0`},
		{success, `success close from=u2c id=2`},
		{thrown, `success close from=u2c id=3 tool-error=true`},
		{failed, `error fail from=u2c id=4 label=unknown command`},
		{`{"type":"error","id":null,"error":"invalid argument","message":"no JSON"}`, `error fail from=u2c label=invalid argument`},
		{event, `browsingContext.load note from=u2c`},

		{`{"method":"session.status","params":{}}`, `session.status open from=c2u faults=missing-field`},
		{`{"id":1,"method":"session.status"}`, `session.status open from=c2u id=1 faults=missing-field`},
		{`{"id":1,"method":"session.status","params":[]}`, `session.status open from=c2u id=1 faults=bad-params`},
		{`{"id":"1","method":"session.status","params":{}}`, `session.status open from=c2u id="1" faults=bad-id`},
		{`{"id":-1,"method":"session.status","params":{}}`, `session.status open from=c2u id=-1 faults=bad-id`},
		{`{"id":9007199254740993,"method":"session.status","params":{}}`, `session.status open from=c2u id=9007199254740993 faults=unsafe-integer`},
		{`{"type":"success","id":null,"result":{}}`, `success close from=u2c faults=bad-id`},
		{`{"type":"success","id":1}`, `success close from=u2c id=1 faults=missing-field`},
		{`{"type":"error","error":"unknown error","message":""}`, `error fail from=u2c label=unknown error faults=missing-field`},
		{`{"type":"event","method":"log.entryAdded"}`, `log.entryAdded note from=u2c faults=missing-field`},
		{`{"type":"event","params":{}}`, `unknown note faults=unknown-kind`},
		{`{"type":"other","id":1}`, `unknown note faults=unknown-kind`},
		{`{"id":1,"method":"Page.navigate","params":{}}`, `unknown note faults=unknown-kind`},
		{`{"id":1,"method":"status","params":{}}`, `unknown note faults=unknown-kind`},
		{`[]`, `unknown note faults=unknown-kind`},
	})
	prototest.AnyOrder(t, bidi.Spec.Protocol, command, success, thrown, failed, event)
	prototest.NoAllocs(t, bidi.Spec.Protocol, command, success, thrown, failed, event)
}

// What a message says to people is told rather than how it begins.
func TestSummaries(t *testing.T) {
	for payload, want := range map[string]string{
		command: `: "about:blank"`,
		success: `: {"navigation":null,"url":"about:blank"}`,
		thrown:  `: "Error: x"`,
		failed:  `unknown command: "no.such"`,
		`{"id":5,"method":"script.evaluate","params":{"expression":"1+1","awaitPromise":false}}`: `: "1+1"`,
		`{"id":6,"method":"session.end","params":{}}`:                                            `: {}`,
	} {
		var m protocol.Message
		if err := bidi.Spec.Parse([]byte(payload), &m); err != nil || string(m.Label)+": "+string(m.Text) != want {
			t.Errorf("%s\n says %s: %s\n want %s (%v)", payload, m.Label, m.Text, want, err)
		}
	}
}

// A command, an event and an error tell the protocol; a success may be of any other. CDP has the
// same members, and domains with capital letters.
func TestRecognize(t *testing.T) {
	for payload, want := range map[string]string{
		command: "bidi",
		event:   "bidi",
		failed:  "bidi",
		success: "json",
		`{"id":1,"method":"session.status","params":{},"goog:channel":"/a"}`: "bidi",
		`{"id":1,"method":"session.create","params":{}}`:                     "json",
		`{"id":1,"method":"session.status","params":{},"user":"x"}`:          "json",
		`{"id":1,"method":"session.status"}`:                                 "json",
		`{"type":"error","id":1,"error":"no such thing","message":"m"}`:      "json",
		`{"id":1,"method":"Page.navigate","params":{"url":"about:blank"}}`:   "cdp",
		`{"jsonrpc":"2.0","id":1,"method":"session.status","params":{}}`:     "jsonrpc",
	} {
		if p, why := all.Recognize([]byte(payload)); p.Name() != want {
			t.Errorf("%s is %s (%s), want %s", payload, p.Name(), why, want)
		}
	}
}

func Fuzz(f *testing.F) { prototest.Fuzz(f, bidi.Spec.Protocol, jsonscan.WellFormed) }
