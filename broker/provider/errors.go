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

// A Cause is why a backend did not answer. The client's error message depends only on it.
type Cause uint8

const (
	Internal    Cause = iota // anything else
	Refused                  // the backend rejected the request (4xx)
	RateLimited              // 429
	Overloaded               // 5xx
	Unreachable              // no connection, or a broken one
	TimedOut                 // no answer in time
	Unsupported              // the backend does not support the request, which was not sent
)

var causeNames = [...]string{
	Internal: "internal", Refused: "refused", RateLimited: "rate_limited",
	Overloaded: "overloaded", Unreachable: "unreachable", TimedOut: "timed_out",
	Unsupported: "unsupported",
}

func (c Cause) String() string { return causeNames[c] }

// An Error is a call that a backend did not complete.
type Error struct {
	Cause Cause
	// Status is the HTTP status, 0 if there was none.
	Status int
	// Code is the backend's code of the error, "" if it has none.
	Code string
	// Param is the invalid member of the request according to the backend, "" if it names
	// none. Clients see it only if Unsupported.
	Param string
	// KeyEnv is the environment variable that holds the key, "" if there is none.
	KeyEnv string
	// RetryAfter is the time until a retry that the backend asks for, 0 if it does not.
	RetryAfter time.Duration
	// Began says that parts were emitted, so that a retry would repeat them.
	Began bool
	// Err is the detail for logs, without keys. Clients see it only if Unsupported: then it
	// is a sentence of ours.
	Err error
}

func (e *Error) Error() string {
	if e.Status != 0 {
		return fmt.Sprintf("%s: HTTP %d: %v", e.Cause, e.Status, e.Err)
	}
	return fmt.Sprintf("%s: %v", e.Cause, e.Err)
}

func (e *Error) Unwrap() error { return e.Err }

// KeyRefused reports whether the backend rejected the broker's key.
func (e *Error) KeyRefused() bool {
	switch e.Code {
	case "authentication_error", "permission_error", "invalid_api_key":
		return true
	}
	return e.Status == http.StatusUnauthorized || e.Status == http.StatusForbidden
}

// CodeTooLong is the code for a prompt that is too long for the model.
const CodeTooLong = "context_length_exceeded"

// TooLong reports whether the prompt is too long for the backend.
func (e *Error) TooLong() bool {
	return e.Code == CodeTooLong || e.Status == http.StatusRequestEntityTooLarge
}

// UnknownModel reports whether the backend does not have the model.
func (e *Error) UnknownModel() bool {
	return e.Code == "model_not_found" || e.Status == http.StatusNotFound
}

// tooLong are phrases of backends without a code for prompts that are too long.
var tooLong = []string{"prompt is too long", "maximum context length", "context length exceeded", "available context size", "context window", "input token count"}

// ReadCode returns CodeTooLong if the message says so, else the code. The message is not kept.
func ReadCode(code, message string) string {
	message = strings.ToLower(message)
	if code == "exceed_context_size_error" || slices.ContainsFunc(tooLong, func(phrase string) bool { return strings.Contains(message, phrase) }) {
		return CodeTooLong
	}
	return code
}

// Again reports whether the call may be retried, there or elsewhere.
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

// Unanswerable is the error for a request that cannot be sent to a backend. Param is the member of
// the request, code the error code, and the sentence is for the client.
func Unanswerable(param, code, sentence string) *Error {
	return &Error{Cause: Unsupported, Code: code, Param: param, Err: errors.New(sentence)}
}

// Broken is the error for a failed connection. If ctx has ended, it is the cause of that.
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

// A TooLargeError says that an answer, or one event, exceeds the limit. It is the detail of an
// [*Error], and clients may see it.
type TooLargeError struct {
	Part  string
	Limit int
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("The provider's answer is too large: %s exceeds the limit of %d bytes", e.Part, e.Limit)
}
