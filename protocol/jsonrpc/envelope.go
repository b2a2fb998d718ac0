package jsonrpc

import (
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/internal/jsonwalk"
	"github.com/wirectl/wirectl/protocol/jsonscan"
)

// A Member is a member of a message to which some protocol of the family gives
// a meaning.
type Member uint8

const (
	None Member = iota

	ID
	Params
	Result
	Error

	ParamsArguments          // params.arguments
	ParamsInputRequests      // params.inputRequests
	ParamsInputResponses     // params.inputResponses
	ParamsRequestState       // params.requestState
	ParamsStatus             // params.status
	ParamsTaskID             // params.taskId
	ParamsNotifications      // params.notifications
	MetaCapabilities         // params._meta["io.modelcontextprotocol/clientCapabilities"]
	MetaLogLevel             // params._meta["io.modelcontextprotocol/logLevel"]
	MetaProtocolVersion      // params._meta["io.modelcontextprotocol/protocolVersion"]
	MetaSubscriptionID       // params._meta["io.modelcontextprotocol/subscriptionId"]
	ParamsExpectedTurnID     // params.expectedTurnId
	ParamsTool               // params.tool
	ParamsTurnID             // params.turnId
	TurnID                   // params.turn.id
	TurnStatus               // params.turn.status
	ItemType                 // params.item.type
	LastInputTokens          // params.tokenUsage.last.inputTokens
	LastCachedInputTokens    // params.tokenUsage.last.cachedInputTokens
	LastOutputTokens         // params.tokenUsage.last.outputTokens
	TotalInputTokens         // params.tokenUsage.total.inputTokens
	TotalCachedInputTokens   // params.tokenUsage.total.cachedInputTokens
	TotalOutputTokens        // params.tokenUsage.total.outputTokens
	ParamsThreadID           // params.threadId
	ParamsItemID             // params.itemId
	ItemID                   // params.item.id
	StatusType               // params.status.type
	UpdateToolCallID         // params.update.toolCallId, or params.toolCall.toolCallId
	CostAmount               // params.update.cost.amount
	CostCurrency             // params.update.cost.currency
	UsageTotalTokens         // usage.totalTokens, of params.update or of result
	UsageCachedTokens        // usage.cachedReadTokens
	UsageOutputTokens        // usage.outputTokens
	Says                     // what agents and their clients say to people, wherever it stands in params
	ParamsID                 // params.id
	ParamsName               // params.name
	ParamsPartialResultToken // params.partialResultToken
	ParamsProgressToken      // params.progressToken
	ParamsReason             // params.reason
	ParamsRequestID          // params.requestId
	ParamsRunID              // params.request_id
	ParamsSessionID          // params.sessionId
	ParamsToken              // params.token
	ParamsURI                // params.uri
	ParamsWorkDoneToken      // params.workDoneToken
	MetaProgressToken        // params._meta.progressToken
	UpdateKind               // params.update.sessionUpdate
	UpdateState              // params.update.state
	UpdateStopReason         // params.update.stopReason

	ResultCacheScope      // result.cacheScope
	ResultCancelled       // result.cancelled
	ResultContent         // result.content
	ResultInputRequests   // result.inputRequests
	ResultIsError         // result.isError
	ResultProtocolVersion // result.protocolVersion
	ResultRequestState    // result.requestState
	ResultStatus          // result.status
	ResultTaskID          // result.taskId, or result.task.taskId
	ResultTaskIsError     // result.result.isError
	ResultTaskStatus      // result.task.status
	ResultType            // result.resultType
	ResultTTL             // result.ttlMs
	ResultTurnID          // result.turn.id
	ResultStopReason      // result.stopReason

	ErrorCode    // error.code
	ErrorMessage // error.message

	numMembers
)

// envelope is what one walk over a message has found, in whatever order its
// members stand.
type envelope struct {
	versioned bool   // the jsonrpc member is "2.0"
	method    []byte // without quotes; nil unless it is a string
	asks      bool   // there is a method, of whatever kind, or params
	// value holds the members as they are written; nil is a missing one.
	value [numMembers][]byte
}

// readEnvelope walks the next value of payload, which is a message if it is an object.
func (e *envelope) readEnvelope(s *jsonscan.Scanner, payload []byte) {
	for ok := s.Object(); ok && s.Next(); {
		start := s.Offset()
		switch string(s.Key()) {
		case "jsonrpc":
			e.versioned = string(s.Value()) == `"2.0"`
		case "method":
			e.asks = true
			e.method, _ = jsonscan.Unquote(s.Value())
		case "id":
			e.value[ID] = s.Value()
		case "params":
			e.asks = true
			e.readParams(s)
			e.value[Params] = jsonwalk.Since(s, payload, start)
		case "result":
			e.readResult(s)
			e.value[Result] = jsonwalk.Since(s, payload, start)
		case "error":
			e.readError(s)
			e.value[Error] = jsonwalk.Since(s, payload, start)
		}
	}
}

