package broker

import (
	"errors"
	"fmt"
	"strings"

	"github.com/wirectl/wirectl/broker/provider"
)

// The causes of cancelled calls. A door cancels a call's context with one of these.
var (
	// ErrGone: the client has left.
	ErrGone = errors.New("the client went away")
	// ErrCancelled: the client cancelled the call.
	ErrCancelled = errors.New("cancelled by the client")
	// ErrShutdown: the broker is about to stop.
	ErrShutdown = errors.New("the broker is shutting down")
)

// ErrCannotCount: no provider of the model counts tokens.
var ErrCannotCount = errors.New("the providers of the model count no tokens")

// ErrCannotEmbed: no provider of the model makes embeddings.
var ErrCannotEmbed = errors.New("the providers of the model make no embeddings")

// The causes of attempts that exceed a time limit.
var (
	errFirstPart = &provider.Error{Cause: provider.TimedOut, Err: errors.New("no part of the answer arrived within timeouts.first_token")}
	errTotal     = &provider.Error{Cause: provider.TimedOut, Err: errors.New("the answer was not complete within timeouts.total")}
)

// ErrOpen: the breaker is open, because the provider failed too often.
var ErrOpen = &provider.Error{Cause: provider.Overloaded, Err: errors.New("the breaker is open: the provider failed too often recently")}

// An UnknownModelError says that no model has the name.
type UnknownModelError struct {
	Model   string
	Allowed []string
}

// Error is the message for clients, with Python's quoting.
func (e *UnknownModelError) Error() string {
	quoted := make([]string, len(e.Allowed))
	for i, name := range e.Allowed {
		quoted[i] = PyQuote(name)
	}
	return fmt.Sprintf("Unknown model %s. Allowed: [%s]", PyQuote(e.Model), strings.Join(quoted, ", "))
}

// Message is the error message for clients. It has no details of a provider.
func Message(err error) string {
	if unknown, ok := errors.AsType[*UnknownModelError](err); ok {
		return unknown.Error()
	}
	if spent, ok := errors.AsType[*BudgetError](err); ok {
		return spent.Error()
	}
	switch {
	case errors.Is(err, ErrShutdown):
		return "Broker is shutting down"
	case errors.Is(err, ErrCancelled):
		return "Request cancelled"
	case errors.Is(err, ErrGone):
		return "Client went away" // for logs only
	case errors.Is(err, ErrHubLost):
		return "Shared limits cannot be checked: the hub of the brokers cannot be reached"
	case errors.Is(err, ErrCannotCount):
		return "No provider of this model can count tokens"
	case errors.Is(err, ErrCannotEmbed):
		return "No provider of this model can make embeddings: ask a model of a provider of the kind openai or gemini"
	}
	if large, ok := errors.AsType[*provider.TooLargeError](err); ok {
		return large.Error()
	}
	if pe, ok := errors.AsType[*provider.Error](err); ok {
		return problem(pe)
	}
	return internalError
}

// internalError is the message for faults of the broker.
const internalError = "Internal broker error"

// problem is the message for a failure of a provider. It depends only on the status and the
// code, never on the provider's text.
func problem(e *provider.Error) string {
	switch {
	case e.Cause == provider.Unsupported:
		return e.Err.Error()
	case e.KeyRefused() && e.KeyEnv != "":
		return "Authentication failed: check the environment variable " + e.KeyEnv
	case e.KeyRefused():
		return "Authentication failed: check the key of the provider"
	case e.TooLong():
		return "Context too long: shorten the prompt"
	case e.UnknownModel():
		return "Model not found: the provider does not know it"
	}
	switch e.Cause {
	case provider.RateLimited:
		return "Rate limit exceeded: try again later"
	case provider.Refused:
		return "Invalid request: the provider refused it"
	case provider.TimedOut:
		return "Request timed out"
	case provider.Unreachable:
		return "Connection error"
	case provider.Overloaded:
		return "Server error: the provider failed"
	}
	if e.Status != 0 { // such as a redirect
		return "Server error: the provider failed"
	}
	return internalError
}

// CauseOf returns the cause of a provider's error, Internal for any other.
func CauseOf(err error) provider.Cause {
	if e, ok := errors.AsType[*provider.Error](err); ok {
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
