package spans_test

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	diff "github.com/google/go-cmp/cmp"
	collectmetrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	collect "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	metrics "go.opentelemetry.io/proto/otlp/metrics/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/capture/journal"
	"github.com/wirectl/wirectl/capture/tap"
	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/decode/source"
	"github.com/wirectl/wirectl/decode/spans"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/otlp"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A collector keeps what it gets.
type collector struct {
	*httptest.Server
	mu      sync.Mutex
	spans   []*trace.Span
	metrics []*metrics.Metric
}

func newCollector(t *testing.T) *collector {
	c := &collector{}
	c.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		c.mu.Lock()
		defer c.mu.Unlock()
		switch r.URL.Path {
		case "/v1/traces":
			var request collect.ExportTraceServiceRequest
			if err := proto.Unmarshal(body, &request); err != nil {
				t.Error(err)
			}
			for _, resource := range request.GetResourceSpans() {
				for _, scope := range resource.GetScopeSpans() {
					c.spans = append(c.spans, scope.GetSpans()...)
				}
			}
		case "/v1/metrics":
			var request collectmetrics.ExportMetricsServiceRequest
			if err := proto.Unmarshal(body, &request); err != nil {
				t.Error(err)
			}
			for _, resource := range request.GetResourceMetrics() {
				for _, scope := range resource.GetScopeMetrics() {
					c.metrics = append(c.metrics, scope.GetMetrics()...)
				}
			}
		}
	}))
	t.Cleanup(c.Close)
	return c
}

// lines writes attributes, one a line, in order.
func lines(list []*common.KeyValue) []string {
	var lines []string
	for _, a := range list {
		value := fmt.Sprint(a.GetValue().GetValue())
		switch v := a.GetValue().GetValue().(type) {
		case *common.AnyValue_StringValue:
			value = v.StringValue
		case *common.AnyValue_IntValue:
			value = fmt.Sprint(v.IntValue)
		case *common.AnyValue_DoubleValue:
			value = fmt.Sprint(v.DoubleValue)
		case *common.AnyValue_BoolValue:
			value = fmt.Sprint(v.BoolValue)
		case *common.AnyValue_ArrayValue:
			var texts []string
			for _, v := range v.ArrayValue.GetValues() {
				texts = append(texts, v.GetStringValue())
			}
			value = "[" + strings.Join(texts, " ") + "]"
		}
		lines = append(lines, a.GetKey()+"="+value)
	}
	slices.Sort(lines)
	return lines
}

func attribute(s *trace.Span, key string) string {
	for _, line := range lines(s.GetAttributes()) {
		if value, ok := strings.CutPrefix(line, key+"="); ok {
			return value
		}
	}
	return ""
}

// A capture is a session of MCP on standard input and output, as a tap has it. Lines that
// begin with < come from the unit.
func talk(lines ...string) *journal.Cursor {
	h := journal.New(capture.Session{Created: time.Unix(1, 0)}, journal.Options{})
	view := tap.View(h)
	for i, line := range lines {
		dir := frame.C2U
		if text, ok := strings.CutPrefix(line, "<"); ok {
			dir, line = frame.U2C, text
		}
		raw := []byte(line + "\n")
		_ = h.Write(&capture.Record{
			Kind: capture.Frame, Seq: int64(i + 1), Time: time.Unix(1, int64(i)*1e6), Protocol: "mcp", Framing: "line",
			Frame: frame.Frame{Raw: raw, End: len(raw) - 1, Dir: dir, Conn: 1},
		})
	}
	_ = h.Close()
	return view
}

// sent returns the spans of a session, by their first frames.
func (c *collector) sent(t *testing.T, r capture.Reader, o otlp.Options) map[string]*trace.Span {
	t.Helper()
	o.URL, o.Scope = c.URL, "test"
	o.Getenv = func(string) string { return "" }
	to, err := otlp.New(o)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := spans.Run(t.Context(), to, spans.Session{Name: "s"}, r, decode.Config{}); err != nil {
		t.Fatal(err)
	}
	if err := to.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	found := map[string]*trace.Span{}
	for _, s := range c.spans {
		found[attribute(s, "wirectl.frame")] = s
	}
	return found
}

// fixture returns the spans of a recorded session.
func (c *collector) fixture(t *testing.T, name string) map[string]*trace.Span {
	t.Helper()
	src, err := new(source.Opener).Session(t.Context(), name, decode.Config{}, false)
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	return c.sent(t, src.Input.Capture, otlp.Options{})
}

