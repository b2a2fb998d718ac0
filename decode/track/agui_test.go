package track_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/wirectl/wirectl/decode/track"
	"github.com/wirectl/wirectl/session"
)

// runs says what is known of the operations, what belongs to each, and what is wrong.
func runs(ts *track.Trackers) string {
	var lines []string
	for _, tr := range ts.List {
		list := slices.SortedFunc(tr.Exchanges(), func(a, b *session.Exchange) int { return int(a.First - b.First) })
		for _, e := range list {
			belongs := ""
			if e.Of != 0 {
				belongs = "+"
			}
			lines = append(lines, fmt.Sprintf("%s%s %s %v %d", belongs, tr.Protocol.Name(), e.Kind, e.Outcome, e.Parts))
		}
		for f := range tr.Findings() {
			lines = append(lines, f.Name)
		}
	}
	return strings.Join(lines, "; ")
}

// A run ends as its last event says. One that is interrupted goes on with its resume.
func TestAGUI(t *testing.T) {
	body := func(run, more string) string {
		return post("/agent", `{"threadId":"t","runId":"`+run+`","messages":[],"tools":[],"context":[]`+more+`}`)
	}
	finish := func(outcome string) string {
		return event(`{"type":"RUN_FINISHED","threadId":"t","runId":"a","outcome":{"type":"` + outcome + `","interrupts":[{"id":"i"}]}}`)
	}
	const resume = `,"resume":[{"interruptId":"i","status":"resolved"}]`
	ask, start, text := body("a", ""), event(`{"type":"RUN_STARTED","threadId":"t","runId":"a"}`), event(`{"type":"TEXT_MESSAGE_CHUNK","messageId":"m","delta":"x"}`)
	for _, test := range []struct {
		about string
		wire  []string
		want  string
	}{
		{"a run", []string{ask, events, start, text, finish("success"), last}, "agui run done 1"},
		{"an error", []string{ask, events, start, text, event(`{"type":"RUN_ERROR","message":"no"}`), last}, "agui run failed 1"},
		{"the agent stops", []string{ask, events, start, text, finish("cancelled"), last}, "agui run cancelled 1"},
		{"an interrupt and its resume", []string{ask, events, start, finish("interrupt"), last, body("b", resume), events, start, text, finish("success"), last}, "agui run done 0; +agui run done 1"},
		{"two interrupts", []string{ask, events, start, finish("interrupt"), last, body("b", resume), events, start, finish("interrupt"), last, body("c", resume), events, start, finish("cancelled"), last}, "agui run cancelled 0; +agui run done 0; +agui run cancelled 0"},
		{"nobody resumes", []string{ask, events, start, finish("interrupt"), last}, "agui run abandoned 0"},
		{"a run of its own", []string{ask, events, start, finish("interrupt"), last, body("b", ""), events, start, finish("success"), last}, "agui run abandoned 0; agui run done 0"},
		{"two runs in an answer", []string{ask, events, start, finish("success"), start, text, finish("success"), last}, "agui run done 0"},
		{"a refusal", []string{ask, said("500 Oops", `{"error":"no"}`)}, "agui run failed 0"},
		{"an answer without events", []string{ask, said("200 OK", `{"ok":true}`)}, "agui run done 0"},
		{"no JSON", []string{ask, "<HTTP/1.1 502 Bad Gateway\r\nContent-Type: text/html\r\nContent-Length: 5\r\n\r\n<p>no"}, "agui run failed 0"},

		{"an answer without an end", []string{ask, events, start, text, last}, "agui run died 1; no-final"},
		{"more after the end", []string{ask, events, start, finish("success"), text, last}, "agui run done 0; after-end"},
		{"no beginning", []string{ask, events, text, finish("success"), last}, "agui run done 1; missing-ack"},
		{"an event that there is not", []string{ask, events, start, event(`{"type":"NEWS"}`), finish("success"), last}, "agui run done 0; unknown-kind"},
		{"a resume of something else", []string{ask, events, start, finish("interrupt"), last, body("b", `,"resume":[{"interruptId":"k"}]`), events, start, finish("success"), last}, "agui run done 0; +agui run done 0; wrong-retry"},
	} {
		if got := runs(follow(t, over(test.wire...))); got != test.want {
			t.Errorf("%s: %q, want %q", test.about, got, test.want)
		}
	}
}
