package observe

import "go.opentelemetry.io/otel/attribute"

// The names of attributes. Those of the GenAI conventions are here because
// OpenTelemetry's own list of names no longer has them.
const (
	serviceName attribute.Key = "service.name"
	errorType   attribute.Key = "error.type"

	operationName attribute.Key = "gen_ai.operation.name"
	providerName  attribute.Key = "gen_ai.provider.name"
	requestModel  attribute.Key = "gen_ai.request.model"
	responseModel attribute.Key = "gen_ai.response.model"
	finishReasons attribute.Key = "gen_ai.response.finish_reasons"
	inputTokens   attribute.Key = "gen_ai.usage.input_tokens"
	outputTokens  attribute.Key = "gen_ai.usage.output_tokens"

	callDoor    attribute.Key = "wirectl.door"
	callOutcome attribute.Key = "wirectl.outcome"
	callNumber  attribute.Key = "wirectl.call"
)

// operation is what calls are in the words of the GenAI conventions.
const operation = "chat"
