package llm

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/wirectl/wirectl/internal/jsonscan"
)

// An Error is a failure that a provider reports: as its answer, inside one, or in a stream.
type Error struct {
	// Status is the HTTP status; for an error in an answer of 200 that which fits it.
	Status int
	// Type and Code are the provider's words for the error. Each is a single word, or "".
	Type, Code string
	// Param is the member of the request at fault, "" if none is named.
	Param   string
	Message string
	// RetryAfter is the time until a retry that the provider asks for, 0 if it does not.
	RetryAfter time.Duration
	// Final says that the answer was given, and that a retry would be paid again. Shown says that
	// the message is part of the answer, rather than a detail of the provider.
	Final, Shown bool
}

func (e *Error) Error() string {
	return fmt.Sprintf("HTTP %d: %s", e.Status, cmp.Or(e.Code, e.Type, "the provider gives no code"))
}

// malformed is the error for an answer that does not match its API.
func malformed(what string) error { return &Error{Message: what, Final: true} }

var errNotJSON = malformed("it is not JSON")

// statuses are the statuses of errors, by their words.
var statuses = map[string]int{
	"invalid_request_error": 400, "context_length_exceeded": 400, "INVALID_ARGUMENT": 400, "FAILED_PRECONDITION": 400, "BadRequestError": 400,
	"authentication_error": 401, "invalid_api_key": 401, "UNAUTHENTICATED": 401,
	"billing_error": 402, "permission_error": 403, "PERMISSION_DENIED": 403,
	"not_found_error": 404, "model_not_found": 404, "NOT_FOUND": 404, "NotFoundError": 404, "request_too_large": 413,
	"rate_limit_error": 429, "rate_limit_exceeded": 429, "insufficient_quota": 429, "RESOURCE_EXHAUSTED": 429, "RateLimitError": 429,
	"api_error": 500, "server_error": 500, "INTERNAL": 500, "InternalServerError": 500,
	"UNAVAILABLE": 503, "DEADLINE_EXCEEDED": 504, "timeout_error": 504, "overloaded_error": 529,
}

// ReadError reads an error in the words of any API. Status is that of the answer, 0 for an error
// in a stream or in an answer of 200.
func ReadError(status int, body []byte) *Error {
	e := &Error{Status: status, Final: status == 0}
	if jsonscan.KindOf(body) == jsonscan.Array { // Gemini's errors may be the first of a list
		for _, body = range Elements(body) {
			break
		}
	}
	fault := member(body, "error")
	for _, choice := range Elements(member(body, "choices")) {
		if fault == nil {
			fault = member(choice, "error")
		}
	}
	if inner := member(body, "response", "error"); fault == nil && inner != nil {
		fault = inner
	}
	if jsonscan.KindOf(fault) == jsonscan.String {
		e.Message = Unquote(fault)
	}
	if fault == nil || jsonscan.KindOf(fault) != jsonscan.Object {
		fault = body
	}
	if said := text(fault, "message"); said != "" {
		e.Message = said
	}
	e.Param = text(fault, "param")
	for _, name := range []string{"code", "type", "status"} {
		said := text(fault, name)
		if !isWord(said) || said == "error" {
			continue
		}
		if e.Code == "" {
			e.Code = said
		}
		if name != "code" && e.Type == "" {
			e.Type = said
		}
	}
	for _, detail := range Elements(member(fault, "details")) {
		if delay, err := time.ParseDuration(text(detail, "retryDelay")); err == nil && delay > 0 {
			e.RetryAfter = delay
		}
	}
	if e.Status == 0 {
		if code := count([]byte(word(member(fault, "code")))); code >= 400 && code <= 599 {
			e.Status = int(code)
		} else {
			e.Status = cmp.Or(statuses[e.Code], statuses[e.Type], http.StatusServiceUnavailable)
			if strings.HasPrefix(e.Code, "rate_limit") {
				e.Status = http.StatusTooManyRequests
			}
		}
	}
	if e.Status/100 == 4 && e.Status != http.StatusTooManyRequests {
		message := strings.ToLower(e.Message)
		if e.Code == "exceed_context_size_error" || slices.ContainsFunc(tooLong, func(phrase string) bool { return strings.Contains(message, phrase) }) {
			e.Code = TooLong
		}
	}
	return e
}

