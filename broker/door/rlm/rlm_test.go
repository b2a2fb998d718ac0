package rlm_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/wirectl/wirectl/broker"
	"github.com/wirectl/wirectl/broker/door/rlm"
	"github.com/wirectl/wirectl/broker/observe"
	"github.com/wirectl/wirectl/broker/provider"
	"github.com/wirectl/wirectl/capture"
	fr "github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/protocol"
	wire "github.com/wirectl/wirectl/protocol/rlm"
	"github.com/wirectl/wirectl/session"
	"github.com/wirectl/wirectl/test/kit/doortest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func start(t testing.TB, p provider.Provider) string {
	return doortest.Serve(t, rlm.New(doortest.Broker(t, p), nil))
}

func dial(t testing.TB, addr string) *net.TCPConn { return doortest.Dial(t, addr) }

func frame(payload string) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(payload))), payload...)
}

func read(t testing.TB, r io.Reader) string {
	t.Helper()
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		t.Fatal(err)
	}
	payload := make([]byte, binary.BigEndian.Uint32(head[:]))
	if _, err := io.ReadFull(r, payload); err != nil {
		t.Fatal(err)
	}
	return string(payload)
}

// Each error has the words of existing peers, and the first that applies is reported.
func TestErrors(t *testing.T) {
	addr := start(t, nil)
	for _, tt := range []struct{ request, id, want string }{
		{`{"correlation_id":"c","zz":1,"aa":2,"model":3}`, `"c"`, "Unknown keys in WireRequest: ['aa', 'zz']"},
		{`{"correlation_id":"c","it's":1}`, `"c"`, `Unknown keys in WireRequest: ["it's"]`},
		{`{"correlation_id":1,"x":1}`, `null`, "Unknown keys in WireRequest: ['x']"},
		{`{"correlation_id":1,"model":2}`, `null`, "WireRequest.correlation_id must be a string when present"},
		{`{"correlation_id":"c","model":2,"prompt":3}`, `"c"`, "WireRequest.model must be a string when present"},
		{`{"prompt":3,"prompts":3}`, `null`, "WireRequest.prompt must be a valid Prompt (str | dict | list[dict])"},
		{`{"prompt":["a"]}`, `null`, "WireRequest.prompt must be a valid Prompt (str | dict | list[dict])"},
		{`{"prompt":"a","prompts":3}`, `null`, "WireRequest.prompts must be a list"},
		{`{"prompts":[]}`, `null`, "WireRequest.prompts must not be empty"},
		{`{"prompts":["a",null]}`, `null`, "WireRequest.prompts each item must be a valid Prompt"},
		{`{"prompt":"a","prompts":["b"]}`, `null`, "WireRequest must include only one of 'prompt' or 'prompts'"},
		{`{"correlation_id":"\u00e9","prompt":null}`, `"\u00e9"`, "WireRequest missing 'prompt' or 'prompts'"},
		{`[1]`, `null`, "Frame JSON must be an object"},
		{`{"prompt":NaN}`, `null`, "Invalid JSON payload: NaN and Infinity are not JSON"},
		{`{"prompt":{"a":[1, -Infinity]}}`, `null`, "Invalid JSON payload: NaN and Infinity are not JSON"},
		{`{"prompt":"\ud800"}`, `null`, "Invalid JSON payload"},
		{"\xff", `null`, "Invalid JSON payload"},
		{``, `null`, "Invalid JSON payload"},
		{`{"model":"nope","prompts":["a"]}`, `null`, "Unknown model 'nope'. Allowed: ['mock']"},
	} {
		conn := dial(t, addr)
		_, _ = conn.Write(frame(tt.request))
		message, _ := json.Marshal(tt.want)
		message = bytes.ReplaceAll(message, []byte(`\u0026`), []byte("&"))
		if got, want := read(t, conn), `{"correlation_id":`+tt.id+`,"error":`+string(message)+`,"results":null}`; got != want {
			t.Errorf("%s:\n got %s\nwant %s", tt.request, got, want)
		}
	}
}

// The keys of an answer are in the order of existing peers, and there are no others.
func TestAnswer(t *testing.T) {
	conn := dial(t, start(t, nil))
	_, _ = conn.Write(frame(`{"correlation_id":"x","model":" ","prompts":["a",{"role":"user","content":"b"},[],{}]}`))
	got := doortest.Zero(read(t, conn), "execution_time")
	completion := func(prompt, response string, in, out string) string {
		return `{"error":null,"chat_completion":{"root_model":"mock","prompt":` + prompt + `,"response":` + response +
			`,"usage_summary":{"model_usage_summaries":{"mock":{"total_calls":1,"total_input_tokens":` + in + `,"total_output_tokens":` + out + `}}},"prompt_tokens":` + in +
			`,"completion_tokens":` + out + `,"execution_time":0,"finish_reason":"stop"}}`
	}
	want := `{"correlation_id":"x","error":null,"results":[` + strings.Join([]string{
		completion(`"a"`, `"Echo: a"`, "1", "2"),
		completion(`{"role":"user","content":"b"}`, `"Echo: b"`, "8", "2"),
		completion(`[]`, `"Echo: "`, "1", "2"),
		completion(`{}`, `"Echo: {}"`, "1", "2"),
	}, ",") + `]}`
	if got != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
}

