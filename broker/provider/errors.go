package provider

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// A Cause is why a backend did not answer. What a client is told follows from
// it alone.
type Cause uint8

const (
	Internal    Cause = iota // anything else
	Refused                  // the backend finds the request wrong (4xx)
	RateLimited              // 429
	Overloaded               // 5xx
	Unreachable              // no connection, or one that broke
	TimedOut                 // no answer in time
	Unsupported              // what is asked for has no counterpart there; the backend was not asked
)

var causeNames = [...]string{
	Internal: "internal", Refused: "refused", RateLimited: "rate_limited",
	Overloaded: "overloaded", Unreachable: "unreachable", TimedOut: "timed_out",
	Unsupported: "unsupported",
}

func (c Cause) String() string {
	if int(c) < len(causeNames) {
		return causeNames[c]
	}
	return fmt.Sprintf("cause(%d)", uint8(c))
}

// An Error is a call that a backend did not complete.
type Error struct {
	Cause Cause
	// Status is the HTTP status, 0 if there was none.
	Status int
	// Code is the word by which the backend names the error, "" if it has none.
	Code string
	// Param is the member of the request that the backend names as wrong, "" if it
	// names none. It is for its provider, and told only if Unsupported.
	Param string
	// KeyEnv is the environment variable that holds the key, "" if there is none.
	KeyEnv string
	// RetryAfter is how long the backend wants to be left alone, 0 if it did
	// not say.
	RetryAfter time.Duration
	// Began says that parts had been emitted, so that the call cannot be made
	// again unnoticed.
	Began bool
	// Err is the detail. It is for logs and holds no key; for clients it is only if
	// Unsupported, when it is a sentence of our own.
	Err error
}

func (e *Error) Error() string {
	if e.Status != 0 {
		return fmt.Sprintf("%s: HTTP %d: %v", e.Cause, e.Status, e.Err)
	}
	return fmt.Sprintf("%s: %v", e.Cause, e.Err)
}

func (e *Error) Unwrap() error { return e.Err }

// KeyRefused reports whether the backend refused the broker's key.
func (e *Error) KeyRefused() bool {
	switch e.Code {
	case "authentication_error", "permission_error", "invalid_api_key":
		return true
	}
	return e.Status == http.StatusUnauthorized || e.Status == http.StatusForbidden
}

// CodeTooLong is the code for a prompt that is longer than the model can take.
const CodeTooLong = "context_length_exceeded"

// TooLong reports whether the prompt is longer than the backend takes.
func (e *Error) TooLong() bool {
	return e.Code == CodeTooLong || e.Status == http.StatusRequestEntityTooLarge
}

// UnknownModel reports whether the backend does not have the model.
func (e *Error) UnknownModel() bool {
	return e.Code == "model_not_found" || e.Status == http.StatusNotFound
}

// tooLong are phrases by which backends that have no code for it say that a prompt
// is too long.
var tooLong = []string{"prompt is too long", "maximum context length", "context length exceeded", "available context size", "context window", "input token count"}

// ReadCode returns CodeTooLong if a message says so, else the code itself. The
// message goes no further.
func ReadCode(code, message string) string {
	message = strings.ToLower(message)
	if code == "exceed_context_size_error" || slices.ContainsFunc(tooLong, func(phrase string) bool { return strings.Contains(message, phrase) }) {
		return CodeTooLong
	}
	return code
}

// Again reports whether the same call may be made again, there or elsewhere.
func (e *Error) Again() bool {
	return !e.Began && e.Cause != Refused && e.Cause != Internal && e.Cause != Unsupported
}

// StatusError is the error for an HTTP status that is not 2xx.
func StatusError(status int, retryAfter time.Duration, err error) *Error {
	e := &Error{Cause: Internal, Status: status, RetryAfter: retryAfter, Err: err}
	switch {
	case status == 429:
		e.Cause = RateLimited
	case status == 408:
		e.Cause = TimedOut
	case status >= 500:
		e.Cause = Overloaded
	case status >= 400:
		e.Cause = Refused
	}
	return e
}

// Unanswerable is the error for a request that a backend cannot be asked as it is.
// Param is what is in the way, code the word for why, and the sentence is for the
// client.
func Unanswerable(param, code, sentence string) *Error {
	return &Error{Cause: Unsupported, Code: code, Param: param, Err: errors.New(sentence)}
}

// Broken is the error for a connection that failed. If ctx ended, that is why,
// and its cause is returned as it is.
func Broken(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var timeout interface{ Timeout() bool }
	if errors.As(err, &timeout) && timeout.Timeout() {
		return &Error{Cause: TimedOut, Err: err}
	}
	return &Error{Cause: Unreachable, Err: err}
}

// A TooLargeError says that an answer, or one event of it, exceeds the limit. It is
// the detail of an [*Error], and may be told to clients.
type TooLargeError struct {
	Part  string
	Limit int
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("The provider's answer is too large: %s exceeds the limit of %d bytes", e.Part, e.Limit)
}
