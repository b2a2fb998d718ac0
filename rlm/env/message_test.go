package env_test

import (
	"reflect"
	"testing"

	"github.com/wirectl/wirectl/rlm/env"
)

// FuzzMessage checks that messages mean the same, however they are read.
func FuzzMessage(f *testing.F) {
	scanned := []string{
		`{"kind":"output","id":7,"stream":"stdout","text":"a\n\u00e9 \ud83d\ude00"}`,
		`{"kind":"execute_result","id":7,"execution_time":0.001,"error":null,"locals":{"n":"3","\u0061":"[1]"},"final":null,"best":"","omitted":0}`,
		`{"kind":"llm_query","id":9,"cell":7,"model":null,"prompt":[{"role":"user","content":"x"}]}`,
		`{"kind":"llm_query","id":9,"cell":7,"model":null,"prompt":null}`,
	}
	for _, text := range scanned {
		if _, _, ok, _ := env.Read([]byte(text)); !ok {
			f.Errorf("the fast way does not read %s", text)
		}
	}
	for _, text := range append(scanned,
		`{"kind":"execute_result","id":7,"error":{"type":"E","message":"m","line":1},"final":"x"}`,
		`{"kind":"busy","id":7,"seconds":0.5}`, `{"KIND":"output","id":-1}`, `{"kind":"output","id":1e3,"text":"\ud800"}`,
		`{"kind":null,"kind":"a","locals":null}`, `[1]`, `null`, `{"kind":"a","text":"\xff"}`, `{"kind":"a","id":18446744073709551615,"id":1}`,
	) {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		fast, slow, ok, err := env.Read(payload)
		if ok && (err != nil || !reflect.DeepEqual(fast, slow)) {
			t.Errorf("%q: %+v, want %+v, %v", payload, fast, slow, err)
		}
	})
}
