package broker

import (
	"errors"
	"fmt"
	"strings"

	"github.com/wirectl/wirectl/broker/provider"
)

// Why a call was given up. A door ends a call's context with one of these as
// its cause.
var (
	// ErrGone: the client went away.
	ErrGone = errors.New("the client went away")
	// ErrCancelled: the client asked that the call be cancelled.
	ErrCancelled = errors.New("cancelled by the client")
	// ErrShutdown: the broker is about to stop.
	ErrShutdown = errors.New("the broker is shutting down")
)

// ErrCannotCount: no provider of the model counts tokens.
var ErrCannotCount = errors.New("the providers of the model count no tokens")

// The causes with which the time limits of an attempt end it.
var (
	errFirstPart = &provider.Error{Cause: provider.TimedOut, Err: errors.New("no part of the answer came within timeouts.first_token")}
	errTotal     = &provider.Error{Cause: provider.TimedOut, Err: errors.New("the answer was not whole within timeouts.total")}
)

// ErrOpen: the provider failed too often lately, and is left alone for a while.
var ErrOpen = &provider.Error{Cause: provider.Overloaded, Err: errors.New("the breaker is open: the provider failed too often lately")}

// An UnknownModelError says that no model has the name.
type UnknownModelError struct {
	Model   string
	Allowed []string
}

// Error is the sentence that clients get, quoted as Python quotes.
func (e *UnknownModelError) Error() string {
	quoted := make([]string, len(e.Allowed))
	for i, name := range e.Allowed {
		quoted[i] = PyQuote(name)
	}
	return fmt.Sprintf("Unknown model %s. Allowed: [%s]", PyQuote(e.Model), strings.Join(quoted, ", "))
}

// Message is what a client may know of an error. It has no detail of a provider.
func Message(err error) string {
	var unknown *UnknownModelError
	if errors.As(err, &unknown) {
		return unknown.Error()
	}
	switch {
	case errors.Is(err, ErrShutdown):
		return "Broker is shutting down"
	case errors.Is(err, ErrCancelled):
		return "Request cancelled"
	case errors.Is(err, ErrGone):
		return "Client went away" // which logs are told alone
	case errors.Is(err, ErrCannotCount):
		return "No provider of this model can count tokens"
	}
	var large *provider.TooLargeError
	if errors.As(err, &large) {
		return large.Error()
	}
	var pe *provider.Error
	switch CauseOf(err) {
	case provider.Unsupported:
		errors.As(err, &pe)
		return pe.Err.Error()
	case provider.TimedOut:
		return "Request timed out"
	case provider.Unreachable:
		return "Connection error"
	}
	return "Internal broker error"
}

// CauseOf returns the cause of an error that a provider made, Internal for
// every other.
func CauseOf(err error) provider.Cause {
	var e *provider.Error
	if errors.As(err, &e) {
		return e.Cause
	}
	return provider.Internal
}

// ErrorType names the class of an error in one word.
func ErrorType(err error) string {
	switch outcomeOf(err) {
	case Cancelled:
		return "cancelled"
	case Refused:
		return "unknown_model"
	}
	return CauseOf(err).String()
}
