package web

import (
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/wirectl/wirectl/broker"
)

// A Response is the answer to one request: one call of JSON, Send or Serve, or else Stream
// and any number of calls of Chunk.
type Response struct {
	w       http.ResponseWriter
	control *http.ResponseController
	write   time.Duration // the time limit of a write

	sent, streaming, broken bool
	err                     error
}

// Set adds a header.
func (w *Response) Set(name, value string) { w.w.Header().Set(name, value) }

// Close ends the connection after the answer.
func (w *Response) Close() { w.Set("Connection", "close") }

// JSON answers with a JSON body.
func (w *Response) JSON(status int, body []byte) { w.Send(status, "application/json", body) }

// Send answers with a body.
func (w *Response) Send(status int, contentType string, body []byte) {
	w.Set("Content-Type", contentType)
	w.Set("Content-Length", strconv.Itoa(len(body)))
	w.sent = true
	w.extend(len(body))
	w.w.WriteHeader(status)
	_, w.err = w.w.Write(body)
}

// Serve lets a handler of net/http answer.
func (w *Response) Serve(r *Request, h http.Handler) {
	w.sent = true
	h.ServeHTTP(extending{w.w, w}, r.Request)
}

// extending sets the deadline of each write of such a handler.
type extending struct {
	http.ResponseWriter
	of *Response
}

// Unwrap lets such a handler hijack the connection.
func (e extending) Unwrap() http.ResponseWriter { return e.ResponseWriter }

func (e extending) Write(p []byte) (int, error) {
	e.of.extend(len(p))
	return e.ResponseWriter.Write(p)
}

// Stream begins an answer of events, which Chunk continues.
func (w *Response) Stream(status int) {
	w.Set("Content-Type", "text/event-stream")
	w.sent, w.streaming = true, true
	w.w.WriteHeader(status)
}

// Chunk writes and flushes the next piece of a stream. The error is [broker.ErrGone].
func (w *Response) Chunk(p []byte) error {
	if w.err == nil && len(p) > 0 {
		w.extend(len(p))
		_, err := w.w.Write(p)
		if err != nil || w.control.Flush() != nil {
			w.err = broker.ErrGone
		}
	}
	return w.err
}

// extend sets the deadline for a write of n bytes.
func (w *Response) extend(n int) {
	_ = w.control.SetWriteDeadline(time.Now().Add(w.write + time.Duration(n>>16)*w.write/64))
}

// Streaming reports whether a stream has begun.
func (w *Response) Streaming() bool { return w.streaming }

// Break cuts a stream so that the client notices.
func (w *Response) Break() { w.broken = true }

func (w *Response) finish() {
	if !w.sent {
		w.JSON(http.StatusInternalServerError, []byte("{}"))
	}
	if w.broken {
		panic(http.ErrAbortHandler)
	}
}

// drainTime is how long a rejected client may keep writing before the connection closes.
const drainTime = 3 * time.Second

// refuse answers a request without its body, and closes the connection. Some of the body is
// read first: a reset would lose the answer.
func (w *Response) refuse(status int, answer []byte, rest io.Reader, most int64) {
	_ = w.control.EnableFullDuplex()
	w.Close()
	w.JSON(status, answer)
	if w.control.Flush() == nil {
		_ = w.control.SetReadDeadline(time.Now().Add(drainTime))
		_, _ = io.CopyN(io.Discard, rest, most)
	}
}
