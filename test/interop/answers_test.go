package interop

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// An answering is what a page says of a call and its answer.
type answering struct {
	Errors, Filtered, Sent                                                 []string
	Answer, Title, Raw, Copied, Offers, Whole, Question, Repeated, Refused string
	Frames                                                                 int

	pictures string
}

// lookAtAnswers looks at the last call of a page, and sends it to a server, if there is one.
func lookAtAnswers(t *testing.T, url string, server ...string) (a answering) {
	t.Helper()
	a.pictures = t.TempDir()
	browse(t, &a, "answers.mjs", append([]string{url, a.pictures}, server...)...)
	if len(a.Errors) > 0 {
		t.Error(a.Errors)
	}
	return a
}

// The answer of a model is joined from its events, which are still there, in a report and in a live
// page. A report has commands, but neither jq nor anything that sends.
func TestPageJoinsAnswers(t *testing.T) {
	need(t, "chromium")
	report := filepath.Join(t.TempDir(), "report.html")
	command(t, nil, "report", "-q", "-o", report, "fixture:api-anthropic-made")
	for url, offers := range map[string]string{"file://" + report: "", pageOf(t, nil, "fixture:api-anthropic-made"): "|RX"} {
		a := lookAtAnswers(t, url)
		if !strings.Contains(a.Answer, `"text": "I will reserve it."`) || !strings.Contains(a.Answer, `"name": "reserve"`) || a.Title != "answer · joined from 29 events" {
			t.Errorf("%s: %s\n%s", url, a.Title, a.Answer)
		}
		for _, theme := range []string{"light", "dark"} {
			samePicture(t, filepath.Join(a.pictures, theme+".png"), filepath.Join("testdata", "page-answer-"+theme+".txt"))
		}
		if a.Frames != 30 || !strings.Contains(a.Raw, "message_start") {
			t.Errorf("%s: %d frames, the second is\n%s", url, a.Frames, a.Raw)
		}
		if !strings.HasPrefix(a.Copied, "curl -X POST http://127.0.0.1:18579/v1/messages ") || !strings.Contains(a.Copied, "'authorization: [redacted]'") {
			t.Errorf("%s: copied %s", url, a.Copied)
		}
		if a.Offers != offers {
			t.Errorf("%s: offers %q, want %q", url, a.Offers, offers)
		}
		if got := strings.Join(a.Filtered, "\n"); offers != "" && (!strings.HasPrefix(got, "4\n5\n(jq: ") || !strings.Contains(a.Whole, `"stream": true`)) {
			t.Errorf("%s: jq shows %s, and then %s", url, got, a.Whole)
		}
	}
}

// A request of a record goes to a server at an address. A page starts no program.
func TestPageSendsToServer(t *testing.T) {
	need(t, "chromium")
	server := exec.CommandContext(t.Context(), wirectl, "replay", "--as", "unit", "--repeat", "--listen", "tcp://127.0.0.1:0", "fixture:mcp-everything")
	address, _ := listening(t, server, regexp.MustCompile(`listening at (\S+)`))
	a := lookAtAnswers(t, pageOf(t, nil, "--control", "fixture:mcp-everything"), address)
	if !strings.HasPrefix(a.Question, "send tools/call to the server at an address") || !strings.Contains(a.Question, "which a page does not start") {
		t.Error(a.Question)
	}
	if len(a.Sent) != 2 || !strings.Contains(a.Sent[0], "a page starts no program") || a.Sent[1] != "tools/call was answered" || !strings.Contains(a.Repeated, `"text": "Echo: `) {
		t.Errorf("%q\n%s", a.Sent, a.Repeated)
	}
}

// The page of a hub copies a call as a command and runs jq, too, but sends nothing from the hub's machine.
func TestHubPageCopies(t *testing.T) {
	need(t, "chromium")
	env := append(os.Environ(), "XDG_STATE_HOME="+t.TempDir(), "XDG_RUNTIME_DIR="+t.TempDir())
	address := "127.0.0.1:" + freePort(t)
	hub := exec.CommandContext(t.Context(), wirectl, "hub", "--control", "--listen", address)
	hub.Env = env
	page, _ := listening(t, hub, regexp.MustCompile(`the page is at (\S+)`))
	relay := exec.CommandContext(t.Context(), wirectl, "send", "-q", "mcp", "tools/list", "--", wirectl, "relay", "-q", "--name", "tools", "--hub", "nats://"+address, "--hub-policy", "lossless", "--", wirectl, "mcp")
	relay.Env, relay.Stderr = env, t.Output()
	check(t, relay.Run())
	a := lookAtAnswers(t, page)
	if !strings.HasPrefix(a.Copied, "wirectl send mcp tools/list -- ") || !strings.HasSuffix(a.Copied, " mcp") || strings.Join(a.Filtered[:2], " ") != "3 3" || !strings.Contains(a.Answer, `"tools": [`) {
		t.Errorf("copied %s, jq shows %q, the answer is\n%s", a.Copied, a.Filtered, a.Answer)
	}
	if !strings.HasPrefix(a.Refused, "no request is sent from here") {
		t.Errorf("R says %q", a.Refused)
	}
}

// Every key that the help of a page names does something, in a report, in a live page, and on a wire.
func TestKeysOfPage(t *testing.T) {
	need(t, "chromium")
	report := filepath.Join(t.TempDir(), "report.html")
	command(t, nil, "report", "-q", "-o", report, "../testdata/runs/claude")
	env := []string{"XDG_RUNTIME_DIR=" + t.TempDir()}
	send := throughRelay(t, env, 20_000)
	for _, pages := range [][]string{{"file://" + report}, {pageOf(t, nil, "fixture:mcp-everything"), pageOf(t, env, "--control", "live")}} {
		var saw struct{ Errors, Keys, Idle []string }
		browse(t, &saw, "keys.mjs", pages...)
		if len(saw.Errors)+len(saw.Idle) > 0 || len(saw.Keys) < 50 {
			t.Errorf("%s: of %q these do nothing: %q, errors %q", pages, saw.Keys, saw.Idle, saw.Errors)
		}
	}
	_ = send.Wait() // the prompt did not expect the cancel
}
