package cdp_test

import (
	"testing"

	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/cdp"
	"github.com/wirectl/wirectl/test/kit/prototest"
)

const (
	command  = `{"method":"Page.navigate","params":{"url":"about:blank"},"id":81,"sessionId":"S"}`
	result   = `{"id":81,"result":{"frameId":"F"},"sessionId":"S"}`
	thrown   = `{"id":81,"result":{"exceptionDetails":{"text":"Uncaught"}},"sessionId":"S"}`
	failed   = `{"id":34,"error":{"code":-32601,"message":"wasn't found"}}`
	event    = `{"method":"Page.loadEventFired","params":{"timestamp":1},"sessionId":"S"}`
	attached = `{"method":"Target.attachedToTarget","params":{"sessionId":"S","targetInfo":{"type":"page","url":"u"}}}`
	detached = `{"method":"Target.detachedFromTarget","params":{"sessionId":"S"},"sessionId":"T"}`
)

func TestParse(t *testing.T) {
	prototest.Vectors(t, cdp.Spec.Protocol)
	prototest.Cases(t, cdp.Spec.Protocol, []prototest.Case{
		{command, `Page.navigate open from=c2u id=81 within="S"`},
		{`{"id":1,"method":"Browser.close"}`, `Browser.close open from=c2u id=1`},
		{result, `result close from=u2c id=81 within="S"`},
		{thrown, `result close from=u2c id=81 tool-error=true within="S"`},
		{`{"id":2,"result":{"exceptionDetails":{}}}`, `result close from=u2c id=2 tool-error=true`},
		{`{"id":2,"result":{"errorText":"net::ERR_ABORTED"}}`, `result close from=u2c id=2 tool-error=true`},
		{failed, `error fail from=u2c id=34 label=-32601`},
		{event, `Page.loadEventFired note from=u2c within="S"`},
		{attached, `Target.attachedToTarget note from=u2c bind="S" bind-space=session label=page`},
		{detached, `Target.detachedFromTarget note from=u2c within="T" gone="S"`},

		{`{"id":"1","method":"Browser.close"}`, `Browser.close open from=c2u id="1" faults=bad-id`},
		{`{"id":1,"method":"Browser.close","params":[]}`, `Browser.close open from=c2u id=1 faults=bad-params`},
		{`{"id":1,"result":{},"error":{"code":1}}`, `error fail from=u2c id=1 label=1 faults=both-answers`},
		{`{"id":1}`, `unknown note faults=unknown-kind`},
		{`{"method":"Page."}`, `unknown note faults=unknown-kind`},
		{`{"method":".navigate"}`, `unknown note faults=unknown-kind`},
		{`{"method":"page.navigate"}`, `unknown note faults=unknown-kind`},
		{`{"method":"Page.frame.x"}`, `unknown note faults=unknown-kind`},
		{`[]`, `unknown note faults=unknown-kind`},
	})
	prototest.AnyOrder(t, cdp.Spec.Protocol, command, result, thrown, failed, event, attached, detached)
	prototest.NoAllocs(t, cdp.Spec.Protocol, command, result, thrown, failed, event, attached, detached)
}

// What a message says to people is told rather than how it begins.
func TestSummaries(t *testing.T) {
	for payload, want := range map[string]string{
		command:  `: "about:blank"`,
		thrown:   `: "Uncaught"`,
		failed:   `-32601: "wasn't found"`,
		event:    `: {"timestamp":1}`,
		attached: `page: "u"`,
		`{"id":2,"result":{"errorText":"net::ERR_ABORTED"}}`: `: "net::ERR_ABORTED"`,
	} {
		var m protocol.Message
		if err := cdp.Spec.Protocol.Parse([]byte(payload), &m); err != nil || string(m.Label)+": "+string(m.Text) != want {
			t.Errorf("%s\n says %s: %s\n want %s (%v)", payload, m.Label, m.Text, want, err)
		}
	}
}

func Fuzz(f *testing.F) { prototest.Fuzz(f, cdp.Spec.Protocol, jsonscan.WellFormed) }
