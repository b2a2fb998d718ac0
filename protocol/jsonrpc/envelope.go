package jsonrpc

import (
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/internal/jsonwalk"
)

// An envelope holds the members that have a meaning in some protocol of the family, as written.
type envelope struct {
	version []byte `at:"jsonrpc"`
	method  []byte `at:"method"`
	id      []byte `at:"id"`
	params  []byte `at:"params"`
	result  []byte `at:"result"`
	failure []byte `at:"error"`
	code    []byte `at:"error.code"`
	message []byte `at:"error.message"`

	arguments       []byte `at:"params.arguments"`
	inputResponses  []byte `at:"params.inputResponses"`
	requestState    []byte `at:"params.requestState"`
	inputRequests   []byte `at:"params.inputRequests"`
	notifications   []byte `at:"params.notifications"`
	status          []byte `at:"params.status,plain"`
	task            []byte `at:"params.taskId"`
	name            []byte `at:"params.name"`
	progressToken   []byte `at:"params.progressToken"`
	reason          []byte `at:"params.reason"`
	uri             []byte `at:"params.uri"`
	capabilities    []byte `at:"params._meta.io~modelcontextprotocol/clientCapabilities"`
	logLevel        []byte `at:"params._meta.io~modelcontextprotocol/logLevel"`
	protocolVersion []byte `at:"params._meta.io~modelcontextprotocol/protocolVersion"`
	subscription    []byte `at:"params._meta.io~modelcontextprotocol/subscriptionId"`
	metaToken       []byte `at:"params._meta.progressToken"`
	paramsID        []byte `at:"params.id"`
	token           []byte `at:"params.token"`
	partialToken    []byte `at:"params.partialResultToken"`
	workDoneToken   []byte `at:"params.workDoneToken"`
	run             []byte `at:"params.request_id"`
	request         []byte `at:"params.requestId params.event.data.requestId"`
	session         []byte `at:"params.sessionId"`

	resultRequests []byte `at:"result.inputRequests"`
	resultState    []byte `at:"result.requestState"`
	resultType     []byte `at:"result.resultType"`
	resultStatus   []byte `at:"result.status"`
	resultTask     []byte `at:"result.taskId result.task.taskId"`
	taskStatus     []byte `at:"result.task.status"`
	cacheScope     []byte `at:"result.cacheScope"`
	ttl            []byte `at:"result.ttlMs"`
	cancelled      []byte `at:"result.cancelled"`
	content        []byte `at:"result.content"`
	isError        []byte `at:"result.isError"`
	taskIsError    []byte `at:"result.result.isError"`
	resultVersion  []byte `at:"result.protocolVersion"`
	resultStop     []byte `at:"result.stopReason"`
	resultError    []byte `at:"result.error"`
	success        []byte `at:"result.success"`
	resultMessage  []byte `at:"result.messageId"`
	resultTurn     []byte `at:"result.turn.id"`
	agentName      []byte `at:"result.agentInfo|info.name"`
	agentVersion   []byte `at:"result.agentInfo|info.version"`
	quotaInput     []byte `at:"result._meta.quota.token_count.input_tokens"`
	quotaOutput    []byte `at:"result._meta.quota.token_count.output_tokens"`
	usageTotal     []byte `at:"params.update.usage.totalTokens result.usage.totalTokens"`
	usageCached    []byte `at:"params.update.usage.cachedReadTokens result.usage.cachedReadTokens"`
	usageOutput    []byte `at:"params.update.usage.outputTokens result.usage.outputTokens"`
	costAmount     []byte `at:"params.update.cost.amount"`
	costCurrency   []byte `at:"params.update.cost.currency"`
	updateKind     []byte `at:"params.update.sessionUpdate"`
	updateState    []byte `at:"params.update.state"`
	updateStop     []byte `at:"params.update.stopReason"`
	toolCall       []byte `at:"params.update|toolCall.toolCallId params.event.data.toolCallId"`
	lastInput      []byte `at:"params.tokenUsage.last.inputTokens params.event.data.inputTokens"`
	lastCached     []byte `at:"params.tokenUsage.last.cachedInputTokens params.event.data.cacheReadTokens"`
	lastOutput     []byte `at:"params.tokenUsage.last.outputTokens params.event.data.outputTokens"`
	totalInput     []byte `at:"params.tokenUsage.total.inputTokens"`
	totalCached    []byte `at:"params.tokenUsage.total.cachedInputTokens"`
	totalOutput    []byte `at:"params.tokenUsage.total.outputTokens"`
	thread         []byte `at:"params.threadId"`
	expectedTurn   []byte `at:"params.expectedTurnId"`
	tool           []byte `at:"params.tool"`
	paramsTurn     []byte `at:"params.turnId"`
	turn           []byte `at:"params.turn.id"`
	rootTurn       []byte `at:"params.turn.rootTurnId"`
	turnStatus     []byte `at:"params.turn.status"`
	item           []byte `at:"params.item.id"`
	itemType       []byte `at:"params.item.type"`
	paramsItem     []byte `at:"params.itemId"`
	statusType     []byte `at:"params.status.type"`
	paramsType     []byte `at:"params.type"`
	hookType       []byte `at:"params.hookType"`
	resultKind     []byte `at:"params.result.kind"`
	eventType      []byte `at:"params.event.type"`
	eventAgent     []byte `at:"params.event.agentId"`
	eventData      []byte `at:"params.event.data"`
	eventAborted   []byte `at:"params.event.data.aborted"`
	eventModel     []byte `at:"params.event.data.model"`
	eventMessage   []byte `at:"params.event.data.messageId"`
	eventName      []byte `at:"params.event.data.toolName|hookType|errorType|infoType params.event.data.permissionRequest.kind"`

	// prose is a text of agents and their clients for people.
	prose []byte   `at:"params.command|delta|diff|message|title,filled params.error.message params.status.activeFlags"`
	_     struct{} `at:"params.toolCall.title params.input|prompt,filled,plain params.input|prompt[].text,filled,first"`
	_     struct{} `at:"params.update.title|used|message|entries|availableCommands|configOptions,filled"`
	_     struct{} `at:"params.update.content.text params.update.content[].text,filled,first"`
	_     struct{} `at:"params.item.changes|command|text|tool|query,filled"`
	_     struct{} `at:"params.item.content,filled,plain params.item.content[].text,filled,first"`
	_     struct{} `at:"params.turn.error.message params.tokenUsage.last.totalTokens"`
	_     struct{} `at:"params.event.data.permissionRequest.intention|args"`
	_     struct{} `at:"params.event.data.arguments|content|deltaContent|error|inputDelta|message|partialOutput|reason|title,filled"`
}

