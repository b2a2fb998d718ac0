package web

import (
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/wirectl/wirectl/broker/door"
)

// A Response is the answer to one request: either one call of JSON or Send, or
// Stream and any number of calls of Chunk.
type Response struct {
	conn *door.Conn
	// extra are header lines of the handler's.
	extra            []byte
	head, old, close bool
	sent, streaming  bool
	err              error
}

// Set adds a header. Name and value must not come from a client.
func (w *Response) Set(name, value string) {
	w.extra = append(w.extra, name+": "+value+"\r\n"...)
}

// Close ends the connection after the answer.
func (w *Response) Close() { w.close = true }

// JSON answers with a JSON body.
func (w *Response) JSON(status int, body []byte) { w.Send(status, "application/json", body) }

// Send answers with a body.
func (w *Response) Send(status int, contentType string, body []byte) {
	b := w.start(status, contentType)
	b = append(b, "Content-Length: "...)
	b = strconv.AppendInt(b, int64(len(body)), 10)
	b = append(b, "\r\n\r\n"...)
	if !w.head {
		b = append(b, body...)
	}
	w.conn.SetOut(b)
	w.sent = true
}

// Stream begins an answer of events that goes on with Chunk.
func (w *Response) Stream(status int) {
	if w.old {
		w.close = true
	}
	b := w.start(status, "text/event-stream")
	if !w.old {
		b = append(b, "Transfer-Encoding: chunked\r\n"...)
	}
	w.conn.SetOut(append(b, "\r\n"...))
	w.sent, w.streaming = true, true
}

// A comment is an event that clients pass over, as it stands in a stream.
var (
	comment        = []byte(":\n\n")
	commentInChunk = []byte("3\r\n:\n\n\r\n")
)

// Chunk writes the next piece of a stream at once. Its error says that the
// client is gone.
func (w *Response) Chunk(p []byte) error {
	if w.err == nil && !w.head && len(p) > 0 {
		b, between := w.conn.Out(), commentInChunk
		if w.old {
			b, between = append(b, p...), comment
		} else {
			b = strconv.AppendInt(b, int64(len(p)), 16)
			b = append(b, "\r\n"...)
			b = append(append(b, p...), "\r\n"...)
		}
		w.conn.SetOut(b)
		w.err = w.conn.FlushPart(between)
	}
	return w.err
}

// Streaming reports whether the answer is a stream that has begun.
func (w *Response) Streaming() bool { return w.streaming }

// Break ends a stream so that the client sees that it is cut.
func (w *Response) Break() {
	w.close, w.old = true, true // without the last chunk
}

func (w *Response) finish() {
	switch {
	case !w.sent:
		w.Send(http.StatusInternalServerError, "application/json", []byte("{}"))
	case w.streaming && !w.old && !w.head && w.err == nil:
		w.conn.SetOut(append(w.conn.Out(), "0\r\n\r\n"...))
	}
	if w.streaming && w.err == nil {
		w.err = w.conn.Flush()
	}
}

func (w *Response) start(status int, contentType string) []byte {
	b := w.conn.Out()
	if status == http.StatusOK {
		b = append(b, "HTTP/1.1 200 OK\r\nContent-Type: "...)
	} else {
		b = append(b, "HTTP/1.1 "...)
		b = strconv.AppendInt(b, int64(status), 10)
		b = append(b, ' ')
		b = append(b, http.StatusText(status)...)
		b = append(b, "\r\nContent-Type: "...)
	}
	b = append(b, contentType...)
	b = append(b, "\r\nDate: "...)
	b = append(b, date()...)
	b = append(b, "\r\n"...)
	if w.close {
		b = append(b, "Connection: close\r\n"...)
	}
	return append(b, w.extra...)
}

// now is the date as headers have it, made anew each second.
var now atomic.Pointer[stamp]

type stamp struct {
	second int64
	text   string
}

func date() string {
	t := time.Now()
	if d := now.Load(); d != nil && d.second == t.Unix() {
		return d.text
	}
	d := &stamp{t.Unix(), t.UTC().Format(http.TimeFormat)}
	now.Store(d)
	return d.text
}
