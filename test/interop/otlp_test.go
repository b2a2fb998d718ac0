package interop

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/receiver/receivertest"
)

// A collector is the OpenTelemetry collector's receiver with the data it has received.
type collector struct {
	url     string
	traces  consumertest.TracesSink
	metrics consumertest.MetricsSink
}

func newCollector(t *testing.T) *collector {
	t.Helper()
	address := "127.0.0.1:" + freePort(t)
	c := &collector{url: "http://" + address}
	factory := otlpreceiver.NewFactory()
	cfg := factory.CreateDefaultConfig()
	settings := map[string]any{"protocols": map[string]any{"http": map[string]any{"endpoint": address}}}
	check(t, confmap.NewFromStringMap(settings).Unmarshal(cfg))
	set := receivertest.NewNopSettings(factory.Type())
	traces, err := factory.CreateTraces(t.Context(), set, cfg, &c.traces)
	check(t, err)
	metrics, err := factory.CreateMetrics(t.Context(), set, cfg, &c.metrics)
	check(t, err)
	check(t, traces.Start(t.Context(), componenttest.NewNopHost()))
	check(t, metrics.Start(t.Context(), componenttest.NewNopHost()))
	t.Cleanup(func() {
		check(t, traces.Shutdown(context.Background()))
		check(t, metrics.Shutdown(context.Background()))
	})
	return c
}

// spans returns the spans with that name.
func (c *collector) spans(name string) (found []ptrace.Span) {
	for _, traces := range c.traces.AllTraces() {
		for _, resource := range traces.ResourceSpans().All() {
			for _, scope := range resource.ScopeSpans().All() {
				for _, s := range scope.Spans().All() {
					if s.Name() == name {
						found = append(found, s)
					}
				}
			}
		}
	}
	return found
}

// measured returns the names of metrics.
func (c *collector) measured() (names []string) {
	for _, metrics := range c.metrics.AllMetrics() {
		for _, resource := range metrics.ResourceMetrics().All() {
			for _, scope := range resource.ScopeMetrics().All() {
				for _, m := range scope.Metrics().All() {
					if !slices.Contains(names, m.Name()) {
						names = append(names, m.Name())
					}
				}
			}
		}
	}
	return names
}

// A convention lists the attributes of a kind of span in OpenTelemetry's conventions: the
// required ones and the optional ones.
type convention struct {
	kind ptrace.SpanKind
	must string
	may  string
}

const network = ` network.protocol.name network.protocol.version network.transport server.address server.port`

var conventions = map[string]convention{
	"mcp": {
		kind: ptrace.SpanKindServer, must: "mcp.method.name",
		may: `error.type gen_ai.tool.name gen_ai.prompt.name mcp.resource.uri jsonrpc.request.id rpc.response.status_code
			gen_ai.operation.name jsonrpc.protocol.version mcp.protocol.version mcp.session.id client.address client.port` + network,
	},
	"a2a": {
		kind: ptrace.SpanKindServer, must: "a2a.method.name",
		may: `a2a.protocol.version a2a.tenant a2a.message.id a2a.message.reference_task_ids a2a.task.id a2a.task.state
			gen_ai.conversation.id error.type gen_ai.agent.name gen_ai.agent.description gen_ai.agent.version` + network,
	},
	"inference": {
		kind: ptrace.SpanKindClient, must: "gen_ai.operation.name gen_ai.provider.name",
		may: `error.type gen_ai.request.model gen_ai.request.stream gen_ai.request.choice.count gen_ai.request.seed gen_ai.output.type
			gen_ai.conversation.id gen_ai.response.id gen_ai.response.model gen_ai.response.finish_reasons
			gen_ai.response.time_to_first_chunk gen_ai.request.max_tokens gen_ai.request.temperature gen_ai.request.top_p
			gen_ai.request.top_k gen_ai.request.stop_sequences gen_ai.request.frequency_penalty gen_ai.request.presence_penalty
			gen_ai.usage.input_tokens gen_ai.usage.output_tokens gen_ai.usage.cache_read.input_tokens
			gen_ai.usage.cache_creation.input_tokens gen_ai.usage.reasoning.output_tokens` + network,
	},
}

