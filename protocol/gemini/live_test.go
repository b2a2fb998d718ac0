package gemini_test

import (
	"testing"

	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/protocol/gemini"
	"github.com/wirectl/wirectl/test/kit/prototest"
)

const (
	complete = `{"usageMetadata":{"promptTokenCount":9,"thoughtsTokenCount":2},"serverContent":{"turnComplete":true,"turnCompleteReason":"MALFORMED_FUNCTION_CALL"}}`
	calls    = `{"toolCall":{"functionCalls":[{"name":"f","id":"1","args":{"a":1}}]}}`
)

func TestParseLive(t *testing.T) {
	prototest.Vectors(t, gemini.LiveSpec.Protocol)
	prototest.Cases(t, gemini.LiveSpec.Protocol, []prototest.Case{
		{complete, `serverContent close from=u2c label=MALFORMED_FUNCTION_CALL stop-reason=MALFORMED_FUNCTION_CALL usage={9 0 2}`},
		{`{"realtimeInput":{"audio":{}}}`, `realtimeInput note from=c2u`},
		{`{"serverContent":{"inputTranscription":{"text":"x"}}}`, `serverContent note from=u2c`},
		{`{"serverContent":{"outputTranscription":{"text":"x"}}}`, `serverContent part from=u2c`},
		{`{"other":1}`, `unknown note faults=unknown-kind`},
		{`7`, `unknown note faults=unknown-kind`},
	})
	prototest.AnyOrder(t, gemini.LiveSpec.Protocol, complete, calls)
	prototest.NoAllocs(t, gemini.LiveSpec.Protocol, complete, calls)
}

func FuzzLive(f *testing.F) { prototest.Fuzz(f, gemini.LiveSpec.Protocol, jsonscan.WellFormed) }
