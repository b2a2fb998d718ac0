package openai

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"

	"github.com/wirectl/wirectl/broker"
	"github.com/wirectl/wirectl/broker/provider"
	"github.com/wirectl/wirectl/protocol/jsonscan"
)

// invalid is the kind of what the client has to mend.
const invalid = "invalid_request_error"

// fail answers a call that failed. In a stream that has begun the error is its
// last event, and the stream is seen to be cut.
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
	e.retryAfter(err)
	body := failure(explain(err), kind, param, code)
	if !e.w.Streaming() {
		e.json(status, body)
		return
	}
	e.send(body)
	_ = e.w.Chunk(e.chunks)
	e.w.Break()
}

// retryAfter hands on how long a backend wants to be left alone, or a budget is used up.
func (e *exchange) retryAfter(err error) {
	if pe, ok := errors.AsType[*provider.Error](err); ok && pe.RetryAfter > 0 {
		e.w.Set("Retry-After", strconv.Itoa(int(math.Ceil(pe.RetryAfter.Seconds()))))
	}
	if spent, ok := errors.AsType[*broker.BudgetError](err); ok {
		e.w.Set("X-Should-Retry", "false") // which OpenAI's and Anthropic's clients go by
		if spent.Wait > 0 {
			e.w.Set("Retry-After", strconv.Itoa(int(math.Ceil(spent.Wait.Seconds()))))
		}
	}
}

// explain is what a client may know of a failure: of what a provider answered no
// more than the status, and the word for it.
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
		return "The provider failed too often lately, and is left alone for a while"
	case pe.Status == 0 && pe.Cause == provider.Overloaded:
		return "The provider's answer makes no sense"
	case pe.Status == 0 && pe.Cause == provider.Unreachable:
		return "The provider cannot be reached, or broke the connection off: what wirectl serve --log FILE writes says how"
	case pe.Status == 0 && pe.Cause == provider.TimedOut:
		return "The provider did not answer in time: what wirectl serve --log FILE writes says what it was waited for"
	case pe.Status == 0:
		return broker.Message(err)
	case pe.KeyRefused():
		return "The provider does not take the key that the broker has for it (" + answer + ")"
	case pe.Cause == provider.RateLimited:
		return "The provider limits how often it is asked (" + answer + ")"
	case pe.Cause == provider.Refused:
		return "The provider refused the request (" + answer + ")"
	}
	return "The provider failed (" + answer + ")"
}

// statusOf chooses the status for a failure.
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
	if pe.Status != 0 { // such as a redirect, which is not followed
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

// failure writes an error as OpenAI does; what is empty becomes null.
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
