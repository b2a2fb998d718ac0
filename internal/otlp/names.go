package otlp

import "go.opentelemetry.io/otel/attribute"

// The names of the semantic conventions for MCP, A2A and GenAI. OpenTelemetry's own list does
// not have them yet.
const (
	ServiceName attribute.Key = "service.name"
	HostName    attribute.Key = "host.name"
	ErrorType   attribute.Key = "error.type"

	ServerAddress   attribute.Key = "server.address"
	ServerPort      attribute.Key = "server.port"
	Transport       attribute.Key = "network.transport"
	ProtocolName    attribute.Key = "network.protocol.name"
	ProtocolVersion attribute.Key = "network.protocol.version"

	RequestID attribute.Key = "jsonrpc.request.id"
	RPCStatus attribute.Key = "rpc.response.status_code"

	MCPMethod   attribute.Key = "mcp.method.name"
	MCPVersion  attribute.Key = "mcp.protocol.version"
	MCPSession  attribute.Key = "mcp.session.id"
	MCPResource attribute.Key = "mcp.resource.uri"

	A2AMethod     attribute.Key = "a2a.method.name"
	A2AVersion    attribute.Key = "a2a.protocol.version"
	A2ATenant     attribute.Key = "a2a.tenant"
	A2AMessage    attribute.Key = "a2a.message.id"
	A2AReferences attribute.Key = "a2a.message.reference_task_ids"
	A2ATask       attribute.Key = "a2a.task.id"
	A2AState      attribute.Key = "a2a.task.state"

	OperationName    attribute.Key = "gen_ai.operation.name"
	ProviderName     attribute.Key = "gen_ai.provider.name"
	ConversationID   attribute.Key = "gen_ai.conversation.id"
	ToolName         attribute.Key = "gen_ai.tool.name"
	PromptName       attribute.Key = "gen_ai.prompt.name"
	RequestModel     attribute.Key = "gen_ai.request.model"
	RequestStream    attribute.Key = "gen_ai.request.stream"
	RequestChoices   attribute.Key = "gen_ai.request.choice.count"
	RequestSeed      attribute.Key = "gen_ai.request.seed"
	RequestTokens    attribute.Key = "gen_ai.request.max_tokens"
	Temperature      attribute.Key = "gen_ai.request.temperature"
	TopP             attribute.Key = "gen_ai.request.top_p"
	TopK             attribute.Key = "gen_ai.request.top_k"
	StopSequences    attribute.Key = "gen_ai.request.stop_sequences"
	FrequencyMalus   attribute.Key = "gen_ai.request.frequency_penalty"
	PresenceMalus    attribute.Key = "gen_ai.request.presence_penalty"
	ResponseID       attribute.Key = "gen_ai.response.id"
	ResponseModel    attribute.Key = "gen_ai.response.model"
	FinishReasons    attribute.Key = "gen_ai.response.finish_reasons"
	FirstChunk       attribute.Key = "gen_ai.response.time_to_first_chunk"
	InputTokens      attribute.Key = "gen_ai.usage.input_tokens"
	OutputTokens     attribute.Key = "gen_ai.usage.output_tokens"
	CacheReadTokens  attribute.Key = "gen_ai.usage.cache_read.input_tokens"
	CacheWriteTokens attribute.Key = "gen_ai.usage.cache_creation.input_tokens"
	ReasoningTokens  attribute.Key = "gen_ai.usage.reasoning.output_tokens"
	TokenType        attribute.Key = "gen_ai.token.type"

	// These are not in any convention.
	Door       attribute.Key = "wirectl.door"
	CallNumber attribute.Key = "wirectl.call"
	Outcome    attribute.Key = "wirectl.outcome"
	Session    attribute.Key = "wirectl.session"
	Protocol   attribute.Key = "wirectl.protocol"
	Kind       attribute.Key = "wirectl.kind"
	Cancel     attribute.Key = "wirectl.cancel"
	Frame      attribute.Key = "wirectl.frame"
)

// The values of OperationName, and of ErrorType if it is not a code of a protocol.
const (
	Chat            = "chat"
	GenerateContent = "generate_content"
	TextCompletion  = "text_completion"
	Embeddings      = "embeddings"
	ExecuteTool     = "execute_tool"

	ToolError = "tool_error"
	Timeout   = "timeout"
	OtherType = "_OTHER"
)

// Metrics.
const (
	MCPDuration     = "mcp.server.operation.duration"
	ModelDuration   = "gen_ai.client.operation.duration"
	ModelTokens     = "gen_ai.client.token.usage"
	OtherDuration   = "wirectl.operation.duration"
	inputTokenType  = "input"
	outputTokenType = "output"
)

// histograms are the metrics, with the buckets that the conventions recommend.
var histograms = []struct {
	name, unit string
	bounds     []float64
}{
	{MCPDuration, "s", seconds},
	{ModelDuration, "s", []float64{0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92}},
	{ModelTokens, "{token}", []float64{1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864}},
	{OtherDuration, "s", seconds},
}

var seconds = []float64{0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300}
