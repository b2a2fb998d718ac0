package unit

import (
	"context"
	"fmt"
)

// An Agent answers prompts. It must be safe for concurrent use.
type Agent interface {
	// Answer answers p: it passes the parts of the answer to emit, in order, and returns the
	// metadata of its end. When ctx is done, it stops and returns; [context.Cause] is the
	// reason. It must also return after an error of emit. emit must not be called concurrently.
	//
	// The controller gets the code and message of an [*Error]. Any other error is hidden from
	// it.
	Answer(ctx context.Context, p *Prompt, emit func(text string) error) (metadata map[string]string, err error)
}

// A Prompt is a prompt of a controller.
type Prompt struct {
	// ID names the prompt on its connection.
	ID string
	// Session is the id of the connection's session; "" if it has none.
	Session string
	Content string
	// Metadata may be nil. The agent may change it.
	Metadata map[string]string
}

// An Error is a failure that is sent to the controller.
type Error struct {
	Code    string // for programs, such as UNKNOWN_TARGET
	Message string // for people
}

func (e *Error) Error() string { return e.Code + ": " + e.Message }

func errorf(code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// The error codes of a unit.
const (
	BadRequest     = "BAD_REQUEST"     // the message cannot be parsed
	Unsupported    = "UNSUPPORTED"     // the unit does not know this kind of message
	DuplicateID    = "DUPLICATE_ID"    // the id belongs to an open request
	InvalidPrompt  = "INVALID_PROMPT"  // it is empty
	UnknownTarget  = "UNKNOWN_TARGET"  // the prompt to cancel is not in flight
	UnknownSession = "UNKNOWN_SESSION" // there is no such session, or it has ended
	Busy           = "BUSY"            // too much is in flight
	AgentFailed    = "AGENT_FAILED"    // the agent failed
	Stopped        = "UNIT_STOPPED"    // the unit was stopped
)

var errStopped = &Error{Stopped, ErrStopped.Error()}