// follows checks a span against the table, except for wirectl's own attributes.
func follows(t *testing.T, s ptrace.Span, name string) {
	t.Helper()
	c := conventions[name]
	if s.Kind() != c.kind {
		t.Errorf("%s is of the kind %v, want %v", s.Name(), s.Kind(), c.kind)
	}
	must := strings.Fields(c.must)
	for _, key := range must {
		if _, ok := s.Attributes().Get(key); !ok {
			t.Errorf("%s has no %s", s.Name(), key)
		}
	}
	known := append(must, strings.Fields(c.may)...)
	for key := range s.Attributes().All() {
		if !strings.HasPrefix(key, "wirectl.") && !slices.Contains(known, key) {
			t.Errorf("%s has %s, which the conventions for %s have not", s.Name(), key, name)
		}
	}
	if _, failed := s.Attributes().Get("error.type"); failed != (s.Status().Code() == ptrace.StatusCodeError) {
		t.Errorf("%s has the status %v, and an error.type: %v", s.Name(), s.Status().Code(), failed)
	}
}

// is checks attributes.
func is(t *testing.T, s ptrace.Span, want map[string]any) {
	t.Helper()
	for key, value := range want {
		v, ok := s.Attributes().Get(key)
		if got := v.AsString(); !ok || got != value {
			t.Errorf("%s: %s is %q, want %q", s.Name(), key, got, value)
		}
	}
}

// joins checks that a span is a child of a client's span.
func joins(t *testing.T, s ptrace.Span) {
	t.Helper()
	if got := "00-" + s.TraceID().String() + "-" + s.ParentSpanID().String() + "-01"; got != clients {
		t.Errorf("%s is below %s", s.Name(), got)
	}
}

const clients = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// The collector's own receiver accepts the MCP calls that pass a relay. A call with a trace
// context joins its client's trace.
func TestCollectorMCP(t *testing.T) {
	c := newCollector(t)
	self, err := os.Executable()
	check(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	relay := exec.CommandContext(ctx, wirectl, "relay", "-q", "--no-tap", "--otlp", c.url, "--", self)
	relay.Env = append(os.Environ(), serveMCP+"=1")
	client := mcp.NewClient(&mcp.Implementation{Name: "interop", Version: "1"}, nil)
	session, err := client.Connect(ctx, &mcp.CommandTransport{Command: relay}, nil)
	check(t, err)
	_, err = session.CallTool(ctx, &mcp.CallToolParams{Name: "upper", Arguments: phrase{"planted"}, Meta: mcp.Meta{"traceparent": clients}})
	check(t, err)
	if _, err = session.CallTool(ctx, &mcp.CallToolParams{Name: "none"}); err == nil {
		t.Error("there is a tool none")
	}
	check(t, session.Close())

	calls := c.spans("tools/call upper")
	if len(calls) != 1 || len(c.spans("tools/call none")) != 1 || len(c.spans("session")) != 1 {
		t.Fatalf("got %d spans", c.traces.SpanCount())
	}
	joins(t, calls[0])
	is(t, calls[0], map[string]any{
		"mcp.method.name": "tools/call", "gen_ai.tool.name": "upper", "gen_ai.operation.name": "execute_tool", "network.transport": "pipe",
	})
	none, own := c.spans("tools/call none")[0], c.spans("session")[0]
	is(t, none, map[string]any{"error.type": "-32602", "rpc.response.status_code": "-32602"})
	if none.ParentSpanID() != own.SpanID() || none.TraceID() != own.TraceID() || own.ParentSpanID() != (pcommon.SpanID{}) {
		t.Error("a call without a trace of its own is not below the session")
	}
	for _, s := range []ptrace.Span{calls[0], none} {
		follows(t, s, "mcp")
		for key, v := range s.Attributes().All() {
			if strings.Contains(v.AsString(), "planted") {
				t.Errorf("%s says what was said", key)
			}
		}
	}
	if names := c.measured(); !slices.Contains(names, "mcp.server.operation.duration") {
		t.Errorf("measured are %q", names)
	}
}

// It also accepts model calls over HTTP with a traceparent header, and those of a broker.
func TestCollectorModels(t *testing.T) {
	c := newCollector(t)
	unit := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"id":"chatcmpl-1","object":"chat.completion","model":"gpt-4o-1","choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"planted"}}],"usage":{"prompt_tokens":3,"completion_tokens":4,"total_tokens":7}}`))
	}))
	defer unit.Close()
	ask := func(address, model string) {
		t.Helper()
		body := strings.NewReader(`{"model":"` + model + `","temperature":0.5,"max_tokens":9,"messages":[{"role":"user","content":"planted"}]}`)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address+"/v1/chat/completions", body)
		check(t, err)
		req.Header.Set("Traceparent", clients)
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Authorization", "Bearer sk-planted")
		resp, err := http.DefaultClient.Do(req)
		check(t, err)
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			t.Errorf("got %s", resp.Status)
		}
	}
	cmd := exec.CommandContext(t.Context(), wirectl, "relay", "--no-tap", "--otlp", c.url, "--listen", "http://127.0.0.1:0", unit.URL)
	address, stop := listening(t, cmd, listeningOn)
	ask(strings.TrimSuffix(address, "/"), "gpt-4o")
	stop()
	calls := c.spans("chat gpt-4o")
	if len(calls) != 1 {
		t.Fatalf("got %d spans", c.traces.SpanCount())
	}
	joins(t, calls[0])
	follows(t, calls[0], "inference")
	is(t, calls[0], map[string]any{
		"gen_ai.provider.name": "openai", "gen_ai.request.temperature": "0.5", "gen_ai.request.max_tokens": "9", "gen_ai.response.id": "chatcmpl-1",
		"gen_ai.response.model": "gpt-4o-1", "gen_ai.response.finish_reasons": `["stop"]`, "gen_ai.usage.input_tokens": "3", "gen_ai.usage.output_tokens": "4",
	})
	for key, v := range calls[0].Attributes().All() {
		if strings.Contains(v.AsString(), "planted") {
			t.Errorf("%s says what was said", key)
		}
	}

	broker := exec.CommandContext(t.Context(), wirectl, append(serveAnywhere, "--otlp", c.url, "--no-tap")...)
	door := doors(t, broker)["openai"]
	ask("http://"+door, "mock")
	check(t, broker.Process.Signal(os.Interrupt))
	_ = broker.Wait()
	found := c.spans("chat mock")
	if len(found) == 0 {
		t.Fatalf("got no span of the broker")
	}
	for _, s := range found {
		if s.Kind() == ptrace.SpanKindServer {
			joins(t, s)
		} else {
			follows(t, s, "inference")
		}
	}
	if names := c.measured(); !slices.Contains(names, "gen_ai.client.operation.duration") || !slices.Contains(names, "gen_ai.client.token.usage") {
		t.Errorf("measured are %q", names)
	}
}