// The names and values are those of the conventions: for MCP, A2A and models.
func TestConventions(t *testing.T) {
	for _, tt := range []struct{ fixture, frame, name, kind, status, attributes string }{
		{"mcp25-ts-http", "15", "tools/call ask", "SERVER", "", `
			gen_ai.operation.name=execute_tool gen_ai.tool.name=ask jsonrpc.request.id=2 mcp.method.name=tools/call
			mcp.protocol.version=2025-11-25 mcp.session.id=935f181b-9ad3-4c64-ab5e-a9a4d2f97516 network.protocol.name=http
			network.protocol.version=1.1 network.transport=tcp server.address=127.0.0.1 server.port=18802`},
		{"mcp26-ts-http", "5", "tools/call countdown", "SERVER", "", `
			gen_ai.operation.name=execute_tool gen_ai.tool.name=countdown jsonrpc.request.id=1 mcp.method.name=tools/call
			mcp.protocol.version=2026-07-28 network.protocol.name=http network.protocol.version=1.1 network.transport=tcp
			server.address=127.0.0.1 server.port=18102`},
		{"mcp-everything", "1", "initialize", "SERVER", "", `jsonrpc.request.id=0 mcp.method.name=initialize mcp.protocol.version=2025-11-25 network.transport=pipe`},
		{"api-openai-made", "1", "chat gpt-5.2", "CLIENT", "", `
			gen_ai.operation.name=chat gen_ai.provider.name=openai gen_ai.request.model=gpt-5.2 gen_ai.request.stream=true
			gen_ai.response.finish_reasons=[completed] gen_ai.response.id=resp_0000010a1b2c3d4e gen_ai.response.model=gpt-5.2-2026-08-07
			gen_ai.response.time_to_first_chunk=0.008104123 gen_ai.usage.cache_read.input_tokens=768 gen_ai.usage.input_tokens=900
			gen_ai.usage.output_tokens=64 gen_ai.usage.reasoning.output_tokens=32 network.protocol.name=http network.protocol.version=1.1 network.transport=tcp
			server.address=127.0.0.1 server.port=18576`},
		{"api-openai-made", "42", "chat gpt-5.2", "CLIENT", "ERROR", `
			error.type=server_error gen_ai.operation.name=chat gen_ai.provider.name=openai gen_ai.request.model=gpt-5.2
			gen_ai.request.stream=true gen_ai.response.id=resp_0000090a1b2c3d4e network.protocol.name=http network.protocol.version=1.1
			network.transport=tcp server.address=127.0.0.1 server.port=18576`},
		{"a2a03-ts-jsonrpc", "5", "SendStreamingMessage", "SERVER", "", `
			a2a.message.id=6dd87e05-1f77-478f-bcfb-adb137f01b3c a2a.method.name=SendStreamingMessage a2a.protocol.version=0.3
			a2a.task.id=b4bab59f-3e38-4b40-a194-04aaba51128c a2a.task.state=TASK_STATE_COMPLETED
			gen_ai.conversation.id=14a814e3-cfd2-449e-91d9-43f07a9c62f8 network.protocol.name=http network.protocol.version=1.1
			network.transport=tcp server.address=127.0.0.1 server.port=18252`},
		{"a2a10-ts-jsonrpc", "63", "GetTask", "SERVER", "ERROR", `
			a2a.method.name=GetTask a2a.protocol.version=1.0 a2a.task.id=no-such-task error.type=-32001 network.protocol.name=http
			network.protocol.version=1.1 network.transport=tcp server.address=127.0.0.1 server.port=18202`},
		{"a2a10-ts-rest", "9", "SendStreamingMessage", "SERVER", "", `
			a2a.message.id=4e81c557-f19c-4d71-8deb-f01f5ce529e8 a2a.method.name=SendStreamingMessage a2a.protocol.version=1.0
			a2a.task.id=519d08b7-704d-4333-913d-4e395ee0b80e a2a.task.state=TASK_STATE_COMPLETED
			gen_ai.conversation.id=cb8adf79-7daa-4e95-9b07-cee12012e66d network.protocol.name=http network.protocol.version=1.1
			network.transport=tcp server.address=127.0.0.1 server.port=18212`},
	} {
		t.Run(tt.fixture+" "+tt.frame, func(t *testing.T) {
			s := newCollector(t).fixture(t, "fixture:"+tt.fixture)[tt.frame]
			var got []string
			for _, line := range lines(s.GetAttributes()) {
				if !strings.HasPrefix(line, "wirectl.") {
					got = append(got, line)
				}
			}
			if s.GetName() != tt.name || s.GetKind() != trace.Span_SpanKind(trace.Span_SpanKind_value["SPAN_KIND_"+tt.kind]) || s.GetStatus().GetCode() != trace.Status_StatusCode(trace.Status_StatusCode_value["STATUS_CODE_"+cmp.Or(tt.status, "UNSET")]) {
				t.Errorf("got %s %v %v", s.GetName(), s.GetKind(), s.GetStatus())
			}
			if want := strings.Fields(tt.attributes); !slices.Equal(got, want) {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		})
	}
}

const (
	clients = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	others  = "00-1af7651916cd43dd8448eb211c80319c-c7ad6b7169203331-01"
)

// parent writes the context that a span is below of.
func parent(s *trace.Span) string {
	return fmt.Sprintf("00-%x-%x-01", s.GetTraceId(), s.GetParentSpanId())
}

// A call joins the trace of its client, which _meta names, or else a header. All others
// hang below the session, and what belongs to a call below that.
func TestParents(t *testing.T) {
	found := newCollector(t).sent(t, talk(
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","_meta":{"traceparent":"`+clients+`"}}}`,
		`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"b","_meta":{"traceparent":"nonsense"}}}`,
		`<{"jsonrpc":"2.0","id":2,"result":{"content":[]}}`,
		`<{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"planted"}}`,
	), otlp.Options{})
	session := found[""]
	if session.GetName() != "session" || len(session.GetParentSpanId()) > 0 || len(found) != 3 {
		t.Errorf("got %v", found)
	}
	if got := parent(found["1"]); got != clients {
		t.Errorf("the call of a trace is below %s", got)
	}
	if got, want := parent(found["2"]), fmt.Sprintf("00-%x-%x-01", session.GetTraceId(), session.GetSpanId()); got != want {
		t.Errorf("another is below %s, want %s", got, want)
	}
	if got := attribute(found["1"], "rpc.response.status_code") + attribute(found["1"], "error.type"); got != "-32603-32603" {
		t.Errorf("it failed with %s", got)
	}

	dir, body := t.TempDir(), `{"model":"m","messages":[{"role":"user","content":"planted"}]}`
	answer := `{"id":"x","object":"chat.completion","model":"m","choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"planted"}}]}`
	for name, text := range map[string]string{
		"c2s.bin":      "POST /v1/chat/completions HTTP/1.1\r\nHost: h\r\nTraceparent: " + others + "\r\nContent-Type: application/json\r\nContent-Length: " + fmt.Sprint(len(body)) + "\r\n\r\n" + body,
		"s2c.bin":      "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: " + fmt.Sprint(len(answer)) + "\r\n\r\n" + answer,
		"timing.jsonl": `{"event":"start","t_ns":0,"unix_ns":1795417500651544988}` + "\n" + fmt.Sprintf(`{"dir":"c2s","len":%d,"off":0,"t_ns":1}`, 156+len(body)) + "\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got := parent(newCollector(t).fixture(t, dir)["1"]); got != others {
		t.Errorf("the call over HTTP is below %s", got)
	}
}

// What was said is not sent, nor are secrets, whatever names they stand in.
func TestNothingSaid(t *testing.T) {
	c := newCollector(t)
	c.sent(t, talk(
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"sk-plantedplantedplanted","arguments":{"a":"planted"}}}`,
		`<{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"planted"}}`,
		`{"jsonrpc":"2.0","id":2,"method":"resources/read","params":{"uri":"https://u:planted@h/x"}}`,
		`<{"jsonrpc":"2.0","id":2,"result":{"contents":[{"uri":"u","text":"planted"}]}}`,
	), otlp.Options{Hide: capture.Secrets().Text()})
	if len(c.spans) != 3 || len(c.metrics) != 1 {
		t.Errorf("got %v, %v", c.spans, c.metrics)
	}
	if got := fmt.Sprint(c.spans, c.metrics); strings.Contains(got, "planted") {
		t.Errorf("got %s", got)
	}
}

// Durations and tokens are measured, by method, tool, model and error.
func TestMetrics(t *testing.T) {
	c := newCollector(t)
	c.fixture(t, "fixture:api-openai-made")
	got := map[string]uint64{}
	for _, m := range c.metrics {
		for _, p := range m.GetHistogram().GetDataPoints() {
			about := strings.Join(lines(p.GetAttributes()), " ")
			for _, word := range []string{"gen_ai.token.type=input", "gen_ai.token.type=output", "error.type=server_error"} {
				if strings.Contains(about, word) {
					got[m.GetName()+" "+word] += p.GetCount()
				}
			}
			got[m.GetName()] += p.GetCount()
		}
	}
	want := map[string]uint64{
		"gen_ai.client.operation.duration": 5, "gen_ai.client.operation.duration error.type=server_error": 2, "gen_ai.client.token.usage": 6,
		"gen_ai.client.token.usage gen_ai.token.type=input": 3, "gen_ai.client.token.usage gen_ai.token.type=output": 3,
	}
	if diff := diff.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// A session that goes on for long has several traces, and one that is read again equal ones.
func TestLongSession(t *testing.T) {
	var said []string
	for i := range 1001 {
		said = append(said, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"ping"}`, i), fmt.Sprintf(`<{"jsonrpc":"2.0","id":%d,"result":{}}`, i))
	}
	var before []string
	for range 2 {
		c := newCollector(t)
		c.sent(t, talk(said...), otlp.Options{Past: true})
		var ids []string
		sessions := 0
		for _, s := range c.spans {
			ids = append(ids, fmt.Sprintf("%x %x", s.GetTraceId(), s.GetSpanId()))
			if s.GetName() == "session" {
				sessions++
			}
		}
		if len(ids) != 1003 || sessions != 2 {
			t.Errorf("%d spans, %d of sessions", len(ids), sessions)
		}
		if before != nil && !slices.Equal(before, ids) {
			t.Error("the ids are others")
		}
		before = ids
	}
}
