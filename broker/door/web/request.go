package web

import (
	"net/http"
	"regexp"
	"strings"
)

// A Request is one request, with its whole body. Its bytes are valid until the
// handler returns.
type Request struct {
	*http.Request
	// Body is the whole body, chunks joined.
	Body []byte
	// Client is the client's host.
	Client string
	// Account is the name of the client whose token was sent, "" for the broker's token.
	Account string
}

// HasLength reports whether the request says how long its body is, by a
// Content-Length or by chunks.
func (r *Request) HasLength() bool {
	return r.ContentLength != 0 || r.Header.Get("Content-Length") != ""
}

// Start returns the request line, for taps, without the key that Gemini's clients may put
// there.
func (r *Request) Start() string {
	target := r.RequestURI
	if strings.ContainsAny(target, "?&;") {
		target = keys.ReplaceAllString(target, "${1}***")
	}
	return r.Method + " " + target + " " + r.Proto
}

// keys are those in a query, however their name is escaped.
var keys = regexp.MustCompile(`(?i)([?&;](?:k|%6b)(?:e|%65)(?:y|%79)=)[^&;]*`)