// Recorded sessions are converted into spans of each convention.
func TestCollectorConverted(t *testing.T) {
	conventionOf := map[string]string{"mcp": "mcp", "a2a": "a2a", "openai": "inference", "anthropic": "inference", "gemini": "inference"}
	for _, fixture := range []string{"mcp25-ts-http", "mcp26-ts-stdio", "mcp-everything", "a2a03-ts-jsonrpc", "a2a10-ts-jsonrpc", "a2a10-ts-rest", "a2a10-ts-grpc", "api-openai-made", "api-anthropic-made", "api-gemini-made"} {
		c := newCollector(t)
		_, said := command(t, nil, "convert", "fixture:"+fixture, c.url)
		trace := regexp.MustCompile(`the spans were sent, as trace ([0-9a-f]{32})`).FindStringSubmatch(said)
		if trace == nil || c.spans("session")[0].TraceID().String() != trace[1] {
			t.Errorf("%s: told %s", fixture, said)
		}
		seen := 0
		for _, traces := range c.traces.AllTraces() {
			for _, resource := range traces.ResourceSpans().All() {
				for _, scope := range resource.ScopeSpans().All() {
					for _, s := range scope.Spans().All() {
						protocol, ok := s.Attributes().Get("wirectl.protocol")
						if !ok { // the span of the session
							continue
						}
						if name := conventionOf[protocol.AsString()]; name != "" {
							follows(t, s, name)
							seen++
						}
					}
				}
			}
		}
		if seen < 2 || len(c.metrics.AllMetrics()) > 0 {
			t.Errorf("%s: %d spans of conventions, %d metrics", fixture, seen, len(c.metrics.AllMetrics()))
		}
	}
}
