package jsonrpc

import (
	"math"

	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/internal/jsonwalk"
)

// A Member is a member of a message that has a meaning in some protocol of the family.
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
	TurnRootID               // params.turn.rootTurnId
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
	QuotaInputTokens         // result._meta.quota.token_count.input_tokens
	QuotaOutputTokens        // result._meta.quota.token_count.output_tokens
	AgentName                // result.agentInfo.name, or result.info.name
	AgentVersion             // result.agentInfo.version, or result.info.version
	Says                     // text of agents and their clients for people, anywhere in params
	ParamsType               // params.type
	ParamsHookType           // params.hookType
	EventType                // params.event.type
	EventData                // params.event.data
	EventAgent               // params.event.agentId
	EventAborted             // params.event.data.aborted
	EventModel               // params.event.data.model
	EventMessage             // params.event.data.messageId
	EventName                // the subject of params.event.data: a tool, a kind of permission
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
	ResultError           // result.error
	ResultKind            // params.result.kind
	ResultMessage         // result.messageId
	ResultRequestState    // result.requestState
	ResultStatus          // result.status
	ResultSuccess         // result.success
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

// envelope is the result of one walk over a message, whatever the order of its members.
type envelope struct {
	versioned bool   // the jsonrpc member is "2.0"
	method    []byte // without quotes; nil unless it is a string
	asks      bool   // there is a method, of whatever kind, or params
	payload   []byte
	// places are the positions of the members in the payload. They are small, because each
	// message clears them all.
	places [numMembers]place
}

// A place is the position of a value; the zero place is that of a missing one.
type place struct{ from, to uint32 }

// mostPayload is the largest payload whose positions fit a place.
const mostPayload = math.MaxUint32

// value returns a member as written, or nil if it is missing.
func (e *envelope) value(m Member) []byte {
	at := e.places[m]
	if at.to == 0 {
		return nil
	}
	return e.payload[at.from:at.to:at.to]
}

// keep consumes the next value and keeps it as that of a member.
func (e *envelope) keep(m Member, s *jsonscan.Scanner) { e.keepSince(m, s, s.Offset()) }

// keepSince is keep for a value that begins at start and may be partly consumed.
func (e *envelope) keepSince(m Member, s *jsonscan.Scanner, start int) {
	s.Skip()
	e.places[m] = place{}
	if s.Err() == nil {
		e.places[m] = place{uint32(start), uint32(s.Offset())}
	}
}

// readEnvelope walks the next value of payload, which is a message if it is an object.
func (e *envelope) readEnvelope(s *jsonscan.Scanner, payload []byte) {
	e.payload = payload
	if uint64(len(payload)) > mostPayload {
		return // so that it is malformed
	}
	for ok := s.Object(); ok && s.Next(); {
		start := s.Offset()
		switch string(s.Key()) {
		case "jsonrpc":
			e.versioned = string(s.Value()) == `"2.0"`
		case "method":
			e.asks = true
			e.method, _ = jsonscan.Unquote(s.Value())
		case "id":
			e.keep(ID, s)
		case "params":
			e.asks = true
			e.readParams(s)
			e.keepSince(Params, s, start)
		case "result":
			e.readResult(s)
			e.keepSince(Result, s, start)
		case "error":
			e.readError(s)
			e.keepSince(Error, s, start)
		}
	}
}

