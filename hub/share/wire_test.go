package share

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/wirectl/wirectl/broker/provider"
	"github.com/wirectl/wirectl/internal/jsonscan"
)

// No answer of a worker may break a broker. This is not a fuzz target, because the server
// in this package's tests takes minutes to build as one.
func TestHostileEnds(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, seed := range []string{
		`{"Completion":{"Text":"ImhpIg==","Finish":"stop","Usage":{"Input":1,"Output":2}}}`,
		`{"Completion":{"Text":"Ig=="}}`,
		`{"Completion":{"Text":"aGk=","Chat":"W10="}}`,
		`{"Completion":{"ToolCalls":[{"ID":"1","Name":"f","Arguments":"e30="}],"Usage":{"Input":-7}}}`,
		`{"Failure":{"Cause":77,"Status":99,"RetryAfter":-1,"Text":"x"}}`,
	} {
		checkEnd(t, []byte(seed))
		for range 5000 {
			text := []byte(seed)
			for range 1 + random.IntN(3) {
				text[random.IntN(len(text))] = seed[random.IntN(len(seed))]
			}
			checkEnd(t, text)
		}
	}
}

func checkEnd(t *testing.T, text []byte) {
	t.Helper()
	var e end
	if json.Unmarshal(text, &e) != nil || e.check() != nil {
		return
	}
	if err := e.Failure.error("w"); err != nil {
		failed, ok := errors.AsType[*provider.Error](err)
		if !ok || failed.Status != 0 && (failed.Status < 400 || failed.Status > 599) || failed.RetryAfter < 0 {
			t.Errorf("%s: %+v", text, failed)
		}
		return
	}
	if jsonscan.KindOf(e.Completion.Text) != jsonscan.String || jsonscan.Valid(e.Completion.Text) != nil {
		t.Errorf("%s: the text is %q", text, e.Completion.Text)
	}
	if u := e.Completion.Usage; u.Input < 0 || u.Output < 0 {
		t.Errorf("%s: %+v", text, u)
	}
}
