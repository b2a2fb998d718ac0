package track_test

import "testing"

// A message ends as its last part says. What comes after an error changes nothing.
func TestAISDK(t *testing.T) {
	const (
		text   = `{"type":"text-delta","id":"0","delta":"x"}`
		failed = `{"type":"error","errorText":"no"}`
		finish = `{"type":"finish","finishReason":"stop"}`
	)
	ask := post("/api/chat", `{"id":"c","trigger":"submit-message","messages":[]}`)
	start, begin := event(`{"type":"start"}`), event(`{"type":"text-start","id":"0"}`)
	for _, test := range []struct {
		about string
		wire  []string
		want  string
	}{
		{"a message", []string{ask, events, start, begin, event(text), event(finish), event("[DONE]"), last}, "ai-sdk chat done 1"},
		{"an error", []string{ask, events, start, event(failed), event("[DONE]"), last}, "ai-sdk chat failed 0"},
		{"a finish after it", []string{ask, events, start, event(failed), event(finish), event("[DONE]"), last}, "ai-sdk chat failed 0"},
		{"the server stops", []string{ask, events, start, event(`{"type":"abort"}`), event("[DONE]"), last}, "ai-sdk chat cancelled 0"},
		{"a refusal", []string{ask, said("500 Oops", `{"error":"no"}`)}, "ai-sdk chat failed 0"},
		{"no end", []string{ask, events, start, begin, event(text), last}, "ai-sdk chat died 1; no-final"},
		{"no start", []string{ask, events, start, event(text), event(finish), last}, "ai-sdk chat done 1; unknown-step"},
	} {
		if got := runs(follow(t, over(test.wire...))); got != test.want {
			t.Errorf("%s: %q, want %q", test.about, got, test.want)
		}
	}
}
