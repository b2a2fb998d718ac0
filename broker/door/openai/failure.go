package openai

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"

	"github.com/wirectl/wirectl/broker"
	"github.com/wirectl/wirectl/broker/provider"
	"github.com/wirectl/wirectl/llm"
)

// fail answers a failed call. In a stream that has begun, the error is the last event, and the
// stream is cut so that the client notices, unless its API has an end for that.
func (e *exchange) fail(err error) {
	failed := errorOf(err)
	if !e.w.Streaming() {
		e.hint(err)
		e.json(failed.Status, llm.EncodeError(e.api, failed))
		return
	}
	complete := e.writer().Fail(failed)
	_ = e.flush()
	if complete {
		e.tap.EventsEnd()
		return
	}
	e.w.Break()
}

// hint tells the client when to retry: what the backend says, or when the budget begins anew.
func (e *exchange) hint(err error) {
	after := func(seconds float64) { e.w.Set("Retry-After", strconv.Itoa(int(math.Ceil(seconds)))) }
	if pe, ok := errors.AsType[*provider.Error](err); ok {
		for name, values := range pe.Hints {
			if name != "Retry-After" && len(values) > 0 && printable(values[0]) {
				e.w.Set(name, values[0])
			}
		}
		if pe.Code == "insufficient_quota" && pe.Hints.Get("X-Should-Retry") == "" { // only OpenAI's API has the word
			e.w.Set("X-Should-Retry", "false")
		}
		if pe.RetryAfter > 0 {
			after(pe.RetryAfter.Seconds())
		}
	}
	if spent, ok := errors.AsType[*broker.BudgetError](err); ok {
		if !spent.Reserved {
			e.w.Set("X-Should-Retry", "false") // OpenAI's and Anthropic's clients respect this
		}
		if spent.Wait > 0 {
			after(spent.Wait.Seconds())
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
	if pe.Code != "" && pe.Code != strconv.Itoa(pe.Status) {
		answer += ", " + pe.Code
	}
	switch {
	case pe.Shown != "":
		return pe.Shown
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

// errorOf is a failure for clients: with the status, the words and the hints of the provider, but
// without its text.
func errorOf(err error) *llm.Error {
	e := &llm.Error{Status: http.StatusInternalServerError, Message: explain(err)}
	pe, failed := errors.AsType[*provider.Error](err)
	_, unknown := errors.AsType[*broker.UnknownModelError](err)
	_, spent := errors.AsType[*broker.BudgetError](err)
	_, large := errors.AsType[*provider.TooLargeError](err)
	switch {
	case unknown:
		e.Status, e.Code, e.Param = http.StatusNotFound, "model_not_found", "model"
	case spent:
		e.Status, e.Type, e.Code = http.StatusTooManyRequests, "insufficient_quota", "insufficient_quota"
	case large:
		e.Status = http.StatusBadGateway
	case errors.Is(err, broker.ErrCannotCount), errors.Is(err, broker.ErrCannotEmbed):
		e.Status = http.StatusNotFound
	case errors.Is(err, broker.ErrShutdown):
		e.Status = http.StatusServiceUnavailable
	case failed:
		e.Status = statusOf(pe)
		if !pe.KeyRefused() {
			e.Code, e.Type, e.RetryAfter = pe.Code, pe.Type, pe.RetryAfter
		}
		if pe.Cause == provider.Unsupported {
			e.Param = pe.Param
		}
	}
	return e
}

// statusOf returns the HTTP status of a provider's error: its own, unless it is about the broker.
func statusOf(pe *provider.Error) int {
	switch {
	case pe.KeyRefused():
		return http.StatusBadGateway
	case pe.Status >= 400:
		return pe.Status
	case pe.Status != 0: // such as a redirect
		return http.StatusBadGateway
	}
	return cmp.Or(map[provider.Cause]int{
		provider.TimedOut: http.StatusGatewayTimeout, provider.RateLimited: http.StatusTooManyRequests, provider.Unreachable: http.StatusBadGateway,
		provider.Overloaded: http.StatusBadGateway, provider.Unsupported: http.StatusBadRequest,
	}[pe.Cause], http.StatusInternalServerError)
}
