package provider

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/wirectl/wirectl/llm"
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
	// Code and Type are the backend's words for the error, each "" if it has none.
	Code, Type string
	// Param is the invalid member of the request according to the backend, "" if it names
	// none. Clients see it only if Unsupported.
	Param string
	// KeyEnv is the environment variable that holds the key, "" if there is none.
	KeyEnv string
	// RetryAfter is the time until a retry that the backend asks for, 0 if it does not.
	RetryAfter time.Duration
	// Hints are the backend's headers about retries and limits, for the client.
	Hints http.Header
	// Unsent says that the backend was not reached, and Paid that it had begun an answer.
	Unsent, Paid bool
	// Shown is the model's own sentence about the failure, for the client; "" if there is none.
	Shown string
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

// TooLong reports whether the prompt is too long for the backend.
func (e *Error) TooLong() bool {
	return e.Code == llm.TooLong || e.Status == http.StatusRequestEntityTooLarge
}

// UnknownModel reports whether the backend does not have the model.
func (e *Error) UnknownModel() bool {
	return e.Code == "model_not_found" || e.Status == http.StatusNotFound
}

// Again reports whether the call may be repeated at the same backend: nothing was paid, and the
// backend says that it is worth it.
func (e *Error) Again() bool {
	should := e.Hints.Get("X-Should-Retry")
	switch {
	case e.Began || e.Paid || should == "false" || should == "" && e.Code == "insufficient_quota":
		return false
	case should == "true":
		return true
	case e.Status != 0:
		return e.Status == http.StatusTooManyRequests || e.Status == http.StatusServiceUnavailable || e.Status == 529
	}
	return e.Unsent || e.Cause == RateLimited
}

// Elsewhere reports whether the call may be made at another backend. An answer that cannot be used
// may have been paid.
func (e *Error) Elsewhere() bool {
	return !e.Began && e.Cause != Refused && e.Cause != Internal && e.Cause != Unsupported && !(e.Paid && e.Status == 0)
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

// Reported is the error for a failure that a backend reports in the words of its API.
func Reported(e *llm.Error) *Error {
	if e.Status == 0 { // the answer does not match the API
		return &Error{Cause: Overloaded, Paid: true, Err: errors.New("invalid answer: " + e.Message)}
	}
	made := StatusError(e.Status, e.RetryAfter, errors.New("the backend answered "+cmp.Or(e.Code, e.Type, "with an error")))
	made.Code, made.Type, made.Param, made.Paid = e.Code, e.Type, e.Param, e.Final
	if e.Shown {
		made.Shown = e.Message[:min(len(e.Message), maxShown)]
	}
	return made
}

// maxShown bounds a sentence that is shown, in bytes.
const maxShown = 1 << 10

// A TooLargeError says that an answer, or one event, exceeds the limit. It is the detail of an
// [*Error], and clients may see it.
type TooLargeError struct {
	Part  string
	Limit int
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("The provider's answer is too large: %s exceeds the limit of %d bytes", e.Part, e.Limit)
}
