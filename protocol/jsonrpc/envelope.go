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

	ParamsID                 // params.id
	ParamsName               // params.name
	ParamsPartialResultToken // params.partialResultToken
	ParamsProgressToken      // params.progressToken
	ParamsRequestID          // params.requestId
	ParamsRunID              // params.request_id
	ParamsSessionID          // params.sessionId
	ParamsToken              // params.token
	ParamsURI                // params.uri
	ParamsWorkDoneToken      // params.workDoneToken
	MetaProgressToken        // params._meta.progressToken
	UpdateKind               // params.update.sessionUpdate

	ResultCancelled  // result.cancelled
	ResultContent    // result.content
	ResultStopReason // result.stopReason

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
		case "id":
			e.value[ParamsID] = s.Value()
		case "name":
			e.value[ParamsName] = s.Value()
		case "partialResultToken":
			e.value[ParamsPartialResultToken] = s.Value()
		case "progressToken":
			e.value[ParamsProgressToken] = s.Value()
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
			e.readOne(s, "progressToken", MetaProgressToken)
		case "update":
			e.readOne(s, "sessionUpdate", UpdateKind)
		}
	}
}

func (e *envelope) readResult(s *jsonscan.Scanner) {
	for ok := s.Object(); ok && s.Next(); {
		switch string(s.Key()) {
		case "cancelled":
			e.value[ResultCancelled] = s.Value()
		case "content":
			e.value[ResultContent] = s.Value()
		case "stopReason":
			e.value[ResultStopReason] = s.Value()
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

// readOne walks the next value, whose member of that key is m.
func (e *envelope) readOne(s *jsonscan.Scanner, key string, m Member) {
	for ok := s.Object(); ok && s.Next(); {
		if string(s.Key()) == key {
			e.value[m] = s.Value()
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