// With a single prompt, an unknown model is an error of the item.
func TestUnknownModelItem(t *testing.T) {
	conn := dial(t, start(t, nil))
	_, _ = conn.Write(frame(`{"model":"nope","prompt":"a"}`))
	want := `{"correlation_id":null,"error":null,"results":[{"error":"Unknown model 'nope'. Allowed: ['mock']","chat_completion":null}]}`
	if got := read(t, conn); got != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
}

// Like a prompt, a batch for an unknown model counts as one rejected call.
func TestUnknownModelBatch(t *testing.T) {
	b := doortest.Broker(t, nil)
	conn := dial(t, doortest.Serve(t, rlm.New(b, nil)))
	_, _ = conn.Write(frame(`{"model":"nope","prompts":["a","b"]}`))
	read(t, conn)
	if u := b.Usage(); len(u) != 1 || u[0].Refused != 1 || u[0].Calls() != 1 {
		t.Errorf("the broker was used for %+v", u)
	}
}

// A call needs far more memory than a short prompt. So the size of the frame is not the
// only limit on the number of calls in a request.
func TestManyPrompts(t *testing.T) {
	addr := start(t, nil)
	for n, want := range map[int]string{
		broker.MaxBatch:     `{"correlation_id":null,"error":null,"results":[`,
		broker.MaxBatch + 1: `{"correlation_id":null,"error":"WireRequest.prompts must not be more than 10000","results":null}`,
	} {
		conn := dial(t, addr)
		_, _ = conn.Write(frame(`{"prompts":["a"` + strings.Repeat(`,"a"`, n-1) + `]}`))
		if got := read(t, conn); !strings.HasPrefix(got, want) {
			t.Errorf("%d prompts: got %.200s, want %s", n, got, want)
		}
	}
}

// A batch whose answer does not fit stops there, because the client would not get the
// remaining answers.
func TestBatchOverLimit(t *testing.T) {
	p := doortest.NewHeld()
	conn := dial(t, start(t, p))
	_, _ = conn.Write(frame(`{"prompts":["a","b"]}`))
	large, left := <-p.Calls, <-p.Calls
	large.Finish(strings.Repeat("x", wire.Limit))
	if err := <-left.Ended; err != context.Canceled {
		t.Errorf("the call that was left ended with %v", err)
	}
	if got := read(t, conn); !strings.HasPrefix(got, `{"correlation_id":null,"error":"Frame too large: 100`) {
		t.Errorf("got %.200s", got)
	}
}

// Pipelined requests are answered in order, and the connection ends after the client's
// half-close.
func TestPipelinedHalfClose(t *testing.T) {
	conn := dial(t, start(t, nil))
	var all []byte
	for _, id := range []string{"1", "2", "3"} {
		all = append(all, frame(`{"correlation_id":"`+id+`","prompt":"p`+id+`"}`)...)
	}
	_, _ = conn.Write(all)
	_ = conn.CloseWrite()
	for _, id := range []string{"1", "2", "3"} {
		if got := read(t, conn); !strings.Contains(got, `"correlation_id":"`+id+`"`) || !strings.Contains(got, `"Echo: p`+id+`"`) {
			t.Errorf("answer to %s: %s", id, got)
		}
	}
	if n, err := conn.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		t.Errorf("after the last answer: %d, %v", n, err)
	}
}

// A client that half-closes while the model works gets its answer. If it disconnects, its
// call is cancelled.
func TestHalfCloseAndDisconnect(t *testing.T) {
	p := doortest.NewHeld()
	addr := start(t, p)
	half := dial(t, addr)
	_, _ = half.Write(frame(`{"prompt":"a"}`))
	_ = half.CloseWrite()
	held := <-p.Calls
	gone := dial(t, addr)
	_, _ = gone.Write(frame(`{"prompt":"b"}`))
	other := <-p.Calls
	gone.Close()
	if err := <-other.Ended; err != broker.ErrGone {
		t.Errorf("the call of a client that is gone ended with %v", err)
	}
	held.Finish("fine")
	if got := read(t, half); !strings.Contains(got, `"response":"fine"`) {
		t.Errorf("the half-closed client got %s", got)
	}
}

// Invalid frames are answered as long as the client can read.
func TestBadFrames(t *testing.T) {
	addr := start(t, nil)
	for _, tt := range []struct {
		name, send, want string
	}{
		{"cut in the prefix", "\x00\x00", ""},
		{"cut in the payload", "\x00\x00\x00\x05{", "Connection error"},
		{"oversize", "\x00\x98\x96\x81" + strings.Repeat("x", 100_000), "Frame too large: 10000001 bytes (max 10000000)"},
		{"HTTP", "GET / HTTP/1.1\r\n\r\n", "Frame too large: 1195725856 bytes (max 10000000)"},
	} {
		conn := dial(t, addr)
		_, _ = conn.Write([]byte(tt.send))
		_ = conn.CloseWrite()
		got, err := io.ReadAll(conn)
		want := ""
		if tt.want != "" {
			want = string(frame(`{"correlation_id":null,"error":"` + tt.want + `","results":null}`))
		}
		if string(got) != want || err != nil {
			t.Errorf("%s: got %q, %v, want %q", tt.name, got, err, want)
		}
	}
}

