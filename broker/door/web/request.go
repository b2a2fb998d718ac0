package web

import (
	"fmt"
	"net/http"
)

// A Request is one request, with its whole body. Its bytes are valid until the
// handler returns.
type Request struct {
	Method, Path string
	// Body is the whole body, chunks joined.
	Body []byte
	// Client is the host that the client is at.
	Client string

	http *http.Request
}

// Remote returns the address of the client, with its port.
func (r *Request) Remote() string { return r.http.RemoteAddr }

// HasLength reports whether the request says how long its body is, by a
// Content-Length or by chunks.
func (r *Request) HasLength() bool {
	return r.http.ContentLength != 0 || r.http.Header.Get("Content-Length") != ""
}

// Start returns the request line, for taps.
func (r *Request) Start() string {
	return r.http.Method + " " + r.http.RequestURI + " " + r.http.Proto
}

// Header returns the value of the first header of that name.
func (r *Request) Header(name string) string { return r.http.Header.Get(name) }

// StatusLine returns the status line of a response, for taps.
func StatusLine(status int) string {
	return fmt.Sprintf("HTTP/1.1 %d %s", status, http.StatusText(status))
}