// TooLong is the code for a prompt that is too long for the model.
const TooLong = "context_length_exceeded"

// tooLong are phrases of providers without a code for prompts that are too long.
var tooLong = []string{"prompt is too long", "maximum context length", "context length exceeded", "available context size", "context window", "input token count"}

// RetryAfter reads the time until a retry: in seconds, in milliseconds, or until a date.
func RetryAfter(h http.Header, now time.Time) time.Duration {
	if ms, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil && ms > 0 {
		return time.Duration(min(ms, 1e9) * float64(time.Millisecond))
	}
	after := h.Get("Retry-After")
	if s, err := strconv.ParseFloat(after, 64); err == nil && s > 0 {
		return time.Duration(min(s, 1e6) * float64(time.Second))
	}
	if at, err := http.ParseTime(after); err == nil && at.After(now) {
		return at.Sub(now)
	}
	return 0
}

// messageTypes are the types of errors of Messages, by status, and contentStatuses those of
// generateContent.
var (
	messageTypes = map[int]string{
		400: "invalid_request_error", 401: "authentication_error", 402: "billing_error", 403: "permission_error", 404: "not_found_error", 413: "request_too_large",
		429: "rate_limit_error", 500: "api_error", 503: "overloaded_error", 504: "timeout_error", 529: "overloaded_error",
	}
	contentStatuses = map[int]string{
		401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "NOT_FOUND", 429: "RESOURCE_EXHAUSTED", 500: "INTERNAL", 502: "UNAVAILABLE", 503: "UNAVAILABLE",
		504: "DEADLINE_EXCEEDED", 529: "UNAVAILABLE",
	}
)

// EncodeError writes an error for clients of an API.
func EncodeError(api API, e *Error) []byte {
	kind := e.Type
	if e.Code == TooLong && (api == Messages || api == Contents) { // clients act on these words
		long := *e
		long.Message = map[API]string{Messages: "prompt is too long: ", Contents: "The input token count exceeds the maximum number of tokens allowed: "}[api] + e.Message
		e = &long
	}
	switch api {
	case Messages:
		if statuses[kind] == 0 || !slices.Contains(mapValues(messageTypes), kind) {
			kind = messageTypes[e.Status]
		}
		if kind == "" {
			kind = map[bool]string{true: "api_error", false: "invalid_request_error"}[e.Status >= 500]
		}
		return jsonscan.MustMarshal(messageEvent{Type: "error", Error: &messagePart{Type: kind, Message: &e.Message}})
	case Contents:
		if strings.ToUpper(kind) != kind || kind == "" {
			kind = cmp.Or(contentStatuses[e.Status], map[bool]string{true: "INTERNAL", false: "INVALID_ARGUMENT"}[e.Status >= 500])
		}
		fault := map[string]any{"code": e.Status, "message": e.Message, "status": kind}
		if e.RetryAfter > 0 {
			fault["details"] = []map[string]string{{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": fmt.Sprintf("%gs", e.RetryAfter.Seconds())}}
		}
		return jsonscan.MustMarshal(map[string]any{"error": fault})
	}
	switch {
	case kind != "" && strings.ToUpper(kind) != kind: // else it is Gemini's
	case e.Status == http.StatusTooManyRequests:
		kind = "rate_limit_error"
	case e.Status >= 500:
		kind = "server_error"
	default:
		kind = "invalid_request_error"
	}
	type fault struct {
		Message string  `json:"message"`
		Type    string  `json:"type"`
		Param   *string `json:"param"`
		Code    *string `json:"code"`
	}
	return jsonscan.MustMarshal(map[string]fault{"error": {e.Message, kind, orNull(e.Param), orNull(e.Code)}})
}

func mapValues(m map[int]string) (list []string) {
	for _, v := range m {
		list = append(list, v)
	}
	return list
}