func (e *envelope) readParams(s *jsonscan.Scanner) {
	for ok := s.Object(); ok && s.Next(); {
		switch string(s.Key()) {
		case "arguments":
			e.keep(ParamsArguments, s)
		case "inputRequests":
			e.keep(ParamsInputRequests, s)
		case "inputResponses":
			e.keep(ParamsInputResponses, s)
		case "notifications":
			e.keep(ParamsNotifications, s)
		case "requestState":
			e.keep(ParamsRequestState, s)
		case "status":
			if s.Peek() == jsonscan.Object {
				e.readMembers(s, member{"type", StatusType}, member{"activeFlags", Says})
				break
			}
			e.keep(ParamsStatus, s)
		case "taskId":
			e.keep(ParamsTaskID, s)
		case "threadId":
			e.keep(ParamsThreadID, s)
		case "itemId":
			e.keep(ParamsItemID, s)
		case "command", "delta", "diff", "message", "title":
			e.say(s)
		case "error":
			e.readMembers(s, member{"message", Says})
		case "input", "prompt":
			e.readBlocks(s)
		case "toolCall":
			e.readMembers(s, member{"title", Says}, member{"toolCallId", UpdateToolCallID})
		case "expectedTurnId":
			e.keep(ParamsExpectedTurnID, s)
		case "tool":
			e.keep(ParamsTool, s)
		case "turnId":
			e.keep(ParamsTurnID, s)
		case "turn":
			e.readTurn(s)
		case "item":
			e.readItem(s)
		case "tokenUsage":
			e.readTokenUsage(s)
		case "id":
			e.keep(ParamsID, s)
		case "name":
			e.keep(ParamsName, s)
		case "partialResultToken":
			e.keep(ParamsPartialResultToken, s)
		case "progressToken":
			e.keep(ParamsProgressToken, s)
		case "reason":
			e.keep(ParamsReason, s)
		case "requestId":
			e.keep(ParamsRequestID, s)
		case "request_id":
			e.keep(ParamsRunID, s)
		case "sessionId":
			e.keep(ParamsSessionID, s)
		case "token":
			e.keep(ParamsToken, s)
		case "type":
			e.keep(ParamsType, s)
		case "hookType":
			e.keep(ParamsHookType, s)
		case "event":
			e.readEvent(s)
		case "result":
			e.readMembers(s, member{"kind", ResultKind})
		case "uri":
			e.keep(ParamsURI, s)
		case "workDoneToken":
			e.keep(ParamsWorkDoneToken, s)
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
			e.keep(ResultCacheScope, s)
		case "cancelled":
			e.keep(ResultCancelled, s)
		case "content":
			e.keep(ResultContent, s)
		case "inputRequests":
			e.keep(ResultInputRequests, s)
		case "isError":
			e.keep(ResultIsError, s)
		case "protocolVersion":
			e.keep(ResultProtocolVersion, s)
		case "requestState":
			e.keep(ResultRequestState, s)
		case "result":
			e.readMembers(s, member{"isError", ResultTaskIsError})
		case "resultType":
			e.keep(ResultType, s)
		case "status":
			e.keep(ResultStatus, s)
		case "success":
			e.keep(ResultSuccess, s)
		case "error":
			e.keep(ResultError, s)
		case "task":
			e.readMembers(s, member{"taskId", ResultTaskID}, member{"status", ResultTaskStatus})
		case "taskId":
			e.keep(ResultTaskID, s)
		case "ttlMs":
			e.keep(ResultTTL, s)
		case "turn":
			e.readMembers(s, member{"id", ResultTurnID})
		case "stopReason":
			e.keep(ResultStopReason, s)
		case "usage":
			e.readUsage(s)
		case "messageId":
			e.keep(ResultMessage, s)
		case "agentInfo", "info":
			if s.Peek() == jsonscan.Object {
				e.readMembers(s, member{"name", AgentName}, member{"version", AgentVersion})
			}
		case "_meta":
			e.readQuota(s)
		}
	}
}

func (e *envelope) readError(s *jsonscan.Scanner) {
	for ok := s.Object(); ok && s.Next(); {
		switch string(s.Key()) {
		case "code":
			e.keep(ErrorCode, s)
		case "message":
			e.keep(ErrorMessage, s)
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
				e.keep(m.to, s)
				break
			}
		}
	}
}

// hasID reports whether there is an id other than null.
func (e *envelope) hasID() bool {
	return e.value(ID) != nil && e.value(ID)[0] != 'n'
}

// token returns the token that n names, if its value can be one.
func (e *envelope) token(n Name) protocol.Token {
	return jsonwalk.Token(e.value(n.Member), n.Space)
}