// A peer that stalls inside a request gets an error, and is disconnected.
func TestStall(t *testing.T) {
	s := rlm.New(doortest.Broker(t, nil), nil)
	s.Times.Read = 50 * time.Millisecond
	conn := dial(t, doortest.Serve(t, s))
	_, _ = conn.Write([]byte("\x00\x00\x00\x05{"))
	if got, _ := io.ReadAll(conn); !strings.Contains(string(got), "Request timed out") {
		t.Errorf("got %q", got)
	}
}

// A shutdown waits for calls as long as it may, then answers them.
func TestShutdown(t *testing.T) {
	p := doortest.NewHeld()
	s := rlm.New(doortest.Broker(t, p), nil)
	addr := doortest.Serve(t, s)
	idle, busy := dial(t, addr), dial(t, addr)
	_, _ = busy.Write(frame(`{"prompt":"a"}`))
	<-p.Calls
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s.Shutdown(ctx)
	if got := read(t, busy); !strings.Contains(got, `"Broker is shutting down"`) {
		t.Errorf("got %s", got)
	}
	if _, err := idle.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("the idle client: %v", err)
	}
}

// FuzzDoor checks that every input gets frames of valid JSON.
func FuzzDoor(f *testing.F) {
	f.Add(frame(`{"correlation_id":"c","prompt":"hi"}`))
	f.Add(append(frame(`{"prompts":["a",{}]}`), frame(`{"x":1}`)...))
	f.Add([]byte("\x00\x00\x00\x05{"))
	f.Add([]byte("\xff\xff\xff\xff"))
	s := rlm.New(doortest.Broker(f, nil), nil)
	f.Fuzz(func(t *testing.T, data []byte) {
		for r := bytes.NewReader(doortest.Talk(s, data)); r.Len() > 0; {
			var m map[string]any
			if payload := read(t, r); json.Unmarshal([]byte(payload), &m) != nil || len(m) != 3 {
				t.Fatalf("%q was answered by %q", data, payload)
			}
		}
	})
}

// judged checks what a door publishes, as the readers of its tap do.
type judged struct {
	tracker *session.Tracker
	first   fr.Dir // that ended first
	ends    int
	closed  chan struct{} // closed once the connection has ended
}

func (j *judged) Write(r *capture.Record) error {
	switch r.Kind {
	case capture.Frame:
		f := session.Frame{Seq: r.Seq, Time: r.Time, Conn: r.Conn, Dir: r.Dir, Size: r.Size(), Payload: r.Payload(), Fault: r.Flaw, Gap: r.Gap}
		var m protocol.Message
		if f.Gap || wire.Protocol.Parse(f.Payload, &m) != nil {
			j.tracker.Feed(f, nil)
		} else {
			j.tracker.Feed(f, &m)
		}
	case capture.HalfClosed:
		if j.ends++; j.ends == 1 {
			j.first = r.Dir
			break
		}
		j.tracker.EndBy(r.Conn, session.Ending{First: j.first}, r.Time)
		close(j.closed)
	}
	return nil
}

// The door's tap shows exactly the violations that happened. A client may hang up while it
// waits, and unreadable input is still answered.
func TestTap(t *testing.T) {
	for _, tt := range []struct {
		name, send, found string
		gone              bool
	}{
		{"gone", string(frame(`{"prompt":"a"}`)), "note unanswered", true},
		{"cut in the payload", "\x00\x00\x00\x05{", "error truncated", false},
		{"oversize", "\x00\x98\x96\x81" + strings.Repeat("x", 100_000), "error oversize", false},
	} {
		p := doortest.NewHeld()
		j := &judged{tracker: session.New(wire.Protocol, session.Options{}), closed: make(chan struct{})}
		conn := dial(t, doortest.Serve(t, rlm.New(doortest.Broker(t, p), observe.NewPublisher(j, nil))))
		_, _ = conn.Write([]byte(tt.send))
		if tt.gone {
			call := <-p.Calls
			_ = conn.CloseWrite()
			_, _ = conn.Read(make([]byte, 1)) // notices a disconnect
			_ = conn.SetLinger(0)
			conn.Close()
			if err := <-call.Ended; !errors.Is(err, broker.ErrGone) {
				t.Errorf("%s: the call ended with %v", tt.name, err)
			}
		} else {
			_ = conn.CloseWrite()
			_, _ = io.Copy(io.Discard, conn)
		}
		<-j.closed
		var found []string
		for f := range j.tracker.Findings() {
			found = append(found, f.Severity.String()+" "+f.Name)
		}
		if strings.Join(found, ", ") != tt.found {
			t.Errorf("%s: found %q, want %q", tt.name, found, tt.found)
		}
		for e := range j.tracker.Exchanges() {
			if e.Outcome != session.Abandoned {
				t.Errorf("%s: the request is %v", tt.name, e.Outcome)
			}
		}
	}
}
