package track_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/http2"

	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/decode/track"
	"github.com/wirectl/wirectl/fixtures"
	"github.com/wirectl/wirectl/session"
)

const beside = "../../test/testdata/recordings"

// recorded returns the recorded sessions: those in the program, and others beside it.
func recorded(t *testing.T) map[string]fs.FS {
	t.Helper()
	all := map[string]fs.FS{}
	for _, name := range fixtures.Sessions() {
		all[name] = fixtures.Session(name)
	}
	others, err := os.ReadDir(beside)
	if err != nil {
		t.Fatal(err)
	}
	for _, other := range others {
		all[other.Name()] = os.DirFS(beside + "/" + other.Name())
	}
	return all
}

// followRecording follows a recorded session.
func followRecording(t *testing.T, fsys fs.FS) *track.Trackers {
	t.Helper()
	cfg := decode.Config{Workers: 1, Resync: true}
	r, err := decode.OpenRecording(fsys, cfg)
	if err != nil {
		t.Fatal(err)
	}
	var ts track.Trackers
	in := decode.Input{Capture: r}
	f := track.NewFollower(&ts, in, cfg)
	cfg.Event = f.Event
	if _, err := decode.Run(context.Background(), in, io.Discard, cfg, func() decode.View { return f.View }); err != nil {
		t.Fatal(err)
	}
	f.End()
	return &ts
}

// work is what became of the tasks and messages of a session: KIND OUTCOME PARTS, after +
// the requests that belong to each, and the class of each cancel. What is found is an error.
func work(t *testing.T, ts *track.Trackers) string {
	t.Helper()
	var lines []string
	at := map[int64]int{}
	for _, tr := range ts.List {
		for found := range tr.Findings() {
			t.Errorf("found %s: %s", found.Name, found.Message)
		}
		if tr.Protocol.Name() != "a2a" {
			continue
		}
		list := slices.SortedFunc(tr.Exchanges(), func(a, b *session.Exchange) int { return int(a.First - b.First) })
		for _, e := range list {
			if e.Of != 0 {
				lines[at[e.Of]] += fmt.Sprintf(" +%s %s", e.Kind, e.Outcome)
				continue
			}
			at[e.First] = len(lines)
			lines = append(lines, fmt.Sprintf("%s %s %d", e.Kind, e.Outcome, e.Parts))
		}
		for c := range tr.Cancels() {
			lines = append(lines, fmt.Sprintf("%s of %s: %s", c.Kind, c.TargetKind, c.Class))
		}
	}
	return strings.Join(lines, "\n")
}

