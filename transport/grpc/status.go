package grpc

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
)

// A code is the number that says how a call ended.
type code int

// The codes that are of interest here.
const (
	ok                code = 0
	unknown           code = 2
	invalidArgument   code = 3
	deadlineExceeded  code = 4
	notFound          code = 5
	resourceExhausted code = 8
	unimplemented     code = 12
	internal          code = 13
	unavailable       code = 14
)

var codeNames = [...]string{
	"OK", "Canceled", "Unknown", "InvalidArgument", "DeadlineExceeded", "NotFound", "AlreadyExists",
	"PermissionDenied", "ResourceExhausted", "FailedPrecondition", "Aborted", "OutOfRange",
	"Unimplemented", "Internal", "Unavailable", "DataLoss", "Unauthenticated",
}

func (c code) String() string {
	if c >= 0 && int(c) < len(codeNames) {
		return codeNames[c]
	}
	return fmt.Sprintf("Code(%d)", int(c))
}

// A status is the end of a call that did not go well.
type status struct {
	code    code
	message string
}

func (s *status) Error() string { return s.code.String() + ": " + s.message }

// statusf returns a status as an error.
func statusf(c code, format string, args ...any) error {
	return &status{c, fmt.Sprintf(format, args...)}
}

// The fields of a status.
const (
	statusField  = "Grpc-Status"
	messageField = "Grpc-Message"
)

// told reads the status in trailers, or in the head of an answer that has no
// message; false if there is none.
func told(h http.Header) (error, bool) {
	text := h.Get(statusField)
	if text == "" {
		return nil, false
	}
	n, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		return statusf(unknown, "the status of the call is %q, and no number", text), true
	}
	if code(n) == ok {
		return nil, true
	}
	message := h.Get(messageField)
	if plain, err := url.PathUnescape(message); err == nil { // else it stays as it came
		message = plain
	}
	return &status{code(n), message}, true
}
