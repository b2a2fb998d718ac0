package share

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/wirectl/wirectl/broker/provider"
	"github.com/wirectl/wirectl/protocol/jsonscan"
)

// What a worker answers never breaks what a broker does with it.
func FuzzEnd(f *testing.F) {
	f.Add([]byte(`{"Completion":{"Text":"ImhpIg==","Finish":"stop","Usage":{"Input":1,"Output":2}}}`))
	f.Add([]byte(`{"Completion":{"Text":"Ig=="}}`))
	f.Add([]byte(`{"Completion":{"ToolCalls":[{"ID":"1","Name":"f","Arguments":"e30="}]}}`))
	f.Add([]byte(`{"Failure":{"Cause":77,"Status":99,"RetryAfter":-1,"Text":"x"}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var e end
		if json.Unmarshal(text, &e) != nil || e.check() != nil {
			return
		}
		if err := e.Failure.error("w"); err != nil {
			failed, ok := errors.AsType[*provider.Error](err)
			if !ok {
				t.Fatal(err)
			}
			if s := failed.Status; s != 0 && (s < 400 || s > 599) {
				t.Errorf("status %d", s)
			}
			return
		}
		if jsonscan.KindOf(e.Completion.Text) != jsonscan.String || jsonscan.Valid(e.Completion.Text) != nil {
			t.Errorf("text %q", e.Completion.Text)
		}
		if u := e.Completion.Usage; u.Input < 0 || u.Output < 0 {
			t.Errorf("%+v", u)
		}
	})
}