// Recorded sessions have no findings, and each task its outcome, whatever carried it and
// whoever told of it.
func TestA2A(t *testing.T) {
	const newer = `SendMessage done 0
SendStreamingMessage done 0
SendStreamingMessage done 6
SendStreamingMessage done 8 +SendStreamingMessage done
SendStreamingMessage cancelled 7 +SubscribeToTask done +CancelTask done +GetTask done +CancelTask done
GetTask failed 0
CancelTask of SendStreamingMessage: confirmed
CancelTask of SendStreamingMessage: crossed`
	const older = `message/send done 0
message/stream done 5
message/stream done 7 +message/stream done
message/stream cancelled 6 +tasks/resubscribe done +tasks/cancel done +tasks/get done +tasks/cancel failed
tasks/get failed 0
tasks/cancel of message/stream: confirmed
tasks/cancel of message/stream: crossed`
	all := recorded(t)
	for name, want := range map[string]string{
		"a2a10-ts-jsonrpc": newer, "a2a10-ts-rest": newer, "a2a10-ts-grpc": newer,
		"a2a03-ts-jsonrpc": older, "a2a03-ts-rest": older,
		"a2a10-go-jsonrpc": `SendMessage done 0
SendStreamingMessage done 0
SendStreamingMessage done 7 +SendStreamingMessage done
SendStreamingMessage failed 0
SendStreamingMessage done 5
SendStreamingMessage done 5
SendStreamingMessage failed 1
SendStreamingMessage cancelled 7 +SubscribeToTask done +CancelTask done +GetTask done +CancelTask done
GetTask failed 0
ListTasks failed 0
CancelTask of SendStreamingMessage: confirmed
CancelTask of SendStreamingMessage: crossed`,
		"a2a10-ts-grpc-card": "",
	} {
		t.Run(name, func(t *testing.T) {
			if got := work(t, followRecording(t, all[name])); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// Each recorded session is judged by the rules of its own protocol.
func TestProtocolsOfRecordings(t *testing.T) {
	carriers := []string{"http", "ws", "grpc", "json", "bytes", "protobuf"}
	for name, fsys := range recorded(t) {
		want, _, _ := strings.Cut(name, "-")
		want = strings.TrimRight(want, "0123456789")
		switch {
		case name == "codex-exec-json":
			want = "codex-exec"
		case name == "http-aisdk":
			want = "ai-sdk"
		case name == "a2a10-ts-grpc-card", strings.HasPrefix(name, "grpc-"), strings.HasPrefix(name, "http-"):
			want = ""
		case strings.HasPrefix(name, "api-openai-realtime"):
			want = "openai-realtime"
		case name == "api-gemini-live-made":
			want = "gemini-live"
		case want == "api":
			_, want, _ = strings.Cut(name, "-")
			want, _, _ = strings.Cut(want, "-")
		case name == "claude-sdk", name == "claude-mcp-cancel":
			want = "claude mcp" // which is nested in it
		}
		var got []string
		for _, tr := range followRecording(t, fsys).List {
			if p := tr.Protocol.Name(); !slices.Contains(carriers, p) && !slices.Contains(got, p) {
				got = append(got, p)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s is judged as %q, want %q", name, got, want)
		}
	}
}

const (
	asked    = `{"message":{"messageId":"m","parts":[]}}`
	working  = `{"task":{"id":"k","status":{"state":"TASK_STATE_WORKING"}}}`
	canceled = `{"id":"k","status":{"state":"TASK_STATE_CANCELED"}}`
)

// sent is a request with a body of version 1.0.
func sent(path, body string) string {
	return strings.Replace(post(path, body), "Host: h", "Host: h\r\nA2A-Version: 1.0", 1)
}

// A call over REST is an exchange whatever becomes of its answer, in HTTP/1.1 and HTTP/2.
func TestA2AOverREST(t *testing.T) {
	agent := func(path string) string { return h2(":method", "POST", ":path", path, "a2a-version", "1.0") }
	for _, test := range []struct {
		about string
		wire  []string
		want  string
	}{
		{"an error for people", []string{sent("/message:send", asked), "<HTTP/1.1 502 Bad Gateway\r\nContent-Length: 2\r\n\r\nno"}, "SendMessage failed 0"},
		{"no answer but that there is none", []string{sent("/message:send", asked), "<HTTP/1.1 204 No Content\r\n\r\n"}, "SendMessage done 0"},
		{"an error in a stream leaves the task", []string{sent("/message:stream", asked), events, chunk("data: " + working + "\n\n"), chunk("event: error\ndata: {\"code\":-32603}\n\n"), "<0\r\n\r\n"}, "SendStreamingMessage open 0"},
		{"a stream that ends leaves the task", []string{sent("/message:stream", asked), events, chunk("data: " + working + "\n\n"), "<0\r\n\r\n"}, "SendStreamingMessage open 0"},
		{
			"a task that one binding begins and another ends",
			[]string{
				sent("/message:stream", asked), events, chunk("data: " + working + "\n\n"), "<0\r\n\r\n",
				sent("/rpc", `{"jsonrpc":"2.0","id":"7","method":"CancelTask","params":{"id":"k"}}`), said("200 OK", `{"jsonrpc":"2.0","id":"7","result":`+canceled+`}`),
			},
			"SendStreamingMessage cancelled 0 +CancelTask done\nCancelTask of SendStreamingMessage: confirmed",
		},
		{
			"a task that the path names",
			[]string{sent("/message:send", asked), said("200 OK", working), sent("/tasks/k:cancel", `{}`), said("200 OK", canceled), ">GET /tasks/k HTTP/1.1\r\nHost: h\r\nA2A-Version: 1.0\r\n\r\n", said("200 OK", canceled)},
			"SendMessage cancelled 0 +CancelTask done +GetTask done\nCancelTask of SendMessage: confirmed",
		},
		{"HTTP/2, the body after its head", []string{agent("/message:send") + data(asked), "<" + h2(":status", "200", "content-type", "application/a2a+json")[1:] + data(working)}, "SendMessage open 0"},
		{"HTTP/2, what a body says of the task", []string{agent("/message:send") + data(`{"message":{"taskId":"k"}}`), "<" + h2(":status", "200", "content-type", "application/json")[1:] + data(canceled)}, "SendMessage done 0"},
		{"HTTP/2, a request that is reset", []string{agent("/message:send") + data(asked), ">" + reset(http2.ErrCodeCancel)}, "SendMessage cancelled 0"},
		{"HTTP/2, a request that the agent resets", []string{agent("/tasks/k:cancel"), "<" + reset(http2.ErrCodeInternal)}, "CancelTask failed 0\nCancelTask of : unknown-target"},
		{
			"HTTP/2, a stream that is reset leaves the task",
			[]string{agent("/message:stream") + data(asked), "<" + h2(":status", "200", "content-type", "text/event-stream")[1:] + part("data: "+working+"\n\n"), ">" + reset(http2.ErrCodeCancel)},
			"SendStreamingMessage open 0",
		},
	} {
		t.Run(test.about, func(t *testing.T) {
			ts, f := look(t, over(test.wire...)) // the session goes on
			f.Release()
			if got := work(t, ts); got != test.want {
				t.Errorf("got\n%s\nwant\n%s", got, test.want)
			}
		})
	}
}

// part is a piece of a body that more follows.
func part(body string) string {
	var b bytes.Buffer
	_ = http2.NewFramer(&b, nil).WriteData(1, false, []byte(body))
	return b.String()
}

// An answer that is not JSON ends its call, and is told once.
func TestA2AMalformed(t *testing.T) {
	ts := follow(t, over(sent("/message:send", asked), said("200 OK", `{"task":`)))
	for _, tr := range ts.List {
		for e := range tr.Exchanges() {
			if e.Kind != "SendMessage" || e.Outcome != session.Done {
				t.Errorf("%s is %v", e.Kind, e.Outcome)
			}
		}
		var found []string
		for f := range tr.Findings() {
			found = append(found, f.Name)
		}
		if got := strings.Join(found, " "); got != "malformed" {
			t.Errorf("found %q", got)
		}
	}
}
