package upstream

import (
	"bufio"
	"context"
	"errors"
	"io"
	"mime"

	"github.com/wirectl/wirectl/broker/provider"
	"github.com/wirectl/wirectl/internal/sse"
	"github.com/wirectl/wirectl/llm"
)

// errEnded: a stream ended without its end mark.
var errEnded error = &provider.Error{Cause: provider.Unreachable, Paid: true, Err: errors.New("the stream was cut")}

// Stream reads the completion of a backend with an API: a stream of events or, if the backend
// answers so, a whole one, which becomes parts. Hide removes the usage from the chunks of Chat
// Completions.
func Stream(ctx context.Context, resp *Response, api llm.API, r *provider.Request, c *provider.Completion, hide bool) error {
	d := llm.Decoder{API: api, Answer: &c.Answer, Chunks: true}
	read := func(data []byte) (bool, error) {
		deltas, err := d.Read(data)
		if err != nil || r.Emit == nil {
			return d.Stopped, reported(err)
		}
		own := data
		switch {
		case r.API != api || api == llm.Chat && d.Stopped || !d.Chunks:
			own = nil
		case hide:
			own = llm.WithoutUsage(data, d.Event.Some)
		}
		for i := range deltas {
			p := provider.Part{Delta: deltas[i]}
			if i == 0 {
				p.Event, own = own, nil
			}
			if err := r.Emit(p); err != nil {
				return false, err
			}
		}
		if own != nil {
			err = r.Emit(provider.Part{Event: own})
		}
		return d.Stopped, err
	}
	err := events(ctx, resp, r, read, func(document []byte) error {
		d.Chunks = false
		_, err := read(document)
		return err
	})
	// Some backends omit the end mark, and Gemini's API has none.
	if err == errEnded && c.Finish != "" && ctx.Err() == nil { //nolint:errorlint // it comes bare
		err = nil
	}
	c.Seal()
	return err
}

// events reads server-sent events and calls f with the data of each, which is valid until f
// returns. Reading ends with the stream, an error of f, or when f reports that it is done. An
// object instead of a stream is passed to whole.
func events(ctx context.Context, resp *Response, r *provider.Request, f func(data []byte) (done bool, err error), whole func(document []byte) error) error {
	defer resp.Body.Close()
	body := bufio.NewReaderSize(&limited{resp.Body, maxAnswer}, 16) // to peek at a byte
	if isDocument(body) {
		return document(ctx, resp, body, r, whole)
	}
	masked, some := r.Secrets.Stream(), false
	pass := func(data []byte) (bool, error) {
		if r.Exchange != nil {
			r.Exchange.Event(resp.StatusCode, data)
		}
		return f(data)
	}
	var failed error
	for e, err := range sse.Events(body, maxEvent, errEvent) {
		if failed = err; err != nil {
			break
		}
		if e == sse.Comment {
			if r.Alive != nil {
				if err := r.Alive(); err != nil {
					return err
				}
			}
			continue
		}
		if len(e.Data) == 0 {
			continue
		}
		if done, err := masked.Add(e.Data, pass); done || err != nil {
			return err
		}
		some = true
	}
	if ctx.Err() == nil {
		if done, err := masked.End(pass); done || err != nil {
			return err
		}
	}
	switch {
	case failed != nil:
		return broken(ctx, failed)
	case !some:
		return errNoStream
	}
	return errEnded
}

// maxEvent bounds an event, in bytes.
const maxEvent = 8 << 20

var errEvent = &provider.TooLargeError{Part: "an event", Limit: maxEvent}

// isDocument reports whether the answer is a page or an object rather than a stream of events.
func isDocument(r *bufio.Reader) bool {
	b, _ := r.Peek(1)
	return len(b) > 0 && (b[0] == '{' || b[0] == '<')
}

// isStream reports whether an answer has the type of a stream of events, and is not a document.
func (r *Response) isStream() bool {
	if media, _, _ := mime.ParseMediaType(r.header.Get("Content-Type")); media != "text/event-stream" {
		return false
	}
	body := bufio.NewReader(r.Body)
	r.readFrom(body)
	return !isDocument(body)
}

// readFrom replaces the reader of the body.
func (r *Response) readFrom(from io.Reader) {
	r.Body = struct {
		io.Reader
		io.Closer
	}{from, r.Body}
}

// unasked reads a stream of events that was not asked for. Secrets that are split over events are
// found only by reading them as events.
func unasked(ctx context.Context, resp *Response, r *provider.Request) error {
	err := events(ctx, resp, r, func([]byte) (bool, error) { return false, nil }, func([]byte) error { return errNoStream })
	if err == errEnded || err == errNoStream { //nolint:errorlint // they come bare
		return errUnasked
	}
	return err
}

var errUnasked = Malformed("it is an event stream, and none was requested")

var errNoStream = Malformed("it is not an event stream")

// document reads an answer that is not a stream.
func document(ctx context.Context, resp *Response, from io.Reader, r *provider.Request, whole func(document []byte) error) error {
	body, err := readLimited(from)
	if err != nil {
		return broken(ctx, err)
	}
	body = r.Secrets.Hide(body)
	if r.Exchange != nil {
		r.Exchange.Received(resp.StatusCode, body)
	}
	if body[0] != '{' {
		return errNoStream
	}
	return whole(body)
}