var paths = jsonwalk.PathsOf[envelope]()

// A Member is a member of messages, by its path in the [envelope].
type Member = jsonwalk.Field

// At returns the member at a path such as params.name. It panics if the envelope has none.
func At(path string) Member { return paths.Field(path) }

// value returns a member as written; nil if it is missing or m is 0.
func (e *envelope) value(m Member) []byte {
	if m == 0 {
		return nil
	}
	return paths.Value(e, m)
}

// hasID reports whether there is an id other than null.
func (e *envelope) hasID() bool { return e.id != nil && e.id[0] != 'n' }

func (e *envelope) isVersioned() bool { return string(e.version) == `"2.0"` }

// tokenOf returns the token that n names, if its value can be one.
func (e *envelope) tokenOf(n Name) protocol.Token { return jsonwalk.Token(e.value(n.Member), n.Space) }

// summary returns the prose of a message or, without one, that of a state.
func (e *envelope) summary() []byte {
	for _, text := range [...][]byte{e.prose, e.updateStop, e.updateState} {
		if e.prose != nil || len(text) > len(`""`) && text[0] != 'n' {
			return text
		}
	}
	return nil
}

// usage returns the numbers of tokens that members tell.
func usage(input, cached, output []byte) protocol.Usage {
	return protocol.Usage{Input: jsonwalk.Count(input), Cached: jsonwalk.Count(cached), Output: jsonwalk.Count(output)}
}
