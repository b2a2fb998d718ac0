// Package web speaks HTTP/1.1 for the broker's front doors: requests with whole
// bodies, answers whole or streamed. It is made for them rather than for the web:
// it says in a door's own words what is wrong with a request, bounds the time of
// each part of it, notices a client that goes away, and takes a fifth of the
// processor time of a server for everybody.
package web

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/wirectl/wirectl/broker/door"
)

// A Request is one request. Its bytes are valid until the handler returns.
type Request struct {
	Method, Path string
	// Body is the whole body, chunks joined.
	Body []byte
	// Length says what the request says about the length of its body.
	Length Length
	// Conn is the connection that it came on.
	Conn *door.Conn

	head   []byte // start line and header lines, without the empty line
	fields []field
	old    bool // HTTP/1.0
	close  bool // the connection ends after the answer
}

// Length is what is known of the length of a body before it is read.
type Length uint8

const (
	Unsaid  Length = iota // neither a Content-Length nor chunks
	Invalid               // a Content-Length that is no number
	Said                  // a Content-Length, or chunks
)

type field struct{ name, value []byte }

// Start returns the request line, for taps.
func (r *Request) Start() string {
	line, _, _ := bytes.Cut(r.head, []byte("\r\n"))
	return string(line)
}

// StatusLine returns the status line of a response, for taps.
func StatusLine(status int) string {
	if status == http.StatusOK {
		return "HTTP/1.1 200 OK"
	}
	return fmt.Sprintf("HTTP/1.1 %d %s", status, http.StatusText(status))
}

// Header returns the value of the first header of that name, which is looked
// for without regard to case.
func (r *Request) Header(name string) string {
	return string(r.header(name))
}

func (r *Request) header(name string) []byte {
	for _, f := range r.fields {
		if len(f.name) == len(name) && bytes.EqualFold(f.name, []byte(name)) {
			return f.value
		}
	}
	return nil
}

// Watch returns a context that ends when the client goes away; see
// [door.Conn.Watch].
func (r *Request) Watch(ctx context.Context) (context.Context, func()) {
	return r.Conn.Watch(ctx, 'H') // of HTTP
}

// parseHead reads the start line and the header lines. The error is a sentence
// for the client.
func (r *Request) parseHead(head []byte) *Fault {
	line, rest, _ := bytes.Cut(head, []byte("\n"))
	line = bytes.TrimSuffix(line, []byte("\r"))
	method, after, ok1 := bytes.Cut(line, []byte(" "))
	target, version, ok2 := bytes.Cut(after, []byte(" "))
	if !ok1 || !ok2 || !token(method) || len(target) == 0 || !bytes.HasPrefix(version, []byte("HTTP/")) {
		return &Fault{400, "Malformed request line"}
	}
	if !bytes.Equal(version, []byte("HTTP/1.1")) && !bytes.Equal(version, []byte("HTTP/1.0")) {
		return &Fault{505, "HTTP version not supported"}
	}
	r.old = version[len(version)-1] == '0'
	path, _, _ := bytes.Cut(target, []byte("?"))
	r.Method, r.Path = known(method), known(path)
	r.head, r.fields = head, r.fields[:0]
	for len(rest) > 0 {
		line, rest, _ = bytes.Cut(rest, []byte("\n"))
		line = bytes.TrimSuffix(line, []byte("\r"))
		name, value, ok := bytes.Cut(line, []byte(":"))
		if !ok || !token(name) || len(r.fields) == maxFields {
			return &Fault{400, "Malformed header"}
		}
		r.fields = append(r.fields, field{name, bytes.Trim(value, " \t")})
	}
	connection := r.header("Connection")
	r.close = contains(connection, "close") || r.old && !contains(connection, "keep-alive")
	return nil
}

const maxFields = 100

// known returns the string of b, without making one for what is usual.
func known(b []byte) string {
	for _, s := range [...]string{"POST", "GET", "/v1/chat/completions", "/llm_query", "/llm_query_batched", "/", "/rpc"} {
		if string(b) == s {
			return s
		}
	}
	return string(b)
}

// contains reports whether a header's list has the word, in lower case.
func contains(list []byte, word string) bool {
	for part := range bytes.SplitSeq(list, []byte(",")) {
		if bytes.EqualFold(bytes.TrimSpace(part), []byte(word)) {
			return true
		}
	}
	return false
}

// token reports whether b is a token as HTTP has them.
func token(b []byte) bool {
	for _, c := range b {
		if !tokenBytes[c] {
			return false
		}
	}
	return len(b) > 0
}

var tokenBytes = func() (is [256]bool) {
	for c := byte('!'); c < 0x7f; c++ {
		is[c] = strings.IndexByte(`"(),/:;<=>?@[\]{}`, c) < 0
	}
	return is
}()

// length finds out how long the body is: n bytes, or chunks.
func (r *Request) length() (n int64, chunked bool, _ *Fault) {
	r.Length = Unsaid
	var said []byte
	for _, f := range r.fields {
		switch {
		case len(f.name) == 14 && bytes.EqualFold(f.name, []byte("Content-Length")):
			if said != nil && !bytes.Equal(said, f.value) {
				r.Length, r.close = Invalid, true
				return 0, false, nil
			}
			said = f.value
		case len(f.name) == 17 && bytes.EqualFold(f.name, []byte("Transfer-Encoding")):
			if chunked || !bytes.EqualFold(f.value, []byte("chunked")) {
				return 0, false, &Fault{501, "Transfer-Encoding not supported"}
			}
			chunked = true
		}
	}
	switch {
	case chunked && said != nil:
		return 0, false, &Fault{400, "Content-Length and Transfer-Encoding exclude each other"}
	case chunked:
		r.Length = Said
	case said != nil:
		n, err := strconv.ParseUint(string(said), 10, 62)
		if err != nil {
			r.Length, r.close = Invalid, true
			return 0, false, nil
		}
		r.Length = Said
		return int64(n), false, nil
	}
	return 0, chunked, nil
}
