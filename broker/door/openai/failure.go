package openai

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"

	"github.com/wirectl/wirectl/broker"
	"github.com/wirectl/wirectl/broker/provider"
	"github.com/wirectl/wirectl/internal/jsonscan"
)

// invalid is the type of errors that the client has to fix.
const invalid = "invalid_request_error"

// fail answers a failed call.
func (e *exchange) fail(err error) {
	status, kind := statusOf(err)
	code, param := "", ""
	var unknown *broker.UnknownModelError
	var pe *provider.Error
	var spent *broker.BudgetError
	switch {
	case errors.As(err, &spent):
		kind, code = "insufficient_quota", "insufficient_quota"
	case errors.As(err, &unknown):
		code, param = "model_not_found", "model"
	case errors.As(err, &pe) && !pe.KeyRefused():
		if code = pe.Code; pe.Cause == provider.Unsupported {
			param = pe.Param
		}
	}
	e.failWith("", err, status, failure(explain(err), kind, param, code))
}

// failWith answers a failed call with a body. In a stream that has begun, the body is the
// last event, which may have a name, and the stream is cut so that the client notices.
func (e *exchange) failWith(name string, err error, status int, body []byte) {
	switch {
	case !e.w.Streaming():
		e.retryAfter(err)
		e.json(status, body)
		return
	case name != "":
		e.event(name, body)
	default:
		e.send(body)
	}
	_ = e.flush()
	e.w.Break()
}

// retryAfter tells the client when to retry: when the backend says so, or when the budget
// begins anew.
func (e *exchange) retryAfter(err error) {
	if pe, ok := errors.AsType[*provider.Error](err); ok && pe.RetryAfter > 0 {
		e.w.Set("Retry-After", strconv.Itoa(int(math.Ceil(pe.RetryAfter.Seconds()))))
	}
	if spent, ok := errors.AsType[*broker.BudgetError](err); ok {
		e.w.Set("X-Should-Retry", "false") // OpenAI's and Anthropic's clients respect this
		if spent.Wait > 0 {
			e.w.Set("Retry-After", strconv.Itoa(int(math.Ceil(spent.Wait.Seconds()))))
		}
	}
}

// explain describes a failure for the client. Of a provider's answer it has only the status
// and the error code.
func explain(err error) string {
	var pe *provider.Error
	if !errors.As(err, &pe) {
		return broker.Message(err)
	}
	if errors.Is(err, broker.ErrHubLost) {
		return broker.Message(err)
	}
	answer := fmt.Sprintf("HTTP %d", pe.Status)
	if pe.Code != "" {
		answer += ", " + pe.Code
	}
	switch {
	case errors.Is(err, broker.ErrOpen):
		return "The provider failed too often recently, and gets no calls for a while"
	case pe.Status == 0 && pe.Cause == provider.Overloaded:
		return "The provider's answer is invalid"
	case pe.Status == 0 && pe.Cause == provider.Unreachable:
		return "The provider cannot be reached, or broke off the connection: wirectl serve --log FILE logs the cause"
	case pe.Status == 0 && pe.Cause == provider.TimedOut:
		return "The provider did not answer in time: wirectl serve --log FILE logs which timeout ended the call"
	case pe.Status == 0:
		return broker.Message(err)
	case pe.KeyRefused():
		return "The provider rejected the broker's key (" + answer + ")"
	case pe.Cause == provider.RateLimited:
		return "The provider's rate limit was exceeded (" + answer + ")"
	case pe.Cause == provider.Refused:
		return "The provider refused the request (" + answer + ")"
	}
	return "The provider failed (" + answer + ")"
}

// statusOf returns the HTTP status and OpenAI's error type of a failure.
func statusOf(err error) (status int, kind string) {
	var unknown *broker.UnknownModelError
	var large *provider.TooLargeError
	var pe *provider.Error
	var spent *broker.BudgetError
	switch {
	case errors.As(err, &unknown):
		return http.StatusNotFound, invalid
	case errors.As(err, &spent):
		return http.StatusTooManyRequests, "rate_limit_error"
	case errors.As(err, &large):
		return http.StatusBadGateway, "server_error"
	case errors.Is(err, broker.ErrCannotCount), errors.Is(err, broker.ErrCannotEmbed):
		return http.StatusNotFound, invalid
	case errors.Is(err, broker.ErrShutdown):
		return http.StatusServiceUnavailable, "server_error"
	case !errors.As(err, &pe):
		return http.StatusInternalServerError, "server_error"
	}
	switch pe.Cause {
	case provider.TimedOut:
		return http.StatusGatewayTimeout, "server_error"
	case provider.RateLimited:
		return http.StatusTooManyRequests, "rate_limit_error"
	case provider.Unreachable, provider.Overloaded:
		return http.StatusBadGateway, "server_error"
	case provider.Unsupported:
		return http.StatusBadRequest, invalid
	case provider.Refused:
		if pe.KeyRefused() {
			return http.StatusBadGateway, "server_error"
		}
		return pe.Status, invalid
	}
	if pe.Status != 0 { // such as a redirect
		return http.StatusBadGateway, "server_error"
	}
	return http.StatusInternalServerError, "server_error"
}

func kindOf(status int) string {
	if status >= 500 {
		return "server_error"
	}
	return invalid
}

// failure writes an error as OpenAI does. Empty values become null.
func failure(message, kind, param, code string) []byte {
	type fault struct {
		Message string  `json:"message"`
		Type    string  `json:"type"`
		Param   *string `json:"param"`
		Code    *string `json:"code"`
	}
	return jsonscan.MustMarshal(map[string]fault{"error": {message, kind, orNull(param), orNull(code)}})
}

func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