func (e *envelope) readParams(s *jsonscan.Scanner) {
	for ok := s.Object(); ok && s.Next(); {
		switch string(s.Key()) {
		case "arguments":
			e.value[ParamsArguments] = s.Value()
		case "inputRequests":
			e.value[ParamsInputRequests] = s.Value()
		case "inputResponses":
			e.value[ParamsInputResponses] = s.Value()
		case "notifications":
			e.value[ParamsNotifications] = s.Value()
		case "requestState":
			e.value[ParamsRequestState] = s.Value()
		case "status":
			if s.Peek() == jsonscan.Object {
				e.readMembers(s, member{"type", StatusType}, member{"activeFlags", Says})
				break
			}
			e.value[ParamsStatus] = s.Value()
		case "taskId":
			e.value[ParamsTaskID] = s.Value()
		case "threadId":
			e.value[ParamsThreadID] = s.Value()
		case "itemId":
			e.value[ParamsItemID] = s.Value()
		case "command", "delta", "diff", "message", "title":
			e.say(s.Value())
		case "error":
			e.readMembers(s, member{"message", Says})
		case "input", "prompt":
			e.readBlocks(s)
		case "toolCall":
			e.readMembers(s, member{"title", Says}, member{"toolCallId", UpdateToolCallID})
		case "expectedTurnId":
			e.value[ParamsExpectedTurnID] = s.Value()
		case "tool":
			e.value[ParamsTool] = s.Value()
		case "turnId":
			e.value[ParamsTurnID] = s.Value()
		case "turn":
			e.readTurn(s)
		case "item":
			e.readItem(s)
		case "tokenUsage":
			e.readTokenUsage(s)
		case "id":
			e.value[ParamsID] = s.Value()
		case "name":
			e.value[ParamsName] = s.Value()
		case "partialResultToken":
			e.value[ParamsPartialResultToken] = s.Value()
		case "progressToken":
			e.value[ParamsProgressToken] = s.Value()
		case "reason":
			e.value[ParamsReason] = s.Value()
		case "requestId":
			e.value[ParamsRequestID] = s.Value()
		case "request_id":
			e.value[ParamsRunID] = s.Value()
		case "sessionId":
			e.value[ParamsSessionID] = s.Value()
		case "token":
			e.value[ParamsToken] = s.Value()
		case "uri":
			e.value[ParamsURI] = s.Value()
		case "workDoneToken":
			e.value[ParamsWorkDoneToken] = s.Value()
		case "_meta":
			e.readMembers(s, member{"progressToken", MetaProgressToken},
				member{"io.modelcontextprotocol/clientCapabilities", MetaCapabilities},
				member{"io.modelcontextprotocol/logLevel", MetaLogLevel},
				member{"io.modelcontextprotocol/protocolVersion", MetaProtocolVersion},
				member{"io.modelcontextprotocol/subscriptionId", MetaSubscriptionID})
		case "update":
			e.readUpdate(s)
		}
	}
}

func (e *envelope) readResult(s *jsonscan.Scanner) {
	for ok := s.Object(); ok && s.Next(); {
		switch string(s.Key()) {
		case "cacheScope":
			e.value[ResultCacheScope] = s.Value()
		case "cancelled":
			e.value[ResultCancelled] = s.Value()
		case "content":
			e.value[ResultContent] = s.Value()
		case "inputRequests":
			e.value[ResultInputRequests] = s.Value()
		case "isError":
			e.value[ResultIsError] = s.Value()
		case "protocolVersion":
			e.value[ResultProtocolVersion] = s.Value()
		case "requestState":
			e.value[ResultRequestState] = s.Value()
		case "result":
			e.readMembers(s, member{"isError", ResultTaskIsError})
		case "resultType":
			e.value[ResultType] = s.Value()
		case "status":
			e.value[ResultStatus] = s.Value()
		case "task":
			e.readMembers(s, member{"taskId", ResultTaskID}, member{"status", ResultTaskStatus})
		case "taskId":
			e.value[ResultTaskID] = s.Value()
		case "ttlMs":
			e.value[ResultTTL] = s.Value()
		case "turn":
			e.readMembers(s, member{"id", ResultTurnID})
		case "stopReason":
			e.value[ResultStopReason] = s.Value()
		case "usage":
			e.readUsage(s)
		}
	}
}

func (e *envelope) readError(s *jsonscan.Scanner) {
	for ok := s.Object(); ok && s.Next(); {
		switch string(s.Key()) {
		case "code":
			e.value[ErrorCode] = s.Value()
		case "message":
			e.value[ErrorMessage] = s.Value()
		}
	}
}

// A member is a key, and where its value goes.
type member struct {
	key string
	to  Member
}

// readMembers walks the next value and keeps some of its members.
func (e *envelope) readMembers(s *jsonscan.Scanner, members ...member) {
	for ok := s.Object(); ok && s.Next(); {
		for _, m := range members {
			if string(s.Key()) == m.key {
				e.value[m.to] = s.Value()
				break
			}
		}
	}
}

// hasID reports whether there is an id other than null.
func (e *envelope) hasID() bool {
	return e.value[ID] != nil && e.value[ID][0] != 'n'
}

// token returns the token that n names, if its value can be one.
func (e *envelope) token(n Name) protocol.Token {
	return jsonwalk.Token(e.value[n.Member], n.Space)
}
