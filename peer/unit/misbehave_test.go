package unit_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/peer/unit"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/all"
	"github.com/wirectl/wirectl/protocol/latis"
	"github.com/wirectl/wirectl/session"
	"github.com/wirectl/wirectl/test/kit/page"
)

// Each misbehaviour causes only the finding with its name, with these exceptions.
func TestMisbehaviours(t *testing.T) {
	others := map[string][]string{
		"wrong-side":         {"unanswered", "wrong-side"},
		"chunk-after-cancel": nil,
		"log-line":           {"oversize"},
	}
	var rows [][]string
	for _, m := range unit.Misbehaviours {
		rows = append(rows, []string{"`" + m.Name + "`", m.About})
		t.Run(m.Name, func(t *testing.T) {
			want, other := others[m.Name]
			if !other {
				want = []string{m.Name}
			}
			got, cancel := misbehave(t, m)
			if !slices.Equal(got, want) {
				t.Errorf("found %q, want %q", got, want)
			}
			if m.Name == "chunk-after-cancel" && (cancel.Parts == 0 || cancel.Class != session.Confirmed) {
				t.Errorf("the cancel is %v after %d parts", cancel.Class, cancel.Parts)
			}
		})
	}
	page.Check(t, "../../docs/unit.md", "misbehaviours", page.Table([]string{"name", "the unit"}, rows))
}

// notOfUnits maps findings that no latis unit can cause to the reason.
var notOfUnits = map[string]string{
	"late-part":       "latis has no progress beside the parts",
	"duplicate-id":    "controllers number requests",
	"no-final":        "latis has no runs",
	"missing-request": "controllers begin",
	"missing-ack":     "no ACK of latis comes ahead of another answer",
	"cancel-unknown":  "controllers cancel",
	"late-result":     "a cancelled prompt is to be answered",
	"result-count":    "a prompt has one answer",
	"no-answer":       "a message without a payload is of an unknown kind",
	"unknown-field":   "protobuf allows for fields to come",
	"bad-version":     "latis has no member for it",
	"bad-params":      "controllers ask",
	"unsafe-id":       "ids are strings",
	"duplicate-key":   "messages are no JSON",
	"lone-surrogate":  "messages are no JSON",
	"invalid-utf8":    "tracking does not look into the texts of protobuf",
	"stray-output":    "in len32 a line is a length over the limit: log-line",
	"unknown-step":    "latis has no steps of a turn",
	"open-step":       "latis has no steps of a turn",
	"total-falls":     "latis tells of no tokens",
	"request-timeout": "controllers give up",
	"wrong-framing":   "latis has no framing of its own for pipes",
	"unknown-version": "latis states no version",
	"line-separator":  "len32 has no lines",
	"other-operation": "latis has no tasks",
	"mixed-versions":  "latis states no version",
	"open-stream":     "latis streams nothing over HTTP",
	"flawed-framing":  "len32 has one way to write a frame",

	"wrong-version":    "latis has one version",
	"header-mismatch":  "latis is not spoken over HTTP",
	"undeclared":       "prompts declare nothing",
	"wrong-result":     "answers have no types",
	"wrong-retry":      "controllers retry",
	"cancel-forbidden": "controllers cancel",

	"wrong-usage":       "latis tells of no tokens",
	"bad-arguments":     "latis has no tool calls",
	"unknown-tool-call": "latis has no tool calls",
	"repeated-request":  "controllers ask",

	"unstated-version":        "latis states no version",
	"lost-between":            "that is between two captures",
	"changed-between":         "that is between two captures",
	"delayed-between":         "that is between two captures",
	"died-with-open-requests": "a unit that misbehaves goes on",
	"not-started":             "a unit that misbehaves has started",
	"ignores-eof":             "latis is not bound to the end of stdin",
	"wrong-response":          "latis is not spoken over HTTP",
	"ended-session":           "controllers use sessions",
}

// There is a misbehaviour for each finding that a unit can cause.
func TestMisbehavioursAreComplete(t *testing.T) {
	for _, f := range session.Findings {
		_, err := unit.MisbehaviourNamed(f.Name)
		if _, not := notOfUnits[f.Name]; (err == nil) == not {
			t.Errorf("%s: it is to be a misbehaviour, or said why it is none", f.Name)
		}
	}
}

// A unit without a misbehaviour causes no finding in the same test.
func TestBehaves(t *testing.T) {
	if got, _ := misbehave(t, nil); len(got) > 0 {
		t.Errorf("found %q", got)
	}
}

// misbehave runs a prompt that ends and one that is cancelled. It returns the names of the
// findings and the outcome of the cancel.
func misbehave(t *testing.T, m *unit.Misbehaviour) (found []string, _ session.Cancel) {
	h := &twoParts{started: make(chan bool, 2), release: make(chan struct{})}
	c := connect(t, unit.New(h, unit.Options{Misbehave: m}))
	c.scanner.Resync()
	c.scanner.SetAccept(all.Plausible(latis.Protocol))
	var mu sync.Mutex
	send := func(request string) {
		mu.Lock()
		defer mu.Unlock()
		c.send(request)
	}
	acked, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for c.scanner.Scan() {
			mu.Lock()
			if c.feedFrame(c.scanner.Frame()) == "ACK" {
				close(acked)
			}
			mu.Unlock()
		}
	}()
	send(`{"id":"1","promptSend":{"content":"x"}}`)
	send(`{"id":"2","promptSend":{"content":"x"}}`)
	<-h.started
	<-h.started
	send(`{"id":"3","promptCancel":{"targetId":"2"}}`)
	<-acked
	close(h.release)
	if err := c.conn.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	<-done
	if err := c.scanner.Err(); err != nil {
		c.tracker.Feed(session.Frame{Seq: c.seq + 1, Conn: 1, Dir: frame.U2C, Gap: true, Fault: err}, nil)
	}
	c.tracker.End(1, time.Now())
	for f := range c.tracker.Findings() {
		found = append(found, f.Name)
	}
	slices.Sort(found)
	for cancel := range c.tracker.Cancels() {
		return slices.Compact(found), *cancel
	}
	t.Fatal("the ledger is empty")
	return nil, session.Cancel{}
}

// feedFrame feeds the tracker with a frame, which may be invalid, and returns its kind.
func (c *controller) feedFrame(f *frame.Frame) string {
	if !f.Gap {
		m := c.feed(frame.U2C, f.Payload())
		return string(m.Kind)
	}
	c.seq++
	c.tracker.Feed(session.Frame{Seq: c.seq, Conn: 1, Dir: frame.U2C, Size: len(f.Raw), Payload: f.Raw, Fault: f.Flaw, Gap: true}, nil)
	return string(protocol.Unknown)
}

// twoParts answers with one part, and after the release with another.
type twoParts struct {
	started chan bool
	release chan struct{}
}

func (a *twoParts) Answer(ctx context.Context, _ *unit.Prompt, emit func(string) error) (map[string]string, error) {
	if err := emit("one"); err != nil {
		return nil, err
	}
	a.started <- true
	select {
	case <-a.release:
		return nil, emit("two")
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}
