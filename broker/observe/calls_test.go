package observe_test

import (
	"bytes"
	"testing"

	"github.com/wirectl/wirectl/broker"
	"github.com/wirectl/wirectl/broker/door/rlm"
	"github.com/wirectl/wirectl/broker/observe"
)

// A line is a call. Its prompt and answer are unchanged except for white space.
func TestCalls(t *testing.T) {
	var b bytes.Buffer
	calls := observe.NewCalls(&b, rlm.AppendCompletion)
	c := &broker.Call{Door: "rlm", Ref: "<1>", Name: "m", Prompt: []byte(`{ "n": 1.0, "text": "<\u00e9>" }`)}
	c.Completion.Text = []byte(`"a & b"`)
	calls.Ended(c, &broker.Report{})
	calls.Ended(&broker.Call{Door: "openai"}, &broker.Report{Err: broker.ErrGone})
	want := `{"door":"rlm","correlation_id":"<1>","error":null,"chat_completion":{"root_model":"m","prompt":{"n":1.0,"text":"<\u00e9>"},"response":"a & b",` +
		`"usage_summary":{"model_usage_summaries":{"m":{"total_calls":1,"total_input_tokens":0,"total_output_tokens":0}}},` +
		`"prompt_tokens":0,"completion_tokens":0,"execution_time":0.000000}}
{"door":"openai","correlation_id":"","error":"Client went away","chat_completion":null}
`
	if got := b.String(); got != want || calls.Err() != nil {
		t.Errorf("got %s, %v", got, calls.Err())
	}
}
