package session_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/wirectl/wirectl/session"
)

// A witness records the notifications of a tracker.
type witness struct{ saw []string }

func (w *witness) Changed(e *session.Exchange, seq int64) {
	w.saw = append(w.saw, fmt.Sprintf("#%d %s %v", seq, e.ID.Text, e.Outcome))
}

func (w *witness) Asked(c *session.Cancel) {
	w.saw = append(w.saw, fmt.Sprintf("cancel of %s %v", c.Target.Text, c.Class))
}

func (w *witness) Found(f session.Finding) { w.saw = append(w.saw, f.Name) }

// A watcher is notified of each change of an exchange, of a cancel when it is sent and when its
// class is known, and of findings.
func TestWatcher(t *testing.T) {
	for _, test := range []struct {
		protocol, script string
		want             []string
	}{
		{
			"mcp", "> call 1; < progress 1; > cancel 1; < result 9; end",
			[]string{"#1 1 open", "#2 1 open", "cancel of 1 pending", "#3 1 cancelled", "orphan", "cancel of 1 silent"},
		},
		{
			"latis", "> prompt 1; > cancel 2 1; < cancelled 1; > prompt 3; end",
			[]string{"#1 1 open", "#2 2 done", "cancel of 1 pending", "#2 1 open", "cancel of 1 confirmed", "#3 1 cancelled", "#4 3 open", "unanswered", "#0 3 abandoned"},
		},
	} {
		var w witness
		play(t, test.protocol, test.script, session.Options{Watcher: &w})
		if !slices.Equal(w.saw, test.want) {
			t.Errorf("%s: saw\n%q, want\n%q", test.protocol, w.saw, test.want)
		}
	}
}
