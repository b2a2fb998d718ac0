package spans

import (
	"cmp"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/internal/otlp"
	"github.com/wirectl/wirectl/protocol"
	agents "github.com/wirectl/wirectl/protocol/a2a"
	"github.com/wirectl/wirectl/session"
	"github.com/wirectl/wirectl/session/calls"
)

// span makes the span of a call, without its place in a trace.
func (f *Follower) span(c *calls.Call, said *facts) *otlp.Span {
	s := &otlp.Span{Name: c.Kind, Kind: trace.SpanKindServer, Start: c.Start, End: c.Start.Add(c.Duration), Error: errorType(c, said)}
	add := func(attributes ...attribute.KeyValue) { s.Attributes = append(s.Attributes, attributes...) }
	switch operation := modelOperation(c); {
	case c.Protocol == mcp:
		aboutMCP(s, c, said)
	case c.Protocol == a2a:
		if m, _ := agents.ByName([]byte(c.Kind)); m != nil {
			s.Name = m.Newer
		}
		add(otlp.A2AMethod.String(s.Name), otlp.Kind.String(c.Kind), text(otlp.A2AVersion, c.Version))
	case operation != "":
		s.Kind = trace.SpanKindClient
		aboutModel(s, c, said, operation)
	default:
		s.Name, _, _ = strings.Cut(c.Kind, "?") // of a path, which may have a query
		add(otlp.Kind.String(s.Name), text(otlp.RequestModel, c.Model))
		addUsage(s, c)
	}
	for _, a := range said.attributes {
		if mayHave(c, a.Key) {
			add(a)
		}
	}
	add(f.about...)
	add(otlp.Protocol.String(c.Protocol), otlp.Frame.Int64(c.Frame), otlp.Outcome.String(c.Outcome.String()))
	if c.Stopped && !c.Asked.IsZero() {
		s.Events = []otlp.Event{{Name: "cancel", At: c.Asked}}
		if c.Class != session.Pending { // the final class may be known only later
			s.Events[0].Attributes = []attribute.KeyValue{otlp.Cancel.String(c.Class.String())}
		}
	}
	return s
}

// mayHave reports whether the span of a call has an attribute from a frame. MCP 2026-07-28
// has no sessions.
func mayHave(c *calls.Call, key attribute.Key) bool {
	return key != otlp.MCPSession || c.Protocol == mcp && c.Version < "2026"
}

// aboutMCP adds the attributes of the conventions for MCP.
func aboutMCP(s *otlp.Span, c *calls.Call, said *facts) {
	s.Attributes = append(s.Attributes, otlp.MCPMethod.String(c.Kind), text(otlp.MCPVersion, c.Version), text(otlp.RequestID, unquoted(c.ID)))
	if c.Outcome == session.Failed {
		s.Attributes = append(s.Attributes, text(otlp.RPCStatus, said.code))
	}
	switch c.Kind {
	case "tools/call":
		s.Attributes = append(s.Attributes, otlp.OperationName.String(otlp.ExecuteTool), text(otlp.ToolName, c.Name))
	case "prompts/get":
		s.Attributes = append(s.Attributes, text(otlp.PromptName, c.Name))
	default:
		return
	}
	s.Name = strings.TrimSpace(c.Kind + " " + c.Name)
}

// unquoted returns an id of JSON-RPC as text.
func unquoted(id string) string {
	if text, ok := jsonscan.Unquote([]byte(id)); ok {
		return string(text)
	}
	return id
}

// modelOperation returns the name that the conventions give to a call of a model; "" if it
// generates nothing.
func modelOperation(c *calls.Call) string {
	switch c.Protocol + " " + c.Kind {
	case openai + " chat/completions", openai + " responses", anthropic + " messages", realtime + " response.create":
		return otlp.Chat
	case openai + " completions":
		return otlp.TextCompletion
	case openai + " embeddings", gemini + " embedContent", gemini + " batchEmbedContents":
		return otlp.Embeddings
	case gemini + " generateContent", gemini + " streamGenerateContent":
		return otlp.GenerateContent
	}
	if c.Protocol == live {
		return otlp.GenerateContent
	}
	return ""
}

