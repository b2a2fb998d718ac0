package unit

import (
	"context"
	"fmt"
)

// An Agent does the work that prompts ask for. Its method may run for many
// prompts at once.
type Agent interface {
	// Answer answers p: it hands the parts of the answer to emit, in order, and
	// returns what is to be said at the end. When ctx is done it stops the work
	// and returns; [context.Cause] then tells why. An error of emit says that
	// nobody will get the answer: Answer returns. emit is not to be called after
	// that, nor by two goroutines at once.
	//
	// An [*Error] reaches the controller with its code and message. Of any other
	// error it learns nothing but that there was one.
	Answer(ctx context.Context, p *Prompt, emit func(text string) error) (metadata map[string]string, err error)
}

// A Prompt is what a controller asks for.
type Prompt struct {
	// ID names the prompt on its connection.
	ID string
	// Session is the id of the connection's session; "" if it has none.
	Session string
	Content string
	// Metadata may be nil. It is the agent's to change.
	Metadata map[string]string
}

// An Error is a failure that the controller is told of.
type Error struct {
	// Code is a word for programs, such as UNKNOWN_TARGET.
	Code string
	// Message is a sentence for people.
	Message string
}

func (e *Error) Error() string { return e.Code + ": " + e.Message }

func errorf(code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// The codes of the errors that a unit answers with.
const (
	BadRequest     = "BAD_REQUEST"     // the message cannot be read
	Unsupported    = "UNSUPPORTED"     // the unit does not know such a message
	DuplicateID    = "DUPLICATE_ID"    // the id is that of a request which is still open
	InvalidPrompt  = "INVALID_PROMPT"  // there is nothing in it to answer
	UnknownTarget  = "UNKNOWN_TARGET"  // the cancel names no prompt that is being worked on
	UnknownSession = "UNKNOWN_SESSION" // there is no such session, or no longer
	Busy           = "BUSY"            // there is too much in flight already
	AgentFailed    = "AGENT_FAILED"    // the agent failed
	Stopped        = "UNIT_STOPPED"    // the unit was told to end
)

var errStopped = &Error{Stopped, ErrStopped.Error()}