// aboutModel adds the attributes of the conventions for GenAI.
func aboutModel(s *otlp.Span, c *calls.Call, said *facts, operation string) {
	model := cmp.Or(c.Name, c.Model)
	s.Name = strings.TrimSpace(operation + " " + model)
	s.Attributes = append(s.Attributes, otlp.OperationName.String(operation), otlp.ProviderName.String(provider(c, said)), text(otlp.RequestModel, model))
	addUsage(s, c)
	if s.Error != "" {
		return
	}
	s.Attributes = append(s.Attributes, text(otlp.ResponseModel, c.Model))
	if c.StopReason != "" {
		s.Attributes = append(s.Attributes, otlp.FinishReasons.StringSlice([]string{c.StopReason}))
	}
	if c.Parts > 0 && c.FirstPart > 0 {
		s.Attributes = append(s.Attributes, otlp.FirstChunk.Float64(c.FirstPart.Seconds()))
	}
}

// addUsage adds the tokens of a call, unless it is unclear how many they are.
func addUsage(s *otlp.Span, c *calls.Call) {
	if c.Usage.Perhaps != (protocol.Tokens{}) {
		return
	}
	for key, n := range map[attribute.Key]int64{otlp.InputTokens: c.Usage.Input, otlp.OutputTokens: c.Usage.Output, otlp.CacheReadTokens: c.Usage.Cached} {
		if n > 0 {
			s.Attributes = append(s.Attributes, key.Int64(n))
		}
	}
}

// provider names the provider of the model. Many servers have the API of OpenAI: their
// addresses tell them apart.
func provider(c *calls.Call, said *facts) string {
	host := strings.ToLower(said.host)
	switch {
	case strings.Contains(host, ".openai.azure.com"), strings.Contains(host, ".services.ai.azure.com"):
		return "azure.ai.openai"
	case strings.Contains(host, "bedrock") && strings.Contains(host, ".amazonaws.com"):
		return "aws.bedrock"
	case strings.Contains(host, "aiplatform.googleapis.com"):
		return "gcp.vertex_ai"
	case c.Protocol == anthropic:
		return "anthropic"
	case c.Protocol == gemini, c.Protocol == live:
		return "gcp.gemini"
	}
	return "openai"
}

// errorType is why a call failed; "" if it has not. A cancel is no failure.
func errorType(c *calls.Call, said *facts) string {
	_, isModel := modelAPIs[c.Protocol]
	switch {
	case c.Outcome == session.ToolError:
		return otlp.ToolError
	case c.Outcome == session.TimedOut:
		return otlp.Timeout
	case c.Outcome == session.Died:
		return c.Outcome.String()
	case c.Outcome != session.Failed:
		return ""
	case isModel:
		return cmp.Or(said.code, c.StopReason, otlp.OtherType)
	}
	return cmp.Or(said.code, otlp.OtherType)
}

// text returns a text as an attribute, which is empty if the text is.
func text(key attribute.Key, text string) attribute.KeyValue {
	if text == "" {
		return attribute.KeyValue{}
	}
	return key.String(text)
}

// measured holds the attributes of metrics: those with few values.
var measured = map[string][]attribute.Key{
	otlp.MCPDuration:   {otlp.MCPMethod, otlp.MCPVersion, otlp.OperationName, otlp.ToolName, otlp.PromptName, otlp.Transport, otlp.ProtocolName, otlp.RPCStatus},
	otlp.ModelDuration: {otlp.OperationName, otlp.ProviderName, otlp.RequestModel, otlp.ResponseModel, otlp.ServerAddress, otlp.ServerPort},
	otlp.OtherDuration: {otlp.Protocol, otlp.Kind},
}

// measure adds a call that was answered to the metrics.
func (f *Follower) measure(c *calls.Call, s *otlp.Span) {
	if c.Outcome == session.Open || c.Outcome == session.Abandoned {
		return
	}
	name := otlp.OtherDuration
	switch {
	case c.Protocol == mcp:
		name = otlp.MCPDuration
	case modelOperation(c) != "":
		name = otlp.ModelDuration
	}
	var about []attribute.KeyValue
	for _, key := range measured[name] {
		for _, a := range s.Attributes {
			if a.Key == key {
				about = append(about, a)
			}
		}
	}
	if name == otlp.ModelDuration {
		f.to.MeasureTokens(c.Usage.Input, c.Usage.Output, about...)
	}
	if s.Error != "" {
		about = append(about, otlp.ErrorType.String(s.Error))
	}
	f.to.Measure(name, c.Duration.Seconds(), about...)
}
